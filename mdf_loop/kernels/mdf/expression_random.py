"""numpy's random numbers, as MDF expressions call them: they are drawn from the stream of the run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mdf_loop.kernels.mdf.expression_arrays import bounded
from mdf_loop.kernels.mdf.expression_operators import DOMAIN
from mdf_loop.ops.registry import kernel, say
from mdf_loop.types.elements import CODES

Drawn = tuple[str, dict[str, Any]] | None
"""One of ONNX's operators and its attributes."""

DOUBLE = CODES[np.dtype(np.float64)]

MOST = 1 << 16
"""Numbers drawn at once up to which it is worth saying how."""


@kernel("numpy.random.normal", domain=DOMAIN)
def normal(loc=0.0, scale=1.0, size=None, *, rng):
    """Normally distributed random numbers."""
    return rng.normal(loc, scale, None if size is None else bounded(size, "numpy.random.normal"))


@kernel("numpy.random.uniform", domain=DOMAIN)
def uniform(low=0.0, high=1.0, size=None, *, rng):
    """Equally distributed random numbers."""
    return rng.uniform(low, high, None if size is None else bounded(size, "numpy.random.uniform"))


@kernel("numpy.random.rand", domain=DOMAIN)
def rand(*lengths, rng):
    """Random numbers between 0 and 1."""
    return rng.random(bounded(lengths, "numpy.random.rand") or None)


@kernel("numpy.random.randn", domain=DOMAIN)
def randn(*lengths, rng):
    """Random numbers of the standard normal distribution."""
    return rng.standard_normal(bounded(lengths, "numpy.random.randn") or None)


@kernel("numpy.random.gamma", domain=DOMAIN)
def gamma(shape, scale=1.0, size=None, *, rng):
    """Random numbers of the gamma distribution."""
    return rng.gamma(shape, scale, None if size is None else bounded(size, "numpy.random.gamma"))


@kernel("numpy.random.poisson", domain=DOMAIN)
def poisson(lam=1.0, size=None, *, rng):
    """Random numbers of the Poisson distribution."""
    return rng.poisson(lam, None if size is None else bounded(size, "numpy.random.poisson"))


# The same by ONNX's operators


def _number(x: Any) -> float | None:
    """A finite number; None if it is something else."""
    if np.ndim(x) or np.asarray(x).dtype.kind not in "biuf":
        return None
    return found if math.isfinite(found := float(x)) else None


def _shape(size: Any) -> tuple[int, ...] | None:
    """The shape that a size says: none of it one number; None if it is too large or no size."""
    if size is None:
        return ()
    lengths = np.atleast_1d(np.asarray(size))
    if (
        lengths.dtype.kind != "i"
        or lengths.ndim != 1
        or not lengths.size
        or min(lengths) < 0
        or math.prod(lengths.tolist()) > MOST
    ):
        return None
    return tuple(lengths.tolist())


def _by(op: str, first: str, second: str) -> Any:
    def drawn(low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Drawn:
        if size is None and np.ndim(low) and np.size(low) and (low == low.flat[0]).all():
            low, size = low.flat[0], np.shape(low)
        one, other, shape = _number(low), _number(high), _shape(size)
        if one is None or other is None or shape is None or (second == "scale" and math.copysign(1.0, other) < 0):
            return None
        return op, {first: one, second: other, "shape": shape, "dtype": DOUBLE}

    return drawn


def _standard(op: str) -> Any:
    def drawn(*lengths: Any) -> Drawn:
        shape = _shape(lengths or None)
        return None if shape is None else (op, {"shape": shape, "dtype": DOUBLE})

    return drawn


say("numpy.random.normal", domain=DOMAIN, draws=_by("RandomNormal", "mean", "scale"))
say("numpy.random.uniform", domain=DOMAIN, draws=_by("RandomUniform", "low", "high"))
say("numpy.random.randn", domain=DOMAIN, draws=_standard("RandomNormal"))
say("numpy.random.rand", domain=DOMAIN, draws=_standard("RandomUniform"))
