"""Element-wise operators of ONNX: what one element of the result is.

They are formulas of the kernels, operation for operation; a difference would be one between a loop that is stepped and one that
is not.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mdf_loop.element_types import DTYPES
from mdf_loop.kernels.casting import DIRECT
from mdf_loop.registry import Call, definition

_PLAIN = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Add": "add", "And": "and_", "Asin": "asin", "Asinh": "asinh", "Atan": "atan",
    "Atanh": "atanh", "BitwiseAnd": "and_", "BitwiseNot": "not_", "BitwiseOr": "or_", "BitwiseXor": "xor", "Ceil": "ceil", "Cos": "cos",
    "Cosh": "cosh", "Equal": "eq", "Exp": "exp", "Floor": "floor", "Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt",
    "LessOrEqual": "le", "Log": "log", "Mul": "mul", "Neg": "neg", "Not": "not_", "Or": "or_", "Reciprocal": "reciprocal", "Round": "rint",
    "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt", "Sub": "sub", "Tan": "tan", "Tanh": "tanh", "Xor": "xor",
}  # fmt: skip
"""Operators that are one primitive."""


def _plain(primitive: str) -> Call:
    def define(b: Any, *inputs: Any) -> Any:
        return b.element(primitive, *inputs)

    return define


for _op, _primitive in _PLAIN.items():
    definition(_op)(_plain(_primitive))


@definition("Identity")
def identity(b, x):
    """The value itself."""
    return x


@definition("Div")
def div(b, x, y):
    """The quotient; of whole numbers, cut off towards zero."""
    return b.div(x, y) if x.type.kind not in "iu" else b.quotient(x, y)


@definition("Mod", since=10)
def mod(b, x, y, *, fmod=0):
    """The remainder."""
    return b.fmod(x, y) if fmod else b.mod(x, y)


def _folding(primitive: str) -> Call:
    def define(b: Any, *inputs: Any) -> Any:
        return functools.reduce(functools.partial(b.element, primitive), inputs)

    return define


for _op, _primitive in (("Max", "max"), ("Min", "min"), ("Sum", "add")):
    definition(_op)(_folding(_primitive))


@definition("Where", since=9)
def where(b, condition, x, y):
    """One of two."""
    return b.select(condition, x, y)


@definition("Cast")
def cast(b, x, *, to, saturate=1):
    """Another element type, where numpy's conversion is ONNX's."""
    return _as_numpy(b, x, DTYPES[to])


def _as_numpy(b: Any, x: Any, dtype: np.dtype) -> Any:
    if not {x.type.dtype, dtype} <= DIRECT:
        raise ValueError("a conversion that is not numpy's")
    return b.cast(x, dtype)


@definition("CastLike", since=15)
def cast_like(b, x, like, *, saturate=1):
    """The element type of another value."""
    return _as_numpy(b, x, like.type.dtype)


@definition("IsNaN", since=9)
def is_nan(b, x):
    """Whether it is nan."""
    return b.ne(x, x)


def in_float32(define: Call) -> Call:
    """Compute float16 and bfloat16 in float32 and round once, at the end."""

    @functools.wraps(define)
    def wide(b: Any, *inputs: Any, **attrs: Any) -> Any:
        dtype = inputs[0].type.dtype
        if dtype is None or dtype.itemsize > 2:
            return define(b, *inputs, **attrs)
        return b.cast(define(b, *[b.cast(x, np.dtype(np.float32)) for x in inputs], **attrs), dtype)

    return wide


@definition("Relu")
def relu(b, x):
    """x, but at least 0."""
    return b.max(x, 0)


@definition("Sigmoid")
@in_float32
def sigmoid(b, x):
    """1 / (1 + e^-x)."""
    return b.div(b.number(1, x), b.add(b.exp(b.neg(x)), 1))


@definition("Softplus")
@in_float32
def softplus(b, x):
    """ln(e^x + 1), without the overflow of e^x."""
    return b.add(b.max(x, 0), b.log1p(b.exp(b.neg(b.abs(x)))))


@definition("LeakyRelu")
@in_float32
def leaky_relu(b, x, *, alpha=0.009999999776482582):
    """x, and alpha * x where it is negative."""
    return b.select(b.lt(x, 0), b.mul(x, alpha), x)
