"""RoiAlign: regions of an image brought to one size by interpolation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mdf_loop.kernels.wide import widened
from mdf_loop.registry import kernel


@dataclass(frozen=True)
class Samples:
    """The places along one axis where a region is looked at: some in each of its cells, in a row.

    Attributes
    ----------
    cells : int
    low, high : numpy.ndarray
        The elements on both sides of each place.
    near, far : numpy.ndarray
        What they count: 0 for both if the place lies outside of the image.
    """

    cells: int
    low: np.ndarray
    high: np.ndarray
    near: np.ndarray
    far: np.ndarray

    @classmethod
    def of(cls, start: float, size: float, cells: int, each: int, length: int) -> Samples:
        """So many places in each cell of a region."""
        step = size / cells
        where = start + np.arange(cells * each, dtype=start.dtype) // each * step
        where += (np.arange(cells * each) % each + start.dtype.type(0.5)) * step / max(each, 1)
        inside = (where >= -1) & (where <= length)
        where = np.clip(where, 0, length - 1)
        low = where.astype(np.intp)
        far = where - low
        return cls(cells, low, np.minimum(low + 1, length - 1), (1 - far) * inside, far * inside)

    def matrix(self, first: int, last: int) -> np.ndarray:
        """What each element of a stretch counts in the mean of each cell."""
        each = len(self.low) // self.cells
        counts = np.zeros((self.cells, last - first), self.near.dtype)
        rows = np.arange(len(self.low)) // each
        np.add.at(counts, (rows, self.low - first), self.near)
        np.add.at(counts, (rows, self.high - first), self.far)
        return counts / each


@kernel("RoiAlign", since=16)
def roi_align(
    x,
    rois,
    batch_indices,
    *,
    coordinate_transformation_mode="half_pixel",
    mode="avg",
    output_height=1,
    output_width=1,
    sampling_ratio=0,
    spatial_scale=1.0,
):
    """The mean or the largest of some interpolated elements in each cell of a grid laid over each region."""
    if mode not in ("avg", "max") or coordinate_transformation_mode not in ("half_pixel", "output_half_pixel"):
        raise ValueError(
            "mode must be avg or max, and coordinate_transformation_mode half_pixel or output_half_pixel; "
            f"got {mode!r} and {coordinate_transformation_mode!r}"
        )
    wide, half = widened(x), coordinate_transformation_mode == "half_pixel"
    y = np.zeros((len(rois), x.shape[1], output_height, output_width), wide.dtype)
    if not y.size or not x.size:
        return y.astype(x.dtype, copy=False)
    is_finite = bool(np.isfinite(wide).all())
    corners = widened(rois) * spatial_scale - (0.5 if half else 0)
    for k, sample in enumerate(batch_indices.tolist()):
        rows, columns = _samples(corners[k], (output_height, output_width), x.shape[2:], sampling_ratio, half)
        if not len(rows.low) or not len(columns.low):
            continue
        y[k] = _means(wide[sample], rows, columns) if mode == "avg" and is_finite else _of_each(wide[sample], rows, columns, mode)
    return y.astype(x.dtype, copy=False)


@kernel("RoiAlign", since=10)
def roi_align_10(x, rois, batch_indices, *, mode="avg", output_height=1, output_width=1, sampling_ratio=0, spatial_scale=1.0):
    """Places are counted from the corners of elements, and no region is smaller than one of them."""
    return roi_align(
        x,
        rois,
        batch_indices,
        coordinate_transformation_mode="output_half_pixel",
        mode=mode,
        output_height=output_height,
        output_width=output_width,
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )


def _samples(
    corners: np.ndarray, cells: tuple[int, int], shape: tuple[int, ...], sampling_ratio: int, half: bool
) -> Iterator[Samples]:
    """The places along both axes of an image, for the corners (x, y, x, y) of a region."""
    for axis in (0, 1):
        start, end = corners[1 - axis], corners[3 - axis]
        size = end - start if half else max(end - start, start.dtype.type(1))
        each = sampling_ratio if sampling_ratio > 0 else max(int(np.ceil(size / cells[axis])), 0)
        yield Samples.of(start, size, cells[axis], each, shape[axis])


def _means(image: np.ndarray, rows: Samples, columns: Samples) -> np.ndarray:
    """The mean of each cell: two products with matrices, of the part of the image that the region touches."""
    top, bottom = int(rows.low.min()), int(rows.high.max()) + 1
    left, right = int(columns.low.min()), int(columns.high.max()) + 1
    part = image[:, top:bottom, left:right]
    across = part.reshape(-1, right - left) @ columns.matrix(left, right).T
    across = across.reshape(len(image), bottom - top, columns.cells).swapaxes(0, 1).reshape(bottom - top, -1)
    means = rows.matrix(top, bottom) @ across
    return means.reshape(rows.cells, len(image), columns.cells).swapaxes(0, 1)


def _of_each(image: np.ndarray, rows: Samples, columns: Samples, mode: str) -> np.ndarray:
    """Of each cell the mean of the sums, or the largest, of what each place has from its four neighbours."""
    parts = [
        image[:, y[:, None], x] * (by_row[:, None] * by_column)
        for y, by_row in ((rows.low, rows.near), (rows.high, rows.far))
        for x, by_column in ((columns.low, columns.near), (columns.high, columns.far))
    ]
    found = sum(parts[1:], parts[0]) if mode == "avg" else np.maximum.reduce(parts)
    cells = found.reshape(len(image), rows.cells, -1, columns.cells, len(columns.low) // columns.cells)
    return cells.mean((2, 4)) if mode == "avg" else cells.max((2, 4))
