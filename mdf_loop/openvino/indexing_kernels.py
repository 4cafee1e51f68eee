"""Kernels for OpenVINO's ways to take elements by their places and to put them there."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.axes import numbers, place, places
from mdf_loop.kernels.indexing import element_places
from mdf_loop.openvino.kernels import DOMAIN, bounded
from mdf_loop.ops.batching import elementwise
from mdf_loop.ops.registry import kernel, say
from mdf_loop.types.elements import DTYPES, kind_of


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


@kernel("OneHot", domain=DOMAIN)
def one_hot(indices, depth, on_value, off_value, *, axis=-1, normalize=0):
    """One value at the place that an index names, another everywhere else; an index out of range is nowhere."""
    count = int(depth.item())
    along = place(axis, indices.ndim + 1)
    bounded([max(count, 0), *indices.shape])
    if normalize:
        indices = np.where(indices < 0, indices + count, indices)
    hot = np.arange(count) == indices[..., None]
    return np.moveaxis(np.where(hot, on_value, off_value).astype(on_value.dtype), -1, along)


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
        raise ValueError(f"rows of shape {list(rows.shape)} and values of shape {list(values.shape)} do not stand side by side")
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


say("Gather", domain=DOMAIN, light=True)
