"""Activation functions whose kernels cannot be traced as well as they can be written; the others are their kernels.

Relu has tricks with bits for float16, PRelu of opset 1 takes slopes of numbers, Gelu calls a function that numpy lacks, and
numpy's logaddexp, in Softplus and Mish, takes more steps than are needed here.
"""

from __future__ import annotations

import math

import numpy as np

from mdf_loop.kernels.definitions.declaring import defines, in_float32
from mdf_loop.ops.registry import definition


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
