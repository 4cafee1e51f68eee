"""The same elements in another shape or order: Reshape, Transpose, Squeeze, Expand, Tile, and asking for the shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import numbers, place, places
from mdf_loop.kernels.arrays.bounds import shape_for
from mdf_loop.ops.batching import by_step, of_shape
from mdf_loop.ops.registry import kernel, say


def _copied(dims: list[int], shape: tuple[int, ...], allowzero: int) -> list[int]:
    """The new dimensions, with those that are copied from the old shape."""
    if allowzero:
        if 0 in dims and -1 in dims:
            raise ValueError(f"with allowzero, a shape cannot hold both 0 and -1; got {dims}")
        return dims
    if 0 not in dims:
        return dims
    if any(d == 0 for d in dims[len(shape) :]):
        raise ValueError(f"shape {dims} takes over a dimension that the input of shape {list(shape)} does not have")
    return [shape[k] if d == 0 else d for k, d in enumerate(dims)]


@kernel("Reshape", since=14, batch=by_step)
def reshape(data, shape, *, allowzero=0):
    """The elements in another shape; -1 is worked out, and 0 takes over the dimension (not with ``allowzero``)."""
    if shape.ndim != 1:
        raise ValueError(f"the new shape must be a vector of lengths; got a tensor of rank {shape.ndim}")
    dims = shape.tolist()
    if 0 in dims:
        dims = _copied(dims, data.shape, allowzero)
    return data.reshape(dims)


@kernel("Reshape", since=5, batch=by_step)
def reshape_5(data, shape):
    """The elements in another shape; -1 is worked out, and 0 takes over the dimension."""
    return reshape(data, shape)


@kernel("Reshape", since=1, batch=by_step)
def reshape_1(data, *, shape=(), consumed_inputs=None):
    """The elements in the shape that an attribute says."""
    return data.reshape(_copied(list(shape), data.shape, 0))


@kernel("Transpose", batch=by_step)
def transpose(data, *, perm=None):
    """The axes in another order, reversed where not said."""
    return data.transpose(perm)


@kernel("Squeeze", since=13, batch=by_step)
def squeeze(data, axes=None):
    """Without the given axes, which must have one element; without all such axes where none is given."""
    return data.squeeze() if axes is None else data.squeeze(tuple(numbers(axes)))


@kernel("Squeeze", since=1, batch=by_step)
def squeeze_1(data, *, axes=None):
    """Without the axes that an attribute names."""
    return data.squeeze() if axes is None else data.squeeze(tuple(axes))


def _unsqueezed(data: Any, axes: list[int]) -> Any:
    """With axes of one element at the given places of the result."""
    if axes == [0]:
        return data[None]
    rank = data.ndim + len(axes)
    new = places(axes, rank)
    old = iter(data.shape)
    return data.reshape([1 if k in new else next(old) for k in range(rank)])


@kernel("Unsqueeze", since=13, batch=by_step)
def unsqueeze(data, axes):
    """With an axis of one element at each of the given places of the result."""
    return _unsqueezed(data, numbers(axes))


@kernel("Unsqueeze", since=1, batch=by_step)
def unsqueeze_1(data, *, axes):
    """With an axis of one element at each of the places that an attribute names."""
    return _unsqueezed(data, list(axes))


def _matrix(shape: tuple[int, ...], axis: int) -> tuple[int, int]:
    split = axis if axis == len(shape) else place(axis, len(shape))
    return math.prod(shape[:split]), math.prod(shape[split:])


@kernel("Flatten", batch=by_step)
def flatten(input, *, axis=1):
    """A matrix: the axes in front of ``axis`` are its rows, the others its columns."""
    return input.reshape(_matrix(input.shape, axis))


def _broadcast(shape: Sequence[int], dims: Sequence[int]) -> tuple[int, ...]:
    """The shape that two shapes broadcast to."""
    rank = max(len(shape), len(dims))
    ours, theirs = (1,) * (rank - len(shape)) + tuple(shape), (1,) * (rank - len(dims)) + tuple(dims)
    if any(a != b and 1 not in (a, b) for a, b in zip(ours, theirs, strict=True)):
        raise ValueError(f"an input of shape {list(shape)} does not broadcast to {list(dims)}")
    return tuple(b if a == 1 else a for a, b in zip(ours, theirs, strict=True))


@kernel("Expand", since=8, batch=by_step)
def expand(input, shape):
    """Broadcast to a shape, both ways: dimensions of the input stay where the shape has 1 or nothing."""
    # A copy, since what numpy broadcasts is read-only and many elements share a place.
    out = np.empty_like(input, order="C", shape=shape_for(_broadcast(input.shape, numbers(shape)), input.itemsize))
    out[...] = input
    return out


@kernel("Tile", since=6, batch=by_step)
def tile(input, repeats):
    """As many copies along each axis as ``repeats`` says."""
    counts = numbers(repeats)
    if len(counts) != input.ndim:
        raise ValueError(f"repeats must have one number for each of {input.ndim} axes; got {counts}")
    shape_for([n * m for n, m in zip(counts, input.shape, strict=True)], input.itemsize)
    return np.tile(input, counts)


@kernel("Tile", since=1, batch=by_step)
def tile_1(input, tiles, axis):
    """As many copies as ``tiles`` says, along one axis."""
    counts = [1] * input.ndim
    counts[place(int(axis.item()), input.ndim)] = int(tiles.item())
    return tile(input, np.array(counts))


@kernel("Shape", since=15, batch=of_shape)
def shape(data, *, start=0, end=None):
    """The dimensions from ``start`` up to ``end``."""
    return np.array(data.shape[start:end], np.int64)


@kernel("Shape", since=1, batch=of_shape)
def shape_1(data):
    """The dimensions."""
    return np.array(data.shape, np.int64)


@kernel("Size", batch=of_shape)
def size(data):
    """The number of elements."""
    return np.int64(data.size)


for _op in ("Transpose", "Squeeze"):
    say(_op, light=True, traced=True)
for _op in ("Flatten", "Tile"):
    say(_op, traced=True)
say("Reshape", light=True, reshapes=True, traced=True)
say("Unsqueeze", light=True, reshapes=True)
say("Expand", light=True)
