"""RoiAlign: the cells of a row side by side; what the neighbours of their places count is the same for all channels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdf_loop.backends.llvm.arithmetic import written
from mdf_loop.backends.llvm.arrays import Array, get, in_memory
from mdf_loop.backends.llvm.conversions import converted
from mdf_loop.backends.llvm.elements import FLOAT64, INT64, element
from mdf_loop.backends.llvm.lanes import Lanes, Place
from mdf_loop.backends.llvm.operators.table import Call, gives, whole_place
from mdf_loop.backends.llvm.sweeps import chunks

MOST_PLACES = 16
"""Places in a cell up to which they are looked at one after the other, without a loop."""

LARGEST = 1e30
"""Corners from which on the kernel says what becomes of them."""


@gives("RoiAlign")
def roi_align(call: Call) -> Array:
    """The mean or the largest of some interpolated elements in each cell of a grid laid over each region."""
    e, x, regions, samples = call.e, call.input(0), call.input(1), call.input(2)
    each = int(call.attrs.get("sampling_ratio", 0))
    if not 0 < each * each <= MOST_PLACES or call.attrs.get("mode", "avg") not in ("avg", "max"):
        raise call.refuse("with so many places, or as many as it takes")
    is_fit = all(z.is_static and 0 not in z.shape for z in (x, regions, samples)) and len(x.shape) == 4 and x.dtype.kind == "f"
    if not is_fit or x.dtype.itemsize < 4 or regions.dtype != x.dtype or regions.shape != (*samples.shape, 4):
        raise call.refuse("of open lengths, or of half precision")
    cells = int(call.attrs.get("output_height", 1)), int(call.attrs.get("output_width", 1))
    corners = call.attrs.get("coordinate_transformation_mode", "half_pixel")
    if min(cells) < 1 or corners not in ("half_pixel", "output_half_pixel"):
        raise call.refuse(f"of {cells} cells, by {corners!r}")
    shape = (int(regions.shape[0]), int(x.shape[1]), *cells)
    out = e.place_for(call.v, x.dtype, shape)
    source = in_memory(x.dtype, x.shape, e.memory_of(x))
    grid = _Grid(call, source, cells, each, out)
    with e.text.counted(0, shape[0]) as region:
        sample = whole_place(e, samples, [Place(region)], x.shape[0])
        axes = grid.axes(regions, region)
        with e.text.counted(0, cells[0]) as row:
            grid.row(axes, region, sample, row)
    return e.settled(in_memory(x.dtype, shape, out))


@dataclass
class _Neighbours:
    """The elements on both sides of places along one axis, and what they count."""

    low: str
    high: str
    near: str
    far: str


class _Grid:
    """The cells of regions."""

    def __init__(self, call: Call, source: Array, cells: tuple[int, int], each: int, out: str) -> None:
        self.e, self.text, self.source, self.cells, self.each, self.out = call.e, call.e.text, source, cells, each, out
        self.dtype, self.is_mean = source.dtype, call.attrs.get("mode", "avg") == "avg"
        default = "half_pixel" if call.node.opset >= 16 else "output_half_pixel"
        self.has_half = call.attrs.get("coordinate_transformation_mode", default) == "half_pixel"
        self.scale = float(call.attrs.get("spatial_scale", 1.0))

    def do(self, lanes: Lanes, name: str, *args: str | float, dtype: np.dtype | None = None) -> str:
        """A primitive of values and numbers."""
        dtype = dtype or self.dtype
        return written(lanes, name, dtype, [x if isinstance(x, str) else lanes.number(dtype, x) for x in args])

    def axes(self, regions: Array, region: str) -> list[tuple[str, str]]:
        """Where a region begins along both axes, and how far one of its cells is from the next."""
        one = Lanes(self.text)
        corners = []
        for k in range(4):
            corner = get(one, regions, (Place(region), Place(str(k))))
            corners.append(self.do(one, "sub", self.do(one, "mul", corner, self.scale), 0.5 if self.has_half else 0.0))
            is_small = self.do(one, "lt", self.do(one, "abs", corners[-1]), LARGEST)
            self.e.leave_if(self.text.new(f"xor i1 {is_small}, true"))
        found = []
        for k, cells in enumerate(self.cells):
            size = self.do(one, "sub", corners[3 - k], corners[1 - k])
            size = size if self.has_half else self.do(one, "max", size, 1.0)
            found.append((corners[1 - k], self.do(one, "div", size, float(cells))))
        return found

    def row(self, axes: list[tuple[str, str]], region: str, sample: str, row: str) -> None:
        """The cells of one row, for all channels."""
        text, one = self.text, Lanes(self.text)
        channels = int(self.source.shape[1])
        for lanes, column in chunks(self.e, self.cells[1], element(self.dtype).size, may_overlap=True):
            down = [self._neighbours(one, *axes[0], Place(row), k, 0) for k in range(self.each)]
            down = [_Neighbours(y.low, y.high, *(lanes.splat(self.dtype, z) for z in (y.near, y.far))) for y in down]
            right = [self._neighbours(lanes, *axes[1], column, k, 1) for k in range(self.each)]
            with text.counted(0, channels) as channel:
                inner = lanes.again()
                image = text.mul(text.add(text.mul(sample, channels), channel), self.source.shape[2])
                found = self._cells(inner, image, down, right)
                at = text.add(text.mul(text.add(text.mul(region, channels), channel), self.cells[0]), row)
                inner.store(self.dtype, found, self.out, inner.shifted(Place(text.mul(at, self.cells[1])), column))

    def _neighbours(self, lanes: Lanes, start: str, step: str, cell: Place, k: int, axis: int) -> _Neighbours:
        """Of the place k of cells along an axis."""
        length, new = int(self.source.shape[2 + axis]), self.text.new
        start, step = (lanes.splat(self.dtype, x) for x in (start, step))
        number = converted(lanes, lanes.number_of(cell), INT64, self.dtype)
        where = self.do(lanes, "add", start, self.do(lanes, "mul", number, step))
        wide = self.do(lanes, "mul", k + 0.5, converted(lanes, step, self.dtype, FLOAT64), dtype=FLOAT64)
        wide = self.do(lanes, "div", wide, float(self.each), dtype=FLOAT64)  # the kernel's numbers are of both kinds here
        wide = self.do(lanes, "add", converted(lanes, where, self.dtype, FLOAT64), wide, dtype=FLOAT64)
        where = converted(lanes, wide, FLOAT64, self.dtype)
        bits = lanes.of("i1")
        inside = new(f"and {bits} {self.do(lanes, 'ge', where, -1.0)}, {self.do(lanes, 'le', where, float(length))}")
        where = self.do(lanes, "min", self.do(lanes, "max", where, 0.0), float(length - 1))
        low = new(f"fptosi {lanes.register(self.dtype)} {where} to {lanes.of('i64')}")
        last = self.do(lanes, "min", self.do(lanes, "add", low, 1, dtype=INT64), length - 1, dtype=INT64)
        far = self.do(lanes, "sub", where, converted(lanes, low, INT64, self.dtype))
        nothing = lanes.number(self.dtype, 0.0)
        near, far = (lanes.select(self.dtype, inside, part, nothing) for part in (self.do(lanes, "sub", 1.0, far), far))
        return _Neighbours(low, last, near, far)

    def _cells(self, lanes: Lanes, image: str, down: list[_Neighbours], right: list[_Neighbours]) -> str:
        """The mean, or the largest, of what the places of cells have from their neighbours."""
        total = ""
        for y in down:
            for x in right:
                parts = []
                for line, by_row in ((y.low, y.near), (y.high, y.far)):
                    base = self.text.mul(self.text.add(image, line), self.source.shape[3])
                    pointer = self.text.element_pointer(element(self.dtype).memory, self.source.memory, base)
                    for column, by_column in ((x.low, x.near), (x.high, x.far)):
                        value = lanes.load(self.dtype, pointer, Place(vector=column))
                        parts.append(self.do(lanes, "mul", value, self.do(lanes, "mul", by_row, by_column)))
                for part in parts if not self.is_mean else [self._sum(lanes, parts)]:
                    total = self.do(lanes, "add" if self.is_mean else "max", total, part) if total else part
        return self.do(lanes, "div", total, float(self.each * self.each)) if self.is_mean else total

    def _sum(self, lanes: Lanes, parts: list[str]) -> str:
        total = parts[0]
        for part in parts[1:]:
            total = self.do(lanes, "add", total, part)
        return total
