"""Convolution: matrix products over the windows of the input."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.bounds import shape_for
from mdf_loop.kernels.arrays.linear import requantized
from mdf_loop.kernels.networks.normalization import per_channel
from mdf_loop.kernels.networks.sliding_windows import columns, halves, pairs, per_axis, windows
from mdf_loop.kernels.numbers.wide import EXACT32, as_int32, centred, exact_terms, largest_from, widened
from mdf_loop.ops.batching import folding
from mdf_loop.ops.prepared_constants import once
from mdf_loop.ops.registry import kernel


def convolved(x: np.ndarray, w: np.ndarray, group: int, kernel_shape: Sequence[int] | None, **layout: Any) -> np.ndarray:
    """The sum of products of each window with each filter: (N, C, ...) and (M, C / group, ...) give (N, M, ...)."""
    _check_channels(x, w, w.shape[1] * group, kernel_shape)
    if w.shape[0] % group:
        raise ValueError(f"{w.shape[0]} filters cannot be divided into {group} groups")
    where = windows(x.shape[2:], w.shape[2:], **layout)
    n, each, places = x.shape[0], w.shape[0] // group, math.prod(where.out)
    if not (x.size and w.size and places):
        return np.zeros(shape_for((n, w.shape[0], *where.out), x.itemsize), np.result_type(x, w))
    filters = w.reshape(group, each, -1)
    if (n > 1 and places < each) or not isinstance(x, np.ndarray):
        return _with_windows_as_rows(where.of(x), filters, where.out)
    return columns(where, x.shape, group, each, x.itemsize).products(x, filters)


def _with_windows_as_rows(view: np.ndarray, filters: np.ndarray, out: tuple[int, ...]) -> np.ndarray:
    """The windows of all samples in one product: where a sample has few, the filters would be read again for each."""
    (group, each, size), n, rank = filters.shape, len(view), len(out)
    grouped = view.reshape(n, group, -1, *view.shape[2:]) if group > 1 else view[:, None]
    # Groups in front; then samples and places as rows, and what a filter sees as columns.
    places, seen = [0, *range(3, 3 + rank)], [2, *range(3 + rank, 3 + 2 * rank)]
    rows = grouped.transpose(1, *places, *seen).reshape(group, n * math.prod(out), size)
    products = rows @ filters.mT
    return np.moveaxis(products.reshape(group, n, *out, each), (0, -1), (1, 2)).reshape(n, group * each, *out)


def _check_channels(x: np.ndarray, w: np.ndarray, channels: int, kernel_shape: Sequence[int] | None) -> None:
    if x.ndim != w.ndim or x.ndim < 3 or x.shape[1] != channels:
        raise ValueError(f"an input of shape {list(x.shape)} does not fit weights of shape {list(w.shape)}")
    if kernel_shape is not None and tuple(kernel_shape) != w.shape[2:]:
        raise ValueError(f"kernel_shape is {list(kernel_shape)}, but the weights have shape {list(w.shape)}")


@kernel("Conv", batch=folding())
def conv(x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
    """The sum of products of each window with each filter, plus the filter's bias."""
    layout = {"auto_pad": auto_pad, "dilations": dilations, "pads": pads, "strides": strides}
    y = convolved(widened(x), widened(w), group, kernel_shape, **layout)
    if b is not None:
        y = y + per_channel(b, y)
    return y.astype(x.dtype, order="C", copy=False)


@kernel("ConvInteger", since=10, batch=folding())
def conv_integer(
    x,
    w,
    x_zero_point=None,
    w_zero_point=None,
    *,
    auto_pad="NOTSET",
    dilations=None,
    group=1,
    kernel_shape=None,
    pads=None,
    strides=None,
):
    """Convolution of 8-bit values, less their zero points, in 32 bits."""
    layout = {"auto_pad": auto_pad, "dilations": dilations, "pads": pads, "strides": strides}
    return as_int32(_of_bytes(x, x_zero_point, w, w_zero_point, group, kernel_shape, layout))


@kernel("QLinearConv", since=10, batch=folding())
def qlinear_conv(
    x,
    x_scale,
    x_zero_point,
    w,
    w_scale,
    w_zero_point,
    y_scale,
    y_zero_point,
    b=None,
    *,
    auto_pad="NOTSET",
    dilations=None,
    group=1,
    kernel_shape=None,
    pads=None,
    strides=None,
):
    """Convolution of quantised values, quantised again."""
    layout = {"auto_pad": auto_pad, "dilations": dilations, "pads": pads, "strides": strides}
    y = _of_bytes(x, x_zero_point, w, w_zero_point, group, kernel_shape, layout)
    scale = once(scale_of, x_scale, w_scale, y_scale)
    scale, b = (v if v is None or v.size == 1 else v.reshape(-1, *(1,) * (y.ndim - 2)) for v in (scale, b))
    return requantized(y, scale, y_zero_point, b)


def scale_of(x_scale: np.ndarray, w_scale: np.ndarray, y_scale: np.ndarray) -> np.ndarray:
    """What sums of quantised values are multiplied with to be quantised again, perhaps a number for each filter."""
    return x_scale * w_scale / y_scale


def _of_bytes(x: Any, x_zero: Any, w: Any, w_zero: Any, group: int, kernel_shape: Any, layout: Mapping[str, Any]) -> np.ndarray:
    """The exact sums of products of 8-bit numbers: in float32, or in int32 where it takes several convolutions.

    A zero point of the filters may be one for each.
    """
    largest = largest_from(x.dtype, x_zero)
    terms = exact_terms(largest, largest_from(w.dtype, w_zero))
    given = w
    x, w = centred(x, x_zero), once(_centred_filters, w, w_zero)
    at_once = terms // max(math.prod(w.shape[2:]), 1)  # channels
    is_exact = w.shape[1] <= at_once or largest * once(_largest_sum, given, w_zero) <= EXACT32
    if is_exact or not at_once or group > 1:
        exact = x if is_exact else x.astype(np.float64)
        return convolved(exact, w.astype(exact.dtype, copy=False), group, kernel_shape, **layout)
    _check_channels(x, w, w.shape[1], kernel_shape)
    parts = (slice(start, start + at_once) for start in range(0, w.shape[1], at_once))
    return functools.reduce(
        np.add, (convolved(x[:, part], w[:, part], 1, kernel_shape, **layout).astype(np.int32) for part in parts)
    )


def _centred_filters(w: np.ndarray, zero_point: np.ndarray | None) -> np.ndarray:
    """Filters less their zero points, which may be one for each."""
    if zero_point is not None and zero_point.size > 1:
        zero_point = zero_point.reshape(-1, *(1,) * (w.ndim - 1))
    return centred(w, zero_point)


def _largest_sum(filters: np.ndarray, zero_point: np.ndarray | None) -> float:
    """What the elements of a filter add up to at most, whatever their signs."""
    sums = np.abs(_centred_filters(filters, zero_point)).reshape(len(filters), -1).sum(1, dtype=np.float64)
    return float(sums.max(initial=0))


# The transpose: each element of the input spreads a window over the output


@kernel("ConvTranspose", batch=folding())
def conv_transpose(
    x,
    w,
    b=None,
    *,
    auto_pad="NOTSET",
    dilations=None,
    group=1,
    kernel_shape=None,
    output_padding=None,
    output_shape=None,
    pads=None,
    strides=None,
):
    """Each element of the input times each filter, added up where the windows overlap."""
    _check_channels(x, w, w.shape[0], kernel_shape)
    rank = x.ndim - 2
    strides, dilations = per_axis(strides, rank, "strides"), per_axis(dilations, rank, "dilations")
    sizes = zip(strides, x.shape[2:], w.shape[2:], dilations, output_padding or (0,) * rank, strict=True)
    full = [s * (n - 1) + (k - 1) * d + 1 + extra for s, n, k, d, extra in sizes]
    if not output_shape and auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        output_shape = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    if output_shape:
        # Version 1 writes the halves the other way round from its own attribute; version 11 put that right.
        cut = [halves(max(f - o, 0), upper=auto_pad == "SAME_UPPER") for f, o in zip(full, output_shape[-rank:], strict=True)]
        size = output_shape[-rank:]
    else:
        cut = pairs(pads if auto_pad == "NOTSET" else None, rank, auto_pad)
        size = [f - sum(p) for f, p in zip(full, cut, strict=True)]
    ends = [begin + o for (begin, _), o in zip(cut, size, strict=True)]
    y = _spread(widened(x), widened(w), group, strides, dilations, list(map(max, full, ends)))
    y = y[(..., *(slice(begin, end) for (begin, _), end in zip(cut, ends, strict=True)))]
    if b is not None:
        y = y + per_channel(b, y)
    return y.astype(x.dtype, order="C", copy=False)


def _spread(
    x: np.ndarray, w: np.ndarray, group: int, strides: Sequence[int], dilations: Sequence[int], size: Sequence[int]
) -> np.ndarray:
    """The whole output: every product added at its place."""
    n, c = x.shape[:2]
    spatial, kernel_shape, filters = x.shape[2:], w.shape[2:], w.shape[1]
    y = np.zeros_like(x, order="C", shape=shape_for((n, group, filters, *size), x.itemsize))
    if not x.size or not w.size:
        return y.reshape(n, group * filters, *size)
    rows, weights = x.reshape(n, group, c // group, -1), w.reshape(group, c // group, filters, *kernel_shape).swapaxes(1, 2)
    products = np.empty_like(x, order="C", shape=(n, group, filters, rows.shape[-1]))
    planes = products.reshape(n, group, filters, *spatial)
    is_alone = all(k == 1 or (d == 1 and k <= s) for k, s, d in zip(kernel_shape, strides, dilations, strict=True))
    for offset in itertools.product(*map(range, kernel_shape)):
        places = tuple(
            slice(o * d, o * d + s * (m - 1) + 1, s) for o, d, s, m in zip(offset, dilations, strides, spatial, strict=True)
        )
        np.matmul(weights[(..., *offset)].astype(x.dtype, order="C", copy=False), rows, out=products)
        here = y[(slice(None), slice(None), slice(None), *places)]
        if is_alone:  # no two windows meet
            here[...] = planes
        else:
            here += planes
    return y.reshape(n, group * filters, *size)
