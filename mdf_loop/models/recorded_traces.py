"""Values that are computed under a condition: notes of them are taken where they are, in branches and loops inside a loop.

What need not be computed in each iteration cannot be collected.  A trace (:mod:`mdf_loop.kernels.traces`) is led there
instead: captured by the branches of an If, carried by loops.  Where another branch is taken that is noted, so that there is a
row for each iteration all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.ir import Body, Carried, Node, State
from mdf_loop.kernels.traces import ABSENT, END, Trace
from mdf_loop.models.model import unknown_name
from mdf_loop.models.recorded_ways import Branch, Way, is_conditional, listed, place_of, values_of

DOMAIN = "record"


def with_trace(body: Body, way: Way, label: str, where: str, has_rows: bool) -> tuple[Body, str]:
    """A body that takes notes of a value, and the name of the trace behind it.

    Parameters
    ----------
    body : Body
        Of a loop, or a graph; the trace begins in front of its first iteration.
    way : Way
    label : str
        What the trace is called; no other one of the body is.
    where : str
        The body in a message.
    has_rows : bool
        Whether an iteration of the body is a row; else one of the first loop on the way is, or the whole.
    """
    tracer, start = _Tracer(label, where), f"{label} before"
    is_inside = not has_rows and any(not isinstance(part, Branch) for part in way[:-1])
    body, end = tracer.led(body, way, start, is_inside)
    if not is_inside:
        body, end = tracer.noted(body, end, "NoteEnd")
    return replace(body, state=(*body.state, State(start, end, Trace()))), end


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
        node = Node(op, (before, *values), (after,), name=after, opset=1, domain=DOMAIN)
        return replace(body, nodes=(*body.nodes, node)), after

    def led(self, body: Body, way: Way, before: str, has_rows: bool) -> tuple[Body, str]:
        """A body that takes notes of a value, and the name of the trace behind it; ``before`` is that in front of it.

        ``has_rows`` says whether an iteration of the next loop on the way is a row.
        """
        if len(way) == 1:
            if way[0] not in values_of(body):
                raise unknown_name(f"{self.where} has no value", way[0], listed(body))
            return self.noted(body, before, "Note", way[0])
        place = place_of(body, way[0], self.where)
        through = self._through_if if isinstance(way[0], Branch) else self._through_loop
        node, after = through(body.nodes[place], way, before, has_rows)
        return replace(body, nodes=(*body.nodes[:place], node, *body.nodes[place + 1 :])), after

    def _through_if(self, node: Node, way: Way, before: str, has_rows: bool) -> tuple[Node, str]:
        """An If that gives the trace behind the branch that was taken, as its last output."""
        assert isinstance(way[0], Branch)
        branches, is_one = dict[str, Body](), all(isinstance(part, Branch) for part in way[:-1])
        for attribute, branch in node.bodies:
            if attribute == way[0].place[1]:
                branch, end = self.led(branch, way[1:], before, has_rows)
            else:
                branch, end = self.noted(branch, before, "NoteAbsent") if is_one else (branch, before)
            captures = tuple(dict.fromkeys((*branch.captures, before)))
            branches[attribute] = replace(branch, outputs=(*branch.outputs, end), captures=captures)
        after, count = self.fresh(), len(next(iter(node.bodies))[1].outputs)
        outputs = (*node.outputs, *[""] * (count - len(node.outputs)), after)
        captures = tuple(dict.fromkeys((*node.captures, before)))
        return replace(node.with_bodies(branches), outputs=outputs, captures=captures), after

    def _through_loop(self, node: Node, way: Way, before: str, has_rows: bool) -> tuple[Node, str]:
        """A loop that carries the trace, as its last carried value."""
        assert node.loop is not None
        start, after = self.fresh(), self.fresh()
        inner, end = self.led(node.loop.body, way[1:], start, False)
        if has_rows:
            inner, end = self.noted(inner, end, "NoteEnd")
        inner = replace(inner, inputs=(*inner.inputs, start), outputs=(*inner.outputs, end))
        loop = node.loop.with_body(inner)
        place = len(loop.carried)
        loop = replace(loop, carried=(*loop.carried, Carried(start, end)))
        inputs, outputs = _inserted(node.inputs, before, 2 + place), _inserted(node.outputs, after, place)
        return replace(node, attrs={"loop": loop}, inputs=inputs, outputs=outputs), after


def _inserted(names: tuple[str, ...], name: str, place: int) -> tuple[str, ...]:
    names = (*names, *[""] * (place - len(names)))
    return (*names[:place], name, *names[place:])


def rows_of(trace: Iterable[Any], way: Way, has_rows: bool) -> Any:
    """What was noted, a row for each iteration: an array, or a list where rows are many values each or differ.

    Where a value was not computed it is nan.
    """
    rows, row = list[list[Any]](), list[Any]()
    for note in trace:
        if note is END:
            rows.append(row)
            row = []
        else:
            row.append(None if note is ABSENT else note)
    if not is_conditional(way):
        return [row[0] for row in rows]
    loops = sum(not isinstance(part, Branch) for part in way[:-1])
    if loops > (0 if has_rows else 1):
        return [filled_up(row) for row in rows]
    return filled_up([row[0] for row in rows])


def filled_up(rows: list[Any]) -> Any:
    """Values as rows of one array, nan for those that are missing; a list of them where they differ in shape."""
    known = [np.asarray(row) for row in rows if row is not None]
    if len({row.shape for row in known}) > 1:
        return [np.asarray(np.nan) if row is None else np.asarray(row) for row in rows]
    if not known:
        return np.full(len(rows), np.nan)
    if len(known) == len(rows):
        return np.stack(known)
    return np.stack([np.full(known[0].shape, np.nan) if row is None else np.asarray(row) for row in rows])
