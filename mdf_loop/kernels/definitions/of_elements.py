"""Element-wise operators of ONNX whose kernels do not say it in a way that can be traced: values decide, or bits, or
they are quantised.

All others are their kernels (:mod:`mdf_loop.step.trace`).  These are formulas of the kernels, operation for operation: a
difference would be one between a loop that is stepped and one that is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place
from mdf_loop.kernels.definitions.of_shapes import rank_of
from mdf_loop.kernels.numbers.ufuncs import fitted
from mdf_loop.ops.registry import definition
from mdf_loop.types.elements import DTYPES, kind_of

FLOAT64 = np.dtype(np.float64)


@definition("Identity", why="lists")
def identity(b, x):
    """The value itself."""
    return x


@definition("Div", since=7, why="speed")
def div(b, x, y):
    """The quotient; of whole numbers, cut off towards zero."""
    return b.div(x, y) if x.type.kind not in "iu" else b.quotient(x, y)


@definition("Pow", until=7, why="values")
def power_1(b, x, y, *, axis=None, broadcast=0, consumed_inputs=None):
    """The same, with a way of its own to broadcast."""
    if not x.type.is_static or not y.type.is_static:
        raise ValueError("open lengths")
    wholes = [np.broadcast_to(np.False_, v.type.shape) for v in (x, y)]  # shapes alone: they have no memory
    return power(b, x, b.reshape(y, fitted(*wholes, axis, broadcast).shape))


@definition("Pow", since=7, why="values")
def power(b, x, y):
    """x to the power of y, in the type of x."""
    if x.type.kind == "i":
        return _integer_power(b, x, y)
    if x.type.dtype != y.type.dtype:
        return b.cast(_real_power(b, b.cast(x, FLOAT64), b.cast(y, FLOAT64)), x.type.dtype)
    return _real_power(b, x, y)


def _real_power(b: Any, x: Any, y: Any) -> Any:
    """Powers of floats, roots among them: those of -0.0 and minus infinity are 0.0 and infinity."""
    if kind_of(y.type.dtype) != "float" or (y.op == "const" and not np.any(y.attr == 0.5)):
        return b.pow(x, y)
    is_odd = b.and_(b.eq(y, 0.5), b.or_(b.eq(x, 0), b.eq(x, -np.inf)))
    return b.select(is_odd, b.abs(x), b.pow(x, y))


def _integer_power(b: Any, x: Any, y: Any) -> Any:
    """Powers of whole numbers wrap around like products do; fractions are cut off."""
    dtype = x.type.dtype
    if kind_of(y.type.dtype) == "float":
        return b.cast(b.pow(b.cast(x, FLOAT64), b.cast(y, FLOAT64)), dtype)
    if y.type.dtype == np.uint64:
        return b.cast(b.pow(b.cast(x, y.type.dtype), y), dtype)
    x, y = b.common(x, y)
    if y.type.kind != "i" or (y.op == "const" and np.all(y.attr >= 0)):
        return b.cast(b.pow(x, y), dtype)
    units = b.select(b.eq(b.abs(x), 1), b.pow(x, b.and_(y, 1)), 0)
    return b.cast(b.select(b.lt(y, 0), units, b.pow(x, b.max(y, 0))), dtype)


@definition("Relu", why="bits")
def relu(b, x, *, consumed_inputs=None):
    """x, but at least 0."""
    return b.max(x, 0) if x.type.dtype != np.float16 else b.select(b.le(x, 0), 0, x)  # the kernel's -0.0 is 0.0


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
