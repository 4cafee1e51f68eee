"""Arrays put together: one behind the other, with one part replaced, with a row more or one less.

Lists are arrays of their rows.  Where what an array was has no readers it stays where it is, and grows there; else it is written
again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdf_loop.backends.llvm.emitter import Emitter, type_of, writes
from mdf_loop.backends.llvm.lanes.element_loops import store_all, sweep
from mdf_loop.backends.llvm.lanes.element_types import INT64
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Index, Length, get, in_memory, is_one, mapped, number, offset
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes, Place
from mdf_loop.backends.llvm.operations.views import literal_or_name, row_pointer
from mdf_loop.step.records import Value


@writes("concat")
def concat(e: Emitter, v: Value) -> Array:
    """One behind the other."""
    return joined(e, v, [e.of(x) for x in v.args], v.attr, type_of(v))


def joined(e: Emitter, v: Value, parts: Sequence[Array], axis: int, dtype: np.dtype) -> Array:
    """Values one behind the other along an axis, as the value ``v``."""
    total: Length = 0
    for x in parts:
        total = literal_or_name(e.text.add(total, x.shape[axis]))
    others = [1 if k == axis else e.same_length([x.shape[k] for x in parts]) for k in range(len(parts[0].shape))]
    shape = (*others[:axis], total, *others[axis + 1 :])
    start, growing = "0", parts[0].growing if v in e.in_place else ""
    if growing:  # the memory may move: what is put behind it must not look at it
        parts = [parts[0], *(x if x.value or x.const is not None else e.materialised(x) for x in parts[1:])]
        pointer = e.grown(growing, e.bytes_of(dtype, shape))
        start, parts = str(parts[0].shape[axis]), parts[1:]
    else:
        pointer = e.place_for(v, dtype, shape)
    whole = in_memory(dtype, shape, pointer)
    whole.growing = growing
    for x in parts:
        if all(n == 1 for n in shape[:axis]):
            store_all(e, [(x, [row_pointer(e, whole, ["0"] * axis + [start])])])
        else:
            _put_part(e, x, whole, axis, start)
        start = e.text.add(start, x.shape[axis])
    return number(dtype, Lanes(e.text).load(dtype, pointer, Place()), shape) if is_one(shape) else whole


def _put_part(e: Emitter, x: Array, whole: Array, axis: int, start: str) -> None:
    """A part along an axis that is not the first one."""

    def visit(lanes: Lanes, index: Index) -> None:
        there = (*index[:axis], lanes.shifted(index[axis], Place(start)), *index[axis + 1 :])
        value = get(lanes, x, index)
        lanes.store(x.dtype, value, whole.memory, offset(lanes, whole.shape, there))

    sweep(e, x.shape, x.widest, visit, last_axis=True)


@writes("put")
def put(e: Emitter, v: Value) -> Array:
    """A copy with one part replaced; the array itself where what it was has no readers."""
    x, update = e.of(v.args[0]), e.of(v.args[1])
    where = [e.number_of(i, INT64) for i in v.args[2:]]
    dtype = type_of(v)
    if is_one(x.shape):
        return number(dtype, e.number_of(update), x.shape)
    part = update if is_one(update.shape) or update.memory else e.materialised(update)  # it may read what is about to change
    whole = x if v in e.in_place and x.memory else e.materialised(x, e.targets.get(v, ()))
    row = row_pointer(e, whole, where)
    shape = whole.shape[len(where) :]
    if is_one(shape):
        Lanes(e.text).store(dtype, e.number_of(part), row, Place())
    else:
        store_all(e, [(mapped(dtype, shape, lambda lanes, a: a, [part]) if part.shape != shape else part, [row])])
    found = in_memory(dtype, whole.shape, whole.memory)
    found.growing = x.growing if whole is x else ""
    return found


@writes("insert")
def insert(e: Emitter, v: Value) -> Array:
    """A row more, in front of a place."""
    x, row, at = e.of(v.args[0]), e.of(v.args[1]), e.number_of(v.args[2], INT64)
    row = row if row.value else e.materialised(row)  # the memory may move, and it may look at it
    count, shape = x.shape[0], _with_rows(x, e.text.add(x.shape[0], 1))
    found = _growing(e, v, x, shape, shape)
    if at != str(count):
        _move(e, found, at, e.text.add(at, 1), e.text.sub(count, at))
    store_all(e, [(row, [row_pointer(e, found, [at])])])
    return found


@writes("erase")
def erase(e: Emitter, v: Value) -> Array:
    """A row less: the one at a place."""
    x, at = e.of(v.args[0]), e.number_of(v.args[1], INT64)
    count = e.text.sub(x.shape[0], 1)
    found = _growing(e, v, x, x.shape, _with_rows(x, count))
    _move(e, found, e.text.add(at, 1), at, e.text.sub(count, at))
    return found


def _growing(e: Emitter, v: Value, x: Array, longest: tuple[Length, ...], shape: tuple[Length, ...]) -> Array:
    """An array of another length in memory that grows, its own or a copy, with room for the longest that it has on the way."""
    is_own = bool(x.growing) and v in e.in_place
    memory = x.growing if is_own else e.growing_memory()
    pointer = e.grown(memory, e.bytes_of(x.dtype, longest))
    if not is_own:
        store_all(e, [(x, [pointer])])
    found = in_memory(x.dtype, shape, pointer)
    found.growing = memory
    return found


def _with_rows(x: Array, count: str) -> tuple[Length, ...]:
    """The shape of an array with so many rows."""
    return (literal_or_name(count), *x.shape[1:])


def _move(e: Emitter, x: Array, first: str, there: str, count: str) -> None:
    """So many rows to another place in the same array."""
    call = e.text.declare("memmove", "ptr", "ptr", "ptr", "i64", pure=False)
    size = e.bytes_of(x.dtype, _with_rows(x, count))
    e.text.new(f"{call}(ptr {row_pointer(e, x, [there])}, ptr {row_pointer(e, x, [first])}, i64 {size})")
