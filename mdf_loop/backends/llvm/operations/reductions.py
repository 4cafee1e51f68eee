"""Axes reduced to one element, or to the place of one.

Sums of a row have eight accumulators, as numpy's have, so that short ones are the same bits; other sums add up row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.backends.llvm.emitter import Emitter, type_of, writes
from mdf_loop.backends.llvm.lanes import arithmetic
from mdf_loop.backends.llvm.lanes.element_loops import chunks, rows, sweep, widths_of
from mdf_loop.backends.llvm.lanes.element_types import INT64, CannotCompile, element
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Index, Length, get, get_flat, in_memory, is_one, number, offset
from mdf_loop.backends.llvm.lanes.vector_lanes import ZERO, Lanes, Place
from mdf_loop.step.records import Value

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
        return -math.inf if kind in ("max", "argmax") else math.inf
    if dtype.kind == "b":
        return kind in ("min", "argmin")
    info = np.iinfo(dtype)
    return info.min if kind in ("max", "argmax") else info.max


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
    return reduced(e, x, how.kind, dtype, how.axes, how.keep, lambda shape: e.place_for(v, dtype, shape))


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
        self.is_place = kind.startswith("arg")
        self.found = ""

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
        accumulator = _accumulator(self.e, lanes, self)
        count = math.prod(n for n in self.lengths if isinstance(n, int))
        if all(isinstance(n, int) for n in self.lengths) and count <= FEW and len(self.axes) == 1:
            for k in range(count):
                self._add(lanes, accumulator, outer, [Place(str(k))])
        else:
            with rows(self.e, self.lengths) as inner:
                self._add(lanes.again(), accumulator, outer, inner)
        self._store(lanes, accumulator.value(lanes), outer)

    def _add(self, lanes: Lanes, accumulator: Any, outer: Index, inner: Sequence[Place]) -> None:
        accumulator.add(lanes, get(lanes, self.x, self._index(outer, tuple(inner))), inner[0])

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
        total = _accumulator(e, Lanes(e.text), self)
        with rows(e, lengths) as inner:

            def read(lanes: Lanes, place: Place) -> str:
                return get(lanes, self.x, self._index(outer, (*inner, place)))

            lanes = Lanes(e.text)
            total.add(lanes, self._row(last, read), ZERO)
        return total.value(Lanes(e.text))

    def _row(self, length: Length, read: Element) -> str:
        """One row as one element."""
        if self.is_place:
            return _place_in_row(self, length, read)
        if self.kind == "sum" and element(self.dtype).kind == "f":
            return _sum_of_row(self, length, read)
        return _folded_row(self, length, read)


def _folded_row(r: _Reducing, length: Length, read: Element) -> str:
    """Registers folded together, then their lanes."""
    e, folding = r.e, Folding(r.kind, r.dtype)
    may_overlap = r.kind not in ("sum", "prod")
    widths = widths_of(e, length, r.x.widest, may_overlap)
    accumulators = {width: _accumulator(e, Lanes(e.text, width), r) for width in widths}
    for lanes, place in chunks(e, length, r.x.widest, may_overlap):
        value = read(lanes, place)
        if lanes.mask:
            value = lanes.select(r.dtype, lanes.mask, value, folding.neutral(lanes))
        accumulators[lanes.width].add(lanes, value, place)
    results = []
    for width, accumulator in accumulators.items():
        full = Lanes(e.text, width)
        results.append(folding.across(full, accumulator.value(full)))
    found = results[0]
    for other in results[1:]:
        found = folding.both(Lanes(e.text), found, other)
    return found


def _sum_of_row(r: _Reducing, length: Length, read: Element) -> str:
    """Eight sums, added in pairs, then what is left."""
    if isinstance(length, str) or length >= LONG:
        return _folded_row(r, length, read)
    e, folding = r.e, Folding("sum", r.dtype)
    single, main = Lanes(e.text), length - length % PAIRED
    total = ""
    if main:
        eight = Lanes(e.text, PAIRED)
        accumulator = _accumulator(e, eight, r)
        if main <= FEW * PAIRED:
            for base in range(0, main, PAIRED):
                accumulator.add(eight, read(eight, Place(str(base), 1)), ZERO)
        else:
            with e.text.counted(0, main, PAIRED) as at:
                accumulator.add(eight, read(Lanes(e.text, PAIRED), Place(at, 1)), ZERO)
        total = folding.across(eight, accumulator.value(eight))
    for k in range(main, length):
        value = read(single, Place(str(k)))
        total = folding.both(single, total, value) if total else value
    return folding.both(single, total, folding.neutral(single))  # of nothing but -0.0 it is 0.0


class _Sum:
    """An accumulator in a register: memory that LLVM makes one."""

    def __init__(self, e: Emitter, lanes: Lanes, folding: Folding) -> None:
        self.text, self.folding, self.type = e.text, folding, lanes.register(folding.dtype)
        self.slot = e.text.slot(self.type)
        e.text.line(f"store {self.type} {folding.neutral(lanes)}, ptr {self.slot}")

    def add(self, lanes: Lanes, value: str, place: Place) -> None:
        """One more element."""
        found = self.folding.both(lanes, self.text.new(f"load {self.type}, ptr {self.slot}"), value)
        self.text.line(f"store {self.type} {found}, ptr {self.slot}")

    def value(self, lanes: Lanes) -> str:
        """The result."""
        return self.text.new(f"load {self.type}, ptr {self.slot}")


class _Extreme:
    """The largest or smallest element so far, and its place."""

    def __init__(self, e: Emitter, lanes: Lanes, kind: str, dtype: np.dtype) -> None:
        self.text, self.kind, self.dtype, self.e = e.text, kind, dtype, e
        self.type = lanes.register(dtype)
        self.slot, self.where = e.text.slot(self.type), e.text.slot(lanes.of("i64"))
        e.text.line(f"store {self.type} {lanes.number(dtype, neutral(kind, dtype))}, ptr {self.slot}")
        e.text.line(f"store {lanes.of('i64')} {lanes.all('i64', '0')}, ptr {self.where}")

    def is_better(self, lanes: Lanes, value: str, best: str) -> str:
        """Whether an element comes before the best so far: nan before all others."""
        new, type = self.text.new, lanes.register(self.dtype)
        if element(self.dtype).kind != "f":
            return arithmetic.written(lanes, "gt" if self.kind == "argmax" else "lt", self.dtype, [value, best])
        beyond = new(f"fcmp {'ugt' if self.kind == 'argmax' else 'ult'} {type} {value}, {best}")
        return new(f"and {lanes.of('i1')} {beyond}, {new(f'fcmp ord {type} {best}, {best}')}")

    def add(self, lanes: Lanes, value: str, place: Place) -> None:
        """One more element."""
        best = self.text.new(f"load {self.type}, ptr {self.slot}")
        where = self.text.new(f"load {lanes.of('i64')}, ptr {self.where}")
        is_better = self.is_better(lanes, value, best)
        if lanes.mask:
            is_better = self.text.new(f"and {lanes.of('i1')} {is_better}, {lanes.mask}")
        self.text.line(f"store {self.type} {lanes.select(self.dtype, is_better, value, best)}, ptr {self.slot}")
        chosen = lanes.select(INT64, is_better, lanes.number_of(place), where)
        self.text.line(f"store {lanes.of('i64')} {chosen}, ptr {self.where}")

    def take(self, lanes: Lanes, value: str, place: Place) -> None:
        """The only element of each lane."""
        self.text.line(f"store {self.type} {value}, ptr {self.slot}")
        self.text.line(f"store {lanes.of('i64')} {lanes.number_of(place)}, ptr {self.where}")

    def value(self, lanes: Lanes) -> str:
        """The place."""
        return self.text.new(f"load {lanes.of('i64')}, ptr {self.where}")

    def across(self, lanes: Lanes, in_order: bool) -> str:
        """The first of the best places of all lanes; ``in_order`` pairs are compared of which the first stands in front."""
        best, where, width = self.text.new(f"load {self.type}, ptr {self.slot}"), self.value(lanes), lanes.width
        while width > 1:
            width //= 2
            half = Lanes(self.text, width)
            parts = [range(k, 2 * width, 2) if in_order else range(k * width, (k + 1) * width) for k in range(2)]
            sides = [(self._part(half, self.dtype, best, part), self._part(half, INT64, where, part)) for part in parts]
            better = self.is_better(half, sides[1][0], sides[0][0]) if in_order else ""
            takes = better or self.comes_first(half, sides[1], sides[0])
            best, where = (half.select(t, takes, b, a) for t, a, b in zip((self.dtype, INT64), *sides, strict=True))
        return where

    def _part(self, half: Lanes, dtype: np.dtype, value: str, part: Iterable[int]) -> str:
        """Half of the lanes."""
        type = f"<{2 * half.width} x {element(dtype).register}>"
        picks = ", ".join(f"i32 {k}" for k in part)
        many = self.text.new(f"shufflevector {type} {value}, {type} poison, <{half.width} x i32> <{picks}>")
        return many if half.width > 1 else self.text.new(f"extractelement <1 x {element(dtype).register}> {many}, i64 0")

    def comes_first(self, lanes: Lanes, ours: tuple[str, str], theirs: tuple[str, str]) -> str:
        """Whether an element and its place come before others: it is better, or as good and stands in front."""
        new, bits = self.text.new, lanes.of("i1")
        is_better = self.is_better(lanes, ours[0], theirs[0])
        no_better = self.is_better(lanes, theirs[0], ours[0])
        earlier = new(f"icmp slt {lanes.of('i64')} {ours[1]}, {theirs[1]}")
        same = new(f"xor {bits} {new(f'or {bits} {is_better}, {no_better}')}, {lanes.all('i1', 'true')}")
        return new(f"or {bits} {is_better}, {new(f'and {bits} {same}, {earlier}')}")


def _accumulator(e: Emitter, lanes: Lanes, r: _Reducing) -> Any:
    if r.is_place:
        return _Extreme(e, lanes, r.kind, r.x.dtype)
    return _Sum(e, lanes, Folding(r.kind, r.dtype))


def _place_in_row(r: _Reducing, length: Length, read: Element) -> str:
    """The best of each lane, then the best of these."""
    e = r.e
    if element(r.x.dtype).kind == "h":
        raise CannotCompile("the place of an extreme of half precision has no compiled form")
    widest, results = max(r.x.widest, 8), []
    best = {width: _Extreme(e, Lanes(e.text, width), r.kind, r.x.dtype) for width in widths_of(e, length, widest, False)}
    is_one_each = [*best] == [length]
    for lanes, place in chunks(e, length, widest, may_overlap=False):
        extreme = best[lanes.width]
        (extreme.take if is_one_each else extreme.add)(lanes, read(lanes, place), place)
    for width, extreme in best.items():
        results.append((extreme, extreme.across(Lanes(e.text, width), is_one_each)))
    (_, found), *others = results
    for extreme, other in others:  # the last element of a row, on its own
        one = Lanes(e.text)
        values = [read(Lanes(e.text), Place(x)) for x in (other, found)]
        takes = extreme.comes_first(one, (values[0], other), (values[1], found))
        found = one.select(INT64, takes, other, found)
    return found
