"""Regions of images: RoiAlign brings them to one size, NonMaxSuppression keeps the best of those that overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.bounds import shape_for
from mdf_loop.kernels.numbers.wide import widened
from mdf_loop.ops.registry import kernel

AT_ONCE = 1 << 20
"""Elements of the matrices made at a time."""


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

    def matrices(self) -> np.ndarray:
        """For each region what each element of the axis counts in the mean of each cell."""
        regions, places = self.low.shape
        each = places // self.cells
        counts = np.zeros((regions, self.cells, self.length), self.near.dtype)
        cell = np.arange(places) // each
        for at, share in ((self.low, self.near), (self.high, self.far)):
            np.add.at(counts, (np.arange(regions)[:, None], cell, at), share)
        counts /= each
        return counts

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
    by_mean = mode == "avg" and bool(np.isfinite(wide).all())
    half = coordinate_transformation_mode == "half_pixel"
    corners = widened(rois) * spatial_scale - (0.5 if half else 0)
    step = max(AT_ONCE // (output_height * x.shape[2] + output_width * x.shape[3]), 1)
    for which, rows, columns in _samples(corners, y.shape[2:], x.shape[2:], sampling_ratio, half, step):
        images = [wide[sample] for sample in batch_indices[which].tolist()]
        y[which] = list(_means(images, rows, columns) if by_mean else _of_each(images, rows, columns, mode))
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
    corners: np.ndarray, cells: tuple[int, int], shape: tuple[int, ...], sampling_ratio: int, half: bool, step: int
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
        for first in range(0, len(same), step):
            which = same[first : first + step]
            axes = (Samples.of(starts[which, k], sizes[which, k], cells[k], int(counts[k]), shape[k]) for k in (0, 1))
            yield which, *axes


def _means(images: Sequence[np.ndarray], rows: Samples, columns: Samples) -> Iterator[np.ndarray]:
    """The mean of each cell: two products with matrices, of the part of the image that a region touches."""
    tops, bottoms = rows.low.min(1).tolist(), (rows.high.max(1) + 1).tolist()
    lefts, rights = columns.low.min(1).tolist(), (columns.high.max(1) + 1).tolist()
    for k, (down, right) in enumerate(zip(rows.matrices(), columns.matrices(), strict=True)):
        part = images[k][:, tops[k] : bottoms[k], lefts[k] : rights[k]]
        across = part.reshape(-1, part.shape[2]).dot(right[:, lefts[k] : rights[k]].T)
        across = across.reshape(len(part), -1, columns.cells).swapaxes(0, 1).reshape(part.shape[1], -1)
        yield down[:, tops[k] : bottoms[k]].dot(across).reshape(rows.cells, len(part), columns.cells).swapaxes(0, 1)


def _of_each(images: Sequence[np.ndarray], rows: Samples, columns: Samples, mode: str) -> Iterator[np.ndarray]:
    """Of each cell the mean of the sums, or the largest, of what each place has from its four neighbours."""
    for k, image in enumerate(images):
        down, right = rows.one(k), columns.one(k)
        parts = [
            image[:, y[:, None], x] * (by_row[:, None] * by_column)
            for y, by_row in ((down.low, down.near), (down.high, down.far))
            for x, by_column in ((right.low, right.near), (right.high, right.far))
        ]
        found = sum(parts[1:], parts[0]) if mode == "avg" else np.maximum.reduce(parts)
        cells = found.reshape(len(image), down.cells, -1, right.cells, len(right.low) // right.cells)
        yield cells.mean((2, 4)) if mode == "avg" else cells.max((2, 4))


BOXES_AT_ONCE = 128
"""Boxes that are compared with each other at a time, and then with those kept before."""

LATER = np.triu(np.ones((BOXES_AT_ONCE, BOXES_AT_ONCE), bool), 1)

MOST_PAIRS, MOST_SORTED = 1 << 12, 1 << 14
"""Boxes kept that a block is compared with in one call, and boxes sorted at a time."""


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
    kept: list[np.ndarray] = []
    corners, count = np.empty((5, 0), boxes.dtype), 0
    for block in _best_first(scores, lowest, min(limit + limit // 4, MOST_SORTED)) if limit > 0 else ():
        theirs = _corners(boxes[block], by_centre)
        for start in range(0, count, MOST_PAIRS):
            left = ~np.logical_or.reduce(_covers(corners[:, start : start + MOST_PAIRS], theirs, overlap), 0)
            block, theirs = block[left], theirs[:, left]
        left = _survivors(_covers(theirs, theirs, overlap))
        kept.append(block[left])
        count += len(kept[-1])
        if count >= limit:
            break
        corners = np.concatenate([corners, theirs[:, left]], 1) if len(kept) > 1 else theirs[:, left]
    if not kept:
        return np.empty(0, np.int64)
    return (np.concatenate(kept) if len(kept) > 1 else kept[0])[:limit]


def _best_first(scores: np.ndarray, lowest: float, size: int) -> Iterator[np.ndarray]:
    """Places of the scores from the lowest one on, the best first, equal ones by place: in blocks.

    About ``size`` are sorted at first, later more.
    """
    places = (scores >= lowest).nonzero()[0]
    while len(places):
        left, best, size = scores[places], places, max(size, BOXES_AT_ONCE)
        if len(places) > 2 * size:
            is_good = left >= np.partition(left, len(left) - size)[len(left) - size]
            best, left, places = places[is_good], left[is_good], places[~is_good]
        else:
            places = places[:0]
        order = best[(-left).argsort(kind="stable")]
        yield from (order[start : start + BOXES_AT_ONCE] for start in range(0, len(order), BOXES_AT_ONCE))
        size = min(4 * size, MOST_SORTED)


def _covers(boxes: np.ndarray, others: np.ndarray, overlap: float) -> np.ndarray:
    """Which boxes cover which others: their intersection is more than such a part of their union."""
    y, x, y_end, x_end, area = boxes[..., None]
    shared = np.minimum(y_end, others[2])
    shared -= np.maximum(y, others[0])
    width = np.minimum(x_end, others[3])
    width -= np.maximum(x, others[1])
    shared *= np.maximum(width, 0, out=width)  # below zero if the heights do not meet, which covers nothing either
    union = np.add(area, others[4], out=width)
    union -= shared
    shared /= union  # nan for two points, which is not more than anything
    return shared > overlap


def _survivors(covers: np.ndarray) -> np.ndarray:
    """Which of the boxes are not covered by one before that is not covered itself."""
    covers &= LATER[: len(covers), : len(covers)]
    alive, then = None, ~np.logical_or.reduce(covers, 0)
    if then.all():
        return then
    while alive is None or (then != alive).any():  # each round settles those that depend on settled ones alone
        alive, then = then, ~np.logical_or.reduce(covers[then], 0)
    return alive
