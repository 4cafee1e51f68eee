"""Convolutions of bytes: four elements of a window at a time, of as many places side by side as a register has lanes.

What a lane sees at a time are four channels at one place, or, where there are few channels, four places of one row.  They are put
together once for each image; the filters, which are constants, are put together when the code is written.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.backends.llvm.arithmetic import written
from mdf_loop.backends.llvm.arrays import Array, in_memory, offset
from mdf_loop.backends.llvm.bytes import (
    INT32,
    MOST_TERMS,
    Scaling,
    Sums,
    interleaved,
    registers,
    tiles,
    together,
    without_zero,
)
from mdf_loop.backends.llvm.conversions import converted
from mdf_loop.backends.llvm.elements import literal
from mdf_loop.backends.llvm.lanes import Lanes, Place
from mdf_loop.backends.llvm.operators.quantized import constant, scaling
from mdf_loop.backends.llvm.operators.table import Call, gives
from mdf_loop.backends.llvm.operators.windows import padded
from mdf_loop.backends.llvm.sweeps import chunks, rows
from mdf_loop.kernels.convolution import scale_of
from mdf_loop.kernels.windows import Windows, windows

FEW, MOST_ROWS = 3, 8
"""Channels below which places of a row stand side by side; filters of a tile."""

MOST_STREAMS = 16
"""Sets of places in a row that are put together."""


@dataclass
class Stream:
    """Places of a row that are put together: how far apart the four are, in channels or columns, and how the lanes go on."""

    columns: tuple[int, int, int, int]
    step: int
    count: int


class Filters:
    """Constant filters, put together by fours: first of each group, tile and four channels, and then of each tap."""

    def __init__(self, w: np.ndarray, zero: np.ndarray, group: int, by_columns: bool) -> None:
        moved, rest = without_zero(w, zero.reshape(-1, *(1,) * (w.ndim - 1)))
        self.zero = rest.reshape(-1)
        each, channels, *kernel = len(w) // group, *w.shape[1:]
        self.count = math.prod(w.shape[1:])
        self.offsets = self.count * self.zero - moved.reshape(len(w), -1).sum(1)
        """What a zero point of the input is multiplied with."""
        self.each, self.blocks = each, channels if by_columns else -(-channels // 4)
        self.table = self._by_fours(moved.reshape(group, each, channels, -1, kernel[-1]), by_columns)
        self.ones = self._by_fours(np.ones((1, 1, channels, math.prod(kernel[:-1]), kernel[-1]), np.int32), by_columns)

    def _by_fours(self, w: np.ndarray, by_columns: bool) -> np.ndarray:
        """(group, filter, channel, lead, tap) as (group, block, lead, tap, filter)."""
        axis = 4 if by_columns else 2
        widths = [(0, 0)] * 5
        widths[axis] = (0, -w.shape[axis] % 4)
        w = np.pad(w, widths)
        w = w.reshape(*w.shape[:axis], -1, 4, *w.shape[axis + 1 :])
        return together(np.moveaxis(np.moveaxis(w, axis + 1, -1), 1, 4))


class Convolution:
    """One convolution of bytes: its lengths, its filters, and what a row of windows consists of."""

    def __init__(self, call: Call, x: Array, places: tuple[int, int], zero: Array | None) -> None:
        self.call, self.e, self.text = call, call.e, call.e.text
        w, group = constant(call, places[0]), int(call.attrs.get("group", 1))
        w_zero = constant(call, places[1], np.zeros((), w.dtype))
        if not x.is_static or 0 in (*x.shape, *w.shape) or x.dtype.kind not in "iu" or w.dtype.kind not in "iu":
            raise call.refuse("of open lengths, or of floats")
        fits = len(x.shape) == w.ndim > 2 and x.shape[1] == w.shape[1] * group and len(w) % group == 0
        named = call.attrs.get("kernel_shape")
        if not fits or (named is not None and tuple(named) != w.shape[2:]) or w_zero.size not in (1, len(w)):
            raise call.refuse("with filters that do not fit")
        if w_zero.dtype != w.dtype or (zero is not None and zero.dtype != x.dtype):
            raise call.refuse("with zero points of another type")
        if math.prod(w.shape[1:]) > MOST_TERMS or (zero is not None and zero.size != 1):
            raise call.refuse("of so many channels, or with many zero points of the input")
        self.x, self.group, self.zero = x, group, zero
        names = ("auto_pad", "strides", "dilations", "pads")
        layout: dict[str, Any] = {name: call.attrs[name] for name in names if call.attrs.get(name) is not None}
        self.where = windows([n for n in x.shape[2:] if isinstance(n, int)], w.shape[2:], **layout)
        self.by_columns = w.shape[1] <= FEW and w.shape[-1] > 1
        self.filters = Filters(w, w_zero, group, self.by_columns)
        self.shape: tuple[int, ...] = (int(x.shape[0]), len(w), *self.where.out)
        self.has_zero = bool(self.filters.zero.any())
        self._flatten()

    def _flatten(self) -> None:
        """Windows of one element that stand side by side make one long row."""
        where, spatial = self.where, self.x.shape[2:]
        self.source = self.x
        if any(n != 1 for n in (*where.kernel, *where.strides)) or any(any(pair) for pair in where.pads):
            return
        length = math.prod(where.out)
        self.where = Windows((1,), (1,), (1,), ((0, 0),), (length,), (length,))
        if len(spatial) > 1:
            pointer = self.e.memory_of(self.x)
            self.source = in_memory(self.x.dtype, (*self.x.shape[:2], length), pointer)

    # The image

    def streams(self) -> tuple[list[Stream], list[tuple[int, int]]]:
        """What is put together of a row; and for each tap the number of its stream and the place where it begins."""
        where = self.where
        k, s, d, out = where.kernel[-1], where.strides[-1], where.dilations[-1], where.out[-1]
        if self.by_columns:
            starts = range(0, k, 4)
            found = [Stream(tuple(min(at + j, k - 1) * d for j in range(4)), s, out) for at in starts]  # type: ignore[arg-type]
            return found, [(number, 0) for number in range(len(found))]
        phases = sorted({tap * d % s for tap in range(k)})
        last = {phase: max(tap * d // s for tap in range(k) if tap * d % s == phase) for phase in phases}
        found = [Stream((phase,) * 4, s, last[phase] + out) for phase in phases]
        return found, [(phases.index(tap * d % s), tap * d // s) for tap in range(k)]

    def put_together(self, source: Array, sample: Place, part: Place, streams: Sequence[Stream], packed: Array) -> None:
        """The fours of one image and group."""
        e, text = self.e, self.text
        channels = int(source.shape[1]) // self.group
        lead = source.shape[2:-1]
        with rows(e, (self.filters.blocks, *lead)) as (block, *row):
            base = text.mul(part.base, channels)
            found = []
            for j in range(4):
                at = block.base
                if not self.by_columns:
                    at = text.add(text.mul(block.base, 4), j)
                    call = text.declare("llvm.smin.i64", "i64", "i64", "i64")
                    at = text.new(f"{call}(i64 {at}, i64 {channels - 1})")
                found.append(Place(text.add(base, at)))
            for number, stream in enumerate(streams):
                for lanes, place in chunks(e, stream.count, 4, may_overlap=True):
                    parts = []
                    for channel, column in zip(found, stream.columns, strict=True):
                        there = lanes.shifted(lanes.scaled(place, stream.step), Place(str(column)))
                        parts.append(self._byte(lanes, source, (sample, channel, *row, there)))
                    into = offset(lanes, packed.shape, (block, *row, Place(str(number)), place))
                    lanes.store(INT32, interleaved(lanes, parts), packed.memory, into)

    def _byte(self, lanes: Lanes, source: Array, index: Sequence[Place]) -> str:
        value = lanes.load(source.dtype, source.memory, offset(lanes, source.shape, tuple(index)))
        if source.dtype.kind == "u":
            return value
        return self.text.new(f"xor {lanes.of('i8')} {value}, {lanes.all('i8', '-128')}")

    # The sums

    def write(self, out: str, bias: np.ndarray | None, scaling: Scaling | None) -> None:
        """The code: sample by sample and group by group."""
        e = self.e
        fill = e.number_of(self.zero) if self.zero is not None else literal(self.x.dtype, 0)
        source = padded(e, self.source, self.where, fill)
        streams, taps = self.streams()
        if len(streams) > MOST_STREAMS:
            raise self.call.refuse("with such long strides or windows")
        self.bias = None if bias is None else e.table(np.ascontiguousarray(bias, INT32))
        self.weights = e.table(self.filters.table)
        self.ones = e.table(self.filters.ones) if self.has_zero else ""
        self.zeros = e.table(np.broadcast_to(self.filters.zero, self.shape[1:2]).astype(np.int32)) if self.has_zero else ""
        self.offsets = e.table(np.ascontiguousarray(self.filters.offsets, INT32))
        shape = (self.filters.blocks, *source.shape[2:-1], len(streams), max(stream.count for stream in streams))
        packed = in_memory(INT32, shape, e.room(INT32, shape))
        moved = self._zero_point(fill)
        with rows(e, (self.shape[0], self.group)) as (sample, part):
            self.put_together(source, sample, part, streams, packed)
            with rows(e, self.where.out[:-1]) as row:
                self._row(packed, sample, part, row, taps, (moved, out, scaling))

    def _zero_point(self, value: str) -> str:
        """The zero point of the input as one of numbers without a sign, in 32 bits."""
        one = Lanes(self.text)
        if self.zero is None:
            return "128" if self.x.dtype.kind == "i" else "0"
        wide = converted(one, value, self.x.dtype, INT32)
        return self.text.new(f"add i32 {wide}, 128") if self.x.dtype.kind == "i" else wide

    def _row(self, packed: Array, sample: Place, part: Place, row: Sequence[Place], taps: Any, end: Any) -> None:
        most = 2 if self.filters.each > 4 else 4
        for lanes, places in registers(self.e, self.where.out[-1], most):
            for first, count in tiles(self.e, self.filters.each, MOST_ROWS):
                inner = [one.again() for one in lanes]
                self._tile(packed, (sample, part, row), taps, (inner, places, first, count), end)

    def _tile(self, packed: Array, at: Any, taps: Any, tile: Any, end: Any) -> None:
        (sample, part, row), (lanes, places, first, count), (moved, out, scaling) = at, tile, end
        text, filters = self.text, self.filters
        channel = text.add(text.mul(part.base, filters.each), first)
        sums = Sums(self.e, lanes, count + self.has_zero)
        one = Lanes(text)
        for r in range(count):
            start = self._start(one, text.add(channel, r), moved)
            for j, many in enumerate(lanes):
                sums.begin(r, j, many.splat(INT32, start))
        for j, many in enumerate(lanes if self.has_zero else ()):
            sums.begin(count, j, many.number(INT32, 0))
        self._terms(packed, part, row, taps, sums, (places, first, count))
        for r in range(count):
            number_ = text.add(channel, r)
            zero = one.load(INT32, self.zeros, Place(number_)) if self.has_zero else ""
            for j, many in enumerate(lanes):
                total = sums.of(r, j)
                if zero:
                    less = written(many, "mul", INT32, [sums.of(count, j), many.splat(INT32, zero)])
                    total = written(many, "sub", INT32, [total, less])
                into = offset(many, self.out_shape, (sample, Place(number_), *row, Place(places[j], 1)))
                if scaling is None:
                    many.store(INT32, total, out, into)
                else:
                    many.store(scaling.dtype, scaling.bytes_of(many, total, Place(number_)), out, into)

    @functools.cached_property
    def out_shape(self) -> tuple[int, ...]:
        """The shape of the result, as rows of windows."""
        return (*self.shape[:2], *self.where.out)

    def _start(self, one: Lanes, number_: str, moved: str) -> str:
        """What the sum of a filter begins with."""
        total = written(one, "mul", INT32, [one.load(INT32, self.offsets, Place(number_)), moved])
        if self.bias is None:
            return total
        return written(one, "add", INT32, [total, one.load(INT32, self.bias, Place(number_))])

    def _terms(self, packed: Array, part: Place, row: Sequence[Place], taps: Any, sums: Sums, tile: Any) -> None:
        text, filters, where = self.text, self.filters, self.where
        places, first, count = tile
        shape = filters.table.shape  # group, block, lead, tap, filter
        with rows(self.e, (filters.blocks, *where.kernel[:-1])) as (block, *tap):
            one = Lanes(text)
            there = [
                one.shifted(one.scaled(place, s), one.scaled(k, d))
                for place, k, s, d in zip(row, tap, where.strides, where.dilations, strict=False)
            ]
            lead = "0"
            for k, n in zip(tap, where.kernel, strict=False):
                lead = text.add(text.mul(lead, n), k.base)
            for number_, (stream, start) in enumerate(taps):
                numbers = [Place(x) for x in (part.base, block.base, lead, str(number_))]
                weights = offset(one, shape, (*numbers, Place(first)))
                found = [one.load(INT32, self.weights, one.shifted(weights, Place(str(r)))) for r in range(count)]
                if self.has_zero:
                    found.append(one.load(INT32, self.ones, offset(one, (1, *shape[1:4], 1), (Place(), *numbers[1:], Place()))))
                for j, many in enumerate(sums.lanes):
                    at = (block, *there, Place(str(stream)), Place(text.add(places[j], start), 1))
                    own = many.again()
                    seen = own.load(INT32, packed.memory, offset(own, packed.shape, at))
                    for r, weight in enumerate(found):
                        sums.more(r, j, seen, own.splat(INT32, weight))


@gives("ConvInteger")
def conv_integer(call: Call) -> Array:
    """Convolution of bytes, less their zero points, in 32 bits."""
    found = Convolution(call, call.input(0), (1, 3), call.input(2) if call.has(2) else None)
    out = call.e.place_for(call.v, INT32, found.shape)
    found.write(out, None, None)
    return in_memory(INT32, found.shape, out)


@gives("QLinearConv")
def qlinear_conv(call: Call) -> Array:
    """Convolution of quantised values, quantised again."""
    found = Convolution(call, call.input(0), (3, 5), call.input(2))
    bias = constant(call, 8) if call.has(8) else None
    if bias is not None and (bias.dtype != INT32 or bias.size != found.shape[1] or np.abs(bias.astype(np.int64)).max() > 1 << 25):
        raise call.refuse("with such biases")
    scales = scaling(call, (1, 4, 6), 7, found.shape[1], scale_of)
    out = call.e.place_for(call.v, scales.dtype, found.shape)
    found.write(out, bias, scales)
    return in_memory(scales.dtype, found.shape, out)
