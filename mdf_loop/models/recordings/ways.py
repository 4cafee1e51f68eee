"""What the names of ``record`` mean: ports and parameters, and values inside bodies.

The way to a value inside a body leads through the loops and branches around it.

A loop or If is called by the name of its node or by one of its outputs.  Which branch it is, and the If as well, may be left
out of a name where the name says all the same which value is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mdf_loop.calls.prepared import read_once
from mdf_loop.errors import ArgumentError
from mdf_loop.ir import Body, Node
from mdf_loop.models.model import unknown_name
from mdf_loop.ops.registry import facts
from mdf_loop.readers.mdf.by_place import LOOPS, equations_of, signature_of
from mdf_loop.readers.mdf.node import bodies_of
from mdf_loop.readers.mdf.stepped_loops import is_stepped

Way = tuple[str, ...]
"""The loops and branches on the way to a value, then its own name."""


class Branch(str):
    """A branch of an If on a way: what the If is called, and the branch."""

    __slots__ = ()

    @property
    def place(self) -> tuple[str, str]:
        """What the If is called, and the name of the attribute."""
        called, _, attribute = self.rpartition(".")
        return called, attribute


def ways_in(body: Body, before: Way = ()) -> Iterator[Way]:
    """The ways to all values of a body that can be recorded."""
    is_branch = bool(before) and isinstance(before[-1], Branch)
    for name in values_of(body):
        if not (is_branch and name in body.captures):  # which is a value of the body around it
            yield (*before, name)
    for node in body.nodes:
        if node.loop is not None:
            yield from ways_in(node.loop.body, (*before, called(node)))
        elif is_if(node):
            for attribute, branch in node.bodies:
                yield from ways_in(branch, (*before, Branch(f"{called(node)}.{attribute}")))


def values_of(body: Body) -> list[str]:
    """The values that a body has in each iteration."""
    made = [name for node in body.nodes for name in node.outputs if name]
    states = [state.input for state in body.state]
    return list(dict.fromkeys((*body.inputs, *states, *made, *body.constants, *body.captures)))


def called(node: Node) -> str:
    """What a loop or If inside a body is called: the name of its node, or its first output."""
    return node.name or next(filter(None, node.outputs), node.called)


def is_if(node: Node) -> bool:
    """Whether a node is a branch in the body."""
    return facts(node).chooses


def is_conditional(way: Way) -> bool:
    """Whether a value need not be computed in each iteration."""
    return any(isinstance(part, Branch) for part in way)


def place_of(body: Body, name: str, where: str) -> int:
    """Which node of a body a part of a way leads into.

    Raises
    ------
    ArgumentError
        There is none of that name; names those that are close.
    """
    wanted = name.place[0] if isinstance(name, Branch) else name
    for k, node in enumerate(body.nodes):
        fits = is_if(node) if isinstance(name, Branch) else node.loop is not None
        if fits and (wanted in (node.name, *node.outputs) or wanted == called(node)):
            return k
    raise unknown_name(f"{where} has no value", name, listed(body))


def listed(body: Body) -> list[str]:
    """The names of all values in full."""
    return [".".join(way) for way in ways_in(body)]


def fitting(body: Body, text: str) -> list[Way]:
    """The ways that a name may mean: values outside of branches first, then the others."""
    ways = [way for way in ways_in(body) if _is_named(way, text)]
    sure = [way for way in ways if not is_conditional(way) or ".".join(way) == text]
    return sure or ways


def _is_named(way: Way, text: str) -> bool:
    short = ".".join(part for part in way if not isinstance(part, Branch))
    without = ".".join(part.place[0] if isinstance(part, Branch) else part for part in way)
    return text in (".".join(way), short, without) or (len(way) == 1 and way[0].rpartition(".")[2] == text and "." in way[0])


def only_one(ways: list[Way], name: str, where: str = "") -> Way:
    """The way that a name means.

    Raises
    ------
    ArgumentError
        There are several.
    """
    if len(ways) > 1:
        places = " or ".join(f"{where}{'.'.join(way)}" for way in ways)
        raise ArgumentError(f"{name!r} is in several branches; give one of: {places}")
    return ways[0]


PLACES = {"input": "input_ports", "parameter": "parameters", "function": "functions", "output": "output_ports"}
"""Where a node of MDF has what is recorded of it, in the order in which names are looked up."""

Key = tuple[str, str, str]
"""A port or parameter: ``"input"``, ``"parameter"``, ``"function"`` or ``"output"``, its node and its id."""

Loops = Mapping[str, Mapping[str, Body]]
"""The bodies of loops, by node and by the parameter or function that the loop is."""


def found_in(graph: Any, names: Sequence[str]) -> tuple[dict[str, Key], dict[str, dict[str, Way]]]:
    """What names mean: ports and parameters, and by the place of a loop (``node.parameter``) the ways to values inside it.

    A value that a loop computes in each iteration wins over a port of its name, which ``node.output_ports.name`` means.

    Raises
    ------
    ArgumentError
        There is nothing of a name, or several things.
    """
    keys, inside = dict[str, Key](), dict[str, dict[str, Way]]()
    known = {f"{node}.{id}": (kind, node, id) for kind, node, id in keys_of(graph)}
    in_full = {f"{node}.{PLACES[kind]}.{id}": (kind, node, id) for kind, node, id in keys_of(graph)}
    loops, iterated, collected = loops_of(graph), _iterated(graph), _collected(graph)
    for name in names:
        key = in_full.get(name) or (None if name in iterated or name in collected else known.get(name))
        if key is not None:
            keys[name] = key
            continue
        place, way = collected.get(name) or _in_loop(loops, name, known)
        inside.setdefault(place, {})[name] = way
    return keys, inside


def _iterated(graph: Any) -> set[str]:
    """The names (``node.name``) of what loops compute in each iteration; what passes step, ports have from pass to pass."""
    names = set[str]()
    for node, thing, body in _loops(graph):
        if not is_stepped(node, thing):
            begin = 2 if thing.function == "onnx::Loop" else 0  # the iteration number and the condition are not computed
            outside = {*body.inputs[:begin], *body.constants, *body.captures}
            names |= {f"{node.id}.{name}" for name in values_of(body) if name not in outside}
    return names


def _collected(graph: Any) -> dict[str, tuple[str, Way]]:
    """What equations collect under names that no value of the body has, such as ``path: x``: the loop and the way to it."""
    found = dict[str, tuple[str, Way]]()
    for node, thing, body in _loops(graph):
        said, place = equations_of(node, thing), f"{node.id}.{thing.id}"
        names = [] if said is None or is_stepped(node, thing) else [*said.collected]
        for name, value in zip(names, body.outputs[len(body.outputs) - len(names) :], strict=True):
            if name not in values_of(body):
                found[f"{place}.{name}"] = found[f"{node.id}.{name}"] = place, (value,)
    return found


def _in_loop(loops: Loops, name: str, known: Mapping[str, Key]) -> tuple[str, Way]:
    """The loop that a name leads into, and the way inside it: ``node.value``, ``node.loop.value`` and so on."""
    node, _, rest = name.partition(".")
    here = loops.get(node, {})
    head, _, tail = rest.partition(".")
    chosen, within = ({head: here[head]}, tail) if head in here and tail else (here, rest)
    found = [(f"{node}.{id}", ways) for id, body in chosen.items() if (ways := fitting(body, within))]
    if len(found) > 1:
        ports = [f"{node}.{PLACES[known[name][0]]}.{rest}"] if name in known else []
        places = " or ".join([*(f"{place}.{within}" for place, _ in found), *ports])
        raise ArgumentError(f"{name!r} is in several loops; give one of: {places}")
    if found:
        return found[0][0], only_one(found[0][1], name, f"{node}.")
    raise unknown_name("there is nothing to be recorded called", name, [*known, *_inside(loops)])


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
    for node, thing, body in _loops(graph):
        found.setdefault(node.id, {})[thing.id] = body
    return found


def _loops(graph: Any) -> Iterator[tuple[Any, Any, Body]]:
    """The same with their nodes, and the parameters or functions that they are."""
    for node in graph.nodes:
        for thing in (*node.parameters, *node.functions):
            if thing.function in ("onnx::Loop", "onnx::Scan") and getattr(thing, "value", None) is None:
                yield from ((node, thing, body) for body in bodies_of(thing, node, read_once))


def is_at_start(body: Body, updated: Sequence[str], way: Way) -> bool:
    """Whether a value of a loop's body belongs to the time at which an iteration starts, not to that at which it ends.

    The carried values that an iteration finds belong to its start, and so does all that it computes before the new ones.
    New carried values (``updated``), all that is computed from them, and what the loop collects belong to its end.
    """
    late = {*updated, *(state.output for state in body.state)} - {*body.inputs}
    for node in body.nodes:
        if not late.isdisjoint(node.reads):
            late.update(filter(None, node.outputs))
    if len(way) == 1:
        return way[0] not in late.union(body.outputs) - {*body.inputs}
    return late.isdisjoint(body.nodes[place_of(body, way[0], "the loop")].outputs)


def at_start_in_graph(graph: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Those names of what is recorded in the loops of an MDF graph that mean values at the start of an iteration."""
    bodies = {f"{node.id}.{thing.id}": (thing, body) for node, thing, body in _loops(graph) if not is_stepped(node, thing)}
    found = list[str]()
    for place, ways in found_in(graph, names)[1].items():
        if place in bodies:
            thing, body = bodies[place]
            begin, count = int(LOOPS[thing.function] == "loop"), signature_of(thing.function, thing.args or {})[0]
            found += [name for name, way in ways.items() if is_at_start(body, body.outputs[begin : begin + count], way)]
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
