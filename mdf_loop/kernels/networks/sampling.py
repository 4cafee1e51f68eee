"""GridSample: the input looked up at places between its elements."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np

from mdf_loop.kernels.arrays.batch_axis import folding
from mdf_loop.kernels.networks.interpolation import chosen, cubic, triangle
from mdf_loop.ops.registry import kernel

PADDINGS = ("zeros", "border", "reflection")
FILTERS = {"linear": (1, triangle), "cubic": (2, lambda t: cubic(t, -0.75))}


@kernel("GridSample", since=20, batch=folding((0, 0)))
def grid_sample(x, grid, *, align_corners=0, mode="linear", padding_mode="zeros"):
    """Each place is a weighted sum of its neighbours, or the nearest of them."""
    if padding_mode not in PADDINGS:
        raise ValueError(f"padding_mode must be one of {', '.join(PADDINGS)}; got {padding_mode!r}")
    spatial = x.shape[2:]
    where = [_places(grid[..., -1 - k].astype(np.float64), n, align_corners) for k, n in enumerate(spatial)]
    look = _Looking(x, padding_mode, align_corners)
    if mode == "nearest":
        return look.up([np.rint(w) for w in where])
    radius, function = chosen(FILTERS, mode, "mode")
    total = None
    for offsets in itertools.product(range(1 - radius, radius + 1), repeat=len(spatial)):
        neighbours = [np.floor(w) + o for w, o in zip(where, offsets, strict=True)]
        part = look.up(
            neighbours, functools.reduce(np.multiply, [function(n - w) for n, w in zip(neighbours, where, strict=True)])
        )
        total = part if total is None else np.add(total, part, out=total)
    return np.ascontiguousarray(total, x.dtype)


def _places(normalized: np.ndarray, length: int, align_corners: int) -> np.ndarray:
    """Positions along an axis, from -1 to 1, in units of its elements."""
    return (normalized + 1) / 2 * (length - 1) if align_corners else ((normalized + 1) * length - 1) / 2


MANY = 8
"""Channels from which on it is faster to have those of a place side by side."""


class _Looking:
    """Looks up elements at whole positions, of which some may lie outside; behind all places there is one of zeros."""

    def __init__(self, x: np.ndarray, padding_mode: str, align_corners: int) -> None:
        samples, channels, *self.spatial = x.shape
        size = math.prod(self.spatial)
        self.axis = 0 if channels >= MANY else 1  # of the places, in the table of a sample
        self.table = np.zeros((samples, *((size + 1, channels) if self.axis == 0 else (channels, size + 1))), x.dtype)
        by_channel = self.table.swapaxes(1, 2) if self.axis == 0 else self.table
        by_channel[..., :size] = x.reshape(samples, channels, size)
        self.padding_mode, self.align_corners = padding_mode, align_corners

    def up(self, places: Sequence[np.ndarray], weight: np.ndarray | None = None) -> np.ndarray:
        """The elements, of shape (samples, channels, ...), times a weight in float64."""
        inside = np.logical_and.reduce([(p >= 0) & (p < n) for p, n in zip(places, self.spatial, strict=True)])
        if self.padding_mode == "reflection":
            places = [_reflected(p, n, self.align_corners) for p, n in zip(places, self.spatial, strict=True)]
        index = np.zeros(places[0].shape, np.intp)
        for place, n in zip(places, self.spatial, strict=True):
            index = index * n + np.clip(np.nan_to_num(place), 0, n - 1).astype(np.intp)
        if self.padding_mode == "zeros":
            index = np.where(inside, index, math.prod(self.spatial))
        found = np.stack([sample.take(at.reshape(-1), self.axis) for sample, at in zip(self.table, index, strict=True)])
        if weight is not None:
            found = found * weight.reshape(len(weight), *((-1, 1) if self.axis == 0 else (1, -1)))
        found = found.swapaxes(1, 2) if self.axis == 0 else found
        return found.reshape(len(index), -1, *index.shape[1:])


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
