"""How far an arrow bends so that it passes the boxes between its ends, as matplotlib's arcs bend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mdf_loop.pictures.layout import Place

STRAIGHT_FIRST = (0.0, 0.12, -0.12, 0.24, -0.24, 0.4, -0.4, 0.55, -0.55)
"""Bends to try, the sooner the better; a positive one leads a downward arrow past the left."""

CURVED = (0.3, -0.3, 0.18, -0.18, 0.48, -0.48)
"""Those for an arrow that leads back: never straight, and never the line of an arrow that leads there."""

ALONG = np.linspace(0.0, 1.0, 25)[:, None]


def bend(tail: Place, head: Place, others: Sequence[Place], whole: Place, bends: Iterable[float]) -> float:
    """The first of some bends with which an arrow crosses the fewest other boxes, and stays in the picture.

    Parameters
    ----------
    tail, head : Place
        Where it begins and ends; not among the others.
    others : sequence of Place
        What it should pass.
    whole : Place
        What it should stay in.
    bends : iterable of float
    """
    corners = np.array([place.corners for place in others]).reshape(-1, 4)
    ends, edges = (np.array(tail.middle), np.array(head.middle)), np.array(whole.corners)

    def cost(each: float) -> int:
        curve = _curve(*ends, each)
        is_out = (curve[:, 0].min() < edges[0]) or (curve[:, 0].max() > edges[2])
        return len(others) * is_out + _crossed(curve, corners)

    return min(bends, key=cost)


def _curve(start: np.ndarray, end: np.ndarray, each: float) -> np.ndarray:
    """Points of matplotlib's ``arc3``: a quadratic curve whose control point stands beside the middle."""
    across = end - start
    control = (start + end) / 2 + each * np.array([-across[1], across[0]])  # y counts downwards
    return (1 - ALONG) ** 2 * start + 2 * ALONG * (1 - ALONG) * control + ALONG**2 * end


def _crossed(curve: np.ndarray, corners: np.ndarray) -> int:
    """How many boxes have a point of a curve inside."""
    x, y = curve[:, :1], curve[:, 1:]
    inside = (corners[:, 0] < x) & (x < corners[:, 2]) & (corners[:, 1] < y) & (y < corners[:, 3])
    return int(inside.any(axis=0).sum())
