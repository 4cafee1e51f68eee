"""GridSample: places between elements, as many side by side as a register has lanes.

The neighbours of places, and what these count, are the same for all channels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from mdf_loop.backends.llvm.arithmetic import written
from mdf_loop.backends.llvm.arrays import Array, Index, get, in_memory
from mdf_loop.backends.llvm.conversions import converted
from mdf_loop.backends.llvm.elements import FLOAT64, INT64
from mdf_loop.backends.llvm.lanes import Lanes, Place
from mdf_loop.backends.llvm.operators.table import Call, gives
from mdf_loop.backends.llvm.sweeps import sweep
from mdf_loop.backends.llvm.views import reshaped

MOST_CHANNELS_IN_LINE = 4
"""Channels up to which there is no loop over them."""


@gives("GridSample")
def grid_sample(call: Call) -> Array:
    """The weighted sum of the neighbours of each place, or the nearest of them."""
    e, x, grid = call.e, call.input(0), call.input(1)
    mode = call.attrs.get("mode", "linear" if call.node.opset >= 20 else "bilinear")
    padding = call.attrs.get("padding_mode", "zeros")
    names = ("linear", "nearest") if call.node.opset >= 20 else ("linear", "bilinear", "nearest")
    if mode not in names or padding not in ("zeros", "border"):
        raise call.refuse(f"in mode {mode!r} with {padding!r}")
    rank = len(x.shape) - 2
    is_fit = x.is_static and grid.is_static and rank > 0 and len(grid.shape) == rank + 2 and grid.shape[-1] == rank
    if not is_fit or 0 in (*x.shape, *grid.shape) or x.shape[0] != grid.shape[0]:
        raise call.refuse("of open lengths, or of nothing")
    if any(z.dtype.kind != "f" or z.dtype.itemsize < 4 for z in (x, grid)):
        raise call.refuse("of half precision")
    samples, channels, *spatial = (n for n in x.shape if isinstance(n, int))
    shape = (samples, channels, *grid.shape[1:-1])
    out = e.place_for(call.v, x.dtype, shape)
    points = math.prod(n for n in grid.shape[1:-1] if isinstance(n, int))
    places = reshaped(e, grid if grid.memory else e.materialised(grid), (samples, points, rank))
    looking = _Looking(call, (e.memory_of(x), x.dtype, channels, spatial), out, points, mode == "nearest", padding == "zeros")

    def visit(lanes: Lanes, index: Index) -> None:
        where = []
        for k, n in enumerate(spatial):
            found = get(lanes, places, (*index, Place(str(rank - 1 - k))))
            where.append(looking.position(lanes, converted(lanes, found, grid.dtype, FLOAT64), n))
        looking.up(lanes, index, where)

    sweep(e, (samples, points), 8, visit, last_axis=True)
    return e.settled(in_memory(x.dtype, shape, out))


class _Looking:
    """Looks up elements at whole positions, of which some may lie outside."""

    def __init__(
        self,
        call: Call,
        source: tuple[str, np.dtype, int, Sequence[int]],
        out: str,
        points: int,
        is_nearest: bool,
        has_zeros: bool,
    ) -> None:
        self.text, self.out, self.points, self.is_nearest, self.has_zeros = call.e.text, out, points, is_nearest, has_zeros
        self.memory, self.dtype, self.channels, self.spatial = source
        self.align_corners = bool(call.attrs.get("align_corners", 0))

    def position(self, lanes: Lanes, x: str, length: int) -> str:
        """A position along an axis, from -1 to 1, in units of its elements."""

        def do(name: str, a: str, number: float) -> str:
            return written(lanes, name, FLOAT64, [a, lanes.number(FLOAT64, number)])

        x = do("add", x, 1)
        if self.align_corners:
            return do("mul", do("div", x, 2), length - 1)
        return do("div", do("sub", do("mul", x, length), 1), 2)

    def up(self, lanes: Lanes, index: Index, where: list[str]) -> None:
        """The result of some places, for all channels."""
        corners = list(self._corners(lanes, where))
        sample, point = index
        if self.channels <= MOST_CHANNELS_IN_LINE:
            for channel in range(self.channels):
                self._channel(lanes.again(), sample, str(channel), point, corners)
            return
        with self.text.counted(0, self.channels) as at:
            self._channel(lanes.again(), sample, at, point, corners)

    def _channel(self, lanes: Lanes, sample: Place, channel: str, point: Place, corners: list[tuple[str, str, str]]) -> None:
        text = self.text
        number = text.add(text.mul(sample.base, self.channels), channel)
        base = text.element_pointer("float" if self.dtype.itemsize == 4 else "double", self.memory, text.mul(number, self._size))
        total = ""
        for place, inside, weight in corners:
            value = lanes.load(self.dtype, base, Place(vector=place))
            if inside:
                value = lanes.select(self.dtype, inside, value, lanes.number(self.dtype, 0))
            if weight:
                wide = converted(lanes, value, self.dtype, FLOAT64)
                part = written(lanes, "mul", FLOAT64, [wide, weight])
                total = written(lanes, "add", FLOAT64, [total, part]) if total else part
        found = converted(lanes, total, FLOAT64, self.dtype) if total else value
        lanes.store(self.dtype, found, self.out, lanes.shifted(point, Place(text.mul(number, self.points))))

    @property
    def _size(self) -> int:
        return math.prod(self.spatial)

    def _corners(self, lanes: Lanes, where: list[str]) -> list[tuple[str, str, str]]:
        """The neighbours of places: where they stand, whether inside, and what they count."""
        if self.is_nearest:
            return [(*self._place(lanes, [written(lanes, "rint", FLOAT64, [w]) for w in where]), "")]
        found = []
        for offsets in itertools.product(range(2), repeat=len(where)):
            neighbours, weight = [], ""
            for w, offset in zip(where, offsets, strict=True):
                floor = written(lanes, "floor", FLOAT64, [w])
                neighbours.append(written(lanes, "add", FLOAT64, [floor, lanes.number(FLOAT64, float(offset))]))
                distance = written(lanes, "abs", FLOAT64, [written(lanes, "sub", FLOAT64, [neighbours[-1], w])])
                near = written(lanes, "sub", FLOAT64, [lanes.number(FLOAT64, 1.0), distance])
                near = written(lanes, "max", FLOAT64, [near, lanes.number(FLOAT64, 0.0)])
                weight = written(lanes, "mul", FLOAT64, [weight, near]) if weight else near
            found.append((*self._place(lanes, neighbours), weight))
        return found

    def _place(self, lanes: Lanes, positions: list[str]) -> tuple[str, str]:
        """The number of an element, the nearest one that there is; and whether that is the one."""
        new, many = self.text.new, lanes.register(FLOAT64)
        number = inside = ""
        for position, n in zip(positions, self.spatial, strict=True):
            nought, last = lanes.number(FLOAT64, 0.0), lanes.number(FLOAT64, float(n - 1))
            is_behind = new(f"fcmp oge {many} {position}, {nought}")
            holds = new(f"and {lanes.of('i1')} {is_behind}, {new(f'fcmp ole {many} {position}, {last}')}")
            inside = new(f"and {lanes.of('i1')} {inside}, {holds}") if inside else holds
            near = lanes.select(FLOAT64, is_behind, position, nought)  # nan is the first
            near = lanes.select(FLOAT64, new(f"fcmp olt {many} {near}, {last}"), near, last)
            whole = new(f"fptosi {many} {near} to {lanes.of('i64')}")
            if number:
                whole = written(lanes, "add", INT64, [written(lanes, "mul", INT64, [number, lanes.number(INT64, n)]), whole])
            number = whole
        return number, inside if self.has_zeros else ""
