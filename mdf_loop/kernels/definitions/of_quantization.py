"""Quantised numbers: small integers with a scale and a zero point."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place
from mdf_loop.kernels.definitions.of_shapes import rank_of
from mdf_loop.ops.registry import definition
from mdf_loop.types.elements import DTYPES

FLOAT32 = np.dtype(np.float32)


def _spread(b: Any, values: Any, x: Any, axis: int, block_size: int) -> Any:
    """Scales or zero points in a shape that broadcasts to that of x."""
    if not values.type.is_static or not x.type.is_static:
        raise ValueError("open lengths")
    if values.type.size == 1:
        return b.reshape(values, ())
    axis = 0 if rank_of(x) == 1 else place(axis, rank_of(x))
    if rank_of(values) != 1 or block_size or values.type.shape[0] != x.type.shape[axis]:
        raise ValueError("blocks")
    return b.reshape(values, (values.type.shape[0], *(1,) * (rank_of(x) - 1 - axis)))


def _is_plain(*given: Any) -> bool:
    """Whether values are whole numbers of numpy's own, of at most 16 bits."""
    return all(x is None or (x.type.kind in "iu" and x.type.dtype.itemsize <= 2) for x in given)


@definition("QuantizeLinear", since=10, why="speed")
def quantize_linear(b, x, y_scale, y_zero_point=None, *, axis=1, saturate=1, block_size=0, output_dtype=0, precision=0):
    """x / scale + zero point, rounded to even and cut to the range of whole numbers."""
    dtype = DTYPES.get(output_dtype or 2) if y_zero_point is None else y_zero_point.type.dtype
    types = x.type.dtype, y_scale.type.dtype
    if types != (FLOAT32, FLOAT32) or precision not in (0, 1) or dtype is None or dtype.kind not in "iu" or dtype.itemsize > 2:
        raise ValueError("not float32 to small whole numbers")
    if y_zero_point is not None and output_dtype and (output_dtype not in DTYPES or DTYPES[output_dtype] != dtype):
        raise ValueError("two types")
    zero = None if y_zero_point is None else b.cast(_spread(b, y_zero_point, x, axis, block_size), FLOAT32)
    return _rounded(b, b.div(x, _spread(b, y_scale, x, axis, block_size)), zero, dtype)


def _rounded(b: Any, ratio: Any, zero: Any, dtype: np.dtype) -> Any:
    whole = b.rint(ratio)
    if zero is not None:
        whole = b.add(whole, zero)
    limits = np.iinfo(dtype)
    return b.cast(b.min(b.max(whole, limits.min), limits.max), dtype)


@definition("DynamicQuantizeLinear", since=11, why="values")
def dynamic_quantize_linear(b, x):
    """x in uint8, with the scale and zero point by which its range and 0 fit into 0 to 255."""
    if x.type.dtype != FLOAT32 or not x.type.is_static or not x.type.size or not x.type.shape:
        raise ValueError("not a tensor of float32")
    axes = range(rank_of(x))
    low, high = b.min(b.reduce(x, "min", axes), 0), b.max(b.reduce(x, "max", axes), 0)
    scale = b.div(b.sub(high, low), 255)
    is_none = b.eq(scale, 0)
    divisor = b.select(is_none, b.number(1, x), scale)
    zero = b.rint(b.min(b.max(b.div(b.neg(low), divisor), 0), 255))
    zero = b.select(is_none, b.number(0, x), zero)
    return _rounded(b, b.div(x, divisor), zero, np.dtype(np.uint8)), scale, b.cast(zero, np.dtype(np.uint8))
