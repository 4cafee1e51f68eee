"""Products of matrices: tiles of registers, as many rows and columns at a time as keep the processor busy.

The second matrix is read row by row.  A constant one is packed into panels of so many columns as a tile has, so that it is read
in the order in which it stands.  A product with a vector, or with a transposed matrix, adds up along the rows of both.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mdf_loop.backends.llvm.emitter import Emitter, type_of, writes
from mdf_loop.backends.llvm.lanes.arithmetic import written
from mdf_loop.backends.llvm.lanes.element_loops import chunks, rows, width_for, widths_of
from mdf_loop.backends.llvm.lanes.element_types import CannotCompile, element
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Index, Length, get, in_memory, is_one, number
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes, Place, Register, first_lanes
from mdf_loop.backends.llvm.operations.views import turned
from mdf_loop.step.records import Region, Value

ROWS, REGISTERS = 4, 4
"""Rows and registers of a tile."""

FEW_ROWS = 6
"""Rows from which on the other matrix is worth being put row by row, where it is transposed."""

BUSY = 8
"""Sums that have to be under way at once for the processor to be busy."""

UNROLLED = 64
"""Instructions of a tile up to which there is no loop over its terms."""

SMALL, SMALL_ONCE = 1 << 13, 1 << 18
"""Products of two numbers up to which code in a hurry has loops in the place of tiles: in a loop, and outside of all.  A product
takes up to a millisecond less to compile then, and runs up to 2.3 times as long."""


@writes("dot")
def dot(e: Emitter, v: Value) -> Array:
    """numpy's matmul."""
    x, y, dtype = e.of(v.args[0]), e.of(v.args[1]), type_of(v)
    if element(dtype).kind not in "fiu" or dtype != x.dtype or dtype != y.dtype:
        raise CannotCompile(f"a product of matrices of {dtype.name} has no compiled form")
    left = x.shape if len(x.shape) > 1 else (1, *x.shape)
    right = y.shape if len(y.shape) > 1 else (*y.shape, 1)
    terms = e.same_length([left[-1], right[-2]])
    batch = e.broadcast_shape([Array(dtype, s[:-2], _never) for s in (left, right)])
    shape = (*batch, *(left[-2:-1] if len(x.shape) > 1 else ()), *(right[-1:] if len(y.shape) > 1 else ()))
    out = e.place_for(v, dtype, shape or (1,))
    product = Product(e, dtype, left[-2], terms, right[-1])
    given = [Given.of(e, z, z.const is None or len(batch) > 0) for z in (x, y)]
    given[1].packed = e.packed.get(v.args[1], "")
    with rows(e, batch) as places:
        pointers = [_part(e, g.memory, dtype, places, s) for g, s in zip(given, (left, right), strict=True)]
        product.write(given[0], given[1], pointers[0], pointers[1], _part(e, out, dtype, places, (*batch, left[-2], right[-1])))
    if is_one(shape):
        return number(dtype, Lanes(e.text).load(dtype, out, Place()), shape)
    return in_memory(dtype, shape, out)


def _never(*given: object) -> str:
    raise AssertionError("a shape has no elements")


def _part(e: Emitter, pointer: str, dtype: np.dtype, places: Sequence[Place], shape: Sequence[Length]) -> str:
    """The address of one matrix of several; their lengths broadcast."""
    text, at = e.text, "0"
    own = list(places)[len(places) - (len(shape) - 2) :] if len(shape) > 2 else []
    for k, n in enumerate(shape):
        at = text.add(text.mul(at, n), own[k].base if k < len(own) and n != 1 else "0")
    return text.element_pointer(element(dtype).memory, pointer, at)


@dataclass
class Given:
    """A factor: where it stands, whether its last two axes have changed places there, its elements if they are known.

    ``packed`` is where its columns have been put together.
    """

    memory: str
    is_transposed: bool = False
    const: np.ndarray | None = None
    packed: str = ""

    @classmethod
    def of(cls, e: Emitter, x: Array, may_be_transposed: bool) -> Given:
        rank = len(x.shape)
        if x.transposed is not None and may_be_transposed:
            source, order = x.transposed
            if source.memory and order == (*range(rank - 2), rank - 1, rank - 2):
                return cls(source.memory, True)
        return cls(e.memory_of(x), False, None if x.value or rank != 2 else x.const)


@dataclass
class _Tile:
    """Registers of a tile: the lanes of each, and its first column."""

    lanes: list[Lanes]
    columns: list[str]


class Product:
    """One product of a given shape."""

    def __init__(self, e: Emitter, dtype: np.dtype, m: Length, k: Length, n: Length) -> None:
        self.e, self.text, self.dtype = e, e.text, dtype
        self.m, self.k, self.n = m, k, n
        self.type = element(dtype).memory

    def write(self, x: Given, y: Given, a: str, b: str, out: str) -> None:
        """The code: row by row, or along the terms."""
        self.a, self.b, self.out = a, b, out
        if x.is_transposed:
            self.a = self._straight(a, self.m, self.k)
        if y.is_transposed and isinstance(self.m, int) and self.m >= FEW_ROWS:
            self.b, y = self._straight(b, self.k, self.n), Given(b)
        if self.n == 1 and x.const is not None and isinstance(self.m, int) and self.m > 1:
            self.a, self.b, self.m, self.n = b, self.e.table(np.ascontiguousarray(x.const.T)), 1, self.m
            self._by_columns(Given(self.b))
        elif self.n == 1 or y.is_transposed:
            self._along_terms()
        else:
            self._by_columns(y)

    def _straight(self, a: str, rows: Length, columns: Length) -> str:
        """A transposed matrix row by row."""
        return self.e.materialised(turned(in_memory(self.dtype, (columns, rows), a), (1, 0))).memory

    # Row by row

    def _by_columns(self, y: Given) -> None:
        self.width = width_for(self.e, self.n, self.dtype.itemsize)
        self.stride: Length = self.n
        is_packed = bool(y.packed)
        if y.packed:
            self.b, self.stride = y.packed, self.width * REGISTERS
        elif y.const is not None and isinstance(self.n, int):
            is_packed = self._pack(y.const)
        for tile, base in self._tiles(is_packed):
            for first, count in self._blocks():
                self._tile(tile, base, first, count)

    def _pack(self, given: np.ndarray) -> bool:
        """Panels of columns, of a matrix that has more than one."""
        assert isinstance(self.n, int)
        columns = self.width * REGISTERS
        panels = -(-self.n // columns)
        if panels < 2:
            return False
        whole = np.zeros((given.shape[0], panels * columns), given.dtype)
        whole[:, : self.n] = given
        self.b = self.e.table(np.ascontiguousarray(whole.reshape(-1, panels, columns).transpose(1, 0, 2)))
        self.stride = columns
        return True

    def _tiles(self, is_packed: bool) -> Iterator[tuple[_Tile, str]]:
        """Tiles of columns, and where the second matrix begins for each."""
        text, width = self.text, self.width
        columns = width * REGISTERS

        def base(column: str) -> str:
            place = text.mul(text.new(f"sdiv exact i64 {column}, {columns}"), text.mul(columns, self.k)) if is_packed else column
            return text.element_pointer(self.type, self.b, place)

        if isinstance(self.n, str):
            whole = text.sub(self.n, text.new(f"srem i64 {self.n}, {width}"))
            with text.counted("0", whole, width) as at:
                yield _Tile([Lanes(text, width)], [at]), base(at)
            with text.counted(whole, self.n) as at:
                yield _Tile([Lanes(text)], [at]), base(at)
            return
        main = self.n - self.n % columns
        if main:
            with text.counted(0, main, columns) as at:
                yield (
                    _Tile([Lanes(text, width) for _ in range(REGISTERS)], [text.add(at, j * width) for j in range(REGISTERS)]),
                    base(at),
                )
        if self.n - main:
            yield self._rest(main), base(text.new(f"add i64 0, {main}"))

    def _rest(self, main: int) -> _Tile:
        """The last columns, of which a register may be masked."""
        assert isinstance(self.n, int)
        tile = _Tile([], [])
        for column in range(main, self.n, self.width):
            tile.lanes.append(first_lanes(self.text, self.width, min(self.n - column, self.width)))
            tile.columns.append(str(column))
        return tile

    def _blocks(self) -> Iterator[tuple[str, int]]:
        """Blocks of rows: the first row, and how many."""
        if isinstance(self.m, str):
            with self.text.counted("0", self.m) as at:
                yield at, 1
            return
        main = self.m - self.m % ROWS
        if main > ROWS:
            with self.text.counted(0, main, ROWS) as at:
                yield at, ROWS
        elif main:
            yield "0", ROWS
        if self.m - main:
            yield str(main), self.m - main

    def _tile(self, tile: _Tile, base: str, first: str, count: int) -> None:
        """One tile: its sums, several for each element where there would be too few of them at once."""
        text = self.text
        sums = count * len(tile.lanes)
        split = 1
        while sums * split < BUSY and isinstance(self.k, int) and self.k >= 4 * split:
            split *= 2
        if self.e.is_quick and self._is_small:
            self._in_loops(tile, base, first, count, split)
            return
        starts = [text.mul(text.add(first, r), self.k) for r in range(count)]
        pointers = [text.element_pointer(self.type, self.a, start) for start in starts]
        slots = [[[Register(lanes, self.dtype, 0) for _ in range(split)] for lanes in tile.lanes] for _ in range(count)]
        terms = self.k if isinstance(self.k, int) else 0
        if terms and terms * sums <= UNROLLED:
            for k in range(terms):
                self._term(tile, base, pointers, slots, str(k), k % split)
        else:
            self._terms(tile, base, pointers, slots, split)
        for r in range(count):
            row = text.mul(text.add(first, r), self.n)
            for j, lanes in enumerate(tile.lanes):
                self._store(lanes, slots[r][j], text.add(row, tile.columns[j]))

    @property
    def _is_small(self) -> bool:
        """Whether its text takes longer than what it computes, in code that may not run for long."""
        work = [n for n in (self.m, self.k, self.n) if isinstance(n, int)]
        return math.prod(work) <= (SMALL if self.e.loops else SMALL_ONCE)

    def _store(self, lanes: Lanes, sums: Sequence[Register], place: str) -> None:
        """Add the sums of some elements up, two and two, and write them."""
        parts = [one.read() for one in sums]
        while len(parts) > 1:
            parts = [written(lanes, "add", self.dtype, pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
        lanes.store(self.dtype, parts[0], self.out, Place(place, 1))

    def _in_loops(self, tile: _Tile, base: str, first: str, count: int, split: int) -> None:
        """The same sums with a fifth of the text: row by row and register by register, whose terms are added up in a loop."""
        text = self.text
        full = sum(lanes.active is None for lanes in tile.lanes)
        with rows(self.e, (count,)) as (r,):
            row = text.add(first, r.base)
            a, out = text.element_pointer(self.type, self.a, text.mul(row, self.k)), text.mul(row, self.n)
            around: contextlib.AbstractContextManager[list[Place]] = rows(self.e, (full,)) if full else contextlib.nullcontext([])
            with around as registers:
                for at in registers:
                    offset = text.mul(at.base, self.width)
                    self._register(tile.lanes[0], base, offset, a, text.add(out, text.add(tile.columns[0], offset)), split)
            for lanes, column in zip(tile.lanes[full:], tile.columns[full:], strict=True):
                self._register(lanes, base, str(full * self.width), a, text.add(out, column), split)

    def _register(self, lanes: Lanes, base: str, offset: str, a: str, place: str, split: int) -> None:
        """The elements of one row in one register: of each so many sums, one after the other."""
        text, dtype, type = self.text, self.dtype, lanes.register(self.dtype)
        sums = text.slot(type, split)
        each = [Register(lanes, dtype, 0, text.element_pointer(type, sums, s)) for s in range(split)]
        with text.counted("0" if isinstance(self.k, str) else 0, self.k) as k:
            b = lanes.load(dtype, base, Place(text.add(text.mul(k, self.stride), offset), 1))
            factor = Lanes(text, lanes.width).splat(dtype, Lanes(text).load(dtype, a, Place(k)))
            slot = text.element_pointer(type, sums, text.new(f"and i64 {k}, {split - 1}")) if split > 1 else sums
            self._more(lanes, factor, b, Register(lanes, dtype, slot=slot))
        self._store(lanes, each, place)

    def _terms(self, tile: _Tile, base: str, pointers: list[str], slots: list[list[list[Register]]], split: int) -> None:
        """A loop over the terms, so many at a time as there are sums for each element."""
        text = self.text
        main = self.k - self.k % split if isinstance(self.k, int) else self.k
        with text.counted("0" if isinstance(main, str) else 0, main, split) as at:
            for s in range(split):
                self._term(tile, base, pointers, slots, text.add(at, s), s)
        for s, k in enumerate(range(main, self.k) if isinstance(main, int) and isinstance(self.k, int) else ()):
            self._term(tile, base, pointers, slots, str(k), s)

    def _term(self, tile: _Tile, base: str, pointers: list[str], slots: list[list[list[Register]]], k: str, s: int) -> None:
        text, dtype = self.text, self.dtype
        row = text.mul(k, self.stride)
        found = []
        for j, lanes in enumerate(tile.lanes):
            found.append(lanes.load(dtype, base, Place(text.add(row, j * self.width), 1)))
        one = Lanes(text)
        for r, pointer in enumerate(pointers):
            factor = one.load(dtype, pointer, Place(k))
            for j, lanes in enumerate(tile.lanes):
                many = Lanes(text, lanes.width, memo=one.memo).splat(dtype, factor)
                self._more(lanes, many, found[j], slots[r][j][s])

    def _more(self, lanes: Lanes, a: str, b: str, total: Register) -> None:
        """Add a * b; of floats rounded once, where the processor can."""
        before = total.read()
        if self.dtype.kind == "f":
            total.write(lanes.call("fmuladd", self.dtype, a, b, before))
        else:
            total.write(written(lanes, "add", self.dtype, [written(lanes, "mul", self.dtype, [a, b]), before]))

    # Along the terms

    def _along_terms(self) -> None:
        """Rows of both matrices, element by element."""
        text = self.text
        with rows(self.e, (self.m,)) as (row,):
            a = text.element_pointer(self.type, self.a, text.mul(row.base, self.k))
            with rows(self.e, (self.n,)) as (column,):
                b = text.element_pointer(self.type, self.b, text.mul(column.base, self.k))
                place = text.add(text.mul(row.base, self.n), column.base)
                Lanes(text).store(self.dtype, self._inner(a, b), self.out, Place(place))

    def _inner(self, a: str, b: str) -> str:
        """The product of two vectors."""
        text, dtype = self.text, self.dtype
        widths = widths_of(self.e, self.k, dtype.itemsize, may_overlap=False)
        sums = {width: [Register(Lanes(text, width), dtype, 0) for _ in range(UNROLLED_SUMS)] for width in widths}
        for count, (lanes, place) in enumerate(chunks(self.e, self.k, dtype.itemsize, may_overlap=False)):
            full = Lanes(text, lanes.width)
            both = [lanes.load(dtype, pointer, place) for pointer in (a, b)]
            self._more(full, both[0], both[1], sums[lanes.width][count % UNROLLED_SUMS])
        found = [self._across(Lanes(text, width), one.read()) for width, ones in sums.items() for one in ones]
        total = found[0]
        for other in found[1:]:
            total = written(Lanes(text), "add", dtype, [total, other])
        return total

    def _across(self, lanes: Lanes, value: str) -> str:
        type = lanes.register(self.dtype)
        if lanes.width == 1:
            return value
        if self.dtype.kind != "f":
            call = self.text.declare(f"llvm.vector.reduce.add.{lanes.suffix(self.dtype)}", self.type, type)
            return self.text.new(f"{call}({type} {value})")
        name = f"llvm.vector.reduce.fadd.{lanes.suffix(self.dtype)}"
        call = self.text.declare(name, self.type, self.type, type).replace("call ", "call reassoc ")
        return self.text.new(f"{call}({self.type} {Lanes(self.text).number(self.dtype, -0.0)}, {type} {value})")


UNROLLED_SUMS = 4
"""Sums of one product of vectors that are under way at once."""


LEAST_PACKED, MOST_ROWS = 1 << 14, 16
"""Elements of a matrix from which on it is worth packing for many products, and rows of the other one up to which it is."""


def pack_ahead(e: Emitter, body: Region) -> None:
    """In front of a loop: pack the matrices that its body multiplies with and that stay the same."""
    for v in body.values:
        if v.op != "dot" or v.args[1].op == "const" or v.args[1] not in e.known or v.args[1] in e.packed:
            continue
        x, y = v.args[0].type, e.known[v.args[1]]
        if len(y.shape) != 2 or not y.is_static or y.size < LEAST_PACKED or y.value or not x.is_static or y.transposed:
            continue
        terms, columns = (n for n in y.shape if isinstance(n, int))
        width = width_for(e, columns, y.dtype.itemsize) * REGISTERS
        if x.size // terms <= MOST_ROWS and columns > width and columns % width == 0:
            e.packed[v.args[1]] = _panels(e, y, columns // width, terms, width)


def _panels(e: Emitter, y: Array, panels: int, terms: int, width: int) -> str:
    """A copy of a matrix, so many columns at a time."""

    def at(lanes: Lanes, index: Index) -> str:
        panel, row, column = index
        return get(lanes, y, (row, lanes.shifted(lanes.scaled(panel, width), column)))

    return e.materialised(Array(y.dtype, (panels, terms, width), at, widest=y.widest)).memory
