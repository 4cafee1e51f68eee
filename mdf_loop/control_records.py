"""Loops that a reader has made into a record: nodes ``RecordedLoop`` of the domain ``record``.

The attribute ``record`` holds it; ``body`` is its body again, where whoever looks into graphs finds it.
The inputs of such a node stand in the order of the record: trip count, condition, then carried, scanned, invariant
and captured values.  Its outputs are carried, last and collected ones.  An omitted trip count is the number of
parts that the scanned inputs have, and -1 has no limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from mdf_loop.control import LoopNode, NumpyLoop, condition, trip_count
from mdf_loop.errors import ArgumentError, IterationError, MalformedBody, UnsupportedOp
from mdf_loop.execute.interpret import part_starts, truth
from mdf_loop.execute.program import describe_value
from mdf_loop.ir import Loop, Node
from mdf_loop.ops.registry import Kernel, register, say
from mdf_loop.ops.rows import Bound, LoopInputs
from mdf_loop.options import Run

ENDLESS = -1
"""The trip count that has no limit."""


class RecordedLoop(LoopNode):
    """A node that holds a record, ready to run."""

    def __init__(self, node: Node) -> None:
        places = _loop_of_record(node)
        record = places.loop
        self.wanted = node.outputs
        # Only the last condition tells whether a loop that ran out of parts would have gone on.
        self.watches = bool(record.scanned) and record.keep_going is not None
        last = (*record.last, record.keep_going or "") if self.watches else record.last
        place = len(record.carried) + len(record.last)
        super().__init__(node, places, NumpyLoop(replace(record, last=last), place if self.watches else None))

    def limits(
        self, count: Any, go: Any, scanned: Sequence[Any], invariant: Sequence[Any], run: Run
    ) -> tuple[int | None, bool | None]:
        """The trip count, or as many parts as there are."""
        given, goes = self._count(count), condition(go) is not False
        parts = self._all_parts(scanned)
        self._refuse_endless(given, goes, invariant, run)
        if count is None and len(set(parts)) > 1:
            raise ArgumentError(f"{self.record.name}: all sliced inputs must have as many parts; {self._listed(parts)}")
        return min([*([] if given is None else [given]), *parts], default=None), goes

    def finish(self, results: tuple[Any, ...], count: Any, goes: bool | None, scanned: Sequence[Any]) -> tuple[Any, ...]:
        """The results without what was watched, if the loop neither ran out of parts nor lacks a last value."""
        if self.watches:
            place = len(self.record.carried) + len(self.record.last)
            results, stays = (*results[:place], *results[place + 1 :]), results[place]
            given, parts = self._count(count), self._all_parts(scanned)
            ran_out = count is not None and (given is None or given > min(parts))
            if ran_out and (goes if stays is None else truth(stays, "the body's condition")):
                raise self._out_of_parts(given, parts)
        self._check_last(results)
        return results

    def _all_parts(self, scanned: Sequence[Any]) -> list[int]:
        return [self._parts(part, value) for part, value in zip(self.record.scanned, scanned, strict=True)]

    def _count(self, value: Any) -> int | None:
        """The trip count; None for no limit."""
        count = trip_count(value)
        if count is not None and count < ENDLESS:
            raise ArgumentError(f"{self.record.name}: the trip count is {count}; it must be 0 or more, or -1 for no limit")
        return None if count == ENDLESS else count

    def _parts(self, part: Any, value: Any) -> int:
        """How many parts a scanned input has."""
        shape = np.shape(value)
        if not -len(shape) <= part.axis < len(shape):
            raise ArgumentError(
                f"{self.record.name}: {part.input!r} is sliced along axis {part.axis}, it got {describe_value(value)}"
            )
        return len(part_starts(part, shape[part.axis]))

    def _listed(self, parts: Sequence[int]) -> str:
        pairs = zip(self.record.scanned, parts, strict=True)
        return ", ".join(f"{part.input!r} has {count}" for part, count in pairs)

    def _refuse_endless(self, count: int | None, go: bool, invariant: Sequence[Any], run: Run) -> None:
        """A loop without a limit whose condition nothing can change never ends by itself."""
        record = self.record
        if count is not None or record.keep_going is None or not go or run.options.max_iterations is not None:
            return
        fixed = {**record.body.constants, **dict(zip(record.invariant, invariant, strict=True))}
        if record.keep_going in fixed and truth(fixed[record.keep_going], "the body's condition"):
            raise ArgumentError(
                f"{record.name}: the trip count is -1 and the body's condition is always true, so this loop would never end. "
                "Give a trip count, or set options(max_iterations=...) to stop it there"
            )

    def _out_of_parts(self, count: int | None, parts: Sequence[int]) -> IterationError:
        wanted = "has no limit" if count is None else f"is {count}"
        error = IterationError(
            f"the loop goes on, as its trip count {wanted}, but a sliced input has no more parts: {self._listed(parts)}"
        )
        error.within(f"iteration {min(parts)} of {self.record.name}")
        return error

    def _check_last(self, results: tuple[Any, ...]) -> None:
        first = len(self.record.carried)
        for k, name in enumerate(self.record.last, first):
            if results[k] is None and k < len(self.wanted) and self.wanted[k]:
                raise ArgumentError(
                    f"{self.record.name}: there was no iteration, so {name!r} has no last value; "
                    "an output that no back edge feeds needs at least one"
                )


def _loop_of_record(node: Node) -> LoopInputs:
    """The record that a node holds, whose inputs stand in its order."""
    record = node.attrs.get("record")
    if not isinstance(record, Loop) or set(node.attrs) != {"record", "body"} or node.attrs["body"] is not record.body:
        raise UnsupportedOp("a RecordedLoop has the attributes record and body, and no others")
    counts = [len(record.carried), len(record.scanned), len(record.invariant)]
    if len(node.inputs) != 2 + sum(counts):
        raise MalformedBody(f"{record.name} has {len(node.inputs)} inputs; its record takes {2 + sum(counts)}")
    ends = [int(end) for end in np.cumsum([2, *counts])]
    carried, scanned, invariant = (slice(start, end) for start, end in pairwise(ends))
    return LoopInputs(record, 0, 1, carried, scanned, invariant, endless=ENDLESS)


def _bind(node: Node) -> Bound:
    call = RecordedLoop(node)
    return Bound(call, needs_run=True, loop=call.places)


def _not_called(*_: Any) -> Any:
    raise AssertionError("control flow runs through its bind function")


register(Kernel("RecordedLoop", 1, _not_called, pure=False, domain="record", bind=_bind, built_in=True))
say("RecordedLoop", domain="record", loop=_loop_of_record)
