"""Products of whole numbers of eight bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.backends.llvm.arithmetic import written
from mdf_loop.backends.llvm.arrays import Array, Index, get, in_memory, mapped, offset
from mdf_loop.backends.llvm.bytes import INT32, MOST_TERMS, Scaling, Sums, registers, tiles, together, without_zero
from mdf_loop.backends.llvm.conversions import converted
from mdf_loop.backends.llvm.elements import FLOAT32, FLOAT64, CannotCompile, literal
from mdf_loop.backends.llvm.elementwise import computed
from mdf_loop.backends.llvm.lanes import Lanes, Place
from mdf_loop.backends.llvm.operators.table import Call, gives
from mdf_loop.backends.llvm.products import multiplied
from mdf_loop.backends.llvm.sweeps import sweep
from mdf_loop.backends.llvm.views import reshaped
from mdf_loop.kernels.linear import scale_of_product

ROWS, REGISTERS = 6, 2
"""Rows and registers of a tile; with one row, twice as many registers."""


def centred(call: Call, k: int, zero_point: int, per_row: bool) -> Array:
    """An input less its zero point, in 32 bits; constants at once."""
    e, x = call.e, call.input(k)
    if x.dtype.kind not in "iu":
        raise call.refuse("of small floats")
    zero = call.input(zero_point) if call.has(zero_point) else None
    if zero is not None and per_row and len(zero.shape) == 1 and zero.shape != (1,):
        zero = reshaped(e, zero, (*zero.shape, 1))
    if x.const is not None and (zero is None or zero.const is not None):
        given = x.const.astype(np.int32) - (0 if zero is None or zero.const is None else zero.const.astype(np.int32))
        return in_memory(INT32, given.shape, e.table(np.ascontiguousarray(given)), given)

    def compute(lanes: Lanes, a: str, *b: str) -> str:
        wide = converted(lanes, a, x.dtype, INT32)
        return written(lanes, "sub", INT32, [wide, converted(lanes, b[0], x.dtype, INT32)]) if b else wide

    return e.materialised(computed(e, INT32, [x] if zero is None else [x, zero], compute))


def constant(call: Call, k: int, default: Any = None) -> np.ndarray:
    """An input that is known.

    Raises
    ------
    CannotCompile
        It is computed.
    """
    if not call.has(k):
        return np.asarray(default)
    found = call.input(k).const
    if found is None:
        raise call.refuse("with weights, scales or zero points that are computed")
    return found


def scaling(call: Call, places: Sequence[int], zero: int, lengths: int, of: Callable[..., np.ndarray]) -> Scaling:
    """How sums become bytes again: by one scale or so many, which ``of`` makes of three, or by a single one that is computed."""
    e, one, end = call.e, Lanes(call.e.text), call.input(zero)
    if end.size != 1 or not end.is_static or end.dtype.kind not in "iu":
        raise call.refuse("with such zero points")
    moved = converted(one, e.number_of(end), end.dtype, FLOAT64) if end.const is None else literal(FLOAT64, end.const.item())
    given = [call.input(k) for k in places]
    known = [x.const for x in given]
    if all(x is not None for x in known):
        scale = of(*known).astype(np.float64)
        if (scale.size != 1 and scale.shape != (lengths,)) or not np.isfinite(scale).all():
            raise call.refuse("with such scales")
        if scale.size == 1:
            return Scaling(end.dtype, moved, literal(FLOAT64, scale.item()))
        return Scaling(end.dtype, moved, "", e.table(np.ascontiguousarray(scale)))
    if any(x.dtype != FLOAT32 or x.size != 1 or not x.is_static for x in given):
        raise call.refuse("with many scales that are computed")
    a, b, y = (e.number_of(x) for x in given)
    single = written(one, "div", FLOAT32, [written(one, "mul", FLOAT32, [a, b]), y])
    is_plain = written(one, "lt", FLOAT32, [written(one, "abs", FLOAT32, [single]), one.number(FLOAT32, np.inf)])
    e.leave_if(e.text.new(f"xor i1 {is_plain}, true"))
    return Scaling(end.dtype, moved, converted(one, single, FLOAT32, FLOAT64))


class Product:
    """A product with a constant matrix of bytes: four terms at a time, of as many columns as a register has lanes."""

    def __init__(self, call: Call, x: Array, places: tuple[int, int], zero: Array | None) -> None:
        self.call, self.e, self.text, self.x = call, call.e, call.e.text, x
        w = constant(call, places[0])
        w_zero = constant(call, places[1], np.zeros((), w.dtype))
        is_fit = x.is_static and len(x.shape) > 1 and w.ndim == 2 and w.shape[0] == x.shape[-1] and 0 not in (*x.shape, *w.shape)
        if not is_fit or x.dtype.kind not in "iu" or w.dtype.kind not in "iu" or w_zero.size not in (1, w.shape[1]):
            raise call.refuse("of open lengths, or of floats")
        if w_zero.dtype != w.dtype or w_zero.ndim > 1 or (zero is not None and (zero.dtype != x.dtype or zero.size != 1)):
            raise call.refuse("with many zero points")
        self.terms, self.columns = w.shape
        if self.terms > MOST_TERMS:
            raise call.refuse("of so many terms")
        self.m = math.prod(n for n in x.shape[:-1] if isinstance(n, int))
        self.shape, self.zero = (*x.shape[:-1], self.columns), zero
        moved, rest = without_zero(w, w_zero.reshape(-1))
        self.has_zero = bool(rest.any())
        self.rest = np.ascontiguousarray(np.broadcast_to(rest, w.shape[1:]), INT32)
        self.offsets = (self.terms * rest - moved.sum(0)).astype(INT32)
        self.fours = -(-self.terms // 4)
        whole = np.pad(moved, ((0, -self.terms % 4), (0, 0)))
        self.weights = together(whole.reshape(self.fours, 4, self.columns).swapaxes(1, 2))

    def write(self, out: str, scaling: Scaling | None) -> None:
        """The code."""
        e = self.e
        self.out, self.scaling, self.source = out, scaling, self._by_fours()
        self.tables = [e.table(x) for x in (self.weights, self.offsets, self.rest)]
        self.moved = self._zero_point()
        for lanes, places in registers(e, self.columns, REGISTERS if self.m > 1 else 2 * REGISTERS):
            for first, count in tiles(e, self.m, ROWS):
                self._tile([one.again() for one in lanes], places, first, count)

    def _by_fours(self) -> str:
        """Rows of the first matrix, as long as fours of terms are."""
        if not self.terms % 4:
            return self.e.memory_of(self.x)
        flat = reshaped(self.e, self.x, (self.m, self.terms))
        shape = (self.m, 4 * self.fours)
        pointer = self.e.room(flat.dtype, shape)

        def visit(lanes: Lanes, index: Index) -> None:
            lanes.store(flat.dtype, get(lanes, flat, index), pointer, offset(lanes, shape, index))

        sweep(self.e, flat.shape, 4, visit, last_axis=True)
        return pointer

    def _zero_point(self) -> str:
        """The zero point of the first matrix as one of numbers without a sign, in 32 bits."""
        is_signed = self.x.dtype.kind == "i"
        if self.zero is None:
            return "128" if is_signed else "0"
        wide = converted(Lanes(self.text), self.e.number_of(self.zero), self.x.dtype, INT32)
        return self.text.new(f"add i32 {wide}, 128") if is_signed else wide

    def _tile(self, lanes: list[Lanes], places: list[str], first: str, count: int) -> None:
        sums = Sums(self.e, lanes, 2 * count if self.has_zero else count)
        for j, many in enumerate(lanes):
            start = many.load(INT32, self.tables[1], Place(places[j], 1))
            start = written(many, "mul", INT32, [start, many.splat(INT32, self.moved)])
            for r in range(len(sums.slots)):
                sums.begin(r, j, start if r < count else many.number(INT32, 0))
        self._terms(sums, places, first, count)
        for j, many in enumerate(lanes):
            rest = many.load(INT32, self.tables[2], Place(places[j], 1)) if self.has_zero else ""
            for r in range(count):
                total = sums.of(r, j)
                if rest:
                    less = written(many, "mul", INT32, [sums.of(count + r, 0), rest])
                    total = written(many, "sub", INT32, [total, less])
                row = self.text.mul(self.text.add(first, r), self.columns)
                self._store(many, total, Place(self.text.add(row, places[j]), 1), Place(places[j], 1))

    def _store(self, many: Lanes, total: str, into: Place, column: Place) -> None:
        if self.scaling is None:
            many.store(INT32, total, self.out, into)
        else:
            many.store(self.scaling.dtype, self.scaling.bytes_of(many, total, column), self.out, into)

    def _terms(self, sums: Sums, places: list[str], first: str, count: int) -> None:
        text, columns = self.text, self.columns
        ones = self._ones()
        with text.counted(0, self.fours) as at:
            row = text.mul(at, columns)
            one = Lanes(text)
            factors = [self._factor(text.add(text.mul(text.add(first, r), self.fours), at)) for r in range(count)]
            for j, many in enumerate(sums.lanes):
                own = many.again()
                weights = own.load(INT32, self.tables[0], Place(text.add(row, places[j]), 1))
                for r, factor in enumerate(factors):
                    wide = Lanes(text, many.width, memo=one.memo).splat(INT32, factor)
                    sums.more(r, j, wide, weights)
                    if self.has_zero and not j:  # the same in all lanes
                        sums.more(count + r, j, wide, own.splat(INT32, one.load(INT32, ones, Place(at))))

    def _ones(self) -> str:
        """What adds up the terms of a row: nothing behind its end."""
        given = np.zeros((self.fours, 4), np.int32)
        given.reshape(-1)[: self.terms] = 1
        return self.e.table(together(given)) if self.has_zero else ""

    def _factor(self, place: str) -> str:
        """Four terms of a row, without signs."""
        found = Lanes(self.text).load(INT32, self.source, Place(place))
        return self.text.new(f"xor i32 {found}, {-0x7F7F7F80}") if self.x.dtype.kind == "i" else found


def _by_bytes(call: Call, places: tuple[int, int], zero: int) -> Product | None:
    """The product with a constant matrix, if it is one."""
    try:
        return Product(call, call.input(0), places, call.input(zero) if call.has(zero) else None)
    except CannotCompile:
        return None


@gives("MatMulInteger")
def matmul_integer(call: Call) -> Array:
    """The product of 8-bit matrices, less their zero points, in 32 bits."""
    found = _by_bytes(call, (1, 3), 2)
    if found is None:
        return multiplied(call.e, call.v, centred(call, 0, 2, per_row=True), centred(call, 1, 3, per_row=False), INT32)
    out = call.e.place_for(call.v, INT32, found.shape)
    found.write(out, None)
    return in_memory(INT32, found.shape, out)


@gives("QLinearMatMul")
def qlinear_matmul(call: Call) -> Array:
    """The product of quantised matrices, quantised again."""
    found = _by_bytes(call, (3, 5), 2)
    columns = call.input(3).shape[-1] if found is None else found.columns
    if found is None and min(len(call.input(k).shape) for k in (0, 3)) < 2:
        raise call.refuse("of vectors")
    if any(call.input(k).size != 1 for k in ((1, 2, 4, 5) if found is None else (1,))):
        raise call.refuse("with a scale for each row")
    terms = call.input(0).shape[-1]
    if found is None and (isinstance(terms, str) or terms > MOST_TERMS):
        raise call.refuse("of so many terms")
    scales = scaling(call, (1, 4, 6), 7, columns if isinstance(columns, int) else 1, scale_of_product)
    if found is None:
        call.e.targets.pop(call.v, None)
        whole = multiplied(call.e, call.v, centred(call, 0, 2, per_row=True), centred(call, 3, 5, per_row=False), INT32)

        def compute(lanes: Lanes, total: str) -> str:
            return scales.bytes_of(lanes, total, Place())

        return call.e.settled(call.e.materialised(mapped(scales.dtype, whole.shape, compute, [whole])))
    out = call.e.place_for(call.v, scales.dtype, found.shape)
    found.write(out, scales)
    return in_memory(scales.dtype, found.shape, out)
