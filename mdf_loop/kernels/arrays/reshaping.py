"""The same elements in another shape or order: Reshape, Transpose, Squeeze, Expand, Tile, Concat, Split, and the shape."""

from __future__ import annotations

import itertools
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
    if not shape:
        return tuple(dims)
    rank = max(len(shape), len(dims))
    ours, theirs = (1,) * (rank - len(shape)) + tuple(shape), (1,) * (rank - len(dims)) + tuple(dims)
    found = tuple([b if a == 1 else a for a, b in zip(ours, theirs, strict=True)])
    if found != theirs and any(b not in (a, 1) for a, b in zip(found, theirs, strict=True)):
        raise ValueError(f"an input of shape {list(shape)} does not broadcast to {list(dims)}")
    return found


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


@kernel("Concat", since=4, batch=by_step)
def concat(*inputs, axis):
    """The inputs one behind the other along an axis."""
    return np.concatenate(inputs, axis)


@kernel("Concat", since=1, batch=by_step)
def concat_1(*inputs, axis=1):
    """The inputs one behind the other along an axis."""
    return np.concatenate(inputs, axis)


@kernel("Split", since=18, batch=by_step)
def split(input, split=None, *, axis=0, num_outputs=None, n_outputs):
    """Parts of the given lengths, or ``num_outputs`` parts of which the last may be smaller."""
    if (split is None) == (num_outputs is None):
        raise ValueError("Split needs either the input split or the attribute num_outputs, and not both")
    axis = place(axis, input.ndim)
    if split is not None:
        return parts(input, numbers(split), axis)
    if num_outputs < 1:
        raise ValueError(f"num_outputs must be at least 1; got {num_outputs}")
    length = input.shape[axis]
    made = chunks(length, -(-length // num_outputs), min(num_outputs, n_outputs))
    return parts(input, [*made, length - sum(made)], axis)[: len(made)]  # last is what no output is named for


@kernel("Split", since=13, batch=by_step)
def split_13(input, split=None, *, axis=0, n_outputs):
    """Parts of the given lengths, or as many equal ones as there are outputs."""
    axis = place(axis, input.ndim)
    return parts(input, _equal(input.shape[axis], n_outputs) if split is None else numbers(split), axis)


@kernel("Split", since=2, batch=by_step)
def split_2(input, *, axis=0, split=None, n_outputs):
    """Parts of the lengths that an attribute says, or as many equal ones as there are outputs."""
    axis = place(axis, input.ndim)
    return parts(input, _equal(input.shape[axis], n_outputs) if split is None else list(split), axis)


@kernel("Split", since=1, batch=by_step)
def split_1(input, lengths=None, *, axis=0, split=None, n_outputs):
    """Parts of the lengths that an input or an attribute says; the axis has no default here, later versions have 0."""
    if split is None and lengths is not None:
        split = [int(length) for length in numbers(lengths)]  # in the type of the data
    return split_2(input, axis=axis, split=split, n_outputs=n_outputs)


def _equal(length: int, count: int) -> list[int]:
    if length % count:
        raise ValueError(f"{length} elements cannot be split into {count} equal parts")
    return [length // count] * count


def chunks(length: int, size: int, count: int) -> list[int]:
    """The lengths of ``count`` chunks of a size, of which the last ones get what is left."""
    return [min(size, max(length - k * size, 0)) for k in range(count)]


def parts(data: Any, lengths: list[int], axis: int) -> tuple[Any, ...]:
    """Parts of the given lengths one behind the other along an axis.

    Raises
    ------
    ValueError
        The lengths do not add up, or one is negative.
    """
    if sum(lengths) != data.shape[axis] or any(length < 0 for length in lengths):
        raise ValueError(
            f"lengths must not be negative and add up to the {data.shape[axis]} elements of axis {axis}; got {lengths}"
        )
    front = (slice(None),) * axis
    ends = itertools.accumulate(lengths)
    return tuple(data[(*front, slice(end - length, end))] for length, end in zip(lengths, ends, strict=True))


for _op in ("Concat", "Split"):
    say(_op, light=True, traced=True)
