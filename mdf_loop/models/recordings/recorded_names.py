"""What the names of ``record`` mean in an MDF graph: a port or parameter, or a value inside the loop of a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mdf_loop.calls.prepared import read_once
from mdf_loop.errors import ArgumentError, LoopError
from mdf_loop.integrations.registration import signature_of
from mdf_loop.ir import Body
from mdf_loop.models.model import unknown_name
from mdf_loop.models.recordings.ways import Way, fitting, only_one, ways_in

Key = tuple[str, str, str]
"""A port or parameter: ``"input"``, ``"parameter"``, ``"function"`` or ``"output"``, its node and its id."""

Loops = Mapping[str, Mapping[str, Body]]
"""The bodies of loops, by node and by the parameter or function that the loop is."""


def found_in(graph: Any, names: Sequence[str]) -> tuple[dict[str, Key], dict[str, dict[str, Way]]]:
    """What names mean: ports and parameters, and by the place of a loop (``node.parameter``) the ways to values inside it.

    Raises
    ------
    ArgumentError
        There is nothing of a name, or several things.
    """
    keys, inside = dict[str, Key](), dict[str, dict[str, Way]]()
    known = {f"{node}.{id}": (kind, node, id) for kind, node, id in keys_of(graph)}
    loops = loops_of(graph)
    for name in names:
        if name in known:
            keys[name] = known[name]
            continue
        place, way = _in_loop(loops, name, known)
        inside.setdefault(place, {})[name] = way
    return keys, inside


def _in_loop(loops: Loops, name: str, known: Mapping[str, Key]) -> tuple[str, Way]:
    """The loop that a name leads into, and the way inside it: ``node.value``, ``node.loop.value`` and so on."""
    node, _, rest = name.partition(".")
    here = loops.get(node, {})
    head, _, tail = rest.partition(".")
    chosen, within = ({head: here[head]}, tail) if head in here and tail else (here, rest)
    found = [(f"{node}.{id}", ways) for id, body in chosen.items() if (ways := fitting(body, within))]
    if len(found) > 1:
        places = " or ".join(f"{place}.{within}" for place, _ in found)
        raise ArgumentError(f"{name!r} is in several loops; give one of: {places}")
    if found:
        return found[0][0], only_one(found[0][1], name, f"{node}.")
    raise unknown_name("there is nothing to be recorded called", name, [*known, *_inside(loops)])


def _inside(loops: Loops) -> Iterator[str]:
    """The names of all values inside loops."""
    for node, here in loops.items():
        for id, body in here.items():
            for way in ways_in(body):
                yield f"{node if len(here) == 1 else f'{node}.{id}'}.{'.'.join(way)}"


def loops_of(graph: Any) -> Loops:
    """The loops of a graph whose bodies are there before anything runs."""
    found: dict[str, dict[str, Body]] = {}
    for node in graph.nodes:
        literals = {p.id: p.value for p in node.parameters if isinstance(p.value, dict)}
        for thing in (*node.parameters, *node.functions):
            if thing.function not in ("onnx::Loop", "onnx::Scan") or getattr(thing, "value", None) is not None:
                continue
            args = thing.args or {}
            source = args.get("body", "body")
            source = literals.get(source) if isinstance(source, str) else source
            try:
                if isinstance(source, dict):
                    found.setdefault(node.id, {})[thing.id] = read_once(source, *signature_of(thing.function, args))
            except LoopError:  # said with all its circumstances when the node runs
                continue
    return found


def keys_of(graph: Any) -> Iterator[Key]:
    """All ports, parameters and functions of a graph; where two have one name the output port is meant."""
    for node in graph.nodes:
        for kind, things in (
            ("input", node.input_ports),
            ("parameter", node.parameters),
            ("function", node.functions),
            ("output", node.output_ports),
        ):
            for thing in things:
                yield kind, node.id, thing.id
