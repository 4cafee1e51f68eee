"""Convolution of one small image after the other: the windows are laid out in memory that is used again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.networks.sliding_windows import WindowColumns, columns, windows
from mdf_loop.ops.registry import routine

SMALL = 1 << 18
"""Bytes of a result up to which laying out its windows again would take most of the time."""


class Convolving:
    """Convolves one image after the other, of one shape.

    Parameters
    ----------
    layout : WindowColumns
        Of one sample and one group, in one block.
    dtype : numpy.dtype
    """

    def __init__(self, layout: WindowColumns, dtype: np.dtype) -> None:
        image, products = np.zeros(layout.image, dtype), np.zeros(layout.product, dtype)
        self.inside = image[layout.inside]
        self.windows = np.ndarray(layout.view[2:], dtype, image, 0, layout.strides[2:])
        self.columns = np.empty(self.windows.shape, dtype)
        self.matrix = self.columns.reshape(layout.seen, -1)
        self.products = products[0, 0, :, : self.matrix.shape[1]]
        self.output = products.reshape(layout.wide)[layout.out]

    def __call__(self, x: np.ndarray, w: np.ndarray, *bias_and_out: np.ndarray) -> None:
        """Write the products of filters with the windows of an image, plus the filters' bias."""
        *bias, out = bias_and_out
        self.inside[...] = x
        self.columns[...] = self.windows
        np.matmul(w.reshape(len(w), -1), self.matrix, self.products)
        out[...] = self.output
        if bias:
            np.add(out, bias[0].reshape(-1, *(1,) * (x.ndim - 2)), out)


@routine("Conv")
def convolving(types: Sequence[Any], result: Any, **attrs: Any) -> Callable[[], Convolving] | None:
    """Of one image, whose windows make one block."""
    if result.dtype not in (np.float32, np.float64) or result.size * result.dtype.itemsize > SMALL:
        return None
    if any(t is None or t.dtype != result.dtype for t in types):
        return None
    layout = _layout(attrs, types[0].shape, types[1].shape, result.dtype)
    return None if layout is None else functools.partial(Convolving, layout, result.dtype)


def _layout(attrs: Any, shape: tuple[int, ...], weights: tuple[int, ...], dtype: np.dtype) -> WindowColumns | None:
    """How the windows of one image are laid out, if they are one block."""
    if shape[0] != 1 or attrs.get("group", 1) != 1 or weights[1:2] != shape[1:2] or len(weights) != len(shape) or len(shape) < 3:
        return None
    if 0 in shape or 0 in weights or tuple(attrs.get("kernel_shape") or weights[2:]) != weights[2:]:
        return None
    where = windows(
        shape[2:],
        weights[2:],
        **{name: attrs.get(name) for name in ("dilations", "pads", "strides")},
        auto_pad=attrs.get("auto_pad", "NOTSET"),
    )
    if 0 in where.out:
        return None
    layout = columns(where, shape, 1, weights[0], dtype.itemsize)
    return layout if all(len(parts) == 1 for parts in layout.blocks) else None
