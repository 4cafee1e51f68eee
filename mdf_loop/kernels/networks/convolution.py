"""Convolution: matrix products over the windows of the input."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import is_seen
from mdf_loop.kernels.arrays.bounds import shape_for
from mdf_loop.kernels.arrays.linear import requantized
from mdf_loop.kernels.networks.normalization import per_channel
from mdf_loop.kernels.networks.sliding_windows import halves, pairs, per_axis, windows
from mdf_loop.kernels.numbers.wide import centred, product, widened
from mdf_loop.ops.batching import folding
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
    size = max(BLOCK // (x.itemsize * group * filters.shape[2] * places), 1) if is_seen(x) else n
    parts = [_products(filters, where.of(x[start : start + size]), where.out) for start in range(0, n, size)]
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


BLOCK = 1 << 20
"""Bytes of windows that are laid out at a time."""


def _products(filters: np.ndarray, view: np.ndarray, out: tuple[int, ...]) -> np.ndarray:
    """Filters, of shape (groups, filters of each, elements of each), times windows of some samples."""
    (group, each, size), n, rank = filters.shape, len(view), len(out)
    seen = view.reshape(n, group, -1, *view.shape[2:])
    columns = seen.transpose(0, 1, 2, *range(3 + rank, 3 + 2 * rank), *range(3, 3 + rank)).reshape(n, group, size, math.prod(out))
    return product(filters, columns).reshape(n, group * each, *out)


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
    return _of_bytes(x, x_zero_point, w, w_zero_point, group, kernel_shape, layout)


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
    scale = x_scale * w_scale / y_scale  # perhaps a number for each filter
    scale, b = (v if v is None or v.size == 1 else v.reshape(-1, *(1,) * (y.ndim - 2)) for v in (scale, b))
    return requantized(y, scale, y_zero_point, b)


def _of_bytes(x: Any, x_zero: Any, w: Any, w_zero: Any, group: int, kernel_shape: Any, layout: Mapping[str, Any]) -> np.ndarray:
    """The exact sums of products of 8-bit numbers; a zero point of the filters may be one for each."""
    if w_zero is not None and w_zero.size > 1:
        w_zero = w_zero.reshape(-1, *(1,) * (w.ndim - 1))
    return convolved(centred(x, x_zero), centred(w, w_zero), group, kernel_shape, **layout)


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
