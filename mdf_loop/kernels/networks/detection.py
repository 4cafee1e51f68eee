"""NonMaxSuppression: of boxes that overlap, the one with the best score."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mdf_loop.ops.registry import kernel

AT_ONCE = 128
"""Boxes that are compared with each other at a time, and then with those kept before."""

LATER = np.triu(np.ones((AT_ONCE, AT_ONCE), bool), 1)

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
        left, best, size = scores[places], places, max(size, AT_ONCE)
        if len(places) > 2 * size:
            is_good = left >= np.partition(left, len(left) - size)[len(left) - size]
            best, left, places = places[is_good], left[is_good], places[~is_good]
        else:
            places = places[:0]
        order = best[(-left).argsort(kind="stable")]
        yield from (order[start : start + AT_ONCE] for start in range(0, len(order), AT_ONCE))
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
