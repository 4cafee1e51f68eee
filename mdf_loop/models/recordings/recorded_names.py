"""What the names of ``record`` mean in a graph of MDF: ports and parameters, and values inside the loops of its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mdf_loop.calls.prepared import read_once
from mdf_loop.convert.inner_values import Way, fitting, only_one, place_of, values_of, ways_in
from mdf_loop.convert.scheduled.conditions import INSIDE, Key
from mdf_loop.errors import ArgumentError, unknown_name
from mdf_loop.ir import Body
from mdf_loop.readers.mdf.by_place import LOOPS, equations_of, signature_of
from mdf_loop.readers.mdf.node import bodies_of
from mdf_loop.readers.mdf.stepped_loops import is_stepped

PLACES = {"input": "input_ports", "parameter": "parameters", "function": "functions", "output": "output_ports"}
"""Where a node of MDF has what is recorded of it, in the order in which names are looked up."""

Loops = Mapping[str, Mapping[str, Body]]
"""The bodies of loops, by node and by the parameter or function that the loop is."""


def found_in(graph: Any, names: Sequence[str]) -> dict[str, Key]:
    """What names mean: ports and parameters, or values inside loops.

    A value that a loop computes in each iteration wins over a port of its name, which ``node.output_ports.name`` means.

    Raises
    ------
    ArgumentError
        There is nothing of a name, or several things.
    """
    found = dict[str, Key]()
    known = {f"{key[1]}.{key[2]}": key for key in keys_of(graph)}
    in_full = {f"{key[1]}.{PLACES[key[0]]}.{key[2]}": key for key in keys_of(graph)}
    loops, iterated, collected = loops_of(graph), _iterated(graph), _collected(graph)
    for name in names:
        key = in_full.get(name) or (None if name in iterated or name in collected else known.get(name))
        if key is None:
            node, id, way = collected.get(name) or _in_loop(loops, name, known, graph)
            key = (INSIDE, node, id, name, *way)
        found[name] = key
    return found


def _iterated(graph: Any) -> set[str]:
    """The names (``node.name``) of what loops compute in each iteration; what passes step, ports have from pass to pass."""
    names = set[str]()
    for node, thing, body in each_loop(graph):
        if not is_stepped(node, thing):
            begin = 2 if thing.function == "onnx::Loop" else 0  # the iteration number and the condition are not computed
            outside = {*body.inputs[:begin], *body.constants, *body.captures}
            names |= {f"{node.id}.{name}" for name in values_of(body) if name not in outside}
    return names


def _collected(graph: Any) -> dict[str, tuple[str, str, Way]]:
    """What equations collect under names that no value of the body has, such as ``path: x``: the loop and the way to it."""
    found = dict[str, tuple[str, str, Way]]()
    for node, thing, body in each_loop(graph):
        said = equations_of(node, thing)
        names = [] if said is None or is_stepped(node, thing) else [*said.collected]
        for name, value in zip(names, body.outputs[len(body.outputs) - len(names) :], strict=True):
            if name not in values_of(body):
                found[f"{node.id}.{thing.id}.{name}"] = found[f"{node.id}.{name}"] = node.id, thing.id, (value,)
    return found


def _in_loop(loops: Loops, name: str, known: Mapping[str, Key], graph: Any) -> tuple[str, str, Way]:
    """The loop that a name leads into, and the way inside it: ``node.value``, ``node.loop.value`` and so on."""
    node, _, rest = name.partition(".")
    here = loops.get(node, {})
    head, _, tail = rest.partition(".")
    chosen, within = ({head: here[head]}, tail) if head in here and tail else (here, rest)
    found = [(id, ways) for id, body in chosen.items() if (ways := fitting(body, within))]
    if len(found) > 1:
        ports = [f"{node}.{PLACES[known[name][0]]}.{rest}"] if name in known else []
        places = " or ".join([*(f"{node}.{id}.{within}" for id, _ in found), *ports])
        raise ArgumentError(f"{name!r} is in several loops; give one of: {places}")
    if found:
        return node, found[0][0], only_one(found[0][1], name, f"{node}.")
    _refuse_unread(graph, name)
    raise unknown_name("there is nothing to be recorded called", name, [*known, *_inside(loops)])


def _refuse_unread(graph: Any, name: str) -> None:
    """Say of a ``let`` that nothing reads how it can be recorded.

    Raises
    ------
    ArgumentError
    """
    node, _, rest = name.partition(".")
    for owner, thing, _ in each_loop(graph):
        said, let = equations_of(owner, thing), rest.removeprefix(f"{thing.id}.")
        if owner.id == node and said is not None and let in said.let:
            raise ArgumentError(
                f"{name!r} cannot be recorded: nothing reads {let!r}, which is a let, so no iteration computes it; collect it: "
                f"collected: {{{let}: {let}}}, or in a text: collect {let}: {let}"
            )


def _inside(loops: Loops) -> Iterator[str]:
    """The names of all values inside loops, but for those that only we gave a name."""
    for node, here in loops.items():
        for id, body in here.items():
            for way in ways_in(body):
                if "~" in way[-1] or way[-1].isdigit():
                    continue
                yield f"{node if len(here) == 1 else f'{node}.{id}'}.{'.'.join(way)}"


def loops_of(graph: Any) -> Loops:
    """The loops of a graph whose bodies are there before anything runs."""
    found: dict[str, dict[str, Body]] = {}
    for node, thing, body in each_loop(graph):
        found.setdefault(node.id, {})[thing.id] = body
    return found


def each_loop(graph: Any) -> Iterator[tuple[Any, Any, Body]]:
    """The same with their nodes, and the parameters or functions that they are."""
    for node in graph.nodes:
        for thing in (*node.parameters, *node.functions):
            if thing.function in ("onnx::Loop", "onnx::Scan") and getattr(thing, "value", None) is None:
                yield from ((node, thing, body) for body in bodies_of(thing, node, read_once))


def is_at_start(body: Body, updated: Sequence[str], way: Way, is_let: bool = False) -> bool:
    """Whether a value of a loop's body belongs to the time at which an iteration starts, not to that at which it ends.

    The carried values that an iteration finds belong to its start, and so does all that it computes before the new ones.
    New carried values (``updated``), all that is computed from them, and what the loop collects belong to its end.  One that is
    asked for by the name of a ``let`` is not meant as what is collected, even if it is that as well.
    """
    late = {*updated, *(state.output for state in body.state)} - {*body.inputs}
    for node in body.nodes:
        if not late.isdisjoint(node.reads):
            late.update(filter(None, node.outputs))
    if len(way) == 1:
        return way[0] not in late.union(() if is_let else body.outputs) - {*body.inputs}
    return late.isdisjoint(body.nodes[place_of(body, way[0], "the loop")].outputs)


def at_start_in_graph(graph: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Those names of what is recorded in the loops of an MDF graph that mean values at the start of an iteration."""
    bodies: dict[Key, Any] = {
        (node.id, thing.id): (thing, body, equations_of(node, thing))
        for node, thing, body in each_loop(graph)
        if not is_stepped(node, thing)
    }
    found = list[str]()
    for name, key in found_in(graph, names).items():
        if key[0] == INSIDE and key[1:3] in bodies:
            thing, body, said = bodies[key[1:3]]
            begin, count = int(LOOPS[thing.function] == "loop"), signature_of(thing.function, thing.args or {})[0]
            updated, is_let = body.outputs[begin : begin + count], said is not None and name.rpartition(".")[2] in said.let
            found += [name] if is_at_start(body, updated, key[4:], is_let) else []
    return tuple(found)


def at_start_in_body(body: Body, names: Mapping[str, str]) -> tuple[str, ...]:
    """The same for the loops of a graph of operators; the names are those that were asked for and those in the graph."""
    found = list[str]()
    for name, text in names.items():
        way = next(iter(fitting(body, text)), ())
        node = body.nodes[place_of(body, way[0], "the graph")] if len(way) > 1 else None
        if node is not None and node.loop is not None:
            updated = [carried.output for carried in node.loop.carried]
            found += [name] if is_at_start(node.loop.body, updated, way[1:]) else []
    return tuple(found)


def keys_of(graph: Any) -> Iterator[Key]:
    """All ports, parameters and functions of a graph; where two have one name the output port is meant."""
    for node in graph.nodes:
        for kind, key in PLACES.items():
            for thing in getattr(node, key):
                yield kind, node.id, thing.id
