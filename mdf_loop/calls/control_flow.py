"""Loop and If as operators: found by name like any other, so that they nest.

Each bind function reads a node once: it compiles the bodies, and returns the function that runs the node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, IterationError, KindError, MalformedBody, UnsupportedOp, in_words
from mdf_loop.execute.endless import Endless
from mdf_loop.execute.interpret import Arguments, InterpretedBody, part_starts, truth
from mdf_loop.execute.numpy_engine import NumpyLoop
from mdf_loop.execute.program import describe_value, no_boolean
from mdf_loop.ir import Loop, Node
from mdf_loop.kernels.numbers.wide import EXACT64
from mdf_loop.ops.registry import Kernel, register, say
from mdf_loop.ops.rows import Bound
from mdf_loop.options import Run
from mdf_loop.readers.onnx.loop_records import bodies_of, counted, title
from mdf_loop.settings.counts import LARGEST
from mdf_loop.types.elements import kind_of
from mdf_loop.types.fitting import as_array


def trip_count(m: Any) -> int | None:
    """M as a Python number; None where it was omitted.

    Raises
    ------
    KindError
        It is not one integer.
    ArgumentError
        No int64 holds it.
    """
    if m is None:
        return None
    if type(m) is int:
        return _countable(m)
    array = as_array(m, "the trip count M")
    if kind_of(array.dtype) != "integer" or array.shape not in ((), (1,)):
        raise KindError(
            f"the trip count M must be one integer, a scalar or of shape [1]; got {describe_value(array)}{_excerpt(array)}"
            f"{_meant(array)}"
        )
    return _countable(int(array.item()))


def _meant(given: np.ndarray) -> str:
    """What a trip count that is no whole number was probably meant to be."""
    if given.dtype == bool:
        return "; the condition comes behind it: loop(M, cond, ...), or M: and cond: in args"
    number = given.item() if given.dtype.kind == "f" and given.size == 1 else math.nan
    if not abs(number) < EXACT64 or not math.isclose(number, near := round(number), rel_tol=1e-9):
        return ""
    return f"; write {near}" if near == number else f"; write {near}, or round(...) around what computes it"


def _countable(count: int) -> int:
    if not -LARGEST - 1 <= count <= LARGEST:
        raise ArgumentError(f"the trip count M must fit into int64, which ends at {LARGEST}; got {in_words(count)}")
    return count


def condition(cond: Any) -> bool | None:
    """The condition before the first iteration; None where it was omitted.

    Raises
    ------
    KindError
        It is not one boolean.
    """
    if cond is None or type(cond) is bool:
        return cond
    array = as_array(cond, "the condition cond")
    if array.shape not in ((), (1,)) or array.dtype.kind == "f":
        raise no_boolean("the condition cond", array, "write true or false; M comes in front of it: loop(M, cond, ...)")
    return truth(cond, "the condition cond")


def _excerpt(array: np.ndarray) -> str:
    return f" ({in_words(array.item())})" if array.size == 1 else ""


class LoopNode:
    """A loop as a node, ready to run: what the node is given becomes the arguments of the loop here, and nowhere else."""

    def __init__(self, node: Node) -> None:
        record = node.loop
        if record is None or len(node.attrs) > 1:
            raise UnsupportedOp(f"{title(node)} has one attribute, its record; got {', '.join(node.attrs) or 'none'}")
        if len(node.inputs) != record.n_inputs:
            raise MalformedBody(f"{record.name} has {len(node.inputs)} inputs; its record takes {record.n_inputs}")
        self.record, self.wanted, self.endless = record, node.outputs, Endless(record)
        # Only the last condition tells whether a loop that ran out of parts would have gone on.
        self.watches = record.unlimited and bool(record.scanned) and record.keep_going is not None
        self.place = len(record.carried) + len(record.last)
        last = (*record.last, record.keep_going or "") if self.watches else record.last
        self.execute = NumpyLoop(replace(record, last=last), self.place if self.watches else None)
        self.loops = (self.execute,)

    def __call__(self, run: Run, *values: Any) -> tuple[Any, ...]:
        """Run the loop; returns carried, last and collected values."""
        record = self.record
        if record.batched:
            return self._of_rows(run, values)
        given = self.arguments(run, *values)
        results = self.execute(given, run)
        if self.watches:
            results = self._not_out_of_parts(results, values[0], given)
        if record.last:
            self._refuse_missing(results)
        return results

    def arguments(self, run: Run, *values: Any) -> Arguments:
        """What the loop is run with, of what the node is given."""
        record = self.record
        count, go, carried, scanned, invariant, captured = record.split(values)
        limit, goes = self._trip_count(count), condition(go)
        goes = True if goes is None and record.obeys else goes
        self.endless.refuse(Arguments(limit, goes, carried, scanned, invariant, captured), run)
        most = limit
        if scanned:
            parts = shared_length(record, scanned) if count is None else min(numbers_of_parts(record, scanned))
            most = parts if limit is None else min(limit, parts)
        return Arguments(most, goes, carried, scanned, invariant, captured)

    def _trip_count(self, value: Any) -> int | None:
        """The trip count; None for no limit."""
        count = trip_count(value)
        if not self.record.unlimited or count is None or count >= 0:
            return count
        if count < -1:
            raise ArgumentError(f"{self.record.name}: the trip count is {count}; it must be 0 or more, or -1 for no limit")
        return None

    def _not_out_of_parts(self, results: tuple[Any, ...], m: Any, given: Arguments) -> tuple[Any, ...]:
        """The results without the condition that was watched, unless the loop would have gone on behind the last part."""
        stays, count = results[self.place], self._trip_count(m)
        is_short = m is not None and (count is None or count > (given.trip_count or 0))
        if is_short and given.go and (stays is None or truth(stays, "the body's condition")):
            parts = numbers_of_parts(self.record, given.scanned)
            wanted = "has no limit" if count is None else f"is {count}"
            error = IterationError(
                f"the loop goes on, as its trip count {wanted}, but a sliced input has no more parts: "
                f"{_listed(self.record, parts)}"
            )
            error.within(f"iteration {min(parts)} of {self.record.name}")
            raise error
        return (*results[: self.place], *results[self.place + 1 :])

    def _refuse_missing(self, results: tuple[Any, ...]) -> None:
        """A last value that is asked for is there, if there was an iteration."""
        first = len(self.record.carried)
        for k, name in enumerate(self.record.last, first):
            if results[k] is None and k < len(self.wanted) and self.wanted[k]:
                raise ArgumentError(
                    f"{self.record.name}: there was no iteration, so {name!r} has no last value; "
                    "an output that no back edge feeds needs at least one"
                )

    def _of_rows(self, run: Run, values: Sequence[Any]) -> tuple[Any, ...]:
        """A loop for each row of a batch, of its own length."""
        rows, record = [], self.record
        lengths, _, carried, scanned, invariant, captured = record.split(values)
        for b in range(len(scanned[0])):
            sequences = [s[b] for s in scanned]
            longest = shared_length(record, sequences)
            count = longest if lengths is None else int(lengths[b])
            if not 0 <= count <= longest:
                raise ArgumentError(f"{record.name}: sequence_lens[{b}] is {count}, the sequences have {longest} elements")
            sequences = [s[:count] for s in sequences]
            results = self.execute(Arguments(count, True, [c[b] for c in carried], sequences, invariant, captured), run)
            rows.append([*results[: self.place], *(_fill_up(r, longest) for r in results[self.place :])])
        return tuple(np.stack(column) for column in zip(*rows, strict=True))


def _bind_loop(node: Node) -> Bound:
    call = LoopNode(node)
    return Bound(call, needs_run=True, loop=call.record, worth=call.execute.worth_stepping_of)


def numbers_of_parts(record: Loop, scanned: Sequence[Any]) -> list[int]:
    """How many parts each scanned value has.

    Raises
    ------
    ArgumentError
        One has no such axis.
    """
    found = []
    for part, value in zip(record.scanned, scanned, strict=True):
        shape = np.shape(value)
        if not -len(shape) <= part.axis < len(shape):
            raise ArgumentError(
                f"{record.name}: scanned input {part.input!r} is {describe_value(value)}, it has no axis {in_words(part.axis)}"
            )
        found.append(len(part_starts(part, shape[part.axis])))
    return found


def shared_length(record: Loop, scanned: Sequence[Any]) -> int:
    """The number of iterations of a loop without a trip count: that of the parts that all scanned values have.

    Raises
    ------
    ArgumentError
        They do not have as many, or one has no such axis.
    """
    lengths = numbers_of_parts(record, scanned)
    if len(set(lengths)) > 1:
        shown = _listed(record, lengths)
        if any(part.part for part in record.scanned):
            raise ArgumentError(f"{record.name}: all sliced inputs must have as many parts; {shown}")
        raise ArgumentError(f"{record.name}: all scanned inputs must have the same length along their axes; {shown}")
    return lengths[0]


def _listed(record: Loop, lengths: Sequence[int]) -> str:
    return ", ".join(f"{part.input!r} has {n}" for part, n in zip(record.scanned, lengths, strict=True))


def _fill_up(rows: np.ndarray, length: int) -> np.ndarray:
    """Rows of a sequence that ended early, followed by zeros."""
    padding = np.zeros((length - rows.shape[0], *rows.shape[1:]), rows.dtype)
    return np.concatenate([rows, padding]) if len(padding) else rows


def _bind_if(node: Node) -> Bound:
    if len(node.inputs) != 1 or not node.inputs[0]:
        given = ", ".join(name or "nothing" for name in node.inputs) or "none"
        raise MalformedBody(f"{title(node)} has one input, the condition cond, which decides the branch; got {given}")
    then_body, else_body = bodies_of(node, "then_branch", "else_branch")
    branches = []
    for key, body in (("then_branch", then_body), ("else_branch", else_body)):
        if body.inputs:
            raise MalformedBody(f"{title(node)}: {key} has inputs ({', '.join(body.inputs)}); a branch only captures")
        if len(body.outputs) < len(node.outputs):
            raise MalformedBody(
                f"{title(node)}: {key} has {counted(len(body.outputs), 'output')}, the node names {len(node.outputs)}"
            )
        places = [node.captures.index(name) for name in body.captures]
        branches.append((InterpretedBody(body), places))
    (then_run, then_places), (else_run, else_places) = branches

    def call(run: Run, cond: Any, *captured: Any) -> tuple[Any, ...]:
        if truth(cond, f"the condition of {title(node)}"):
            return then_run((), [captured[k] for k in then_places], run)
        return else_run((), [captured[k] for k in else_places], run)

    return Bound(call, needs_run=True, branches=(then_body, else_body))


def _bind_sequence_map(node: Node) -> Bound:
    """SequenceMap: the body once for each element of the first sequence; outputs are sequences."""
    (body,) = bodies_of(node, "body")
    n_inputs = len(node.inputs)
    if not n_inputs or not node.inputs[0] or len(body.inputs) != n_inputs or len(node.outputs) > len(body.outputs):
        raise MalformedBody(
            f"{title(node)} has {counted(n_inputs, 'input')} and names {counted(len(node.outputs), 'output')}; its body "
            f"takes {len(body.inputs)} and gives {len(body.outputs)}, and the first input must be there"
        )
    execute = InterpretedBody(body)

    def call(run: Run, *values: Any) -> tuple[Any, ...]:
        inputs, captured = values[:n_inputs], values[n_inputs:]
        if not isinstance(inputs[0], list):
            raise KindError(f"the first input of {title(node)} must be a sequence; got {describe_value(inputs[0])}")
        for position, value in enumerate(inputs):
            if isinstance(value, list) and len(value) != len(inputs[0]):
                raise ArgumentError(f"sequence {position} has {len(value)} elements, the first has {len(inputs[0])}")
        columns: list[list[Any]] = [[] for _ in body.outputs]
        for k in range(len(inputs[0])):
            for column, value in zip(
                columns, execute([v[k] if isinstance(v, list) else v for v in inputs], captured, run), strict=True
            ):
                column.append(value)
        return tuple(columns)

    return Bound(call, needs_run=True)


def refuse_call(*_: Any) -> Any:
    """In the place of a kernel: control flow runs through its bind function."""
    raise AssertionError("control flow runs through its bind function")


for _op, _since, _bind in (
    ("Loop", 1, _bind_loop),
    ("Scan", 8, _bind_loop),
    ("Scan", 9, _bind_loop),
    ("If", 1, _bind_if),
    ("SequenceMap", 17, _bind_sequence_map),
):
    register(Kernel(_op, _since, refuse_call, pure=False, bind=_bind, built_in=True))
say("If", chooses=True)
