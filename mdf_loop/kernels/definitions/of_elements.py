"""Element-wise operators of ONNX: what one element of the result is.

They are formulas of the kernels, operation for operation; a difference would be one between a loop that is stepped and one that
is not.  Those that take one line are written, because reading a kernel takes longer; so are those whose kernels look at values.
An element-wise operator that is not here is its kernel, traced (:mod:`mdf_loop.step.trace`).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mdf_loop.kernels.definitions.declaring import defines, defines_of_two
from mdf_loop.ops.registry import definition
from mdf_loop.ops.rows import Call
from mdf_loop.types.elements import kind_of

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

_PLAIN = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "BitwiseAnd": "and_", "BitwiseNot": "not_", "BitwiseOr": "or_", "BitwiseXor": "xor", "Ceil": "ceil", "Cos": "cos",
    "Cosh": "cosh", "Exp": "exp", "Floor": "floor", "GreaterOrEqual": "ge", "LessOrEqual": "le", "Log": "log", "Neg": "neg",
    "Reciprocal": "reciprocal", "Round": "rint", "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan",
    "Tanh": "tanh",
}  # fmt: skip
"""Operators that are one primitive."""

_OF_TWO = {
    "Add": "add", "And": "and_", "Equal": "eq", "Greater": "gt", "Less": "lt", "Mul": "mul", "Or": "or_", "Sub": "sub",
    "Xor": "xor",
}  # fmt: skip
"""Those that broadcast by rules of their own before opset 7."""

_FOLDING = {"Max": "max", "Min": "min", "Sum": "add"}
"""Operators of any number of inputs: one primitive, from left to right."""


def _plain(primitive: str) -> Call:
    def define(b: Any, *inputs: Any) -> Any:
        return b.element(primitive, *inputs)

    return define


def _folding(primitive: str) -> Call:
    def define(b: Any, *inputs: Any) -> Any:
        return functools.reduce(functools.partial(b.element, primitive), inputs)

    return define


for _op, _primitive in _PLAIN.items():
    defines(_op)(_plain(_primitive))
for _op, _primitive in _OF_TWO.items():
    defines_of_two(_op)(_plain(_primitive))
for _op, _primitive in _FOLDING.items():
    defines(_op)(_folding(_primitive))


@definition("Identity")
def identity(b, x):
    """The value itself."""
    return x


@definition("Not")
def not_(b, x):
    """The other truth value."""
    if x.type.kind != "b":
        raise ValueError("numbers have bits, not a truth value")
    return b.not_(x)


@defines_of_two("Div")
def div(b, x, y):
    """The quotient; of whole numbers, cut off towards zero."""
    return b.div(x, y) if x.type.kind not in "iu" else b.quotient(x, y)


@definition("Mod", since=10)
def mod(b, x, y, *, fmod=0):
    """The remainder."""
    return b.fmod(x, y) if fmod else b.mod(x, y)


@defines_of_two("Pow")
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


@definition("Erf")
def erf(b, x):
    """The error function."""
    if x.type.kind == "f" and x.type.dtype.itemsize >= 4:
        return b.erf(x)
    return b.cast(b.erf(b.cast(x, FLOAT32)), x.type.dtype)


@definition("Where", since=9)
def where(b, condition, x, y):
    """One of two."""
    return b.select(condition, x, y)


@definition("IsNaN", since=9)
def is_nan(b, x):
    """Whether it is nan."""
    return b.ne(x, x)


@definition("IsInf", since=10)
def is_inf(b, x, *, detect_negative=1, detect_positive=1):
    """Whether it is infinite, with a sign that is asked for."""
    signs = [sign for sign, asked in ((np.inf, detect_positive), (-np.inf, detect_negative)) if asked]
    return functools.reduce(b.or_, [b.eq(x, sign) for sign in signs]) if signs else b.lt(x, x)
