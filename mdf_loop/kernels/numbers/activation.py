"""Activation functions.

Defaults such as 0.009999999776482582 are the float32 numbers of the schemas.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import is_seen
from mdf_loop.kernels.numbers.transcendental import error_function
from mdf_loop.kernels.numbers.ufuncs import from_first_opset
from mdf_loop.kernels.numbers.wide import widened
from mdf_loop.ops.batching import by_step, elementwise
from mdf_loop.ops.registry import kernel, say
from mdf_loop.ops.rows import Call


def in_float32(formula: Call) -> Call:
    """Compute float16 and bfloat16 in float32 and round once, at the end."""

    @functools.wraps(formula)
    def run(*inputs: Any, **attrs: Any) -> Any:
        dtype = inputs[0].dtype
        if dtype.itemsize > 2:
            return formula(*inputs, **attrs)
        return formula(*map(widened, inputs), **attrs).astype(dtype, copy=False)

    return run


@from_first_opset("Relu")
def relu(x):
    """x, but at least 0."""
    if x.dtype.kind != "f" or x.itemsize > 2:
        return np.maximum(x, 0)
    if not is_seen(x):
        return np.where(x <= (zero := x.dtype.type(0)), zero, x)
    bits = np.asarray(x).view(np.int16)  # numpy compares float16 slowly, and keeps -0.0
    negative = bits >> 15  # all bits or none
    is_number = (bits & 0x7FFF) <= 0x7C00
    if not is_number.all():
        negative &= -is_number.astype(np.int16)
    return (bits & ~negative).view(x.dtype)


@from_first_opset("LeakyRelu")
@in_float32
def leaky_relu(x, *, alpha=0.009999999776482582):
    """x, and alpha * x where it is negative."""
    return np.where(x < 0, alpha * x, x)


@kernel("PRelu", since=7, batch=elementwise)
def p_relu(x, slope):
    """x, and slope * x where it is negative."""
    return np.where(x < 0, slope * x, x)


@kernel("PRelu")
def p_relu_1(x, slope, *, consumed_inputs=None):
    """x, and slope * x where it is negative; one slope for all, or one for each channel (axis 1)."""
    if slope.size == 1:
        return p_relu(x, slope.reshape(()))
    if slope.shape == x.shape[1:2]:
        return p_relu(x, slope.reshape(slope.shape + (1,) * (x.ndim - 2)))
    if slope.shape == x.shape:
        return p_relu(x, slope)
    raise ValueError(f"slope must have one element, or one for each channel of {list(x.shape)}; got shape {list(slope.shape)}")


say("PRelu", traced=True)


@kernel("ThresholdedRelu", since=10, batch=elementwise)
@in_float32
def thresholded_relu(x, *, alpha=1.0):
    """x where it is above alpha, 0 elsewhere."""
    return np.where(x > alpha, x, x.dtype.type(0))


@from_first_opset("Elu")
@in_float32
def elu(x, *, alpha=1.0):
    """x, and alpha * (e^x - 1) where it is negative."""
    return np.where(x < 0, alpha * np.expm1(x), x)


@from_first_opset("Selu")
@in_float32
def selu(x, *, alpha=1.6732631921768188, gamma=1.0507010221481323):
    """gamma * x, and gamma * alpha * (e^x - 1) where it is not positive."""
    return gamma * np.where(x <= 0, alpha * np.expm1(x), x)


@kernel("Selu", batch=elementwise)
def selu_1(x, *, alpha=1.673200011253357, gamma=1.0506999492645264, consumed_inputs=None):
    """Selu with coarser defaults."""
    return selu(x, alpha=alpha, gamma=gamma)


@kernel("Celu", since=12, batch=elementwise)
@in_float32
def celu(x, *, alpha=1.0):
    """x, and alpha * (e^(x / alpha) - 1) where it is negative."""
    return np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0)


@kernel("Gelu", since=20, batch=elementwise)
@in_float32
def gelu(x, *, approximate="none"):
    """x times the probability that a normal number is below x."""
    if approximate == "none":
        below = error_function(x * math.sqrt(0.5)) + 1
        below *= 0.5
        return below * x
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    raise ValueError(f"approximate must be none or tanh; got {approximate!r}")


@from_first_opset("HardSigmoid")
@in_float32
def hard_sigmoid(x, *, alpha=0.20000000298023224, beta=0.5):
    """The line alpha * x + beta between 0 and 1."""
    return np.maximum(np.minimum(alpha * x + beta, 1), 0)


@kernel("HardSwish", since=14, batch=elementwise)
@in_float32
def hard_swish(x):
    """x times the line x / 6 + 1/2 between 0 and 1."""
    return x * np.maximum(np.minimum(x * (1 / 6) + 0.5, 1), 0)


@from_first_opset("Sigmoid")
@in_float32
def sigmoid(x):
    """1 / (1 + e^-x)."""
    return 1 / (1 + np.exp(-x))


@kernel("Softplus", batch=elementwise)
@in_float32
def softplus(x):
    """ln(e^x + 1), without the overflow of e^x."""
    return np.logaddexp(x, 0)


@kernel("Softsign", batch=elementwise)
@in_float32
def softsign(x):
    """x / (1 + abs(x))."""
    return x / (1 + np.absolute(x))


@kernel("Mish", since=18, batch=elementwise)
@in_float32
def mish(x):
    """x * tanh(softplus(x))."""
    return x * np.tanh(np.logaddexp(x, 0))


@kernel("Swish", since=24, batch=elementwise)
@in_float32
def swish(x, *, alpha=1.0):
    """x * sigmoid(alpha * x)."""
    return x / (1 + np.exp(-alpha * x))


@kernel("SwiGLU", since=28, batch=by_step)
@in_float32
def swi_glu(gate, value, *, alpha=1.0):
    """swish(gate) * value."""
    if gate.shape != value.shape:
        raise ValueError(f"both inputs must have one shape; got {list(gate.shape)} and {list(value.shape)}")
    return gate / (1 + np.exp(-alpha * gate)) * value


say("SwiGLU", traced=True)


@kernel("Shrink", since=9, batch=elementwise)
def shrink(x, *, bias=0.0, lambd=0.5):
    """x moved towards 0 by the bias, and 0 where it is not farther from 0 than lambd."""
    bias = x.dtype.type(bias)
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, x.dtype.type(0)))
