"""Bodies with more outputs: what is recorded becomes a further collected value, so every engine that runs loops runs it.

What need not be there in each iteration, or may differ in shape, cannot be collected.  A trace
(:mod:`mdf_loop.kernels.arrays.sequence_operators`) is led there instead: captured by the branches of an If, carried by loops.
Each time a body is run its trace gets one note: the value, that there is none, or the trace of a loop in the body.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.ir import Body, Carried, Collected, Loop, Node, State
from mdf_loop.kernels.arrays.sequence_operators import ABSENT, ValueTrace
from mdf_loop.models.model import unknown_name
from mdf_loop.models.recordings.ways import Branch, Way, is_conditional, listed, place_of, values_of


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


def recorded_loop(loop: Loop, ways: Mapping[str, Way]) -> tuple[Loop, list[str], list[str]]:
    """A loop that gives some values more, by the names of those that are traces and of the others.

    Those of its own body are its last collected ones.  A value inside a loop inside it may differ in length from
    iteration to iteration, and one in a branch need not be there: notes are taken of these, and the traces are the last
    ones of the last values.
    """
    body, where = loop.body, f"the loop {loop.name or loop.body.name!r}"
    flat, traces = dict[str, str](), dict[str, str]()
    for name, way in ways.items():
        if len(way) > 1:
            body, traces[name] = with_trace(body, way, f"{'.'.join(way)} {len(traces)}", where)
        elif way[0] in values_of(loop.body):
            flat[name] = way[0]
        else:
            raise unknown_name(f"{where} has no value", way[0], listed(loop.body))
    collected = (*loop.collected, *(Collected(output, widens=True) for output in flat.values()))
    return replace(loop, body=body, collected=collected, last=(*loop.last, *traces.values())), [*traces], [*flat]


DOMAIN = "record"


def with_trace(body: Body, way: Way, label: str, where: str) -> tuple[Body, str]:
    """A body that takes a note each time it is run, and the name of the trace behind it.

    Parameters
    ----------
    body : Body
        Of a loop, or a graph; the trace begins in front of its first iteration.
    way : Way
    label : str
        What the trace is called; no other one of the body is.
    where : str
        The body in a message.
    """
    start = f"{label} before"
    body, end = _Tracer(label, where).led(body, way, start)
    return replace(body, state=(*body.state, State(start, end, ValueTrace()))), end


def collecting(node: Node, name: str, out: str) -> Node:
    """A loop that collects a value of its body, as its last output."""
    assert node.loop is not None
    inner = node.loop.body
    loop = node.loop.with_body(replace(inner, outputs=(*inner.outputs, name)))
    missing = len(loop.results) - len(node.outputs)
    loop = replace(loop, collected=(*loop.collected, Collected(name, widens=True)))
    return replace(node, attrs={"loop": loop}, outputs=(*node.outputs, *[""] * missing, out))


class _Tracer:
    """Leads a trace through a body."""

    def __init__(self, label: str, where: str) -> None:
        self.label, self.where, self.count = label, where, 0

    def fresh(self) -> str:
        """A name for a trace somewhere on its way."""
        self.count += 1
        return f"{self.label} trace {self.count}"

    def noted(self, body: Body, before: str, op: str, *values: str) -> tuple[Body, str]:
        """One note more at the end of a body."""
        after = self.fresh()
        return replace(body, nodes=(*body.nodes, self._node(op, (before, *values), after))), after

    def _node(self, op: str, inputs: tuple[str, ...], output: str) -> Node:
        return Node(op, inputs, (output,), name=output, opset=1, domain=DOMAIN)

    def led(self, body: Body, way: Way, before: str) -> tuple[Body, str]:
        """A body that takes a note of a value, and the name of the trace behind it; ``before`` is that in front of it."""
        if len(way) == 1:
            if way[0] not in values_of(body):
                raise unknown_name(f"{self.where} has no value", way[0], listed(body))
            return self.noted(body, before, "Note", way[0])
        place = place_of(body, way[0], self.where)
        node, nodes = body.nodes[place], body.nodes
        if isinstance(way[0], Branch):
            node, after = self._through_if(node, way, before)
            return replace(body, nodes=(*nodes[:place], node, *nodes[place + 1 :])), after
        begun: tuple[Node, ...] = ()
        if len(way) == 2:
            out = self.fresh()
            node = self._collecting(node, way[1], out)
        else:
            start = self.fresh()
            begun = (self._node("NoteNothing", (), start),)
            node, out = self._through_loop(node, way, start)
        return self.noted(replace(body, nodes=(*nodes[:place], *begun, node, *nodes[place + 1 :])), before, "Note", out)

    def _collecting(self, node: Node, name: str, out: str) -> Node:
        assert node.loop is not None
        if name not in values_of(node.loop.body):
            raise unknown_name(f"{self.where} has no value", name, listed(node.loop.body))
        return collecting(node, name, out)

    def _through_if(self, node: Node, way: Way, before: str) -> tuple[Node, str]:
        """An If that gives the trace behind the branch that was taken, as its last output."""
        assert isinstance(way[0], Branch)
        branches = dict[str, Body]()
        for attribute, branch in node.bodies:
            is_its = attribute == way[0].place[1]
            branch, end = self.led(branch, way[1:], before) if is_its else self.noted(branch, before, "NoteAbsent")
            captures = tuple(dict.fromkeys((*branch.captures, before)))
            branches[attribute] = replace(branch, outputs=(*branch.outputs, end), captures=captures)
        after, count = self.fresh(), len(next(iter(node.bodies))[1].outputs)
        outputs = (*node.outputs, *[""] * (count - len(node.outputs)), after)
        captures = tuple(dict.fromkeys((*node.captures, before)))
        return replace(node.with_bodies(branches), outputs=outputs, captures=captures), after

    def _through_loop(self, node: Node, way: Way, before: str) -> tuple[Node, str]:
        """A loop that carries the trace, as its last carried value."""
        assert node.loop is not None
        start, after = self.fresh(), self.fresh()
        inner, end = self.led(node.loop.body, way[1:], start)
        inner = replace(inner, inputs=(*inner.inputs, start), outputs=(*inner.outputs, end))
        loop = node.loop.with_body(inner)
        place = len(loop.carried)
        loop = replace(loop, carried=(*loop.carried, Carried(start, end)))
        inputs, outputs = _inserted(node.inputs, before, 2 + place), _inserted(node.outputs, after, place)
        return replace(node, attrs={"loop": loop}, inputs=inputs, outputs=outputs), after


def _inserted(names: tuple[str, ...], name: str, place: int) -> tuple[str, ...]:
    names = (*names, *[""] * (place - len(names)))
    return (*names[:place], name, *names[place:])


NOTHING = np.full(0, np.nan)
"""What is recorded inside a loop that did not run."""


def rows_of(trace: Iterable[Any], way: Way) -> Any:
    """What was noted, a row for each note: an array, or a list where rows are many values each or differ.

    Where a value was not computed it is nan.
    """
    loops = sum(not isinstance(part, Branch) for part in way[:-1])
    rows = [_unfolded(note, loops) for note in trace]
    return rows if loops else in_rows(rows)


def _unfolded(note: Any, loops: int) -> Any:
    """A note of a value inside so many loops; None where it was not computed."""
    if note is ABSENT:
        return NOTHING if loops else None
    return in_rows([_unfolded(each, loops - 1) for each in note]) if isinstance(note, ValueTrace) else note


def in_rows(rows: list[Any]) -> Any:
    """Values as rows of one array, nan for those that are missing; a list of them where they differ in shape."""
    known = [row for row in rows if row is not None]
    if any(isinstance(row, list) for row in known) or len({np.shape(row) for row in known}) > 1:
        return [np.asarray(np.nan) if row is None else row if isinstance(row, list) else np.asarray(row) for row in rows]
    if not known:
        return np.full(len(rows), np.nan)
    missing = np.full(np.shape(known[0]), np.nan)
    return np.stack([missing if row is None else row for row in rows])
