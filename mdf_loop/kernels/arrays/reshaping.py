"""The same elements in another shape or order: Reshape, Transpose, Squeeze, Expand, Tile, and asking for the shape."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import behind, numbers, place, places, settled
from mdf_loop.kernels.arrays.bounds import shape_for
from mdf_loop.ops.batching import Result, all_stacked, of_shape
from mdf_loop.ops.registry import kernel, say
from mdf_loop.ops.rows import Call


def reshape_rule(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """The iteration axis stays in front of the new shape."""
    data = args[0]
    shape = args[1] if len(args) > 1 else attrs.get("shape", ())
    if len(args) > 1 and shape.ndim != 1:
        return None
    dims = _copied(numbers(shape), data.shape[1:], attrs.get("allowzero", 0))
    return all_stacked(data.reshape(len(data), *dims))


def _copied(dims: list[int], shape: tuple[int, ...], allowzero: int) -> list[int]:
    """The new dimensions, with those that are to be taken over from the old shape."""
    if allowzero:
        if 0 in dims and -1 in dims:
            raise ValueError(f"with allowzero, a shape cannot hold both 0 and -1; got {dims}")
        return dims
    if 0 not in dims:
        return dims
    if any(d == 0 for d in dims[len(shape) :]):
        raise ValueError(f"shape {dims} takes over a dimension that the input of shape {list(shape)} does not have")
    return [shape[k] if d == 0 else d for k, d in enumerate(dims)]


@kernel("Reshape", since=14, batch=settled((1,), reshape_rule))
def reshape(data, shape, *, allowzero=0):
    """The elements in another shape; -1 is worked out, and 0 takes over the dimension (not with ``allowzero``)."""
    if shape.ndim != 1:
        raise ValueError(f"the new shape must be a vector of lengths; got a tensor of rank {shape.ndim}")
    dims = shape.tolist()
    if 0 in dims:
        dims = _copied(dims, data.shape, allowzero)
    return data.reshape(dims)


@kernel("Reshape", since=5, batch=settled((1,), reshape_rule))
def reshape_5(data, shape):
    """The elements in another shape; -1 is worked out, and 0 takes over the dimension."""
    return reshape(data, shape)


@kernel("Reshape", since=1, batch=reshape_rule)
def reshape_1(data, *, shape=(), consumed_inputs=None):
    """The elements in the shape that an attribute says."""
    return data.reshape(_copied(list(shape), data.shape, 0))


def transpose_rule(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """The iteration axis stays in front."""
    (data,) = args
    perm = attrs.get("perm")
    order = range(data.ndim - 1, 0, -1) if perm is None else behind(perm, data.ndim - 1)
    return all_stacked(data.transpose((0, *order)))


@kernel("Transpose", batch=transpose_rule)
def transpose(data, *, perm=None):
    """The axes in another order, reversed where not said."""
    return data.transpose(perm)


def squeeze_rule(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """Axes of one element go, but not the iteration axis, which may have one as well."""
    data = args[0]
    axes = args[1] if len(args) > 1 else attrs.get("axes")
    gone = [k for k in range(1, data.ndim) if data.shape[k] == 1] if axes is None else behind(axes, data.ndim - 1)
    return all_stacked(data.squeeze(tuple(gone)))


@kernel("Squeeze", since=13, batch=settled((1,), squeeze_rule))
def squeeze(data, axes=None):
    """Without the given axes, which must have one element; without all such axes where none is given."""
    return data.squeeze() if axes is None else data.squeeze(tuple(numbers(axes)))


@kernel("Squeeze", since=1, batch=squeeze_rule)
def squeeze_1(data, *, axes=None):
    """Without the axes that an attribute names."""
    return data.squeeze() if axes is None else data.squeeze(tuple(axes))


def unsqueeze_rule(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """New axes behind the iteration axis."""
    data, axes = args[0], numbers(args[1] if len(args) > 1 else attrs["axes"])
    return all_stacked(_unsqueezed(data, behind(axes, data.ndim - 1 + len(axes))))


def _unsqueezed(data: Any, axes: list[int]) -> Any:
    """With axes of one element at the given places of the result."""
    if axes == [0]:
        return data[None]
    rank = data.ndim + len(axes)
    new = places(axes, rank)
    old = iter(data.shape)
    return data.reshape([1 if k in new else next(old) for k in range(rank)])


@kernel("Unsqueeze", since=13, batch=settled((1,), unsqueeze_rule))
def unsqueeze(data, axes):
    """With an axis of one element at each of the given places of the result."""
    return _unsqueezed(data, numbers(axes))


@kernel("Unsqueeze", since=1, batch=unsqueeze_rule)
def unsqueeze_1(data, *, axes):
    """With an axis of one element at each of the places that an attribute names."""
    return _unsqueezed(data, list(axes))


def flatten_rule(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """A matrix in each iteration."""
    (data,) = args
    return all_stacked(data.reshape(len(data), *_matrix(data.shape[1:], attrs.get("axis", 1))))


def _matrix(shape: tuple[int, ...], axis: int) -> tuple[int, int]:
    split = axis if axis == len(shape) else place(axis, len(shape))
    return math.prod(shape[:split]), math.prod(shape[split:])


@kernel("Flatten", batch=flatten_rule)
def flatten(input, *, axis=1):
    """A matrix: the axes in front of ``axis`` are its rows, the others its columns."""
    return input.reshape(_matrix(input.shape, axis))


def expand_rule(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """Broadcast behind the iteration axis."""
    data, shape = args
    target = _broadcast(data.shape[1:], numbers(shape))
    missing = len(target) + 1 - data.ndim
    aligned = data.reshape(len(data), *(1,) * missing, *data.shape[1:])
    return all_stacked(run(aligned, (len(data), *target)))


def _broadcast(shape: Sequence[int], dims: Sequence[int]) -> tuple[int, ...]:
    """The shape that two shapes broadcast to."""
    rank = max(len(shape), len(dims))
    ours, theirs = (1,) * (rank - len(shape)) + tuple(shape), (1,) * (rank - len(dims)) + tuple(dims)
    if any(a != b and 1 not in (a, b) for a, b in zip(ours, theirs, strict=True)):
        raise ValueError(f"an input of shape {list(shape)} does not broadcast to {list(dims)}")
    return tuple(b if a == 1 else a for a, b in zip(ours, theirs, strict=True))


@kernel("Expand", since=8, batch=settled((1,), expand_rule))
def expand(input, shape):
    """Broadcast to a shape, both ways: dimensions of the input stay where the shape has 1 or nothing."""
    # A copy, since what numpy broadcasts is read-only and many elements share a place.
    out = np.empty_like(input, shape=shape_for(_broadcast(input.shape, numbers(shape)), input.itemsize))
    out[...] = input
    return out


def tile_rule(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """The iteration axis is not repeated."""
    return all_stacked(run(args[0], [1, *numbers(args[1])]))


@kernel("Tile", since=6, batch=settled((1,), tile_rule))
def tile(input, repeats):
    """As many copies along each axis as ``repeats`` says."""
    counts = numbers(repeats)
    if len(counts) != input.ndim:
        raise ValueError(f"repeats must have one number for each of {input.ndim} axes; got {counts}")
    shape_for([n * m for n, m in zip(counts, input.shape, strict=True)], input.itemsize)
    return np.tile(input, counts)


def tile_1_rule(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """The axis, which is an input here, moves up by one."""
    data, tiles, axis = args
    return all_stacked(run(data, tiles, np.asarray(place(int(axis.item()), data.ndim - 1) + 1)))


@kernel("Tile", since=1, batch=settled((1, 2), tile_1_rule))
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
