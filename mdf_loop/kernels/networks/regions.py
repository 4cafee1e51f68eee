"""Regions of images: RoiAlign brings them to one size, NonMaxSuppression keeps the best of those that overlap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.bounds import shape_for
from mdf_loop.kernels.numbers.wide import widened
from mdf_loop.ops.registry import kernel


@dataclass(frozen=True)
class Samples:
    """The places along one axis where regions are looked at: some in each cell, in a row for each region.

    Attributes
    ----------
    cells : int
    low, high : numpy.ndarray
        The elements on both sides of each place.
    near, far : numpy.ndarray
        What they count: 0 for both if the place lies outside of the image.
    length : int
        Of the axis.
    """

    cells: int
    low: np.ndarray
    high: np.ndarray
    near: np.ndarray
    far: np.ndarray
    length: int

    @classmethod
    def of(cls, starts: np.ndarray, sizes: np.ndarray, cells: int, each: int, length: int) -> Samples:
        """So many places in each cell of each region."""
        count, dtype = np.arange(cells * each), starts.dtype.type
        steps = sizes[:, None] / dtype(cells)
        where = starts[:, None] + (count // each).astype(dtype) * steps
        where += (count % each + dtype(0.5)) * steps / dtype(each)
        inside = (where >= -1) & (where <= length)
        where = np.clip(where, 0, length - 1)
        low = where.astype(np.intp)
        far = where - low.astype(dtype)
        return cls(cells, low, np.minimum(low + 1, length - 1), (1 - far) * inside, far * inside, length)

    def one(self, region: int) -> Samples:
        """Those of one region."""
        parts = (part[region] for part in (self.low, self.high, self.near, self.far))
        return Samples(self.cells, *parts, self.length)


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
    wide = widened(x)
    y = np.zeros(shape_for((len(rois), x.shape[1], output_height, output_width), wide.itemsize), wide.dtype)
    if not y.size or not x.size:
        return y.astype(x.dtype, copy=False)
    half = coordinate_transformation_mode == "half_pixel"
    corners = widened(rois) * spatial_scale - (0.5 if half else 0)
    for which, rows, columns in _samples(corners, y.shape[2:], x.shape[2:], sampling_ratio, half):
        for k, place in enumerate(which.tolist()):
            y[place] = _cells_of(wide[int(batch_indices[place])], rows.one(k), columns.one(k), mode)
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
) -> Iterator[tuple[np.ndarray, Samples, Samples]]:
    """Some regions, of corners (x, y, x, y), that have equally many places in a cell; and these along both axes."""
    starts, sizes = corners[:, 1::-1], corners[:, 3:1:-1] - corners[:, 1::-1]
    if not half:
        sizes = np.maximum(sizes, 1)
    each = (
        np.full(sizes.shape, sampling_ratio) if sampling_ratio > 0 else np.ceil(sizes / np.array(cells, sizes.dtype)).astype(int)
    )
    for counts in np.unique(each[(each > 0).all(1)], axis=0):
        same = (each == counts).all(1).nonzero()[0]
        yield same, *(Samples.of(starts[same, k], sizes[same, k], cells[k], int(counts[k]), shape[k]) for k in (0, 1))


def _cells_of(image: np.ndarray, down: Samples, right: Samples, mode: str) -> np.ndarray:
    """Of each cell the mean of the sums, or the largest, of what each place has from its four neighbours."""
    parts = [
        image[:, y[:, None], x] * (by_row[:, None] * by_column)
        for y, by_row in ((down.low, down.near), (down.high, down.far))
        for x, by_column in ((right.low, right.near), (right.high, right.far))
    ]
    found = sum(parts[1:], parts[0]) if mode == "avg" else np.maximum.reduce(parts)
    cells = found.reshape(len(image), down.cells, -1, right.cells, len(right.low) // right.cells)
    return cells.mean((2, 4)) if mode == "avg" else cells.max((2, 4))


@kernel("NonMaxSuppression", since=10)
def non_max_suppression(
    boxes, scores, max_output_boxes_per_class=None, iou_threshold=None, score_threshold=None, *, center_point_box=0
):
    """Rows of (batch, class, box): the boxes kept, best first, none of them overlapping a better one too much."""
    limit = int(_number(max_output_boxes_per_class, 0))
    overlap, lowest = _number(iou_threshold, 0.0), _number(score_threshold, -np.inf)
    found: list[np.ndarray] = []
    for batch, classes in enumerate(scores):
        for k, values in enumerate(classes):
            kept = _kept(boxes[batch], values, limit, overlap, lowest, bool(center_point_box))
            rows = np.empty((len(kept), 3), np.int64)
            rows[:, 0], rows[:, 1], rows[:, 2] = batch, k, kept
            found.append(rows)
    if len(found) == 1:
        return found[0]
    return np.concatenate(found) if found else np.empty((0, 3), np.int64)


def _number(value: Any, default: float) -> float:
    """A scalar input, which may come with shape [1]."""
    return default if value is None or value.size == 0 else value.item()


def _corners(boxes: np.ndarray, by_centre: bool) -> np.ndarray:
    """Rows of lower corners, upper corners and areas, whichever two corners or centre and size were given."""
    out = np.empty((5, len(boxes)), boxes.dtype)
    first, second = boxes.T[:2], boxes.T[2:]
    if by_centre:
        first, second = first - second / 2, first + second / 2
    np.minimum(first, second, out=out[:2])
    np.maximum(first, second, out=out[2:4])
    np.multiply(out[2] - out[0], out[3] - out[1], out[4])
    return out


def _kept(boxes: np.ndarray, scores: np.ndarray, limit: int, overlap: float, lowest: float, by_centre: bool) -> np.ndarray:
    """Boxes in the order of their scores, without those that a better one covers."""
    places = np.flatnonzero(scores >= lowest)
    order = places[np.argsort(-scores[places], kind="stable")]
    corners, left, kept = _corners(boxes[order], by_centre), np.arange(len(order)), []
    while len(left) and len(kept) < limit:
        best, left = left[0], left[1:]
        kept.append(order[best])
        left = left[~_covers(corners[:, best], corners[:, left], overlap)]
    return np.array(kept, np.int64)


def _covers(box: np.ndarray, others: np.ndarray, overlap: float) -> np.ndarray:
    """Which others a box covers: their intersection is more than such a part of their union."""
    y, x, y_end, x_end, area = box
    height = np.minimum(y_end, others[2]) - np.maximum(y, others[0])
    width = np.minimum(x_end, others[3]) - np.maximum(x, others[1])
    shared = height * np.maximum(width, 0)  # below zero if the heights do not meet, which covers nothing either
    return shared / (area + others[4] - shared) > overlap  # nan for two points, which is not more than anything
