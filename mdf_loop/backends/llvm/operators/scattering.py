"""Slices put to their places, many at a time."""

from __future__ import annotations

from collections.abc import Sequence

from mdf_loop.backends.llvm.emitter import Emitter
from mdf_loop.backends.llvm.lanes.arithmetic import written
from mdf_loop.backends.llvm.lanes.casts import converted
from mdf_loop.backends.llvm.lanes.element_loops import rows, sweep
from mdf_loop.backends.llvm.lanes.element_types import INT64, element
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Index, Length, get, in_memory, offset
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes, Place
from mdf_loop.backends.llvm.operations.views import from_front
from mdf_loop.backends.llvm.operators.operator_table import Call, gives


def _base(call: Call) -> tuple[Array, Array, Array]:
    """What is written over, and indices and updates that cannot change on the way."""
    e = call.e
    x, indices, updates = (call.input(k) for k in range(3))
    if x.dtype != updates.dtype:
        raise call.refuse("of updates of another type")
    if call.attrs.get("reduction", "none") not in ("none", "add", "mul", "max", "min"):
        raise call.refuse("that reduces in an unknown way")
    steady = [y if y.value or y.const is not None else e.materialised(y) for y in (indices, updates)]
    if call.v in e.in_place and x.memory:
        return x, steady[0], steady[1]
    return e.materialised(x, e.targets.get(call.v, ())), steady[0], steady[1]


def _put(call: Call, lanes: Lanes, whole: Array, place: Place, value: str) -> None:
    """An element, or several side by side."""
    how = call.attrs.get("reduction", "none")
    if how != "none":
        value = written(lanes, how, whole.dtype, [lanes.load(whole.dtype, whole.memory, place), value])
    lanes.store(whole.dtype, value, whole.memory, place)


@gives("ScatterND")
def scatter_nd(call: Call) -> Array:
    """The data with slices replaced, one after the other."""
    e = call.e
    whole, indices, updates = _base(call)
    width = indices.shape[-1]
    if not isinstance(width, int) or not 1 <= width <= len(whole.shape):
        raise call.refuse("with indices of unknown length")
    batch, rest = indices.shape[:-1], whole.shape[width:]
    for n, m in zip(updates.shape, (*batch, *rest), strict=True):
        e.same_length([n, m])
    with rows(e, batch) as index:
        where = [_place(e, indices, (*index, Place(str(k))), whole.shape[k]) for k in range(width)]
        _put_slice(call, whole, updates, where, index)
    return e.settled(in_memory(whole.dtype, whole.shape, whole.memory))


def _place(e: Emitter, indices: Array, index: Index, count: Length) -> Place:
    """One index, counted from the front."""
    one = Lanes(e.text)
    return Place(from_front(e, one, converted(one, get(one, indices, index), indices.dtype, INT64), count))


def _put_slice(call: Call, whole: Array, updates: Array, where: Sequence[Place], index: Sequence[Place]) -> None:
    rest = whole.shape[len(where) :]

    def visit(lanes: Lanes, inner: Index) -> None:
        value = get(lanes, updates, (*index, *inner))
        _put(call, lanes, whole, offset(lanes, whole.shape, (*where, *inner)), value)

    sweep(call.e, rest, element(whole.dtype).size, visit, may_overlap=call.attrs.get("reduction", "none") == "none")
