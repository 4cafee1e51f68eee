"""Shapes, parts and repetitions whose lengths only the run can tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdf_loop.backends.llvm.emitter import Emitter
from mdf_loop.backends.llvm.lanes.casts import converted
from mdf_loop.backends.llvm.lanes.element_loops import rows
from mdf_loop.backends.llvm.lanes.element_types import INT64, CannotCompile, element, literal
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Index, Length, get, in_memory, number
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes, Place
from mdf_loop.backends.llvm.operations.views import limited, reshaped, viewed
from mdf_loop.backends.llvm.operators.operator_table import Call, gives, literal_or_name
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
    safe = e.text.new(f"call i64 @llvm.smax.i64(i64 {rest}, i64 1)") if isinstance(rest, str) else rest
    e.text.declare("llvm.smax.i64", "i64", "i64", "i64")
    return e.text.new(f"sdiv i64 {size}, {safe}")


def _check_counts(call: Call, counts: Sequence[Length]) -> None:
    """Lengths are not negative."""
    for n in counts:
        if isinstance(n, int) and n < 0:
            raise call.refuse("to negative lengths")
        if isinstance(n, str):
            call.e.leave_if(call.e.text.new(f"icmp slt i64 {n}, 0"))


@gives("Expand")
def expand(call: Call) -> Array:
    """Broadcast to a shape, both ways."""
    e, x, asked = call.e, call.input(0), call.numbers(1)
    _check_counts(call, asked)
    rank = max(len(x.shape), len(asked))
    ours = (1,) * (rank - len(x.shape)) + x.shape
    theirs: list[Length] = [*[1] * (rank - len(asked)), *asked]
    shape: list[Length] = []
    for n, m in zip(ours, theirs, strict=True):
        if n == 1 or m == 1:
            shape.append(m if n == 1 else n)
        else:
            shape.append(e.same_length([n, m]))
    return repeated(x, shape)


def repeated(x: Array, shape: Sequence[Length]) -> Array:
    """A value along axes of length 1 and new ones in front."""
    if x.value:
        return number(x.dtype, x.value, shape)
    return x if tuple(shape) == x.shape else viewed(x, shape, lambda lanes, index: index)


@gives("Slice")
def slice_(call: Call) -> Array:
    """Parts of axes, between bounds that may be computed."""
    e, x = call.e, call.input(0)
    starts, ends = call.numbers(1, "starts"), call.numbers(2, "ends")
    axes = call.known(3, "axes", range(len(starts)))
    steps = call.known(4, "steps", [1] * len(starts))
    cuts: list[tuple[Length, int, Length]] = [(0, 1, n) for n in x.shape]
    for axis, start, end, step in zip(axes or (), starts, ends, steps or (), strict=True):
        axis = place(axis, len(x.shape))
        if not step:
            raise call.refuse("in steps of 0")
        cuts[axis] = cut(e, start, end, step, x.shape[axis])
    shape = [length for _, _, length in cuts]
    if x.value:
        return number(x.dtype, x.value, shape)

    def back(lanes: Lanes, index: Index) -> Index:
        return tuple(
            lanes.shifted(lanes.scaled(place, step), Place(str(start)))
            for place, (start, step, _) in zip(index, cuts, strict=True)
        )

    found = viewed(x, shape, back)
    if x.memory and all(start == 0 and step == 1 for start, step, _ in cuts[1:]) and cuts[:1] and cuts[0][1] == 1:
        same = all(n == m for n, m in zip(shape[1:], x.shape[1:], strict=True))
        row = total(e, x.shape[1:])
        if same:
            pointer = e.text.element_pointer(element(x.dtype).memory, x.memory, e.text.mul(cuts[0][0], row))
            found = in_memory(x.dtype, shape, pointer)
    return e.settled(found)


def cut(e: Emitter, start: Length, end: Length, step: int, n: Length) -> tuple[Length, int, Length]:
    """Start, step and length of a part of an axis, as Python has it."""
    if isinstance(n, int) and isinstance(start, int) and isinstance(end, int):
        places = range(*slice(start, end if end > -n - 1 or step > 0 else None, step).indices(n))
        return places.start, step, len(places)
    lowest, highest = ("0", str(n)) if step > 0 else ("-1", e.text.sub(n, 1))
    first, last = (_bound(e, place, n, lowest, highest) for place in (start, end))
    if isinstance(start, str) and end == start:
        last = first
    span = e.text.sub(last, first) if step > 0 else e.text.sub(first, last)
    return literal_or_name(first), step, _steps(e, span, step)


def _steps(e: Emitter, span: str, step: int) -> Length:
    """How many steps there are in a span; none if it is negative."""
    if abs(step) > 1:
        if abs(step) >= 1 << 62:
            raise CannotCompile("steps of such a length have no compiled form")
        span = e.text.new(f"sdiv i64 {e.exact('sadd', span, abs(step) - 1)}, {abs(step)}")
    return literal_or_name(limited(e, span, "0", "smax"))


def _bound(e: Emitter, place: Length, n: Length, lowest: str, highest: str) -> str:
    lanes, text = Lanes(e.text), e.text
    if isinstance(place, int):
        found = text.add(place, n) if place < 0 else str(place)
    else:
        is_behind = text.new(f"icmp slt i64 {place}, 0")
        found = lanes.select(INT64, is_behind, text.new(f"add i64 {place}, {n}"), place)
    return limited(e, limited(e, found, lowest, "smax"), highest, "smin")


@gives("ConstantOfShape")
def constant_of_shape(call: Call) -> Array:
    """One number everywhere."""
    value = call.attrs.get("value")
    given = np.float32(0) if value is None else np.asarray(value).reshape(())[()]
    shape = call.numbers(0)
    _check_counts(call, shape)
    return number(given.dtype, literal(given.dtype, given), shape)


@gives("Range")
def range_(call: Call) -> Array:
    """Whole numbers in steps."""
    e, dtype = call.e, call.input(0).dtype
    if dtype.kind != "i" or not call.has(2) or call.input(2).const is None:
        raise call.refuse("of numbers that are not whole, or in steps that are computed")
    step = int(call.input(2).const.reshape(()))  # type: ignore[union-attr]
    start, limit = (e.number_of(call.input(k), INT64) for k in range(2))
    if not step:
        raise call.refuse("in steps of 0")
    count = _steps(e, e.exact("ssub", *((limit, start) if step > 0 else (start, limit))), step)

    def at(lanes: Lanes, index: Index) -> str:
        place = lanes.shifted(lanes.scaled(index[0], step), Place(start))
        return converted(lanes, lanes.number_of(place), INT64, dtype)

    return Array(dtype, (count,), at, widest=8)


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
