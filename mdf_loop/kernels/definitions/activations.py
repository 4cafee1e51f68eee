"""Activation functions: what one element of the result is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mdf_loop.kernels.definitions.declaring import defines, in_float32
from mdf_loop.ops.registry import definition
from mdf_loop.types.elements import kind_of


@defines("Relu")
def relu(b, x):
    """x, but at least 0."""
    return b.max(x, 0) if x.type.dtype != np.float16 else b.select(b.le(x, 0), 0, x)  # the kernel's -0.0 is 0.0


@defines("LeakyRelu")
@in_float32
def leaky_relu(b, x, *, alpha=0.009999999776482582):
    """x, and alpha * x where it is negative."""
    return b.select(b.lt(x, 0), b.mul(b.number(alpha, x), x), x)


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


@definition("ThresholdedRelu", since=10)
@in_float32
def thresholded_relu(b, x, *, alpha=1.0):
    """x where it is above alpha, 0 elsewhere."""
    return b.select(b.gt(x, alpha), x, 0)


def _exponential(b: Any, x: Any, alpha: float) -> Any:
    """alpha * (e^x - 1)."""
    return b.mul(b.number(alpha, x), b.expm1(x))


@defines("Elu")
@in_float32
def elu(b, x, *, alpha=1.0):
    """x, and alpha * (e^x - 1) where it is negative."""
    return b.select(b.lt(x, 0), _exponential(b, x, alpha), x)


@definition("Selu", since=6)
@in_float32
def selu(b, x, *, alpha=1.6732631921768188, gamma=1.0507010221481323):
    """gamma * x, and gamma * alpha * (e^x - 1) where it is not positive."""
    return b.mul(b.number(gamma, x), b.select(b.le(x, 0), _exponential(b, x, alpha), x))


@definition("Selu", until=6)
def selu_1(b, x, *, alpha=1.673200011253357, gamma=1.0506999492645264, consumed_inputs=None):
    """Selu with coarser defaults."""
    return selu(b, x, alpha=alpha, gamma=gamma)


@definition("Celu", since=12)
@in_float32
def celu(b, x, *, alpha=1.0):
    """x, and alpha * (e^(x / alpha) - 1) where it is negative."""
    return b.add(b.max(x, 0), b.min(_exponential(b, b.div(x, alpha), alpha), 0))


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


def _between_0_and_1(b: Any, x: Any) -> Any:
    return b.max(b.min(x, 1), 0)


@defines("HardSigmoid")
@in_float32
def hard_sigmoid(b, x, *, alpha=0.20000000298023224, beta=0.5):
    """The line alpha * x + beta between 0 and 1."""
    return _between_0_and_1(b, b.add(b.mul(b.number(alpha, x), x), beta))


@definition("HardSwish", since=14)
@in_float32
def hard_swish(b, x):
    """x times the line x / 6 + 1/2 between 0 and 1."""
    return b.mul(x, _between_0_and_1(b, b.add(b.mul(x, 1 / 6), 0.5)))


def _over_exponential(b: Any, dividend: Any, exponent: Any) -> Any:
    """dividend / (1 + e^exponent)."""
    return b.div(dividend, b.add(b.number(1, exponent), b.exp(exponent)))


@defines("Sigmoid")
@in_float32
def sigmoid(b, x):
    """1 / (1 + e^-x)."""
    return _over_exponential(b, b.number(1, x), b.neg(x))


@definition("Swish", since=24)
@in_float32
def swish(b, x, *, alpha=1.0):
    """x * sigmoid(alpha * x)."""
    return _over_exponential(b, x, b.mul(b.number(-alpha, x), x))


@definition("SwiGLU", since=28)
@in_float32
def swi_glu(b, gate, value, *, alpha=1.0):
    """swish(gate) * value."""
    if gate.type.shape != value.type.shape or not gate.type.is_static:
        raise ValueError("inputs of several shapes")
    return b.mul(swish(b, gate, alpha=alpha), value)


@definition("Softplus")
@in_float32
def softplus(b, x):
    """ln(e^x + 1), without the overflow of e^x."""
    return b.add(b.max(x, 0), b.log1p(b.exp(b.neg(b.abs(x)))))


@definition("Softsign")
@in_float32
def softsign(b, x):
    """x / (1 + abs(x))."""
    return b.div(x, b.add(b.number(1, x), b.abs(x)))


@definition("Mish", since=18)
@in_float32
def mish(b, x):
    """x * tanh(softplus(x))."""
    return b.mul(x, b.tanh(softplus(b, x)))


@definition("Shrink", since=9)
def shrink(b, x, *, bias=0.0, lambd=0.5):
    """x moved towards 0 by the bias, and 0 where it is not farther from 0 than lambd."""
    is_float = kind_of(x.type.dtype) == "float"
    low, high = (b.number(limit if is_float else np.float64(limit), x) for limit in (-lambd, lambd))
    bias = b.number(bias, x)
    return b.select(b.lt(x, low), b.add(x, bias), b.select(b.gt(x, high), b.sub(x, bias), 0))
