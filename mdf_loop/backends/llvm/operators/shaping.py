"""Shapes, parts and places whose lengths only the run can tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdf_loop.backends.llvm.emitter import Emitter
from mdf_loop.backends.llvm.lanes.casts import converted
from mdf_loop.backends.llvm.lanes.element_loops import rows
from mdf_loop.backends.llvm.lanes.element_types import INT64
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Length, get, in_memory
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes, Place
from mdf_loop.backends.llvm.operations.views import Cut, cut, limited, literal_or_name, reshaped, sliced, viewed
from mdf_loop.backends.llvm.operators.operator_table import Call, gives
from mdf_loop.kernels.arrays.axes import place


def total(e: Emitter, lengths: Sequence[Length]) -> Length:
    """The product of lengths."""
    return literal_or_name(e.product_of(lengths))


@gives("Reshape")
def reshape(call: Call) -> Array:
    """Another shape; one length may be what is left over."""
    e, x, asked = call.e, call.input(0), call.numbers(1, "shape")
    if any(isinstance(n, int) and n < -1 for n in asked) or asked.count(-1) > 1:
        raise call.refuse("to no shape")
    keeps = not call.attrs.get("allowzero", 0)
    if any(isinstance(n, str) for n in asked) and (keeps or len([n for n in asked if isinstance(n, str)]) > 1):
        for n in asked:
            if isinstance(n, str):
                e.leave_if(e.text.new(f"icmp slt i64 {n}, 1"))
    shape = [x.shape[k] if n == 0 and keeps else n for k, n in enumerate(asked)]
    size = total(e, x.shape)
    if -1 in shape:
        rest = total(e, [n for n in shape if n != -1])
        if rest == 0:
            raise call.refuse("of nothing")
        shape[shape.index(-1)] = _divided(e, size, rest)
    e.same_length([size, total(e, shape)])
    return reshaped(e, x, shape)


def _divided(e: Emitter, size: Length, rest: Length) -> Length:
    if isinstance(size, int) and isinstance(rest, int):
        return size // rest
    safe = limited(e, rest, "1", "smax") if isinstance(rest, str) else rest
    return e.text.new(f"sdiv i64 {size}, {safe}")


@gives("Slice")
def slice_(call: Call) -> Array:
    """Parts of axes, between bounds that may be computed."""
    x = call.input(0)
    starts, ends = call.numbers(1, "starts"), call.numbers(2, "ends")
    axes = call.known(3, "axes", range(len(starts)))
    steps = call.known(4, "steps", [1] * len(starts))
    cuts: list[Cut] = [(0, 1, n) for n in x.shape]
    for axis, start, end, step in zip(axes or (), starts, ends, steps or (), strict=True):
        axis = place(axis, len(x.shape))
        if not step:
            raise call.refuse("in steps of 0")
        cuts[axis] = cut(call.e, start, end, step, x.shape[axis])
    return sliced(call.e, x, cuts)


@gives("NonZero")
def non_zero(call: Call) -> Array:
    """The places of elements that are not zero, one row for each axis."""
    e, x, text = call.e, call.input(0), call.e.text
    if not x.shape:
        raise call.refuse("of a number")
    rank, size = len(x.shape), total(e, x.shape)
    pointer = e.room(INT64, (size, rank))
    count = text.slot("i64")
    text.line(f"store i64 0, ptr {count}")
    one = Lanes(text)
    with rows(e, x.shape) as index:
        found = converted(Lanes(text), get(Lanes(text), x, tuple(index)), x.dtype, np.dtype(np.bool_))
        with text.where(found):
            at = text.new(f"load i64, ptr {count}")
            for k, place in enumerate(index):
                one.store(INT64, place.base, pointer, Place(text.add(text.mul(at, rank), k)))
            text.line(f"store i64 {text.add(at, 1)}, ptr {count}")
    length = text.new(f"load i64, ptr {count}")
    columns = in_memory(INT64, (length, rank), pointer)
    return viewed(columns, (rank, length), lambda lanes, index: index[::-1])
