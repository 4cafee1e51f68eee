"""Bodies with more outputs: what is recorded becomes a further collected value, so every engine that runs loops runs it.

What is computed under a condition is noted in a trace instead (:mod:`mdf_loop.models.recorded_traces`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mdf_loop.ir import Body, Collected, Loop, Node
from mdf_loop.models.model import unknown_name
from mdf_loop.models.recorded_traces import with_trace
from mdf_loop.models.recorded_ways import Way, is_conditional, listed, place_of, values_of


def with_outputs(body: Body, ways: Sequence[Way], where: str, has_rows: bool = False) -> tuple[Body, list[str]]:
    """A body in which each of some values, or a trace of it, can be taken as an output, and the names they have in it.

    ``has_rows`` says whether an iteration of this body is a row of what is recorded.

    Raises
    ------
    ArgumentError
        There is no such value; names those that are close.
    """
    names: list[str] = []
    for way in ways:
        if len(way) == 1:
            if way[0] not in values_of(body):
                raise unknown_name(f"{where} has no value", way[0], listed(body))
            names.append(way[0])
        elif is_conditional(way):
            body, name = with_trace(body, way, f"{'.'.join(way)} {len(names)}", where, has_rows)
            names.append(name)
        else:
            body, name = _with_inner(body, way, where)
            names.append(name)
    return body, names


def _with_inner(body: Body, way: Way, where: str) -> tuple[Body, str]:
    """The same for a value inside a loop of the body."""
    place = place_of(body, way[0], where)
    node = body.nodes[place]
    assert node.loop is not None
    inner, (name,) = with_outputs(node.loop.body, [way[1:]], f"{where}, loop {way[0]!r}")
    taken = set(values_of(body))
    out = next(text for k in range(len(taken) + 2) if (text := f"{'.'.join(way)}{'~' * k}") not in taken)
    nodes = (*body.nodes[:place], _with_output(node, inner, name, out), *body.nodes[place + 1 :])
    return replace(body, nodes=nodes), out


def _with_output(node: Node, inner: Body, name: str, out: str) -> Node:
    """A loop that collects one value more, as its last output."""
    assert node.loop is not None
    loop = node.loop.with_body(replace(inner, outputs=(*inner.outputs, name)))
    given = len(loop.results)
    loop = replace(loop, collected=(*loop.collected, Collected(name)))
    return replace(node, attrs={"loop": loop}, outputs=(*_padded(node.outputs, given), out))


def _padded(names: Sequence[str], length: int) -> tuple[str, ...]:
    return (*names, *[""] * (length - len(names)))


def recorded_loop(loop: Loop, ways: Sequence[Way]) -> tuple[Loop, int]:
    """A loop that gives some values more, and how many of them are traces.

    Those of its own body are its last collected ones.  A value inside a loop inside it may differ in length from
    iteration to iteration, and one in a branch need not be there: notes are taken of these, and the traces are the last
    ones of the last values.
    """
    body, names = with_outputs(loop.body, ways, f"the loop {loop.name or loop.body.name!r}", has_rows=True)
    flat, traces = list[Collected](), list[str]()
    for name, way in zip(names, ways, strict=True):
        if len(way) == 1:
            flat.append(Collected(name))
        elif is_conditional(way):
            traces.append(name)
        else:
            body, trace = with_trace(body, (name,), name, name, has_rows=True)
            traces.append(trace)
    return replace(loop, body=body, collected=(*loop.collected, *flat), last=(*loop.last, *traces)), len(traces)


def names_by_way(names: Mapping[str, Way]) -> list[tuple[str, Way]]:
    """What is recorded: values of the loop's own body first, as they stand among the results of a recorded loop."""
    return [pair for pair in names.items() if len(pair[1]) > 1] + [pair for pair in names.items() if len(pair[1]) == 1]
