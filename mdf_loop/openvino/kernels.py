"""Kernels for what OpenVINO has and ONNX has not: whole numbers, shapes, the parts of loops, elements by their places."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import numbers, place, places
from mdf_loop.kernels.arrays.bounds import shape_for
from mdf_loop.kernels.arrays.indexing import element_places
from mdf_loop.ops.batching import by_step, elementwise
from mdf_loop.ops.registry import definition, kernel, say
from mdf_loop.types.elements import DTYPES, kind_of

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


@kernel("RoundAway", domain=DOMAIN, batch=elementwise)
def round_away(x):
    """To the nearest whole number, halves away from zero."""
    near = np.trunc(x)
    return np.where(np.abs(x - near) >= 0.5, near + np.sign(x), near).astype(x.dtype)


@kernel("Span", domain=DOMAIN)
def span(data, *, axis, start=0, end=-1, part=1, backwards=0):
    """The rows from ``start`` to ``end``, both of them part of it, that are cut into parts."""
    along = place(axis, data.ndim)
    low, high = (end, start) if backwards else (start, end)
    _see_span(low, high, part, data.shape[along], axis)
    return data[(slice(None),) * along + (slice(low, high + 1 or None),)]


def _see_span(low, high, part, length, axis):
    """See that there are such rows, and that they can be cut."""
    if length == 0 and (low, high) == (0, -1):
        return
    first, last = (bound + length if bound < 0 else bound for bound in (low, high))
    if not 0 <= first <= last < length:
        raise ValueError(f"slices from row {low} to row {high} do not lie inside axis {axis}, which has {length} rows")
    if (last - first + 1) % part:
        raise ValueError(f"{last - first + 1} rows cannot be cut into parts of {part}")


@definition("Span", domain=DOMAIN, why="open lengths")
def span_of_rows(b, data, *, axis, start=0, end=-1, part=1, backwards=0):
    """The same; in ONNX, which refuses rows that are not there, of lengths that only the run can tell."""
    shape = data.type.shape
    along = place(axis, len(shape))
    low, high = (end, start) if backwards else (start, end)
    if isinstance(shape[along], int):
        _see_span(low, high, part, shape[along], axis)
    elif not b.takes_open:
        raise ValueError("only the run can tell whether there are such rows")
    return b.slice(data, [slice(None)] * along + [slice(low, high + 1 or None)] + [slice(None)] * (len(shape) - along - 1))


@kernel("Transpose", domain=DOMAIN)
def transpose(data, order):
    """The axes in another order; an empty order turns them round."""
    return np.transpose(data, numbers(order) or None)


@kernel("SqueezeWhereOne", domain=DOMAIN)
def squeeze_where_one(data, axes):
    """Those of the axes taken away that have one element."""
    return np.squeeze(data, tuple(axis for axis in places(axes, data.ndim) if data.shape[axis] == 1))


@kernel("BroadcastAlong", domain=DOMAIN, batch=by_step)
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


@kernel("Gather", domain=DOMAIN)
def gather(data, indices, axis, *, batch_dims=0):
    """Entries of an axis, within each batch."""
    along = place(int(axis.item()), data.ndim)
    batch = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(along, indices.ndim) or data.shape[:batch] != indices.shape[:batch]:
        raise ValueError(
            f"batch_dims {batch_dims} does not fit data {list(data.shape)}, indices {list(indices.shape)}, axis {along}"
        )
    if batch == 0:
        return data.take(indices, along)
    cells = data.reshape(-1, *data.shape[batch:])
    rows = indices.reshape(-1, *indices.shape[batch:])
    taken = [cell.take(row, along - batch) for cell, row in zip(cells, rows, strict=True)]
    shape = (*data.shape[:along], *indices.shape[batch:], *data.shape[along + 1 :])
    return np.stack(taken).reshape(shape) if taken else np.zeros(shape, data.dtype)


@kernel("GatherNDJoined", domain=DOMAIN)
def gather_nd_joined(data, indices, *, batch_dims):
    """Slices by rows of coordinates within each batch; the batch axes come out as one."""
    cells = data.reshape(-1, *data.shape[batch_dims:])
    rows = indices.reshape(-1, *indices.shape[batch_dims:])
    return np.stack([cell[tuple(np.moveaxis(row, -1, 0))] for cell, row in zip(cells, rows, strict=True)])


@kernel("ScatterUpdate", domain=DOMAIN)
def scatter_update(data, indices, updates, axis):
    """Entries of an axis put in the places that the indices name; the last one stays."""
    along = place(int(axis.item()), data.ndim)
    out = data.copy()
    ahead = (slice(None),) * along
    rows = np.moveaxis(updates.reshape(*data.shape[:along], indices.size, *data.shape[along + 1 :]), along, 0)
    for index, row in zip(indices.reshape(-1), rows, strict=True):
        out[(*ahead, int(index))] = row
    return out


_JOIN: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "mean": np.add}


@kernel("ScatterElements", domain=DOMAIN)
def scatter_elements(data, indices, updates, *, axis, reduction, use_init_val):
    """Elements joined with what is there, or with each other alone; ``mean`` is their mean."""
    where = element_places(data, indices, place(axis, data.ndim))
    out = data.copy()
    neutral: Any = {"sum": 0, "mean": 0, "prod": 1}.get(reduction)
    if not use_init_val:
        if neutral is None:
            info = np.iinfo(data.dtype) if kind_of(data.dtype) == "integer" else np.finfo(data.dtype)
            neutral = info.max if reduction == "min" else info.min
        out[where] = neutral
    _JOIN[reduction].at(out, where, updates)
    if reduction == "mean":
        count = np.full(data.shape, int(bool(use_init_val)))
        np.add.at(count, where, 1)
        touched = np.zeros(data.shape, bool)
        touched[where] = True
        whole = kind_of(data.dtype) == "integer"
        mean = out // np.maximum(count, 1) if whole else out / np.maximum(count, 1)
        out = np.where(touched, mean, data).astype(data.dtype)
    return out


@kernel("StridedSlice", domain=DOMAIN)
def strided_slice(
    data,
    begin,
    end,
    strides=None,
    *,
    begin_mask=(),
    end_mask=(),
    new_axis_mask=(),
    shrink_axis_mask=(),
    ellipsis_mask=(),
):
    """numpy's x[begin:end:stride]; masks say where a bound is open, an axis new, single, or an ellipsis."""
    firsts, lasts = numbers(begin), numbers(end)
    steps = [1] * len(firsts) if strides is None else numbers(strides)
    index: list[Any] = []
    for k, (first, last, step) in enumerate(zip(firsts, lasts, steps, strict=True)):
        if _says(ellipsis_mask, k):
            index.append(Ellipsis)
        elif _says(new_axis_mask, k):
            index.append(None)
        elif _says(shrink_axis_mask, k):
            index.append(first)
        else:
            index.append(slice(None if _says(begin_mask, k) else first, None if _says(end_mask, k) else last, step))
    return np.asarray(data[tuple(index)])


def _says(mask: Any, k: int) -> bool:
    return k < len(mask) and bool(mask[k])


@kernel("SliceScatter", domain=DOMAIN)
def slice_scatter(data, updates, starts, stops, steps, axes=None):
    """Updates put into a range of each axis."""
    along = range(len(numbers(starts))) if axes is None else places(axes, data.ndim)
    index = [slice(None)] * data.ndim
    for axis, *bounds in zip(along, numbers(starts), numbers(stops), numbers(steps), strict=True):
        index[axis] = slice(*bounds)
    out = data.copy()
    if out[tuple(index)].shape != updates.shape:
        raise ValueError(f"updates of shape {list(updates.shape)} do not fit the slice, which is {list(out[tuple(index)].shape)}")
    out[tuple(index)] = updates
    return out


@kernel("ReverseSequence", domain=DOMAIN)
def reverse_sequence(data, lengths, *, batch_axis, time_axis):
    """The first elements of each sequence turned round, along any two axes."""
    moved = np.moveaxis(data.copy(), (batch_axis, time_axis), (0, 1))
    for row, length in zip(moved, lengths.tolist(), strict=True):
        row[:length] = row[:length][::-1].copy()
    return np.moveaxis(moved, (0, 1), (batch_axis, time_axis))


@kernel("Bucketize", domain=DOMAIN)
def bucketize(data, bounds, *, right=1):
    """The number of the interval, between sorted bounds, that each element lies in."""
    return np.asarray(np.searchsorted(bounds, data, side="left" if right else "right"), np.int64)


@kernel("SearchSorted", domain=DOMAIN)
def search_sorted(rows, values, *, right=0):
    """Where each value would go into its sorted row."""
    side = "right" if right else "left"
    if rows.ndim == 1:
        return np.asarray(np.searchsorted(rows, values, side=side), np.int64)
    if rows.shape[:-1] != values.shape[:-1]:
        raise ValueError(f"rows of shape {list(rows.shape)} and values of shape {list(values.shape)} cannot be joined")
    pairs = zip(rows.reshape(-1, rows.shape[-1]), values.reshape(-1, values.shape[-1]), strict=True)
    found = [np.searchsorted(row, value, side=side) for row, value in pairs]
    return np.array(found, np.int64).reshape(values.shape)


@kernel("MatMul", domain=DOMAIN)
def mat_mul(a, b, *, transpose_a=0, transpose_b=0):
    """Product of matrices, either or both transposed; a value of one axis is not."""
    left = a.swapaxes(-1, -2) if transpose_a and a.ndim > 1 else a
    right = b.swapaxes(-1, -2) if transpose_b and b.ndim > 1 else b
    return np.matmul(left, right)


@kernel("ScaledDotProductAttention", domain=DOMAIN)
def attention(query, key, value, mask=None, scale=None, *, causal=0):
    """softmax(query key' scale + mask) value; ``causal`` lets a query see keys up to its own place only."""
    factor = query.dtype.type(1 / np.sqrt(query.shape[-1])) if scale is None else scale.reshape(())
    fit = np.matmul(query * factor, key.swapaxes(-1, -2))
    if causal:
        fit = np.where(np.tri(*fit.shape[-2:], dtype=bool), fit, -np.inf)
    elif mask is not None and mask.ndim:
        fit = np.where(mask, fit, -np.inf) if mask.dtype == bool else fit + mask
    peak = fit.max(-1, keepdims=True)
    weight = np.exp(fit - np.where(np.isfinite(peak), peak, 0))
    return np.matmul(weight / weight.sum(-1, keepdims=True), value).astype(query.dtype)


@kernel("FakeQuantize", domain=DOMAIN, batch=elementwise)
def fake_quantize(x, in_low, in_high, out_low, out_high, *, levels):
    """Rounded to one of so many levels between bounds, and mapped to other bounds."""
    steps = x.dtype.type(levels - 1)
    level = np.round((x - in_low) / (in_high - in_low) * steps)
    inside = level / steps * (out_high - out_low) + out_low
    low, high = np.minimum(in_low, in_high), np.maximum(in_low, in_high)
    return np.where(x <= low, out_low, np.where(x > high, out_high, inside)).astype(x.dtype)


@kernel("RandomUniform", domain=DOMAIN)
def random_uniform(shape, low, high, *, dtype=1, rng):
    """Random numbers from ``low`` up to, not including, ``high``."""
    wanted, dims = DTYPES[dtype], bounded(shape)
    bottom, top = low.item(), high.item()
    if kind_of(wanted) == "integer":
        return rng.integers(int(bottom), int(top), dims).astype(wanted)
    return rng.uniform(bottom, top, dims).astype(wanted)


say("Gather", domain=DOMAIN, light=True, traced=True)

ARRANGED = (
    *("DepthToSpace", "Roll", "ShuffleChannels"),
    *("SpaceToDepth", "Split", "SqueezeWhereOne", "StridedSlice", "Tile", "Transpose", "VariadicSplit"),
)
"""Kernels of which types and constants decide what they do: they are traced."""

for _op in ARRANGED:
    say(_op, domain=DOMAIN, traced=True)
