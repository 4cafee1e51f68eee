"""The same elements at other places: shapes, orders, parts, and vectors of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdf_loop.backends.llvm.emitter import Emitter, type_of, writes
from mdf_loop.backends.llvm.lanes.casts import converted
from mdf_loop.backends.llvm.lanes.element_types import INT64, CannotCompile, element
from mdf_loop.backends.llvm.lanes.lazy_arrays import (
    Array,
    Index,
    Length,
    get,
    get_flat,
    in_memory,
    is_one,
    mapped,
    number,
    offset,
)
from mdf_loop.backends.llvm.lanes.vector_lanes import ZERO, Lanes, Place
from mdf_loop.step.records import Shape, Value


def viewed(x: Array, shape: Sequence[Length], back: object) -> Array:
    """A value whose elements are those of another one: ``back(lanes, index)`` is the index there."""

    def at(lanes: Lanes, index: Index) -> str:
        return get(lanes, x, back(lanes, index))  # type: ignore[operator]

    return Array(x.dtype, tuple(shape), at, widest=x.widest)


def shape_of(e: Emitter, v: Value) -> tuple[Length, ...]:
    """The shape that an operation is given, of numbers and open lengths."""
    attr: Shape = v.attr
    rest = iter(v.args[1:])
    return tuple(e.number_of(next(rest), INT64) if n is None else n for n in attr.lengths)


@writes("reshape")
def reshape(e: Emitter, v: Value) -> Array:
    """Another shape."""
    return reshaped(e, e.of(v.args[0]), shape_of(e, v))


def reshaped(e: Emitter, x: Array, shape: Sequence[Length]) -> Array:
    """A value in another shape of as many elements."""
    shape = tuple(shape)
    if x.value:
        found = number(x.dtype, x.value, shape)
    elif x.memory:
        found = in_memory(x.dtype, shape, x.memory)
    elif [n for n in shape if n != 1] == [n for n in x.shape if n != 1]:
        found = viewed(x, shape, lambda lanes, index: _without_ones(shape, x.shape, index))
        found.flat = x.flat
    else:
        whole = x if x.flat is not None else e.materialised(x)

        def flat(lanes: Lanes, place: Place) -> str:
            return get_flat(lanes, whole, place)

        found = Array(x.dtype, shape, lambda lanes, index: flat(lanes, offset(lanes, shape, index)), flat, widest=x.widest)
        found.memory = whole.memory
    if x.const is not None:
        found.const = x.const.reshape([n for n in shape if isinstance(n, int)])
    return e.settled(found)


def _without_ones(ours: Sequence[Length], theirs: Sequence[Length], index: Index) -> Index:
    long = iter([place for n, place in zip(ours, index, strict=True) if n != 1])
    return tuple(ZERO if n == 1 else next(long) for n in theirs)


@writes("transpose")
def transpose(e: Emitter, v: Value) -> Array:
    """Axes in another order."""
    x, order = e.of(v.args[0]), v.attr
    shape = tuple(x.shape[k] for k in order)
    if x.const is not None and not x.value:
        given = np.ascontiguousarray(x.const.transpose(order))
        return in_memory(x.dtype, shape, e.table(given), given)
    if x.value:
        return number(x.dtype, x.value, shape)
    if [k for k in order if x.shape[k] != 1] == [k for k in range(len(order)) if x.shape[k] != 1]:
        return reshaped(e, x, shape)
    return turned(x, order)


def turned(x: Array, order: Sequence[int]) -> Array:
    """A value whose elements are read in another order of axes."""
    shape = [x.shape[k] for k in order]
    found = viewed(x, shape, lambda lanes, index: tuple(index[order.index(k)] for k in range(len(order))))
    found.transposed = x, tuple(order)
    return found


@writes("broadcast")
def broadcast(e: Emitter, v: Value) -> Array:
    """Repeated along axes."""
    x, shape = e.of(v.args[0]), shape_of(e, v)
    if x.value:
        return number(x.dtype, x.value, shape)
    for n, length in zip(reversed(x.shape), reversed(shape), strict=False):
        if n != 1:
            e.same_length([n, length])
    return viewed(x, shape, lambda lanes, index: index)


@writes("slice")
def slice_(e: Emitter, v: Value) -> Array:
    """Parts of axes."""
    x = e.of(v.args[0])
    return sliced(e, x, [cut(e, s.start, s.stop, s.step or 1, n) for s, n in zip(v.attr, x.shape, strict=True)])


def sliced(e: Emitter, x: Array, cuts: Sequence[Cut]) -> Array:
    """Parts of axes, from one place on in steps."""
    shape = tuple(length for _, _, length in cuts)
    if x.value:
        return number(x.dtype, x.value, shape)
    if x.memory and cuts and cuts[0][1] == 1 and all(cut == (0, 1, n) for cut, n in zip(cuts[1:], x.shape[1:], strict=True)):
        return e.settled(in_memory(x.dtype, shape, row_pointer(e, x, [cuts[0][0]])))

    def back(lanes: Lanes, index: Index) -> Index:
        return tuple(
            lanes.shifted(lanes.scaled(place, step), Place(str(start)))
            for place, (start, step, _) in zip(index, cuts, strict=True)
        )

    return e.settled(viewed(x, shape, back))


@writes("window")
def window(e: Emitter, v: Value) -> Array:
    """A part of known length from places on that the run tells."""
    x, starts = e.of(v.args[0]), [e.number_of(i, INT64) for i in v.args[1:]]
    shape = tuple(n if isinstance(n, int) else m for n, m in zip(v.type.shape or (), x.shape, strict=True))
    if x.value:
        return number(x.dtype, x.value, shape)
    if x.memory and starts and not is_one(shape) and shape[1:] == x.shape[1:]:
        return in_memory(x.dtype, shape, row_pointer(e, x, starts[:1]))

    def back(lanes: Lanes, index: Index) -> Index:
        return tuple(lanes.shifted(place, Place(start)) for place, start in zip(index, starts, strict=True))

    return e.settled(viewed(x, shape, back))


Cut = tuple[Length, int, Length]
"""A part of an axis: where it starts, in which steps, and its length."""


def cut(e: Emitter, start: Length | None, stop: Length | None, step: int, n: Length) -> Cut:
    """A part of an axis, as Python has it."""
    if not any(isinstance(place, str) for place in (start, stop, n)):
        places = range(*slice(start, stop, step).indices(int(n)))
        return places.start, step, len(places)
    if (start, stop, step) == (None, None, 1):
        return 0, 1, n
    lowest, highest = ("0", str(n)) if step > 0 else ("-1", e.text.sub(n, 1))
    ends = (lowest, highest) if step > 0 else (highest, lowest)
    first, last = (end if x is None else _bound(e, x, n, lowest, highest) for x, end in zip((start, stop), ends, strict=True))
    span = e.text.sub(last, first) if step > 0 else e.text.sub(first, last)
    return literal_or_name(first), step, _steps(e, span, step)


def _bound(e: Emitter, place: Length, n: Length, lowest: str, highest: str) -> str:
    """A place counted from the front, as far as there is one."""
    text = e.text
    if isinstance(place, int):
        found = text.add(place, n) if place < 0 else str(place)
    else:
        is_behind = text.new(f"icmp slt i64 {place}, 0")
        found = Lanes(text).select(INT64, is_behind, text.new(f"add i64 {place}, {n}"), place)
    return limited(e, limited(e, found, lowest, "smax"), highest, "smin")


def _steps(e: Emitter, span: str, step: int) -> Length:
    """How many steps there are in a span; none if it is negative."""
    if abs(step) > 1:
        if abs(step) >= 1 << 62:
            raise CannotCompile("steps of such a length have no compiled form")
        span = e.text.new(f"sdiv i64 {e.exact('sadd', span, abs(step) - 1)}, {abs(step)}")
    return literal_or_name(limited(e, span, "0", "smax"))


def literal_or_name(value: str) -> Length:
    """A length: the number itself where it is known."""
    return int(value) if value.lstrip("-").isdigit() else value


def limited(e: Emitter, x: str, end: str, function: str) -> str:
    """The smaller or larger of two places."""
    call = e.text.declare(f"llvm.{function}.i64", "i64", "i64", "i64")
    return e.text.new(f"{call}(i64 {x}, i64 {end})")


def row_pointer(e: Emitter, x: Array, places: Sequence[Length]) -> str:
    """The address of ``x[places]`` of what is in memory."""
    text, place = e.text, "0"
    for k, n in enumerate(x.shape):
        place = text.mul(place, n) if k else "0"
        place = text.add(place, places[k]) if k < len(places) else place
    return text.element_pointer(element(x.dtype).memory, x.memory, place)


@writes("pack")
def pack(e: Emitter, v: Value) -> Array:
    """A vector of numbers."""
    dtype = type_of(v)
    numbers = [e.number_of(x, dtype) for x in v.args]
    if len(numbers) == 1:
        return number(dtype, numbers[0], (1,))
    pointer = e.place_for(v, dtype, (len(numbers),))
    lanes = Lanes(e.text)
    for k, x in enumerate(numbers):
        lanes.store(dtype, x, pointer, Place(str(k)))
    return in_memory(dtype, (len(numbers),), pointer)


@writes("length")
def length(e: Emitter, v: Value) -> Array:
    """The length of an axis."""
    return number(INT64, str(e.of(v.args[0]).shape[v.attr]))


@writes("place_in")
def place_in(e: Emitter, v: Value) -> Array:
    """A place counted from the front; one that is out of range is left to the interpreter."""
    index, count = (e.number_of(x, INT64) for x in v.args)
    return number(INT64, from_front(e, Lanes(e.text), index, count))


def from_front(e: Emitter, lanes: Lanes, index: str, count: Length) -> str:
    """Places counted from the front, in lanes."""
    new, type, many = e.text.new, lanes.of("i64"), lanes.splat_place(str(count))
    is_behind = new(f"icmp slt {type} {index}, {lanes.all('i64', '0')}")
    found = lanes.select(INT64, is_behind, new(f"add {type} {index}, {many}"), index)
    is_outside = new(f"icmp uge {type} {found}, {many}")
    e.leave_if(lanes.any(is_outside))
    return found


@writes("place")
def place(e: Emitter, v: Value) -> Array:
    """One entry of the leading axes."""
    x = e.of(v.args[0])
    where = [e.number_of(i, INT64) for i in v.args[1:]]
    shape = x.shape[len(where) :]
    if x.value:
        return number(x.dtype, x.value, shape)
    if x.memory and not is_one(shape):
        row = in_memory(x.dtype, shape, row_pointer(e, x, where))
        return e.materialised(row) if v in e.fusion.copied else row
    places = tuple(Place(i) for i in where)
    return e.settled(viewed(x, shape, lambda lanes, index: (*places, *index)))


@writes("gather")
def gather(e: Emitter, v: Value) -> Array:
    """The entries of an axis that an array names."""
    x, index_of, axis = e.of(v.args[0]), e.of(v.args[1]), v.attr
    rank = len(index_of.shape)
    shape = (*x.shape[:axis], *index_of.shape, *x.shape[axis + 1 :])
    places = placed(e, index_of, x.shape[axis])
    if x.value:
        return number(x.dtype, x.value, shape)
    if x.memory and axis == 0 and places.value and not is_one(shape):
        return in_memory(x.dtype, shape, row_pointer(e, x, [places.value]))

    def back(lanes: Lanes, index: Index) -> Index:
        return (*index[:axis], place_of(lanes, places, index[axis : axis + rank]), *index[axis + rank :])

    return e.settled(viewed(x, shape, back))


def placed(e: Emitter, index_of: Array, count: Length) -> Array:
    """Places along an axis, counted from the front.

    All are looked at here, where the operator stands: elements are computed where they are read, and what reads some of them, or
    none, must not miss that others are out of range.
    """

    def compute(lanes: Lanes, index: str) -> str:
        return from_front(e, lanes, converted(lanes, index, index_of.dtype, INT64), count)

    if is_one(index_of.shape):
        lanes = Lanes(e.text)
        return number(INT64, compute(lanes, get(lanes, index_of, tuple(ZERO for _ in index_of.shape))), index_of.shape)
    if index_of.const is not None and _are_inside(index_of.const, count):
        return mapped(INT64, index_of.shape, lambda lanes, index: converted(lanes, index, index_of.dtype, INT64), [index_of])
    return e.materialised(mapped(INT64, index_of.shape, compute, [index_of]))


def _are_inside(places: np.ndarray, count: Length) -> bool:
    """Whether places that are known need no look."""
    return isinstance(count, int) and bool(np.all((places >= 0) & (places < count)))


def place_of(lanes: Lanes, places: Array, index: Index) -> Place:
    """One of the places that an array holds."""
    if lanes.width > 1 and not all(place.is_same for place in index):
        return Place(vector=get(lanes, places, index))
    return Place(get(lanes.single(), places, index))
