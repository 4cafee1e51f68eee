"""Which rows have a time: those of a loop through time, whose iterations last the ``dt`` that its body reads.

Rows of passes have none: a node may run in some of them only, and a stepped loop runs several iterations in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mdf_loop.convert.inner_values import fitting, place_of
from mdf_loop.convert.scheduled.conditions import INSIDE
from mdf_loop.integrations.input_places import InputPlaces, Place
from mdf_loop.ir import Body, Node
from mdf_loop.models.recordings.recorded_names import each_loop, found_in
from mdf_loop.readers.expressions.derivatives import STEP
from mdf_loop.readers.expressions.equation_texts import Equations
from mdf_loop.readers.expressions.expression_text import number_in
from mdf_loop.readers.mdf.by_place import equations_of
from mdf_loop.readers.mdf.node import names_read
from mdf_loop.readers.mdf.stepped_loops import has_stepped_loops
from mdf_loop.readers.mdf.typed import has_conditions

Step = tuple[tuple[str, ...], Any]
"""How long an iteration takes: the inputs that say so, one of which may be given, and what it is if none is."""


def has_passes(graph: Any) -> bool:
    """Whether rows of what is recorded in an MDF graph are passes, not iterations."""
    return has_conditions(graph) or has_stepped_loops(graph)


def steps_of_rows(graph: Any, places: InputPlaces, collected: Mapping[str, str], record: tuple[str, ...]) -> dict[str, Step]:
    """How long an iteration takes, for those outputs and recorded values of an MDF graph that have a time.

    ``collected`` are the outputs that loops collected, with ``node.id`` of the loop.

    Raises
    ------
    ArgumentError
        There is nothing of a name to record.
    """
    steps = {} if has_passes(graph) else _steps_of_loops(graph, places)
    keys = found_in(graph, record) if steps and record else {}
    loops = {**collected, **{name: f"{key[1]}.{key[2]}" if key[0] == INSIDE else "" for name, key in keys.items()}}
    return {name: steps[loop] for name, loop in loops.items() if loop in steps}


def _steps_of_loops(graph: Any, places: InputPlaces) -> dict[str, Step]:
    """The same for its loops, by ``node.id``."""
    found = dict[str, Step]()
    for node, thing, body in each_loop(graph):
        said = equations_of(node, thing)
        if said is not None and STEP in said.let:
            if _reads_own_step(said):
                found[f"{node.id}.{thing.id}"] = (), number_in(said.let[STEP])
        elif is_through_time(body, _made_of_step(node).intersection(body.captures)):
            found[f"{node.id}.{thing.id}"] = _step_at((node.id, STEP), places)
    return found


def _step_at(place: Place, places: InputPlaces) -> Step:
    """What a place of a graph says; one with an edge says nothing before it has run."""
    value = next((getattr(each.owner, each.attribute) for each in places.free if each.place == place), None)
    names = tuple(name for name, meant in places.named.items() if any(each.place == place for each in meant))
    return names, number_in(value) if isinstance(value, str) else value


def _reads_own_step(said: Equations) -> bool:
    """Whether equations that have a ``dt`` read it."""
    lets = [text for name, text in said.let.items() if name != STEP]
    return any(STEP in names_read(text) for text in (*said.carried.values(), *said.collected.values(), *lets, said.going))


def _made_of_step(node: Any) -> set[str]:
    """The ``dt`` of a node, and the parameters that are computed from it, such as ``decay: exp(-dt / tau)``."""
    names = {STEP}
    for each in node.parameters:
        is_fixed = each.function is None and each.default_initial_value is None
        names.update([each.id] if is_fixed and not names.isdisjoint(names_read(each.value)) else ())
    return names


def is_through_time(body: Body, names: set[str]) -> bool:
    """Whether a body reads one of these values, which are made of ``dt``, and no loop inside it does.

    If a loop inside reads it, that one goes through time: the iterations around it may be trials.
    """
    nodes, names, fixed = [*_nodes_of(body)], {*names}, {*body.constants, *body.captures}
    for node in nodes:
        if node.loop is None and fixed.issuperset(node.reads):
            fixed.update(node.outputs)
            names.update(node.outputs if not names.isdisjoint(node.reads) else ())
    inside = (node.reads for node in nodes if node.loop is not None)
    return all(names.isdisjoint(reads) for reads in inside) and any(not names.isdisjoint(node.inputs) for node in nodes)


def _nodes_of(body: Body) -> Iterator[Node]:
    """The nodes of a body and of its branches."""
    for node in body.nodes:
        yield node
        for _, branch in () if node.loop is not None else node.bodies:
            yield from _nodes_of(branch)


def steps_in_body(body: Body, record: Mapping[str, str], step: str, default: Any = None) -> dict[str, Step]:
    """The same for what is recorded in loops of a graph of operators, whose input ``step`` is ``dt``, by itself ``default``."""
    found = dict[str, Step]()
    for name, text in record.items():
        way = next(iter(fitting(body, text)), ())
        node = body.nodes[place_of(body, way[0], "the graph")] if len(way) > 1 else None
        if node is not None and node.loop is not None:
            invariant = zip(node.loop.invariant, node.loop.split(node.inputs)[4], strict=True)
            inside = {step, *(inner for inner, outer in invariant if outer == step)}
            found |= {name: ((STEP,), default)} if is_through_time(node.loop.body, inside) else {}
    return found
