"""NonMaxSuppression: of boxes that overlap, the one with the best score."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.registry import kernel


@kernel("NonMaxSuppression", since=10)
def non_max_suppression(
    boxes, scores, max_output_boxes_per_class=None, iou_threshold=None, score_threshold=None, *, center_point_box=0
):
    """Rows of (batch, class, box): the boxes kept, best first, none of them overlapping a better one too much."""
    limit = int(_number(max_output_boxes_per_class, 0))
    overlap, lowest = _number(iou_threshold, 0.0), _number(score_threshold, -np.inf)
    corners = _corners(boxes, center_point_box)
    rows = [
        (batch, k, box)
        for batch, classes in enumerate(scores)
        for k, values in enumerate(classes)
        for box in _kept(corners[batch], values, limit, overlap, lowest)
    ]
    return np.array(rows, np.int64).reshape(-1, 3)


def _number(value: Any, default: float) -> float:
    """A scalar input, which may come with shape [1]."""
    return default if value is None or np.size(value) == 0 else np.asarray(value).item()


def _corners(boxes: np.ndarray, center_point_box: int) -> np.ndarray:
    """Boxes as (lower corner, upper corner), whichever two corners or centre and size were given."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if center_point_box:
        first, second = first - second / 2, first + second / 2
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=-1)


def _kept(corners: np.ndarray, scores: np.ndarray, limit: int, overlap: float, lowest: float) -> list[int]:
    """Boxes in the order of their scores, without those that a better one covers."""
    candidates = np.argsort(-scores, kind="stable")
    candidates = candidates[scores[candidates] >= lowest]
    kept: list[int] = []
    while len(candidates) and len(kept) < limit:
        best, candidates = candidates[0], candidates[1:]
        kept.append(int(best))
        candidates = candidates[_intersection_over_union(corners[best], corners[candidates]) <= overlap]
    return kept


def _intersection_over_union(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    lower, upper = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.maximum(upper - lower, 0).prod(-1)
    union = (box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(-1) - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
