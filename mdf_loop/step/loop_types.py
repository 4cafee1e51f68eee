"""What a loop is given and carries: how often it runs, and the types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.ir import Body, Collected, Loop
from mdf_loop.step.build import Builder, CannotLower
from mdf_loop.step.primitives import BOOL, INT64, either_kind
from mdf_loop.step.records import UNKNOWN, Length, LoopRegion, Size, Type, Value
from mdf_loop.step.structure import is_always_true, may_end


def known_trip_count(record: Loop, count: Value | None, scanned: Sequence[Value]) -> Value | None:
    """The trip count of a node; None where it has no limit, or where it is as long as its scanned values.

    Raises
    ------
    CannotLower
        Whether it has one, or whether scanned values last as long, is known only when it runs.
    """
    if count is None or not record.unlimited:
        return count
    if count.op != "const" or np.size(count.attr) != 1:
        raise CannotLower("a trip count that may have no limit")
    number = int(np.asarray(count.attr).item())
    if number < -1:
        raise CannotLower("a trip count below 0")
    if not scanned:
        return None if number < 0 else count
    lengths = {x.type.shape[s.axis] if x.type.shape else None for s, x in zip(record.scanned, scanned, strict=True)}
    (length,) = lengths if len(lengths) == 1 else (None,)
    is_longer = record.keep_going is None and isinstance(length, int) and not 0 <= number < length
    if not is_longer and number != length:
        raise CannotLower("scanned values that may not last as long as the loop")
    return None


NO_LIMIT = np.iinfo(np.int64).max
"""A trip count that no loop reaches."""


def is_no_limit(count: Value) -> bool:
    """Whether a trip count is the largest number there is, which exporters write for a loop that its condition ends."""
    return count.op == "const" and count.type.dtype == np.int64 and bool(np.all(count.attr == NO_LIMIT))


def is_never_begun(record: Loop, count: Value | None, condition: Value | None) -> bool:
    """Whether a loop gives what it carries as it was given.

    One over the elements of a list does in the iteration in which the list is empty, which says what its elements will be.
    """
    if record.collected or record.last or not all(x is None or np.size(x.attr) == 1 for x in (count, condition)):
        return False
    if condition is not None and not is_always_true(condition):
        return condition.op == "const" and condition.type.dtype == BOOL
    return count is not None and count.op == "const" and count.type.kind in "iu" and int(np.asarray(count.attr).item()) <= 0


def with_rows_of(b: Builder, record: Loop, scanned: Sequence[Value]) -> tuple[Loop, list[Value]]:
    """A loop over rows where it is one over parts of as many rows each: those of a part get an axis of their own.

    Raises
    ------
    CannotLower
        Parts overlap, or are not known to be the whole.
    """
    if not any(part.part is not None or part.start or part.stride != 1 for part in record.scanned):
        return record, list(scanned)
    parts, arrays = list(record.scanned), list(scanned)
    for k, (part, x) in enumerate(zip(parts, arrays, strict=True)):
        size, shape = part.part or 1, x.type.shape
        if (part.start, part.stride) != (0, size):
            raise CannotLower("a loop over parts that overlap, or leave rows out")
        if part.part is None:
            continue
        if not shape or not -len(shape) <= part.axis < len(shape):
            raise CannotLower("parts of a value of unknown rank, or without the axis")
        axis = part.axis % len(shape)
        count, lengths = _parts(b, x, shape, axis, size)
        parts[k] = replace(part, axis=axis, stride=1, part=None)
        arrays[k] = b.reshape(x, (*shape[:axis], count, size, *shape[axis + 1 :]), lengths)
    return replace(record, scanned=tuple(parts)), arrays


def _parts(b: Builder, x: Value, shape: Sequence[Length], axis: int, size: int) -> tuple[Length, Sequence[Value]]:
    """How many parts of so many rows an array has, and its open lengths, where they are not those that it has."""
    length = shape[axis]
    if size == 1:
        return length, ()
    if isinstance(length, int) and length % size == 0:
        return length // size, ()
    if isinstance(length, int) or not b.takes_open:
        raise CannotLower("parts of several rows that may leave rows over")
    lengths = [b.length(x, k) for k, n in enumerate(shape) if isinstance(n, Size)]
    place = sum(isinstance(n, Size) for n in shape[:axis])
    lengths[place] = b.element("floordiv", lengths[place], b.const(np.int64(size)))
    return Size(), lengths


def stacked(collected: Sequence[Collected], rows: Sequence[Value], takes_open: bool) -> tuple[Collected, ...]:
    """What is collected, along new axes: parts that are joined along one of theirs are merged behind the loop.

    Raises
    ------
    CannotLower
        They have no such axis, or only the run can tell how long they are.
    """
    found = list(collected)
    for k, (what, row) in enumerate(zip(collected, rows, strict=True)):
        rank = len(row.type.shape or ())
        if not what.stack:
            if not (row.type.is_static or takes_open) or not -rank <= what.axis < rank:
                raise CannotLower("parts whose lengths only the run can tell are joined")
            found[k] = replace(what, axis=what.axis % rank, stack=True)
    return tuple(found)


def with_parts_joined(b: Builder, items: Sequence[Value], record: Loop, loop: LoopRegion) -> list[Value]:
    """The results of a loop, with parts that are stacked joined where the record asks for that."""
    found = list(items)
    for k, (asked, what) in enumerate(zip(record.collected, loop.collected, strict=True), loop.n_carried + loop.n_last):
        found[k] = found[k] if asked.stack else b.merged(found[k], what.axis)
    return found


def type_of_part(axis: int, given: Type) -> Type:
    """The type of what each iteration gets of a scanned array."""
    if given.shape is None or not given.shape:
        return Type(given.dtype)
    axis %= len(given.shape)
    return replace(given, shape=given.shape[:axis] + given.shape[axis + 1 :])


def of_its_own(type: Type) -> Type:
    """A type with open lengths of its own: a carried value may have another length than what it was at first."""
    if type.shape is None or type.is_static:
        return type
    return replace(type, shape=tuple(n if isinstance(n, int) else Size() for n in type.shape))


def joined(one: Type, other: Type) -> Type:
    """The type of what is now of one type, now of the other."""
    if one == other:
        return one
    if one.dtype is None or other.dtype is None or one.dtype != other.dtype:  # to numpy None is float64 as well
        return UNKNOWN if one.dtype is None or other.dtype is None else either_kind(one, other)
    if (one.weak, one.is_array) != (other.weak, other.is_array):
        return UNKNOWN
    if one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
        return Type(one.dtype)
    return Type(
        one.dtype, tuple(n if n == m or isinstance(n, Size) else Size() for n, m in zip(one.shape, other.shape, strict=True))
    )


def types_of_results(loop: LoopRegion, carried: Sequence[Type], count: Value | None, scanned: Sequence[Value]) -> list[Type]:
    """The types of what a loop gives: carried values, last values, collected ones, how many iterations, the last condition."""
    n = _number_of_rows(loop, count, scanned)
    whats = zip(loop.rows, loop.collected, strict=True)
    stacked = [_stacked(row.type, 0 if loop.in_block else what.axis, n) for row, what in whats]
    if not loop.in_block:
        stacked = [Type(t.dtype, t.shape) for t in stacked]
    return [*map(of_its_own, carried), *(x.type for x in loop.last), *stacked, Type(INT64, ()), loop.stays.type]


def _stacked(row: Type, axis: int, length: Length) -> Type:
    """The type of so many rows along an axis."""
    if row.shape is None:
        return row
    axis %= len(row.shape) + 1
    return replace(row, shape=(*row.shape[:axis], length, *row.shape[axis:]))


def _number_of_rows(loop: LoopRegion, count: Value | None, scanned: Sequence[Value]) -> Length:
    """How many rows a loop collects: known where nothing ends it early (without iterations, a program falls back)."""
    if loop.in_block or may_end(loop):
        return Size("n")
    if count is not None:
        known = [int(np.asarray(count.attr).item())] if count.op == "const" and np.size(count.attr) == 1 else []
    else:
        known = [
            n for s, x in zip(loop.scanned, scanned, strict=True) if x.type.shape and isinstance(n := x.type.shape[s.axis], int)
        ]
    return known[0] if len(set(known)) == 1 and known[0] > 0 else Size("n")


def as_declared(body: Body, names: Sequence[str], types: Sequence[Type]) -> Sequence[Type]:
    """The types; a body of MDF whose ports declare others than it computes is left to the interpreter, which says so."""
    for name, type in zip(names, types, strict=False) if body.types and not body.typed else ():
        declared = body.type_of(name).dtype
        if declared is not None and (type.dtype is None or not np.can_cast(type.dtype, declared, "same_kind")):
            raise CannotLower("a port declares another type than is computed")
    return types


def known_value(x: Value) -> Any:
    """What a value is before anything runs: a constant, or one repeated.

    Raises
    ------
    ValueError
        Only the run can tell.
    """
    if x.op == "broadcast" and x.type.is_static and x.args[0].op == "const":
        return np.broadcast_to(x.args[0].attr, x.type.shape)  # type: ignore[arg-type]
    if x.op == "as_array":
        return np.asarray(known_value(x.args[0]))
    if x.op != "const":
        raise ValueError("only the run can tell")
    return x.attr
