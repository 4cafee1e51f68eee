"""Pooling: one number for each window, for a whole channel, or for a region of interest."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.bounds import shape_for
from mdf_loop.kernels.networks.normalization import mean_over
from mdf_loop.kernels.networks.sliding_windows import Windows, pairs, per_axis, windows
from mdf_loop.kernels.numbers.wide import lowest, widened
from mdf_loop.ops.batching import Result, by_step, folding
from mdf_loop.ops.registry import kernel, say


def max_pool_rule(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """All iterations as one batch; the indices count from the start of each iteration's own input."""
    result = folding((0,), (0, 0))(run, args, stacked, attrs)
    if result is None or len(result[0]) < 2:
        return result
    y, indices = result[0]
    firsts = np.arange(len(indices)) * args[0][0].size
    return (y, indices - firsts.reshape(-1, *(1,) * (indices.ndim - 1))), (True, True)


@kernel("MaxPool", batch=max_pool_rule)
def max_pool(
    x,
    *,
    kernel_shape,
    auto_pad="NOTSET",
    ceil_mode=0,
    dilations=None,
    pads=None,
    storage_order=0,
    strides=None,
    n_outputs=1,
):
    """The largest element of each window; the second output says where it is in the flattened input."""
    where = windows(
        x.shape[2:], kernel_shape, auto_pad=auto_pad, strides=strides, dilations=dilations, pads=pads, ceil_mode=ceil_mode
    )
    if n_outputs > 1:
        return _with_places(x, where, storage_order)
    return where.reduced(x, np.maximum, lowest(x.dtype))


def _with_places(x: np.ndarray, where: Windows, storage_order: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest element of each window, and where in the flattened input the first such one is.

    One axis after the other, the last one first: the first of equal elements stays.  Padding, whose place is -1, does not
    win against an element that is just as low, and nothing is larger than nan.
    """
    spatial = x.shape[2:]
    numbers = np.arange(math.prod(spatial), dtype=np.int64).reshape(spatial, order="F" if storage_order else "C")
    best = where.padded(x, lowest(x.dtype))
    places = np.broadcast_to(where.padded(numbers, -1), best.shape)
    for axis in reversed(range(len(spatial))):
        values, numbered = where.taps(best, axis), where.taps(places, axis)
        best, places = next(values), next(numbered)
        for value, number in zip(values, numbered, strict=True):
            better = ~(value <= best) & (best == best) | (places < 0)
            best, places = np.where(better, value, best), np.where(better, number, places)
    firsts = np.arange(x.shape[0] * x.shape[1]) * math.prod(spatial)
    return best, places + firsts.reshape(*x.shape[:2], *(1,) * len(spatial))


@kernel("AveragePool", batch=folding())
def average_pool(
    x, *, kernel_shape, auto_pad="NOTSET", ceil_mode=0, count_include_pad=0, dilations=None, pads=None, strides=None
):
    """The mean of each window, over padding too if it counts."""
    where = windows(
        x.shape[2:], kernel_shape, auto_pad=auto_pad, strides=strides, dilations=dilations, pads=pads, ceil_mode=ceil_mode
    )
    wide = widened(x)
    return (where.reduced(wide, np.add) / counts_of(where, x.shape[2:], bool(count_include_pad)).astype(wide.dtype)).astype(
        x.dtype, copy=False
    )


@functools.lru_cache(maxsize=64)
def counts_of(where: Windows, spatial: tuple[int, ...], with_padding: bool) -> np.ndarray:
    """How many elements each window has: what a window has beyond the padding never counts."""
    ones = np.ones(spatial)
    if with_padding:
        ones = np.pad(ones, where.pads, constant_values=1)
        where = dataclasses.replace(where, pads=((0, 0),) * len(spatial))
    return where.reduced(ones, np.add)


@kernel("LpPool", batch=folding())
def lp_pool(x, *, kernel_shape=None, auto_pad="NOTSET", ceil_mode=0, dilations=None, p=2, pads=None, strides=None):
    """The p-norm of each window."""
    if kernel_shape is None:
        raise ValueError("LpPool needs the attribute kernel_shape")
    where = windows(
        x.shape[2:], kernel_shape, auto_pad=auto_pad, strides=strides, dilations=dilations, pads=pads, ceil_mode=ceil_mode
    )
    powers = where.reduced(np.abs(widened(x)) ** p, np.add)
    return (powers ** (1 / p)).astype(x.dtype, copy=False)


# A whole channel


def _spatial(x: np.ndarray) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@kernel("GlobalAveragePool", batch=by_step)
def global_average_pool(x):
    """The mean of each channel."""
    return mean_over(widened(x), _spatial(x)).astype(x.dtype, copy=False)


@kernel("GlobalMaxPool", batch=by_step)
def global_max_pool(x):
    """The largest element of each channel."""
    return np.maximum.reduce(x, _spatial(x), None, None, True)


@kernel("GlobalLpPool", batch=folding())
def global_lp_pool(x, *, p=2):
    """The p-norm of each channel."""
    return ((np.abs(widened(x)) ** p).sum(_spatial(x), keepdims=True) ** (1 / p)).astype(x.dtype)


for _op in ("GlobalAveragePool", "GlobalMaxPool"):
    say(_op, traced=True)

# Regions of interest


@kernel("MaxRoiPool")
def max_roi_pool(x, rois, *, pooled_shape, spatial_scale=1.0):
    """The largest element of each cell of a grid laid over each region; 0 where a cell is empty."""
    y = np.zeros_like(x, order="C", shape=shape_for((len(rois), x.shape[1], *pooled_shape), x.itemsize))
    for k, (sample, *corners) in enumerate(rois.astype(np.float64)):
        left, top, right, bottom = (int(np.floor(abs(c * spatial_scale) + 0.5) * np.sign(c)) for c in corners)
        rows = _cells(top, bottom, pooled_shape[0], x.shape[2])
        columns = _cells(left, right, pooled_shape[1], x.shape[3])
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                cell = x[int(sample), :, row, column]
                if cell.size:
                    y[k, :, i, j] = cell.max((1, 2))
    return y


def _cells(first: int, last: int, count: int, length: int) -> list[slice]:
    """A stretch from ``first`` to ``last`` in so many cells, which overlap where it does not divide evenly."""
    size = max(last - first + 1, 1) / count
    edges = [(first + int(np.floor(k * size)), first + int(np.ceil((k + 1) * size))) for k in range(count)]
    return [slice(min(max(begin, 0), length), min(max(end, 0), length)) for begin, end in edges]


@kernel("MaxUnpool", since=9)
def max_unpool(x, indices, output_shape=None, *, kernel_shape, pads=None, strides=None):
    """Elements put back where MaxPool took them from, among zeros."""
    rank = x.ndim - 2
    strides = per_axis(strides, rank, "strides")
    # With an output_shape, the pads are ignored, and indices still count in the shape that would be without it.
    cut = pairs(pads if output_shape is None else None, rank)
    spatial = [(n - 1) * s + k - sum(p) for n, s, k, p in zip(x.shape[2:], strides, kernel_shape, cut, strict=True)]
    y = np.zeros_like(x, order="C", shape=shape_for((*x.shape[:2], *spatial), x.itemsize))
    y.reshape(-1)[indices.reshape(-1)] = x.reshape(-1)
    if output_shape is None:
        return y
    out = np.zeros_like(x, order="C", shape=shape_for(output_shape, x.itemsize))
    common = tuple(slice(min(a, b)) for a, b in zip(y.shape, out.shape, strict=True))
    out[common] = y[common]
    return out
