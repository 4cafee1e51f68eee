"""Element-wise numbers.

Python's operators stand where there is one: on numpy's scalars they cost a tenth of a ufunc's call, and on
arrays they are the ufunc.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from mdf_loop.kernels.numbers.transcendental import error_function
from mdf_loop.kernels.numbers.ufuncs import from_first_opset, of_two
from mdf_loop.kernels.numbers.wide import widened
from mdf_loop.ops.batching import elementwise
from mdf_loop.ops.registry import kernel, say
from mdf_loop.ops.rows import Known
from mdf_loop.types.elements import kind_of

for _op, _function in {"Add": operator.add, "Sub": operator.sub, "Mul": operator.mul}.items():
    of_two(_op)(_function)

for _op, _ufunc in {"Add": "add", "Sub": "subtract", "Mul": "multiply"}.items():
    say(_op, accumulates=_ufunc)

for _op, _function in {
    "Abs": operator.abs,
    "Ceil": np.ceil,
    "Exp": np.exp,
    "Floor": np.floor,
    "Log": np.log,
    "Neg": operator.neg,
    "Reciprocal": np.reciprocal,
    "Sqrt": np.sqrt,
    "Tanh": np.tanh,
}.items():
    from_first_opset(_op)(_function)

for _op, _since, _function in (
    ("Acos", 7, np.arccos),
    ("Acosh", 9, np.arccosh),
    ("Asin", 7, np.arcsin),
    ("Asinh", 9, np.arcsinh),
    ("Atan", 7, np.arctan),
    ("Atanh", 9, np.arctanh),
    ("Cos", 7, np.cos),
    ("Cosh", 9, np.cosh),
    ("Round", 11, np.rint),
    ("Sign", 9, np.sign),
    ("Sinh", 9, np.sinh),
    ("Tan", 7, np.tan),
):
    kernel(_op, since=_since, batch=elementwise)(_function)


@of_two("Div")
def div(a, b):
    """a / b; whole numbers are truncated towards zero, and give 0 where they are divided by it."""
    if a.dtype.kind == "i":
        return (a - np.fmod(a, b)) // b  # what is left divides without a remainder
    if a.dtype.kind == "u":
        return a // b
    return a / b


@kernel("Mod", since=10, batch=elementwise)
def mod(a, b, *, fmod=0):
    """The remainder of a / b: with the sign of b, or with that of a if ``fmod``."""
    if fmod:
        return np.fmod(a, b)
    if type(a) is np.ndarray and a.size >= LONG and a.dtype.kind in "iu" and a.dtype == getattr(b, "dtype", None):
        return _remainder(a, b)
    return a % b


LONG = 1024
"""Elements from which on division by one whole number, which is done in SIMD registers, makes up for more calls."""


def _remainder(a: np.ndarray, b: Any) -> np.ndarray:
    """a % b of whole numbers: what the quotient leaves, where many elements have one divisor.

    Exact for all numbers, as each step wraps around, but a divisor 0 must give what it gives elsewhere.
    """
    if b.size == 1 and b.ndim <= a.ndim and b.item():
        divisor = b.reshape(())
        out = a // divisor
        out *= divisor
    elif a.shape[-1] >= LONG and b.ndim == 2 and b.shape[1] == 1 and (a.ndim == 1 or a.shape == (len(b), a.shape[1])) and b.all():
        out = np.empty((len(b), a.shape[-1]), a.dtype)
        # numpy notices that there is one divisor only in arrays of one axis.
        for row, divisor, quotient in zip(np.broadcast_to(a, out.shape), b, out, strict=True):
            np.floor_divide(row, divisor, quotient)
        out *= b
    else:
        return a % b
    return np.subtract(a, out, out)


@of_two("Pow")
def power(x, y):
    """x to the power of y, in the type of x."""
    if x.dtype.kind == "i":
        return _integer_power(x, y)
    if x.dtype != y.dtype:
        return _real_power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    return _real_power(x, y)


def _real_power(x: Any, y: Any) -> Any:
    """Powers of floats.

    numpy takes roots in place of powers of one half, depending on how the numbers lie in memory, and those of -0.0 and
    minus infinity are -0.0 and nan; the powers are 0.0 and infinity.
    """
    if y.size == 1 and x.size >= LONG and x.ndim >= y.ndim and x.dtype.kind == "f" and x.itemsize > 2 and y.item() == 3:
        return x * x * x  # hundreds of times as fast
    result = x**y
    half = y == 0.5
    if half.any():
        odd = half & ((x == 0) | (x == -np.inf))
        if odd.any():
            return np.where(odd, np.abs(x), result)[()]
    return result


def _integer_power(x: Any, y: Any) -> Any:
    """Powers of whole numbers wrap around like products do; fractions are cut off."""
    if kind_of(y.dtype) == "float":
        return np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    if y.dtype == np.uint64:
        return np.power(x.astype(np.uint64), y).astype(x.dtype)  # signed numbers wrap to the same bits
    try:
        result = x**y
    except ValueError:  # numpy refuses negative powers; they are fractions, and so 0, except for 1 and -1
        units = np.where(abs(x) == 1, x ** (y & 1), 0)
        result = np.where(y < 0, units, x ** np.maximum(y, 0))
    return result if result.dtype == x.dtype else result.astype(x.dtype)


@from_first_opset("Max")
def maximum(*inputs):
    """The largest of all inputs, or NaN where one is NaN."""
    return functools.reduce(np.maximum, inputs)


@from_first_opset("Min")
def minimum(*inputs):
    """The smallest of all inputs, or NaN where one is NaN."""
    return functools.reduce(np.minimum, inputs)


@from_first_opset("Sum")
def total(*inputs):
    """The inputs added up from left to right."""
    return functools.reduce(np.add, inputs)


@from_first_opset("Mean")
def mean(*inputs):
    """The sum of the inputs over their number; of half precision in float32, as the sum may be too large for it."""
    dtype = inputs[0].dtype
    added = functools.reduce(np.add, [x.astype(np.float32) for x in inputs] if dtype.itemsize < 4 else inputs)
    return (added / added.dtype.type(len(inputs))).astype(dtype, copy=False)


def is_alone(*inputs: Known | None, consumed_inputs: Any = None) -> bool:
    """Whether there is only one input."""
    return len(inputs) == 1


def is_alone_and_a_float(*inputs: Known | None, consumed_inputs: Any = None) -> bool:
    """Whether there is only one input, and dividing it by 1 changes nothing."""
    return len(inputs) == 1 and inputs[0] is not None and inputs[0].dtype is not None and kind_of(inputs[0].dtype) == "float"


for _op, _ufunc in {"Max": "maximum", "Min": "minimum", "Sum": "add"}.items():
    say(_op, accumulates=_ufunc, alias=is_alone)
say("Mean", alias=is_alone_and_a_float)


@kernel("Clip", batch=elementwise)
def clip_1(x, *, min=None, max=None, consumed_inputs=None):
    """x between two attributes."""
    return clip(x, None if min is None else x.dtype.type(min), None if max is None else x.dtype.type(max))


@kernel("Clip", since=6, batch=elementwise)
def clip_6(x, *, min=-3.4028234663852886e38, max=3.4028234663852886e38):
    """x between two attributes."""
    return clip(x, x.dtype.type(min), x.dtype.type(max))


@kernel("Clip", since=11, batch=elementwise)
def clip(x, low=None, high=None):
    """x, but at least ``low`` and then at most ``high``; NaN stays, and a limit left out limits nothing."""
    if low is not None:
        x = np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


@kernel("Erf", since=9, batch=elementwise)
def erf(x):
    """The error function."""
    if x.dtype.kind == "f" and x.dtype.itemsize >= 4:
        return error_function(x)
    return error_function(widened(x)).astype(x.dtype, copy=False)


@kernel("Identity", batch=elementwise)
def identity(x):
    """The value itself, be it a tensor, a sequence or an optional."""
    return x


say("Identity", alias=is_alone)

for _op, _function in {
    "And": operator.and_,
    "Equal": operator.eq,
    "Greater": operator.gt,
    "Less": operator.lt,
    "Or": operator.or_,
    "Xor": operator.xor,
}.items():
    of_two(_op)(_function)

for _op, _since, _function in (
    ("GreaterOrEqual", 12, operator.ge),
    ("IsNaN", 9, np.isnan),
    ("LessOrEqual", 12, operator.le),
    ("Not", 1, np.logical_not),
):
    kernel(_op, since=_since, batch=elementwise)(_function)


@kernel("Where", since=9, batch=elementwise)
def where(condition, x, y):
    """x where the condition is true, y elsewhere."""
    if type(condition) is np.bool_ and x.shape == y.shape:
        return x if condition else y
    return np.where(condition, x, y)


@kernel("IsInf", since=10, batch=elementwise)
def is_inf(x, *, detect_negative=1, detect_positive=1):
    """Where x is infinite, with a sign that is asked for."""
    found = np.isinf(x)
    if not detect_negative:
        found = found & ~np.signbit(x)
    if not detect_positive:
        found = found & np.signbit(x)
    return found


for _op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
    say(_op, compares=True)
for _op in ("Div", "Mod"):
    say(_op, divides=True)
say("Where", selects=True)
say("And", accumulates="logical_and")
say("Or", accumulates="logical_or")


for _op, _function in {
    "BitwiseAnd": operator.and_,
    "BitwiseNot": operator.invert,
    "BitwiseOr": operator.or_,
    "BitwiseXor": operator.xor,
}.items():
    kernel(_op, since=18, batch=elementwise)(_function)


@kernel("BitShift", since=11, batch=elementwise)
def bit_shift(x, y, *, direction):
    """The bits of x moved by y places; all are gone if y is negative or not below the width of x."""
    if direction == "LEFT":
        return np.left_shift(x, y)
    if direction == "RIGHT":
        return np.right_shift(x, y)
    raise ValueError(f"direction must be LEFT or RIGHT; got {direction!r}")
