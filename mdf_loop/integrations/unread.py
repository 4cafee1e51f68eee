"""What in a graph changes nothing: what is not read or taken, conditions that count to 0, loops that never begin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mdf_loop.functions.function_rows import Row
from mdf_loop.functions.psyneulink import FUNCTIONS, row_of
from mdf_loop.functions.psyneulink_losses import mechanism_of
from mdf_loop.integrations.graph_conditions import counts_of_zero
from mdf_loop.readers.expressions.derivatives import STEP
from mdf_loop.readers.expressions.equation_texts import DERIVATIVES, NUMBERS, names_hidden_by
from mdf_loop.readers.mdf.names import needed_arguments, surplus
from mdf_loop.readers.mdf.node import CONTROL


def unread_inputs(graph: Any) -> set[str]:
    """The parameters of a graph that nothing reads, as ``node.id``, and by their ids where no other thing is called so.

    Those of nodes with functions are left out: MDF gives a function what it takes by name.
    """
    said = words_of_conditions(graph)
    nodes = [node for node in graph.nodes if {each.function for each in (*node.functions, *node.parameters)} <= {None, *CONTROL}]
    found = {f"{node.id}.{id}": id for node in nodes for id in unread_in(node, said)}
    ids = [each.id for node in graph.nodes for each in (*node.parameters, *node.input_ports)]
    return {*found, *(id for id in found.values() if ids.count(id) == 1)}


def unread_in(node: Any, said: set[str]) -> dict[str, str]:
    """Parameters, functions and hidden ports that nothing in a node reads, nor a condition (``said`` are the names in those)."""
    things = (*node.functions, *node.parameters)
    words = [(thing, {name for part in _texts(thing) for name in _words(part)}) for thing in (*things, *node.output_ports)]
    known_by_name = {"body", "then_branch", "else_branch", *(port.id for port in node.output_ports)}
    unread = dict[str, str]()
    if any(isinstance(thing.value, dict) and "onnx_file" in thing.value for thing in things):
        return unread  # the file may read anything
    for thing in things:
        others = {name for other, names in words if other is not thing for name in names}
        if thing.id not in others | said | known_by_name:
            number = next((name for name in NUMBERS if name in others and thing.id.startswith(name)), "")
            meant = f"; {number} is read, which is a number of its own: did you mean {thing.id!r}?" if number else ""
            unread[thing.id] = f"nothing reads it{meant}"
    inside = {name for thing in things for name in names_hidden_by(getattr(thing, "value", None))}
    for port in node.input_ports:
        if port.id in inside - said and not any(port.id in names for _, names in words):
            unread[port.id] = (
                f"nothing reads it: the body has a value of its own with this name, args: {{{port.id}: {port.id}}} begins with it"
            )
    return unread


def words_of_conditions(graph: Any) -> set[str]:
    """Every word in the conditions of a graph."""
    todo, words = [graph.conditions], set[str]()
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            words |= _words(value)
        elif isinstance(value, dict):
            todo += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            todo += value
        elif (value is not None and hasattr(value, "__dict__")) or hasattr(value, "__slots__"):
            todo += [getattr(value, name, None) for name in ("node_specific", "termination", "kwargs")]
    return words


def _texts(thing: Any) -> Iterator[Any]:
    for attribute in ("value", "default_initial_value", "time_derivative"):
        value = getattr(thing, attribute, None)
        yield _words(value) - (hidden := names_hidden_by(value))
        if isinstance(value, dict) and DERIVATIVES in value and STEP not in hidden:
            yield STEP  # which a body of derivatives reads without saying it
    args = getattr(thing, "args", None)
    yield from args.values() if isinstance(args, dict) else [args]
    for condition in getattr(thing, "conditions", None) or ():
        is_dict = isinstance(condition, dict)  # as MDF's engine reads them as well
        yield from (condition.get(key) if is_dict else getattr(condition, key) for key in ("test", "value"))


def _words(value: Any) -> set[str]:
    """Every name in a value and what is inside it."""
    return set(re.findall(r"[^\W\d]\w*", str(value)))


Place = tuple[str, ...]


def overlooked(graph: Any) -> Iterator[tuple[Place, str]]:
    """What to say of parts of a graph that change nothing, though their author means them to, with their places."""
    id = str(graph.id)
    for edge in graph.edges:
        for name in set(edge.parameters or ()) - {"weight"}:
            said = f"nothing reads {name} of edge {edge.id!r}: an edge has a weight, by which what it brings is multiplied"
            yield (id, edge.id), f"{id}: {said}"
    for place, said in counts_of_zero(graph):
        yield place, f"{'/'.join(place)}: {said}"
    for node in graph.nodes:
        for thing in (*node.functions, *node.parameters):
            place = (id, node.id, thing.id)
            for said in (*_surplus(thing, node), *_never_begun(thing)):
                yield place, f"{'/'.join(place)}: {said}"


def _surplus(thing: Any, node: Any) -> Iterator[str]:
    """What to say of arguments that a function does not take."""
    if thing.function is None or thing.function in CONTROL:
        return
    from modeci_mdf.functions.standard import mdf_functions  # which takes a third of a second

    args = thing.args or {}
    made = row_of(thing, node) if thing.function in FUNCTIONS else None
    more = surplus(thing.function, args, mdf_functions) if made is None else surplus_of(thing, made)
    for name in more if more and args.keys() >= {*needed_arguments(thing.function, mdf_functions)} else ():
        if name == "variable0" and mechanism_of(node):
            continue  # PsyNeuLink writes it for functions without an input, too
        takes = ", ".join(mdf_functions[thing.function]["arguments"] if made is None else ["variable0", *made.defaults])
        yield f"{thing.function} takes {takes or 'nothing'}, and not {name!r}"


def _never_begun(thing: Any) -> Iterator[str]:
    """What to say of a loop whose model says that no iteration runs."""
    args = thing.args if thing.function == "onnx::Loop" and thing.args else {}
    if args.get("cond") is False:
        yield "no iteration runs: cond, the condition to go on, is false"
    elif type(count := args.get("M")) is int and count <= 0:
        yield f"the trip count M is {count}, so no iteration runs"


OF_STATE = frozenset(
    {"reset", "previous_value", "previous_time", "initializer", "seed", "integrator_function_value", "control_allocation"}
)
"""What PsyNeuLink writes of the state of a mechanism or function; the model has the same numbers without it."""

WITHOUT_EFFECT = {
    "softmax": {"adapt_scale", "adapt_entropy_weighting", "adapt_base"},  # of an adaptive gain, which is refused
    "dualadaptiveintegrator": {"rate"},
    "driftdiffusionanalytical": {"bias"},  # computed from the starting value
}
"""Arguments that PsyNeuLink writes for a function, and that its results do not depend on."""


def surplus_of(thing: Any, made: Row) -> list[str]:
    """The arguments of a function that its row does not read, but for those without an effect.

    A number of 0 adds nothing, whatever it is added to.
    """
    read = {"variable0", "shape", *made.defaults, *made.options, *made.steps, *OF_STATE, *WITHOUT_EFFECT.get(thing.function, ())}
    return [name for name, value in (thing.args or {}).items() if name not in read and not _is_zero(value)]


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and value == 0
