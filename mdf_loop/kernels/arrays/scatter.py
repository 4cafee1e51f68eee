"""Elements put in their places: Scatter, ScatterElements, ScatterND and TensorScatter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import all_repeated, count_of, place, repeated_along
from mdf_loop.kernels.arrays.indexing import element_places, own_places, rows_of
from mdf_loop.ops.batching import Result, all_stacked, folding
from mdf_loop.ops.registry import kernel, say
from mdf_loop.ops.rows import Call

_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _written(data: Any, where: tuple[Any, ...], updates: Any, reduction: str, known: Sequence[str]) -> Any:
    """A copy of the data with updates written, or worked in, at the places of a numpy index."""
    if reduction not in known:
        raise ValueError(f"reduction must be one of {', '.join(known)}; got {reduction!r}")
    out = data.copy()
    if reduction == "none":
        out[where] = updates
    elif _all_differ(where, data.shape):
        out[where] = _UFUNCS[reduction](out[where], updates)
    else:
        _UFUNCS[reduction].at(out, where, updates)  # unlike the quicker way it counts every duplicate
    return out


def _all_differ(where: tuple[Any, ...], shape: Sequence[int]) -> bool:
    """Whether places for whole slices are surely different ones."""
    if len(where) >= len(shape) or where[0].size > math.prod(shape[: len(where)]) or not isinstance(where[0], np.ndarray):
        return False
    seen = np.zeros(shape[: len(where)], bool)
    seen[where] = True
    return int(np.count_nonzero(seen)) == where[0].size


def _elements(data: Any, indices: Any, updates: Any, axis: int, reduction: str = "none", known: Sequence[str] = ("none",)) -> Any:
    if updates.shape != indices.shape:
        raise ValueError(f"updates must have the shape of indices, {list(indices.shape)}; got {list(updates.shape)}")
    return _written(data, element_places(data, indices, axis), updates, reduction, known)


@kernel("ScatterElements", since=18, batch=repeated_along)
def scatter_elements(data, indices, updates, *, axis=0, reduction="none"):
    """The data with each update at the place of the axis that its index names, and at the update's own place of the others."""
    return _elements(data, indices, updates, axis, reduction, ("none", "add", "mul", "max", "min"))


@kernel("ScatterElements", since=16, batch=repeated_along)
def scatter_elements_16(data, indices, updates, *, axis=0, reduction="none"):
    """The data with updates written, added or multiplied in along an axis."""
    return _elements(data, indices, updates, axis, reduction, ("none", "add", "mul"))


@kernel("ScatterElements", since=11, batch=repeated_along)
def scatter_elements_11(data, indices, updates, *, axis=0):
    """The data with updates written along an axis."""
    return _elements(data, indices, updates, axis)


@kernel("Scatter", since=9, batch=repeated_along)
def scatter(data, indices, updates, *, axis=0):
    """The older name of ScatterElements."""
    return _elements(data, indices, updates, axis)


def scatter_nd_rule(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """Each row of indices begins with its iteration."""
    count = count_of(args, stacked)
    data, indices, updates = all_repeated(args, stacked)
    iteration = np.broadcast_to(own_places(count, 0, indices.ndim), (*indices.shape[:-1], 1))
    return all_stacked(run(data, np.concatenate([iteration, indices], -1), updates, **attrs))


@kernel("ScatterND", since=18, batch=scatter_nd_rule)
def scatter_nd(data, indices, updates, *, reduction="none"):
    """The data with updates at the slices that rows of indices point at."""
    return _slices(data, indices, updates, reduction, ("none", "add", "mul", "max", "min"))


@kernel("ScatterND", since=16, batch=scatter_nd_rule)
def scatter_nd_16(data, indices, updates, *, reduction="none"):
    """The data with updates written, added or multiplied in at the slices that rows of indices point at."""
    return _slices(data, indices, updates, reduction, ("none", "add", "mul"))


@kernel("ScatterND", since=11, batch=scatter_nd_rule)
def scatter_nd_11(data, indices, updates):
    """The data with updates written at the slices that rows of indices point at."""
    return _slices(data, indices, updates, "none", ("none",))


def _slices(data: Any, indices: Any, updates: Any, reduction: str, known: Sequence[str]) -> Any:
    width = indices.shape[-1] if indices.ndim else 0
    if not 1 <= width <= data.ndim:
        raise ValueError(f"indices of shape {list(indices.shape)} cannot point into data of shape {list(data.shape)}")
    needed = indices.shape[:-1] + data.shape[width:]
    if updates.shape != needed:
        raise ValueError(f"updates must have shape {list(needed)}; got {list(updates.shape)}")
    if indices.size == width and reduction == "none" and not data.dtype.hasobject:
        out = data.copy()
        out[tuple(indices.ravel().tolist())] = updates.reshape(data.shape[width:])  # numbers index faster than arrays of one
        return out
    return _written(data, rows_of(indices), updates, reduction, known)


@kernel("TensorScatter", since=24, batch=folding((0, 0, 0)))
def tensor_scatter(past_cache, update, write_indices=None, *, mode="linear", axis=-2):
    """The cache with the update of each sample written along an axis, from the sample's write index on."""
    axis = place(axis, past_cache.ndim)
    if axis == 0:
        raise ValueError("the axis to write along cannot be 0, the samples' own")
    if mode not in ("linear", "circular"):
        raise ValueError(f"mode must be linear or circular; got {mode!r}")
    samples, length = past_cache.shape[0], past_cache.shape[axis]
    starts = np.zeros(samples, np.int64) if write_indices is None else write_indices
    where = starts[:, None] + np.arange(update.shape[axis])
    if mode == "circular":
        where %= length
    elif where.size and not (where.min() >= 0 and where.max() < length):
        raise IndexError(f"updates must be written within [0, {length}); got {where.min()} to {where.max()}")
    out = past_cache.copy()
    np.moveaxis(out, axis, 1)[np.arange(samples)[:, None], where] = np.moveaxis(update, axis, 1)
    return out


for _op in ("Scatter", "ScatterElements", "ScatterND"):
    say(_op, replaces_parts=True)
