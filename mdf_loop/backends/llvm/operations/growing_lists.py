"""Lists, which are arrays of their rows: a row more, or one less.

Where what the list was has no readers it stays where it is, and grows there; else it is written again.
"""

from __future__ import annotations

from mdf_loop.backends.llvm.emitter import Emitter, writes
from mdf_loop.backends.llvm.lanes.element_loops import store_all
from mdf_loop.backends.llvm.lanes.element_types import INT64
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Length, in_memory
from mdf_loop.backends.llvm.operations.views import row_pointer
from mdf_loop.step.records import Value


@writes("insert")
def insert(e: Emitter, v: Value) -> Array:
    """A row more, in front of a place."""
    x, row, at = e.of(v.args[0]), e.of(v.args[1]), e.number_of(v.args[2], INT64)
    count, behind, shape = x.shape[0], e.text.add(at, 1), _with_rows(x, e.text.add(x.shape[0], 1))
    if v in e.in_place and x.growing:
        row = row if row.value else e.materialised(row)  # the memory may move, and it may look at it
        found = in_memory(x.dtype, shape, e.grown(x.growing, e.bytes_of(x.dtype, shape)))
        found.growing = x.growing
        if at != str(count):
            _move(e, found, at, behind, e.text.sub(count, at))
    else:
        x, found = _anew(e, v, x, shape)
        _copy(e, x, "0", found, "0", at)
        _copy(e, x, at, found, behind, e.text.sub(count, at))
    store_all(e, [(row, [row_pointer(e, found, [at])])])
    return found if found.growing else e.settled(found)


@writes("erase")
def erase(e: Emitter, v: Value) -> Array:
    """A row less: the one at a place."""
    x, at = e.of(v.args[0]), e.number_of(v.args[1], INT64)
    count, behind = e.text.sub(x.shape[0], 1), e.text.add(at, 1)
    if v in e.in_place and x.growing:
        _move(e, x, behind, at, e.text.sub(count, at))
        found = in_memory(x.dtype, _with_rows(x, count), x.memory)
        found.growing = x.growing
        return found
    x, found = _anew(e, v, x, _with_rows(x, count))
    _copy(e, x, "0", found, "0", at)
    _copy(e, x, behind, found, at, e.text.sub(count, at))
    return e.settled(found)


def _with_rows(x: Array, count: str) -> tuple[Length, ...]:
    """The shape of an array with so many rows."""
    return (int(count) if count.isdigit() else count, *x.shape[1:])


def _anew(e: Emitter, v: Value, x: Array, shape: tuple[Length, ...]) -> tuple[Array, Array]:
    """What is to be read, in memory, and room for what it becomes."""
    x = x if x.memory else e.materialised(x)
    return x, in_memory(x.dtype, shape, e.place_for(v, x.dtype, shape))


def _copy(e: Emitter, x: Array, first: str, found: Array, there: str, count: str) -> None:
    """So many rows of one array to another one."""
    part = in_memory(x.dtype, _with_rows(x, count), row_pointer(e, x, [first]))
    store_all(e, [(part, [row_pointer(e, found, [there])])])


def _move(e: Emitter, x: Array, first: str, there: str, count: str) -> None:
    """So many rows to another place in the same array."""
    call = e.text.declare("memmove", "ptr", "ptr", "ptr", "i64", pure=False)
    size = e.bytes_of(x.dtype, _with_rows(x, count))
    e.text.new(f"{call}(ptr {row_pointer(e, x, [there])}, ptr {row_pointer(e, x, [first])}, i64 {size})")
