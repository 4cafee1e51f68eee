"""Quantization: one scale and zero point for a tensor, for each slice along an axis, or for each block."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from mdf_loop.kernels.numbers.casting import E8M0, converted, element_type
from mdf_loop.ops.batching import by_step
from mdf_loop.ops.registry import kernel, say
from mdf_loop.types.elements import kind_of


def spread(values: Any, shape: tuple[int, ...], axis: int, block_size: int) -> Any:
    """Scales or zero points in a shape that broadcasts to that of the tensor they belong to.

    Raises
    ------
    ValueError
        Their shape fits neither the tensor, nor one slice along the axis, nor blocks of that size.
    """
    if values.size == 1:
        return values.reshape(())
    rank = len(shape)
    axis = 0 if rank == 1 else axis  # opset 21: a tensor of rank 1 does not need the axis
    if not -rank <= axis < rank:
        raise ValueError(f"axis must lie in [{-rank}, {rank - 1}]; got {axis}")
    axis %= rank
    if values.ndim == 1 and not block_size:
        if len(values) != shape[axis]:
            raise ValueError(f"axis {axis} of shape {list(shape)} needs {shape[axis]} scales; got {len(values)}")
        return values.reshape((-1,) + (1,) * (rank - 1 - axis))
    blocks = -(-shape[axis] // block_size) if block_size > 0 else 0
    if values.shape != (*shape[:axis], blocks, *shape[axis + 1 :]):
        raise ValueError(
            f"scales of shape {list(values.shape)} do not fit a tensor of shape {list(shape)} "
            f"with axis {axis} and block_size {block_size}"
        )
    repeated = np.repeat(values, min(block_size, shape[axis]), axis)  # not more of one block than there is
    return repeated[(slice(None),) * axis + (slice(shape[axis]),)]


def quantized(x: Any, scale: Any, zero_point: Any, dtype: np.dtype, precision: np.dtype, **conversion: Any) -> Any:
    """x / scale + zero point: rounded to even and cut to the range of whole numbers, or cast to a small float type.

    The quotient is rounded to ``precision`` once: neither x nor the scale needs to fit into it.
    """
    wide = np.float64 if kind_of(x.dtype) == "integer" or precision.itemsize > 4 else np.float32
    ratio = np.divide(x.astype(wide, copy=False), scale.astype(wide)).astype(precision, copy=False)
    if kind_of(dtype) == "float":
        shifted = ratio if zero_point is None else ratio + zero_point.astype(precision)
        return converted(shifted, dtype, **conversion)
    limits = ml_dtypes.iinfo(dtype)
    whole = np.rint(ratio).astype(np.float64 if precision.itemsize > 4 else np.float32)
    if zero_point is not None:
        whole += zero_point.astype(whole.dtype)  # exact within the limits, and what is beyond is cut
    out = whole if whole.ndim else None
    return np.minimum(np.maximum(whole, limits.min, out=out), limits.max, out=out).astype(dtype)


def _division_type(x: Any, scale: Any, precision: int = 0) -> np.dtype:
    """The type to divide in: the one asked for, else the scale's, else that of x."""
    if precision:
        return element_type(precision)
    for dtype in (scale.dtype, x.dtype):
        if kind_of(dtype) == "float" and dtype != E8M0:  # powers of two alone cannot hold a ratio
            return dtype
    return element_type(1)


def _quantized_type(zero_point: Any, output_dtype: int) -> np.dtype:
    """The type that output_dtype or the zero point asks for; uint8 if neither is there."""
    if zero_point is None:
        return element_type(output_dtype or 2)
    if output_dtype and element_type(output_dtype) != zero_point.dtype:
        raise ValueError(f"output_dtype is {element_type(output_dtype).name}, but the zero point is {zero_point.dtype.name}")
    return zero_point.dtype


@kernel("QuantizeLinear", since=10, batch=by_step)
def quantize_linear_10(x, y_scale, y_zero_point=None, *, axis=1, saturate=1, block_size=0, output_dtype=0):
    """x in small numbers, divided in float32; from infinity to float8 as opsets 19 to 23 have it."""
    return quantize_linear_23(
        x, y_scale, y_zero_point, axis=axis, saturate=saturate, block_size=block_size, output_dtype=output_dtype, precision=1
    )


@kernel("QuantizeLinear", since=23, batch=by_step)
def quantize_linear_23(x, y_scale, y_zero_point=None, *, axis=1, saturate=1, block_size=0, output_dtype=0, precision=0):
    """x in small numbers; the type of the scale is that of the quotient, unless ``precision`` says another."""
    return _quantize(x, y_scale, y_zero_point, axis, block_size, output_dtype, precision, saturate=saturate, infinity_to_nan=True)


@kernel("QuantizeLinear", since=24, batch=by_step)
def quantize_linear(x, y_scale, y_zero_point=None, *, axis=1, saturate=1, block_size=0, output_dtype=0, precision=0):
    """x in small numbers, with one scale, one for each slice along an axis, or one for each block."""
    return _quantize(x, y_scale, y_zero_point, axis, block_size, output_dtype, precision, saturate=saturate)


def _quantize(
    x: Any, scale: Any, zero_point: Any, axis: int, block_size: int, output_dtype: int, precision: int, **conversion: Any
) -> Any:
    dtype = _quantized_type(zero_point, output_dtype)
    precision = _division_type(x, scale, precision)
    scale = spread(scale, x.shape, axis, block_size)
    if zero_point is not None:
        zero_point = spread(zero_point, x.shape, axis, block_size)
    return quantized(x, scale, zero_point, dtype, precision, **conversion)


@kernel("DequantizeLinear", since=10, batch=by_step)
def dequantize_linear(x, x_scale, x_zero_point=None, *, axis=1, block_size=0, output_dtype=0):
    """(x - zero point) * scale in float32, rounded to the type of the output: the one asked for, or that of the scale."""
    if x_scale.dtype == E8M0 and not output_dtype:
        raise ValueError("a scale of type float8e8m0 needs output_dtype: no result can have the type of the scale")
    dtype = element_type(output_dtype) if output_dtype else x_scale.dtype
    # The difference needs a bit more than x, and float32 holds that of 16 bits and of small floats.
    wide = x.astype(np.int64 if x.dtype.kind in "iu" and x.itemsize > 2 else np.float32)
    if x_zero_point is not None:
        wide = wide - spread(x_zero_point, x.shape, axis, block_size).astype(wide.dtype)
    product = wide.astype(np.float32, copy=False) * spread(x_scale, x.shape, axis, block_size).astype(np.float32)
    return product.astype(dtype, copy=False)


@kernel("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(x):
    """x in uint8, with the scale and zero point by which its range and 0 fit into 0 to 255.

    A tensor of zeros, whose scale is 0, becomes zeros.
    """
    low, high = np.minimum.reduce(x, None, initial=0), np.maximum.reduce(x, None, initial=0)
    scale = (high - low) / x.dtype.type(255)
    divisor = scale + (scale == 0)
    zero_point = np.rint(np.minimum(np.maximum(-low / divisor, 0), 255)).astype(np.uint8)
    return quantized(x, divisor, zero_point, zero_point.dtype, x.dtype), scale, zero_point


for _op in ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"):
    say(_op, traced=True)
