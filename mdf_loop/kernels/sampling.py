"""GridSample: the input looked up at places between its elements."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from mdf_loop.kernels.folding import folding
from mdf_loop.kernels.resize import chosen, cubic, triangle
from mdf_loop.registry import kernel

PADDINGS = ("zeros", "border", "reflection")
FILTERS = {"linear": (1, triangle), "cubic": (2, lambda t: cubic(t, -0.75))}


@kernel("GridSample", since=20, batch=folding((0, 0)))
def grid_sample(x, grid, *, align_corners=0, mode="linear", padding_mode="zeros"):
    """Each place is a weighted sum of its neighbours, or the nearest of them."""
    if padding_mode not in PADDINGS:
        raise ValueError(f"padding_mode must be one of {', '.join(PADDINGS)}; got {padding_mode!r}")
    spatial = x.shape[2:]
    where = [_places(grid[..., -1 - k].astype(np.float64), n, align_corners) for k, n in enumerate(spatial)]
    flat = x.reshape(*x.shape[:2], -1)
    if mode == "nearest":
        return _looked_up(flat, [np.rint(w) for w in where], spatial, padding_mode, align_corners)
    radius, function = chosen(FILTERS, mode, "mode")
    total = np.zeros((*x.shape[:2], *grid.shape[1:-1]), np.float64)
    for offsets in itertools.product(range(1 - radius, radius + 1), repeat=len(spatial)):
        neighbours = [np.floor(w) + o for w, o in zip(where, offsets, strict=True)]
        weight = np.prod([function(n - w) for n, w in zip(neighbours, where, strict=True)], axis=0)
        total += weight[:, None] * _looked_up(flat, neighbours, spatial, padding_mode, align_corners)
    return total.astype(x.dtype)


def _places(normalized: np.ndarray, length: int, align_corners: int) -> np.ndarray:
    """Positions along an axis, from -1 to 1, in units of its elements."""
    return (normalized + 1) / 2 * (length - 1) if align_corners else ((normalized + 1) * length - 1) / 2


def _looked_up(
    flat: np.ndarray, places: Sequence[np.ndarray], spatial: Sequence[int], padding_mode: str, align_corners: int
) -> np.ndarray:
    """The elements at whole positions, of which some may lie outside."""
    inside = np.logical_and.reduce([(p >= 0) & (p < n) for p, n in zip(places, spatial, strict=True)])
    if padding_mode == "reflection":
        places = [_reflected(p, n, align_corners) for p, n in zip(places, spatial, strict=True)]
    index = np.zeros(places[0].shape, np.intp)
    for place, n in zip(places, spatial, strict=True):
        index = index * n + np.clip(np.nan_to_num(place), 0, n - 1).astype(np.intp)
    found = np.take_along_axis(flat, index.reshape(len(index), 1, -1), 2).reshape(*flat.shape[:2], *index.shape[1:])
    return np.where(inside[:, None], found, flat.dtype.type(0)) if padding_mode == "zeros" else found


def _reflected(place: np.ndarray, length: int, align_corners: int) -> np.ndarray:
    """Positions mirrored at the ends until they lie inside: at the centre of the last element, or at its edge."""
    if align_corners:
        period = max(2 * (length - 1), 1)
        within = np.mod(place, period)
        return np.where(within > length - 1, period - within, within)
    within = np.mod(place, 2 * length)
    return np.where(within >= length, 2 * length - 1 - within, within)


@kernel("GridSample", since=16, batch=folding((0, 0)))
def grid_sample_16(x, grid, *, align_corners=0, mode="bilinear", padding_mode="zeros"):
    """The modes of images have names of their own."""
    name = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return grid_sample(x, grid, align_corners=align_corners, mode=name, padding_mode=padding_mode)
