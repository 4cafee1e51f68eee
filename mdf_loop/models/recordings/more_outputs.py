"""Bodies with more outputs: what is recorded becomes a further collected value, so every engine that runs loops runs it.

What need not be there in each iteration, or may differ in shape, is noted in a trace (:mod:`mdf_loop.models.recordings.notes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mdf_loop.ir import Body, Collected, Loop
from mdf_loop.kernels.traces import ValueTrace
from mdf_loop.models.model import unknown_name
from mdf_loop.models.recordings.notes import collecting, rows_of, with_trace
from mdf_loop.models.recordings.ways import Way, is_conditional, listed, place_of, values_of


def with_outputs(body: Body, ways: Sequence[Way], where: str) -> tuple[Body, list[str]]:
    """A graph in which each of some values, or a trace of it, can be taken as an output, and the names they have in it.

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
            name = way[0]
        elif len(way) == 2 and not is_conditional(way):
            body, name = _with_inner(body, way, where)
        else:
            body, name = with_trace(body, way, f"{'.'.join(way)} {len(names)}", where)
        names.append(name)
    return body, names


def _with_inner(body: Body, way: Way, where: str) -> tuple[Body, str]:
    """The same for a value inside a loop of the graph."""
    place = place_of(body, way[0], where)
    taken = set(values_of(body))
    out = next(text for k in range(len(taken) + 2) if (text := f"{'.'.join(way)}{'~' * k}") not in taken)
    nodes = (*body.nodes[:place], collecting(body.nodes[place], way[1], out), *body.nodes[place + 1 :])
    return replace(body, nodes=nodes), out


def recorded_value(value: Any, way: Way) -> Any:
    """What was recorded of a graph that ran once: rows of the first loop on the way; one row outside of loops."""
    if not isinstance(value, ValueTrace):
        return value
    rows = rows_of(value, way)
    return rows[0] if isinstance(rows, list) else rows


def recorded_loop(loop: Loop, ways: Sequence[Way]) -> tuple[Loop, int]:
    """A loop that gives some values more, and how many of them are traces.

    Those of its own body are its last collected ones.  A value inside a loop inside it may differ in length from
    iteration to iteration, and one in a branch need not be there: notes are taken of these, and the traces are the last
    ones of the last values.
    """
    body, where = loop.body, f"the loop {loop.name or loop.body.name!r}"
    flat, traces = list[str](), list[str]()
    for k, way in enumerate(ways):
        if len(way) == 1:
            if way[0] not in values_of(loop.body):
                raise unknown_name(f"{where} has no value", way[0], listed(loop.body))
            flat.append(way[0])
        else:
            body, trace = with_trace(body, way, f"{'.'.join(way)} {k}", where)
            traces.append(trace)
    collected = (*loop.collected, *(Collected(name, widens=True) for name in flat))
    return replace(loop, body=body, collected=collected, last=(*loop.last, *traces)), len(traces)


def names_by_way(names: Mapping[str, Way]) -> list[tuple[str, Way]]:
    """What is recorded: values of the loop's own body first, as they stand among the results of a recorded loop."""
    return [pair for pair in names.items() if len(pair[1]) > 1] + [pair for pair in names.items() if len(pair[1]) == 1]
