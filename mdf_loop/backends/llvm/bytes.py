"""Products of whole numbers of eight bits, four at a time, and what becomes of their sums.

Four bytes that stand side by side in a lane of 32 bits are multiplied with four others, and the products added up.  One of the
two has no sign: numbers of the other kind are moved by 128, and so are their zero points, which changes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mdf_loop.backends.llvm.arithmetic import written
from mdf_loop.backends.llvm.conversions import converted
from mdf_loop.backends.llvm.elements import FLOAT64
from mdf_loop.backends.llvm.emitter import Emitter
from mdf_loop.backends.llvm.lanes import Lanes, Place
from mdf_loop.backends.llvm.sweeps import width_for

INT32 = np.dtype(np.int32)

MOST_TERMS = 32_000
"""Products that a sum may have: with these no sum leaves 32 bits, whatever the numbers are."""


def signed(x: np.ndarray) -> np.ndarray:
    """Bytes, or zero points, as those of numbers with a sign."""
    return x.astype(np.int32) - (128 if x.dtype == np.uint8 else 0)


def together(x: np.ndarray) -> np.ndarray:
    """Rows whose last axis has four numbers of eight bits as numbers of 32 bits."""
    return np.ascontiguousarray(x.astype(np.int8)).view("<i4")[..., 0].astype(INT32)


def summed(e: Emitter, lanes: Lanes, total: str, without: str, with_sign: str) -> str:
    """A total and the products of four bytes that have no sign with four that have one."""
    many, count = lanes.of("i32"), 4 * lanes.width
    if e.has_dots and lanes.width >= 4:
        call = lanes.text.declare(f"llvm.x86.avx512.vpdpbusd.{32 * lanes.width}", many, many, many, many)
        return lanes.text.new(f"{call}({many} {total}, {many} {without}, {many} {with_sign})")
    new, type, shorts = lanes.text.new, f"<{count // 2} x i16>", f"<{count // 2} x i16>"
    eight = f"<{', '.join(['i16 8'] * (count // 2))}>"
    a, b = (new(f"bitcast {many} {x} to {type}") for x in (without, with_sign))
    odd = new(f"lshr {shorts} {a}, {eight}"), new(f"ashr {shorts} {b}, {eight}")
    even = (
        new(f"lshr {shorts} {new(f'shl {shorts} {a}, {eight}')}, {eight}"),
        new(f"ashr {shorts} {new(f'shl {shorts} {b}, {eight}')}, {eight}"),
    )
    for pair in (even, odd):
        total = written(lanes, "add", INT32, [total, _pairs(e, lanes, *pair)])
    return total


def _pairs(e: Emitter, lanes: Lanes, a: str, b: str) -> str:
    """The products of numbers of 16 bits, two of which are added up."""
    new, width = lanes.text.new, lanes.width
    shorts, wide, many = f"<{2 * width} x i16>", f"<{2 * width} x i32>", lanes.of("i32")
    name = {16: "avx512.pmaddw.d.512", 8: "avx2.pmadd.wd", 4: "sse2.pmadd.wd"}.get(width)
    if e.has_pairs and name:
        call = lanes.text.declare(f"llvm.x86.{name}", many, shorts, shorts)
        return new(f"{call}({shorts} {a}, {shorts} {b})")
    products = new(f"mul {wide} {new(f'sext {shorts} {a} to {wide}')}, {new(f'sext {shorts} {b} to {wide}')}")
    parts = []
    for first in range(2):
        mask = f"<{', '.join(f'i32 {2 * k + first}' for k in range(width))}>"
        parts.append(new(f"shufflevector {wide} {products}, {wide} poison, <{width} x i32> {mask}"))
    return written(lanes, "add", INT32, [new(f"bitcast <{width} x i32> {x} to {many}") for x in parts])


def interleaved(lanes: Lanes, parts: Sequence[str]) -> str:
    """Four registers of bytes as one of numbers of 32 bits."""
    new, many = lanes.text.new, lanes.of("i32")
    total = ""
    for k, part in enumerate(parts):
        wide = new(f"zext {lanes.of('i8')} {part} to {many}")
        moved = new(f"shl {many} {wide}, {lanes.all('i32', str(8 * k))}") if k else wide
        total = new(f"or {many} {total}, {moved}") if total else moved
    return total


@dataclass
class Scaling:
    """How sums become bytes again: the type, a zero point, and a scale or where several stand, all in float64."""

    dtype: np.dtype
    zero: str
    scale: str
    scales: str = ""

    def bytes_of(self, lanes: Lanes, total: str, place: Place) -> str:
        """Sums times their scales, rounded to even, moved by the zero point, and kept to the range of the type."""
        limits = np.iinfo(self.dtype)
        x = converted(lanes, total, INT32, FLOAT64)
        scale = lanes.load(FLOAT64, self.scales, place) if self.scales else lanes.splat(FLOAT64, self.scale)
        x = written(lanes, "mul", FLOAT64, [x, scale])
        x = written(lanes, "rint", FLOAT64, [x])
        x = written(lanes, "add", FLOAT64, [x, lanes.splat(FLOAT64, self.zero)])
        for question, limit in (("ogt", limits.min), ("olt", limits.max)):
            end = lanes.number(FLOAT64, float(limit))
            holds = lanes.text.new(f"fcmp {question} {lanes.register(FLOAT64)} {x}, {end}")
            x = lanes.select(FLOAT64, holds, x, end)
        whole = lanes.text.new(f"fptosi {lanes.register(FLOAT64)} {x} to {lanes.of('i32')}")
        return lanes.text.new(f"trunc {lanes.of('i32')} {whole} to {lanes.of('i8')}")


class Sums:
    """The sums of a tile: rows, each of some registers, and perhaps the sum of what has no weights."""

    def __init__(self, e: Emitter, lanes: Sequence[Lanes], rows: int) -> None:
        self.e, self.text, self.lanes = e, e.text, lanes
        self.slots = [[self.text.slot(one.of("i32")) for one in lanes] for _ in range(rows)]

    def begin(self, row: int, register: int, value: str) -> None:
        """What a sum begins with."""
        self.text.line(f"store {self.lanes[register].of('i32')} {value}, ptr {self.slots[row][register]}")

    def of(self, row: int, register: int) -> str:
        """What a sum is."""
        return self.text.new(f"load {self.lanes[register].of('i32')}, ptr {self.slots[row][register]}")

    def more(self, row: int, register: int, without: str, with_sign: str) -> None:
        """Four more products each."""
        self.begin(row, register, summed(self.e, self.lanes[register], self.of(row, register), without, with_sign))


def registers(e: Emitter, length: int, most: int) -> Iterator[tuple[list[Lanes], list[str]]]:
    """The sums of a row, so many registers at a time, and the place of each: code that is given is written there."""
    text, width = e.text, max(width_for(e, length, 4), 4)
    step = most * width
    main = length - length % step
    if main:
        with text.counted(0, main, step) as at:
            yield [Lanes(text, width) for _ in range(most)], [text.add(at, k * width) for k in range(most)]
    lanes, places = [], []
    for place in range(main, length, width):
        left = length - place
        if left < width < length:  # what is computed twice is written twice
            place, left = length - width, width
        mask = f"<{', '.join(f'i1 {str(k < left).lower()}' for k in range(width))}>"
        lanes.append(Lanes(text, width) if left >= width else Lanes(text, width, left, mask))
        places.append(str(place))
    if lanes:
        yield lanes, places


def tiles(e: Emitter, count: int, most: int) -> Iterator[tuple[str, int]]:
    """So many rows at a time: the first one, and how many."""
    main = count - count % most
    if main:
        with e.text.counted(0, main, most) as at:
            yield at, most
    if count - main:
        yield str(main), count - main


def without_zero(w: np.ndarray, zero: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights in a range with signs, and what is left of their zero points: nothing, where these can be taken off at once."""
    moved, rest = signed(w), signed(zero)
    less = moved - rest
    if less.min() >= -128 and less.max() <= 127:
        return less, np.zeros_like(rest)
    return moved, rest
