"""Element-wise operators of ONNX in one line each: what one element of the result is.

They are formulas of the kernels, operation for operation; a difference would be one between a loop that is stepped and one that
is not.  Those that take one line are written, because reading a kernel takes longer; so are those whose kernels look at values.
An element-wise operator that is not here is its kernel, traced (:mod:`mdf_loop.step.trace`).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mdf_loop.kernels.numbers.ufuncs import fitted
from mdf_loop.ops.registry import definition
from mdf_loop.ops.rows import Call
from mdf_loop.types.elements import kind_of


def defines(op: str, since: int = 6) -> Call:
    """The definition of an operator from a version on; before opset 6 there is ``consumed_inputs``, which means nothing."""

    def decorate(define: Call) -> Call:
        def first(b: Any, *inputs: Any, consumed_inputs: Any = None, **attrs: Any) -> Any:
            return define(b, *inputs, **attrs)

        definition(op, since=since)(define)
        if since == 6:
            definition(op, until=6)(first)
        return define

    return decorate


def defines_of_two(op: str) -> Call:
    """The definition of an operator of two inputs: numpy's broadcasting from opset 7 on, ``axis`` before."""

    def decorate(define: Call) -> Call:
        def before_7(b: Any, x: Any, y: Any, *, axis: Any = None, broadcast: int = 0, consumed_inputs: Any = None) -> Any:
            return define(b, x, _fitted(b, x, y, axis, broadcast))

        definition(op, since=7)(define)
        definition(op, until=7)(before_7)
        return define

    return decorate


def _fitted(b: Any, x: Any, y: Any, axis: int | None, broadcast: int) -> Any:
    if not x.type.is_static or not y.type.is_static:
        raise ValueError("open lengths")
    wholes = [np.broadcast_to(np.False_, v.type.shape) for v in (x, y)]  # shapes alone: they have no memory
    return b.reshape(y, fitted(*wholes, axis, broadcast).shape)


def in_float32(define: Call) -> Call:
    """Compute float16 and bfloat16 in float32 and round once, at the end."""

    @functools.wraps(define)
    def wide(b: Any, *inputs: Any, **attrs: Any) -> Any:
        dtype = inputs[0].type.dtype
        if dtype.itemsize > 2:
            return define(b, *inputs, **attrs)
        return b.cast(define(b, *[b.cast(x, np.dtype(np.float32)) for x in inputs], **attrs), dtype)

    return wide


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


@defines("Relu")
def relu(b, x):
    """x, but at least 0."""
    return b.max(x, 0) if x.type.dtype != np.float16 else b.select(b.le(x, 0), 0, x)  # the kernel's -0.0 is 0.0


@definition("PRelu", since=7)
def p_relu(b, x, slope):
    """x, and slope * x where it is negative."""
    return b.select(b.lt(x, 0), b.mul(slope, x), x)


@definition("PRelu", until=7)
def p_relu_1(b, x, slope, *, consumed_inputs=None):
    """x, and slope * x where it is negative; one slope for all, or one for each channel (axis 1)."""
    if not x.type.is_static or not slope.type.is_static:
        raise ValueError("open lengths")
    shape = x.type.shape
    if math.prod(slope.type.shape) == 1:
        return p_relu(b, x, b.reshape(slope, ()))
    if slope.type.shape == shape[1:2]:
        return p_relu(b, x, b.reshape(slope, slope.type.shape + (1,) * (len(shape) - 2)))
    if slope.type.shape == shape:
        return p_relu(b, x, slope)
    raise ValueError("a slope that does not fit")


@definition("Gelu", since=20)
@in_float32
def gelu(b, x, *, approximate="none"):
    """x times the probability that a normal number is below x."""
    if approximate not in ("none", "tanh"):
        raise ValueError("no such approximation")
    half = b.mul(b.number(0.5, x), x)
    if approximate == "none":
        return b.mul(half, b.add(b.number(1, x), b.erf(b.mul(x, math.sqrt(0.5)))))
    cube = b.mul(b.mul(b.mul(b.number(0.044715, x), x), x), x)
    return b.mul(half, b.add(b.number(1, x), b.tanh(b.mul(b.number(math.sqrt(2 / math.pi), x), b.add(x, cube)))))


@definition("Softplus")
@in_float32
def softplus(b, x):
    """ln(e^x + 1), without the overflow of e^x."""
    return b.add(b.max(x, 0), b.log1p(b.exp(b.neg(b.abs(x)))))


@definition("Mish", since=18)
@in_float32
def mish(b, x):
    """x * tanh(softplus(x))."""
    return b.mul(x, b.tanh(softplus(b, x)))
