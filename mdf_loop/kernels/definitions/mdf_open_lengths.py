"""Functions of numpy that are operators of ONNX: where a back end writes these, of any lengths, and by values that are computed.

Elsewhere ``b.onnx`` refuses, and the kernel is called as a whole.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mdf_loop.kernels.definitions.mdf_operators import FLOAT64, INT64
from mdf_loop.kernels.definitions.mdf_reductions import added_up, in_a_row, in_floats
from mdf_loop.kernels.definitions.mdf_shapes import full
from mdf_loop.kernels.definitions.of_shapes import is_number
from mdf_loop.ops.rows import numpys

for _name in ("tril", "triu"):
    numpys(f"numpy.{_name}")(lambda b, m, *, k=0, upper=int(_name == "triu"): b.onnx("Trilu", m, np.array(k), upper=upper))

for _k, _name in enumerate(("zeros", "ones")):
    numpys(f"numpy.{_name}")(lambda b, shape, *, dtype=None, k=_k: full(b, shape, b.const(k), dtype=dtype or FLOAT64))


@numpys("numpy.arange")
def arange(b, *bounds, dtype=None):
    """Equally spaced numbers, from their distance."""
    given = [b.strong(x) for x in bounds if x is not None]
    common = np.result_type(*[x.type.dtype for x in given])
    zero, one = (b.const(common.type(number)) for number in (0, 1))
    first, stop, step = {1: [zero, *given, one], 2: [*given, one], 3: given}[len(given)]
    found = b.onnx("Range", *(b.cast(x, common) for x in (first, stop, step)))
    return found if dtype is None else b.cast(found, dtype)


@numpys("numpy.linspace")
def linspace(b, start, stop, *, num=50, endpoint=True):
    """Equally spaced numbers, from their count."""
    if not (b.takes_open and is_number(start) and is_number(stop)) or num < 2:
        raise ValueError("of arrays, or rounded in numpy's own way")
    start, stop = b.cast(start, FLOAT64), b.cast(stop, FLOAT64)
    step = b.div(b.sub(stop, start), np.float64(num - bool(endpoint)))
    return b.add(b.mul(b.const(np.arange(num, dtype=FLOAT64)), step), start)


@numpys("builtins.sum")
def sum_(b, x, start=None):
    """The rows, however many there are, in any order."""
    total = b.onnx("ReduceSum", b.cast(x, INT64) if x.type.kind == "b" else x, np.array([0]), keepdims=0)
    return total if start is None else b.add(total, start)


@numpys("numpy.trace")
def trace(b, x):
    """The sum of a diagonal."""
    x = added_up(b, x)
    return b.onnx("ReduceSum", b.select(b.ne(b.onnx("EyeLike", x), 0), x, 0), keepdims=0)


def _ordered(b: Any, x: Any, axis: Any) -> Any:
    """The elements along an axis in rising order, and their places."""
    x, axis = (b.reshape(x, (-1,)), 0) if axis is None else (x, axis)
    return b.onnx("TopK", x, b.pack([b.length(x, axis)]), results=2, axis=axis, largest=0, sorted=1)


for _k, _name in enumerate(("sort", "argsort")):
    numpys(f"numpy.{_name}")(lambda b, x, *, axis=-1, k=_k: _ordered(b, x, axis)[k])


@numpys("numpy.median")
def median(b, x, *, axis=None, keepdims=False):
    """The mean of the two elements in the middle, or nan where there is one."""
    if keepdims:
        raise ValueError("with axes that are kept")
    x, axis = in_a_row(b, in_floats(b, x), axis)
    ordered, last = _ordered(b, x, axis)[0], b.sub(b.length(x, axis), 1)
    low = b.floordiv(last, 2)
    middle = [b.onnx("Gather", ordered, place, axis=axis) for place in (low, b.sub(last, low))]
    return b.select(b.reduce(b.ne(x, x), "any", [axis]), math.nan, b.div(b.add(*middle), 2))
