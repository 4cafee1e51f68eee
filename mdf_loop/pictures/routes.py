"""Ways of arrows around boxes that are not their ends: the shortest path on a grid, drawn as straight pieces."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

import numpy as np

from mdf_loop.pictures.layout import Spot

CELL, CLEAR, CLEAR_BACK = 0.06, (0.05, 0.09, 0.13), (0.1, 0.14, 0.05)
"""Inches: a square of the grid, and how far an arrow stays away from other boxes; one that leads back takes another way.  Of
several distances that one is taken first with which an arrow does not run along an earlier one."""

NEAR, SHORT = 0.03, 0.2
"""Inches: two arrows so near to each other look like one, and how much of that is not seen: where they begin or end."""

STEPS = [(x, y, float(np.hypot(x, y))) for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y]


def around(
    tail: Spot, head: Spot, others: Sequence[Spot], whole: Spot, is_back: bool = False, earlier: Sequence[np.ndarray] = ()
) -> np.ndarray | None:
    """The corners of a path from box to box that crosses no other one; None if there is no path.

    Parameters
    ----------
    tail, head : Spot
        Where it begins and ends; not among the others.
    others : sequence of Spot
        What it must pass.
    whole : Spot
        What it must stay in.
    is_back : bool
        Whether it is for the next iteration.
    earlier : sequence of array
        The corners of arrows that are drawn already.
    """
    boxes = np.array([place.corners for place in others]).reshape(-1, 4)
    found = list[tuple[float, np.ndarray]]()
    for clear in CLEAR_BACK if is_back else CLEAR:
        way = _path(tail, head, boxes + clear * np.array([-1, -1, 1, 1]), whole)
        if way is not None:
            found.append((_together(way, earlier), way))
            if found[-1][0] <= SHORT:
                break
    return min(found, key=lambda each: each[0])[1] if found else None


def _together(way: np.ndarray, earlier: Sequence[np.ndarray]) -> float:
    """How far an arrow runs along others."""
    points, others = _points(way), [_points(other) for other in earlier]
    near = [(np.abs(points[:, None] - other).max(-1) < NEAR).any(1) for other in others]
    return 0.02 * float(np.any(near, axis=0).sum()) if near else 0.0


def _points(way: np.ndarray) -> np.ndarray:
    """Points along a path."""
    return np.concatenate([_between(start, end) for start, end in itertools.pairwise(way)])


def _path(tail: Spot, head: Spot, corners: np.ndarray, whole: Spot) -> np.ndarray | None:
    x, y = (CELL * (np.arange(int(size / CELL)) + 0.5) for size in (whole.width, whole.height))
    points = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
    found = _shortest(~_inside(points, corners), *(_cell(place.middle, points.shape[:2]) for place in (tail, head)))
    if found is None:
        return None
    path = [np.array(tail.middle), *(points[cell] for cell in found[1:-1]), np.array(head.middle)]
    return _to_edge(_straightened(path, corners), head)


def _inside(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Which points are in any box."""
    x, y = points[..., :1], points[..., 1:]
    found = (corners[:, 0] < x) & (x < corners[:, 2]) & (corners[:, 1] < y) & (y < corners[:, 3])
    return np.asarray(found.any(axis=-1))


def _cell(point: tuple[float, float], shape: Sequence[int]) -> tuple[int, int]:
    x, y = (min(int(at / CELL), size - 1) for at, size in zip(point, shape, strict=True))
    return x, y


def _shortest(is_free: np.ndarray, start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]] | None:
    """A shortest path over free cells (Dijkstra, A*)."""
    came, cost = {start: start}, {start: 0.0}
    todo = [(0.0, start)]
    while todo:
        _, at = heapq.heappop(todo)
        if at == end:
            path = [at]
            while path[-1] != start:
                path.append(came[path[-1]])
            return path[::-1]
        for x, y, length in STEPS:
            there = at[0] + x, at[1] + y
            if not (0 <= there[0] < is_free.shape[0] and 0 <= there[1] < is_free.shape[1]) or not is_free[there]:
                continue
            if (known := cost[at] + length) < cost.get(there, np.inf):
                came[there], cost[there] = at, known
                heapq.heappush(todo, (known + float(np.hypot(there[0] - end[0], there[1] - end[1])), there))
    return None


def _straightened(path: Sequence[np.ndarray], corners: np.ndarray) -> list[np.ndarray]:
    """The same path with as few corners as it needs."""
    found, at = [path[0]], 0
    while at < len(path) - 1:
        nexts = range(len(path) - 1, at, -1)
        at = next((k for k in nexts if k == at + 1 or not _inside(_between(path[at], path[k]), corners).any()), at + 1)
        found.append(path[at])
    return found


def _between(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    along = np.linspace(0, 1, 2 + int(np.hypot(*(end - start)) / 0.02))[:, None]
    points: np.ndarray = start + along * (end - start)
    return points


def _to_edge(path: list[np.ndarray], head: Spot) -> np.ndarray:
    """The path up to the edge of the box where it ends; its last piece is long enough to give the arrow's head a direction."""
    box = np.array([head.corners])
    while len(path) > 2 and _inside(path[-2], box + CELL * np.array([-1, -1, 1, 1])):
        path.pop()
    last = _between(path[-2], path[-1])
    outside = last[~_inside(last, box)]
    return np.array([*path[:-1], outside[-1] if len(outside) else path[-1]])
