"""A run says where one drawn number is that of all elements of an array, which looks like noise for each of them.

That is so within one equation, or one line of a function: a number that a ``let`` or a line of its own draws is meant.  A value
that begins as a number and becomes an array gets one number for all elements from ``noise(x)`` as well, in its first iteration.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mdf_loop.execute.collect import is_number
from mdf_loop.execute.interpret import InterpretedBody
from mdf_loop.execute.warnings.ended_loop import EndedLoop
from mdf_loop.ir import Body, Node
from mdf_loop.ops.batching import elementwise
from mdf_loop.ops.registry import lookup
from mdf_loop.plan.invariants import draws

LIKE = "numpy.zeros_like"
"""What ``noise(x)`` makes of x: as many means as x has elements."""

SHARED = "a draw without an array gives one number, which all elements"

CURE = (
    "noise({0}) and uniform({0}) draw one for each; normal and poisson do so if an argument is an array of that length; "
    "noise({0}[0]) and uniform({0}[0]) draw one for all"
)

CURE_OF_MDF = "numpy.random.normal(0, 1, {0}) and numpy.random.uniform(0, 1, {0}) draw one for each"


def warn_of_shared_draws(ended: EndedLoop) -> None:
    """Say that all elements of an array have one drawn number."""
    results, count = ended.results, len(ended.loop.carried)
    if ended.drawn is None or ended.is_inner or ended.loop.body.state:  # passes are looked at one by one before they are a loop
        return
    rows = [value[0] if getattr(value, "ndim", 0) and len(value) else 0 for value in results[count:]]
    arrays = tuple([getattr(value, "size", 1) > 1 for value in (*ended.values, *results[:count], *rows)])
    for name, said in ended.once(_shared_draws, arrays).items() if any(arrays) else ():
        ended.say(said, "draw", name)


def _shared_draws(ended: EndedLoop) -> dict[str, str]:
    """What to say, by the carried values, or by the equations of others."""
    body, found = ended.loop.body, dict[str, str]()
    carried = {body.places[c.output]: c.input for c in ended.loop.carried if c.output in body.places}
    for session, program in ended.first_iterations(1):
        values = {
            node.outputs[0]: session.env[program.slot(node.outputs[0])] for node in body.nodes if node.outputs and node.outputs[0]
        }
        growing = {node.outputs[0]: name for node, name in _of_growing(ended, values, session.moment.carried)}
        for output, name in growing.items():
            said = f"{body.at(output)}one number is drawn for all elements in iteration 0, as {name} begins as a number"
            found[f"{name} begins"] = f"{said}; begin with an array that has as many elements as {name} gets"
        found |= shared_draws(body, values, growing, carried)
    return found


def shared_draws(
    body: Body, values: Mapping[str, Any], others: Container[str] = (), carried: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """What to say of nodes that make an array with one drawn number, by the carried value or the place where they are written.

    Parameters
    ----------
    body : Body
    values : mapping
        The first output of each node.
    others : container of str
        Those of nodes that draw, and of which something else is said.
    carried : mapping
        Carried values by the places of their equations.
    """
    found = dict[str, str]()
    sharing = [*_sharing(body, values, others)]
    whole = _kept_whole(body, values) if sharing else set()
    for node in sharing:
        if whole.isdisjoint(node.outputs):
            continue
        place = place_of(node, body)
        name = carried.get(place, "") if body.places else place
        said = f"{SHARED} of {name or 'an array'} share"
        shape = values[node.outputs[0]].shape
        cure = CURE.format(name or "x") if body.places else CURE_OF_MDF.format(shape if shape[1:] else shape[0])
        found[name or place] = f"{body.at(node.outputs[0])}{said}; {cure}"
    return found


def shared_in_graph(made: InterpretedBody, env: Sequence[Any]) -> list[str]:
    """What to say of the nodes of a graph of MDF, once their values are known."""
    slot = made.program.slot
    values = {name: env[slot(name)] for node in made.body.nodes for name in node.outputs[:1] if name}
    return [f"node {place.partition('.')[0]!r}: {said}" for place, said in shared_draws(made.body, values).items()]


def place_of(node: Node, body: Body) -> str:
    """Where its author wrote what a node computes: the equation or line, or in a graph of MDF what has the expression."""
    return body.places.get(node.outputs[0], "") if body.places else node.name


def _sharing(body: Body, values: Mapping[str, Any], others: Container[str]) -> Iterator[Node]:
    """Nodes that make an array with one number that was drawn in the same equation, but for ``others`` that draw."""
    drawn = set[tuple[str, str]]()
    made_like = {node.outputs[0] for node in body.nodes if node.op == LIKE}
    for node in body.nodes:
        value, place = (values.get(node.outputs[0]), place_of(node, body)) if node.outputs else (None, "")
        reads_number = is_of_elements(node) and any((place, name) in drawn for name in node.inputs)
        if place and is_number(value):
            draws_one = draws(node) and not node.bodies and made_like.isdisjoint(node.inputs) and node.outputs[0] not in others
            if reads_number or draws_one:
                drawn.update((place, name) for name in node.outputs)
        elif place and reads_number and getattr(value, "size", 1) > 1:
            yield node


def _kept_whole(body: Body, values: Mapping[str, Any]) -> set[str]:
    """The values that outputs depend on otherwise than through one number, such as the argmax of an array: this is one draw's."""
    kept = {*body.outputs}
    for node in reversed(body.nodes):
        value = values.get(node.outputs[0]) if len(node.outputs) == 1 else None
        is_one = value is not None and (is_number(value) or getattr(value, "size", 2) == 1)
        if not is_one and not kept.isdisjoint(node.outputs):
            kept.update(node.reads)
    return kept


def _of_growing(ended: EndedLoop, values: Mapping[str, Any], after: Sequence[Any]) -> Iterator[tuple[Node, str]]:
    """What draws as many numbers as a value has that begins as a number, and is an array from then on; with that value."""
    body, begun = ended.loop.body, dict[str, str]()
    for carried, first, value in zip(ended.loop.carried, ended.given.carried, after, strict=True):
        if getattr(value, "size", 1) > 1 and is_number(first):
            begun[carried.input] = carried.input
    for node in body.nodes if begun else ():
        name = next((begun[name] for name in node.inputs if name in begun), "")
        if name and draws(node) and is_number(values[node.outputs[0]]):
            yield node, name
        elif name and (node.op == LIKE or is_of_elements(node)):
            begun.update(dict.fromkeys(node.outputs, name))


def is_of_elements(node: Node) -> bool:
    """Whether a node computes element by element, so that its operands are broadcast."""
    return not node.bodies and lookup(node.op, node.opset, node.domain).batch is elementwise
