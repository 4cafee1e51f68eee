"""Kernels for what OpenVINO has and ONNX has not: whole numbers, shapes, the parts of loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.axes import numbers, place, places, settled
from mdf_loop.kernels.bounds import shape_for
from mdf_loop.ops.batching import all_stacked, elementwise
from mdf_loop.ops.registry import kernel, say
from mdf_loop.types.elements import DTYPES

DOMAIN = "openvino"


def bounded(dims: Any) -> tuple[int, ...]:
    """A shape out of a model, if it can be meant.

    Raises
    ------
    ValueError, OverflowError
        A dimension is negative, or there are too many elements.
    """
    return shape_for(numbers(dims), 8)


@kernel("Divide", domain=DOMAIN, batch=elementwise)
def divide(a, b):
    """The quotient; of whole numbers rounded down."""
    return a / b if a.dtype.kind not in "iu" else a // b


@kernel("FloorMod", domain=DOMAIN, batch=elementwise)
def floor_mod(a, b):
    """The remainder with the sign of the divisor."""
    return np.mod(a, b)


@kernel("RoundAway", domain=DOMAIN, batch=elementwise)
def round_away(x):
    """To the nearest whole number, halves away from zero."""
    near = np.trunc(x)
    return np.where(np.abs(x - near) >= 0.5, near + np.sign(x), near).astype(x.dtype)


@kernel("BitwiseLeftShift", domain=DOMAIN, batch=elementwise)
def left_shift(a, b):
    """Bits moved up."""
    return np.left_shift(a, b)


@kernel("BitwiseRightShift", domain=DOMAIN, batch=elementwise)
def right_shift(a, b):
    """Bits moved down; the sign stays."""
    return np.right_shift(a, b)


def _with_axis(run, args, stacked, attrs):
    """A scalar of each iteration becomes one element of each."""
    (x,) = args
    return all_stacked(x.reshape(-1, 1) if x.ndim == 1 else x)


@kernel("AtLeast1D", domain=DOMAIN, batch=_with_axis)
def at_least_1d(x):
    """A scalar as one element, anything else as it is."""
    return np.atleast_1d(x)


@kernel("Span", domain=DOMAIN)
def span(data, *, axis, start=0, end=-1, part=1, backwards=0):
    """The rows from ``start`` to ``end``, both of them part of it, that are cut into parts."""
    along = place(axis, data.ndim)
    length = data.shape[along]
    if length == 0 and (start, end) == ((-1, 0) if backwards else (0, -1)):
        return data
    first, last = (bound + length if bound < 0 else bound for bound in (start, end))
    low, high = (last, first) if backwards else (first, last)
    if not 0 <= low <= high < length:
        raise ValueError(f"slices from start {start} to end {end} do not lie inside axis {axis}, which has {length} rows")
    if (high - low + 1) % part:
        raise ValueError(f"{high - low + 1} rows cannot be cut into parts of {part}")
    return data[(slice(None),) * along + (slice(low, high + 1),)]


@kernel("Transpose", domain=DOMAIN)
def transpose(data, order):
    """The axes in another order; an empty order turns them round."""
    return np.transpose(data, numbers(order) or None)


@kernel("SqueezeWhereOne", domain=DOMAIN)
def squeeze_where_one(data, axes):
    """Those of the axes taken away that have one element."""
    return np.squeeze(data, tuple(axis for axis in places(axes, data.ndim) if data.shape[axis] == 1))


@kernel("Broadcast", domain=DOMAIN, batch=settled((1,)))
def broadcast(data, shape):
    """Elements repeated to fill exactly this shape."""
    return np.broadcast_to(data, bounded(shape)).copy()


@kernel("BroadcastAlong", domain=DOMAIN, batch=settled((1, 2)))
def broadcast_along(data, shape, axes):
    """Elements repeated to fill a shape, whose axes the data's are said to be."""
    dims = [1] * len(shape)
    for axis, size in zip(places(axes, len(shape)), data.shape, strict=True):
        dims[axis] = size
    return np.broadcast_to(data.reshape(dims), bounded(shape)).copy()


@kernel("Split", domain=DOMAIN)
def split(data, axis, *, n_outputs):
    """An axis in equal parts."""
    along = place(int(axis.item()), data.ndim)
    if data.shape[along] % n_outputs:
        raise ValueError(f"an axis of {data.shape[along]} cannot be split into {n_outputs} equal parts")
    return tuple(np.split(data, n_outputs, along))


@kernel("VariadicSplit", domain=DOMAIN)
def variadic_split(data, axis, lengths, *, n_outputs):
    """An axis in parts of given lengths, of which one may be what is left (-1)."""
    along, parts = place(int(axis.item()), data.ndim), numbers(lengths)
    left = data.shape[along] - sum(part for part in parts if part >= 0)
    parts = [left if part == -1 else part for part in parts]
    if len(parts) != n_outputs or min(parts) < 0 or sum(parts) != data.shape[along]:
        raise ValueError(f"an axis of {data.shape[along]} cannot be split into {n_outputs} parts of {numbers(lengths)}")
    return tuple(np.split(data, np.cumsum(parts)[:-1], along))


@kernel("Tile", domain=DOMAIN)
def tile(data, repeats):
    """Repeated along each axis; the shorter of shape and repeats is filled up with ones in front."""
    counts = numbers(repeats)
    rank = max(data.ndim, len(counts))
    dims = (1,) * (rank - data.ndim) + data.shape
    counts = [1] * (rank - len(counts)) + counts
    bounded([dim * count for dim, count in zip(dims, counts, strict=True)])
    return np.tile(data, counts)


@kernel("PadSymmetric", domain=DOMAIN)
def pad_symmetric(data, counts):
    """Mirrored at its ends, the last element included."""
    before, after = np.reshape(numbers(counts), (2, -1)).tolist()
    widths = list(zip(before, after, strict=True))
    bounded([dim + sum(width) for dim, width in zip(data.shape, widths, strict=True)])
    return np.pad(data, widths, mode="symmetric")


@kernel("Roll", domain=DOMAIN)
def roll(data, shift, axes):
    """Elements moved along axes, round the ends; an axis may be named more than once."""
    along = [place(axis, data.ndim) for axis in numbers(axes)]
    shifts = numbers(shift)
    return np.roll(data, shifts if len(shifts) > 1 else shifts * len(along), along)


@kernel("DepthToSpace", domain=DOMAIN)
def depth_to_space(data, *, block_size, depth_first=0):
    """Channels laid out in blocks along every other axis."""
    n, c, *dims = data.shape
    rank = len(dims)
    cells = (block_size,) * rank
    channels = c // block_size**rank
    if channels * block_size**rank != c:
        raise ValueError(f"{c} channels cannot be laid out in blocks of {block_size} along {rank} axes")
    split = data.reshape((n, channels, *cells, *dims) if depth_first else (n, *cells, channels, *dims))
    first = 2 if depth_first else 1
    order = [0, 1 if depth_first else 1 + rank]
    for k in range(rank):
        order += [2 + rank + k, first + k]
    return split.transpose(order).reshape(n, channels, *(dim * block_size for dim in dims))


@kernel("SpaceToDepth", domain=DOMAIN)
def space_to_depth(data, *, block_size, depth_first=0):
    """Blocks along every axis but the first two made into channels."""
    n, c, *dims = data.shape
    rank = len(dims)
    if any(dim % block_size for dim in dims):
        raise ValueError(f"a shape of {list(data.shape)} cannot be cut into blocks of {block_size}")
    split = data.reshape(n, c, *(size for dim in dims for size in (dim // block_size, block_size)))
    cells, grid = [3 + 2 * k for k in range(rank)], [2 + 2 * k for k in range(rank)]
    order = [0, 1, *cells, *grid] if depth_first else [0, *cells, 1, *grid]
    return split.transpose(order).reshape(n, c * block_size**rank, *(dim // block_size for dim in dims))


@kernel("ShuffleChannels", domain=DOMAIN)
def shuffle_channels(data, *, axis=1, group=1):
    """The groups of an axis interleaved."""
    along = place(axis, data.ndim)
    if group < 1 or data.shape[along] % group:
        raise ValueError(f"an axis of {data.shape[along]} cannot be cut into {group} groups")
    shape = data.shape
    cut = data.reshape(*shape[:along], group, shape[along] // group, *shape[along + 1 :])
    return cut.swapaxes(along, along + 1).reshape(shape)


@kernel("Eye", domain=DOMAIN)
def eye(rows, columns, diagonal, batch=None, *, dtype=1):
    """Ones on a diagonal, for each member of an optional batch."""
    n, m, k = (int(value.item()) for value in (rows, columns, diagonal))
    shape = bounded([*([] if batch is None else numbers(batch)), n, m])
    one = np.eye(n, m, max(-n, min(k, m)), DTYPES[dtype])
    return np.broadcast_to(one, shape).copy()


@kernel("ReadValue", domain=DOMAIN, pure=False)
def read_value(kept, initial=None, *, shape=(), dtype=1):
    """What was kept; in the first run the initial value, or zeros."""
    if kept is not None:
        return kept
    return np.zeros(shape, DTYPES[dtype]) if initial is None else initial


for _op in ("Split", "Transpose"):
    say(_op, domain=DOMAIN, light=True)
