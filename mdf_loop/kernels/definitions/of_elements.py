"""Element-wise operators of ONNX whose kernels do not say it in a way that can be traced: values decide, or bits.

All others are their kernels (:mod:`mdf_loop.step.trace`).  These are formulas of the kernels, operation for operation: a
difference would be one between a loop that is stepped and one that is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.numbers.ufuncs import fitted
from mdf_loop.ops.registry import definition
from mdf_loop.types.elements import kind_of

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
