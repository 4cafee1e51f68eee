"""Axes reduced to one element, or to the place of one.

Sums of a row have eight accumulators, as numpy's have, so that short ones are the same bits; other sums add up row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.backends.llvm.emitter import Emitter, type_of, writes
from mdf_loop.backends.llvm.lanes import arithmetic, casts
from mdf_loop.backends.llvm.lanes.element_loops import chunks, rows, sweep, widths_of
from mdf_loop.backends.llvm.lanes.element_types import INT64, CannotCompile, element
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Index, Length, get, get_flat, in_memory, is_one, number, offset
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes, Place, Register
from mdf_loop.backends.llvm.operations.elementwise import computed
from mdf_loop.step.records import Value

INT32 = np.dtype(np.int32)

PAIRED, FEW = 8, 8
"""Accumulators of numpy's sums; terms up to which a reduction is written without a loop."""

LONG = 1024
"""Terms of a sum from which on registers are full."""

_PRIMITIVES = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or_", "all": "and_"}

Element = Callable[[Lanes, Any], str]


@dataclass(frozen=True)
class Folding:
    """How two elements become one, and what changes nothing."""

    kind: str
    dtype: np.dtype

    def both(self, lanes: Lanes, a: str, b: str) -> str:
        """Two elements as one."""
        return arithmetic.written(lanes, _PRIMITIVES[self.kind], self.dtype, [a, b])

    def neutral(self, lanes: Lanes) -> str:
        """What changes nothing."""
        return lanes.number(self.dtype, neutral(self.kind, self.dtype))

    def across(self, lanes: Lanes, value: str) -> str:
        """All lanes as one: halves, then halves of these; eight in the order that numpy has."""
        e = element(self.dtype)
        width = lanes.width
        while width > 1:
            width //= 2
            half = Lanes(lanes.text, width)
            sides = ([2 * k for k in range(width)], [2 * k + 1 for k in range(width)])
            parts = []
            for side in sides:
                picks = ", ".join(f"i32 {k}" for k in side)
                type = f"<{2 * width} x {e.register}>"
                many = lanes.text.new(f"shufflevector {type} {value}, {type} poison, <{width} x i32> <{picks}>")
                parts.append(many if width > 1 else lanes.text.new(f"extractelement <1 x {e.register}> {many}, i64 0"))
            value = self.both(half, *parts)
        return value


def neutral(kind: str, dtype: np.dtype) -> Any:
    """The element that changes no other one."""
    if kind in ("any", "all"):
        return kind == "all"
    if kind in ("sum", "prod"):
        return int(kind == "prod")
    if element(dtype).kind in "fh":
        return -math.inf if kind == "max" else math.inf
    if dtype.kind == "b":
        return kind == "min"
    info = np.iinfo(dtype)
    return info.min if kind == "max" else info.max


@writes("reduce")
def reduce(e: Emitter, v: Value) -> Array:
    """A reduction along axes."""
    x, how, dtype = e.of(v.args[0]), v.attr, type_of(v)
    if how.kind in ("any", "all") and x.dtype.kind != "b":
        raise CannotCompile("a question about numbers has no compiled form")
    for axis in how.axes:
        if x.shape[axis] == 0:
            raise CannotCompile("a reduction of nothing has no compiled form")
        if isinstance(x.shape[axis], str):
            e.leave_if(e.text.new(f"icmp eq i64 {x.shape[axis]}, 0"))
    if how.kind.startswith("arg"):
        return _place(e, x, e.of(v.args[1]), how.axes[0], how.keep)
    return reduced(e, x, how.kind, dtype, how.axes, how.keep, lambda shape: e.place_for(v, dtype, shape))


def _place(e: Emitter, x: Array, best: Array, axis: int, keep: bool) -> Array:
    """Along an axis the first place of an element that is the extreme; nan is beyond all numbers."""
    dtype, length = x.dtype, x.shape[axis]
    counts = INT32 if isinstance(length, int) and length < 1 << 31 and x.widest < 8 else INT64

    def at(lanes: Lanes, index: Index) -> str:
        value, extreme = get(lanes, x, index), get(lanes, best, (*index[:axis], *index[axis + 1 :]))
        found = arithmetic.written(lanes, "eq", dtype, [value, extreme])
        if element(dtype).kind in "fh":
            is_nan = arithmetic.written(lanes, "ne", dtype, [value, value])
            found = lanes.text.new(f"or {lanes.of('i1')} {found}, {is_nan}")
        place = casts.converted(lanes, lanes.number_of(index[axis]), INT64, counts)
        return lanes.select(counts, found, place, lanes.splat(counts, str(length)))

    places = reduced(e, Array(counts, x.shape, at, widest=counts.itemsize), "min", counts, [axis], keep)
    return computed(e, INT64, [places], lambda lanes, place: casts.converted(lanes, place, counts, INT64))


def reduced(
    e: Emitter,
    x: Array,
    kind: str,
    dtype: np.dtype,
    axes: Sequence[int],
    keep: bool = True,
    room: Callable[[tuple[Length, ...]], str] | None = None,
) -> Array:
    """A value with some axes, none of them empty, reduced; written where ``room`` says, or to room of its own."""
    kept = [k for k in range(len(x.shape)) if k not in axes]
    shape = tuple(n if k in kept else 1 for k, n in enumerate(x.shape) if keep or k in kept)
    pointer = "" if is_one(shape) else room(shape) if room else e.room(dtype, shape)
    found = _Reducing(e, x, kind, dtype, tuple(axes), kept, pointer).written()
    return in_memory(dtype, shape, pointer) if pointer else number(dtype, found, shape)


class _Reducing:
    """One reduction while it is written."""

    def __init__(
        self, e: Emitter, x: Array, kind: str, dtype: np.dtype, axes: Sequence[int], kept: Sequence[int], pointer: str
    ) -> None:
        self.e, self.x, self.kind, self.dtype, self.axes, self.kept, self.pointer = e, x, kind, dtype, axes, kept, pointer
        self.lengths = [x.shape[k] for k in axes]
        self.outer = [x.shape[k] for k in kept]
        self.folding, self.found = Folding(kind, dtype), ""

    def written(self) -> str:
        """The code; gives the number, where there is one."""
        last = max((k for k, n in enumerate(self.x.shape) if n != 1), default=0)
        if last in self.axes or is_one(self.outer):
            self._rows()
        else:
            sweep(self.e, self.outer, self.x.widest, self._column)
        return self.found

    def _store(self, lanes: Lanes, value: str, index: Index) -> None:
        if self.pointer:
            lanes.store(self.dtype, value, self.pointer, offset(lanes, self.outer, index))
        else:
            self.found = value

    def _index(self, outer: Index, inner: Index) -> Index:
        both = {**dict(zip(self.kept, outer, strict=True)), **dict(zip(self.axes, inner, strict=True))}
        return tuple(both[k] for k in range(len(self.x.shape)))

    # The last axis stays: lanes are sums of their own

    def _column(self, lanes: Lanes, outer: Index) -> None:
        accumulator = _Sum(lanes, self.folding)
        count = math.prod(n for n in self.lengths if isinstance(n, int))
        if all(isinstance(n, int) for n in self.lengths) and count <= FEW and len(self.axes) == 1:
            for k in range(count):
                self._add(lanes, accumulator, outer, [Place(str(k))])
        else:
            with rows(self.e, self.lengths) as inner:
                self._add(lanes.again(), accumulator, outer, inner)
        self._store(lanes, accumulator.read(), outer)

    def _add(self, lanes: Lanes, accumulator: _Sum, outer: Index, inner: Sequence[Place]) -> None:
        accumulator.add(lanes, get(lanes, self.x, self._index(outer, tuple(inner))))

    # The last axis goes: lanes are parts of one sum

    def _rows(self) -> None:
        flat = self._flat_run()
        with rows(self.e, self.outer) as outer:
            index = tuple(outer)
            if flat is not None:
                count, element_at = flat
                base = self.e.text.mul(offset(Lanes(self.e.text), self.outer, index).base, count)

                def read(lanes: Lanes, place: Place) -> str:
                    return element_at(lanes, lanes.shifted(Place(base), place))

                self._store(Lanes(self.e.text), self._row(count, read), index)
            else:
                self._store(Lanes(self.e.text), self._nested(index), index)

    def _flat_run(self) -> tuple[Length, Element] | None:
        """The trailing axes as one, where elements can be counted."""
        rank, x = len(self.x.shape), self.x
        is_suffix = tuple(self.axes) == tuple(range(rank - len(self.axes), rank))
        if not is_suffix or not x.is_static or not (x.value or x.flat is not None):
            return None
        return math.prod(n for n in self.lengths if isinstance(n, int)), lambda lanes, place: get_flat(lanes, x, place)

    def _nested(self, outer: Index) -> str:
        """Several axes that are not one: the last one in lanes, loops around it."""
        e, (*lengths, last) = self.e, self.lengths
        if not lengths:
            return self._row(last, lambda lanes, place: get(lanes, self.x, self._index(outer, (place,))))
        total = _Sum(Lanes(e.text), self.folding)
        with rows(e, lengths) as inner:

            def read(lanes: Lanes, place: Place) -> str:
                return get(lanes, self.x, self._index(outer, (*inner, place)))

            lanes = Lanes(e.text)
            total.add(lanes, self._row(last, read))
        return total.read()

    def _row(self, length: Length, read: Element) -> str:
        """One row as one element."""
        if self.kind == "sum" and element(self.dtype).kind == "f":
            return _sum_of_row(self, length, read)
        return _folded_row(self, length, read)


def _folded_row(r: _Reducing, length: Length, read: Element) -> str:
    """Registers folded together, then their lanes."""
    e, folding = r.e, r.folding
    may_overlap = r.kind not in ("sum", "prod")
    widths = widths_of(e, length, r.x.widest, may_overlap)
    if [length] == widths:  # one register
        full = Lanes(e.text, widths[0])
        return folding.across(full, read(full, Place("0", 1)))
    accumulators = {width: _Sum(Lanes(e.text, width), folding) for width in widths}
    for lanes, place in chunks(e, length, r.x.widest, may_overlap):
        value = read(lanes, place)
        if lanes.mask:
            value = lanes.select(r.dtype, lanes.mask, value, folding.neutral(lanes))
        accumulators[lanes.width].add(lanes, value)
    results = []
    for width, accumulator in accumulators.items():
        full = Lanes(e.text, width)
        results.append(folding.across(full, accumulator.read()))
    found = results[0]
    for other in results[1:]:
        found = folding.both(Lanes(e.text), found, other)
    return found


def _sum_of_row(r: _Reducing, length: Length, read: Element) -> str:
    """Eight sums, added in pairs, then what is left."""
    if isinstance(length, str) or length >= LONG:
        return _folded_row(r, length, read)
    e, folding = r.e, r.folding
    single, main = Lanes(e.text), length - length % PAIRED
    total = ""
    if main:
        eight = Lanes(e.text, PAIRED)
        accumulator = _Sum(eight, folding)
        if main <= FEW * PAIRED:
            for base in range(0, main, PAIRED):
                accumulator.add(eight, read(eight, Place(str(base), 1)))
        else:
            with e.text.counted(0, main, PAIRED) as at:
                accumulator.add(eight, read(Lanes(e.text, PAIRED), Place(at, 1)))
        total = folding.across(eight, accumulator.read())
    for k in range(main, length):
        value = read(single, Place(str(k)))
        total = folding.both(single, total, value) if total else value
    return folding.both(single, total, folding.neutral(single))  # of nothing but -0.0 it is 0.0


class _Sum(Register):
    """An accumulator."""

    def __init__(self, lanes: Lanes, folding: Folding) -> None:
        super().__init__(lanes, folding.dtype, neutral(folding.kind, folding.dtype))
        self.folding = folding

    def add(self, lanes: Lanes, value: str) -> None:
        """One more element."""
        self.write(self.folding.both(lanes, self.read(), value))
