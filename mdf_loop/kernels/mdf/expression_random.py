"""numpy's random numbers, as MDF expressions call them: they are drawn from the stream of the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.mdf.expression_arrays import bounded
from mdf_loop.kernels.mdf.expression_operators import DOMAIN
from mdf_loop.ops.registry import kernel, say
from mdf_loop.ops.rows import Call, Draw
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


# What is drawn number by number, and what becomes of standard numbers

FLOAT64 = np.dtype(np.float64)


def _as_float(b: Any, x: Any, default: float | None = None) -> Any:
    """A parameter as numpy's functions take it."""
    if x is None:
        return None if default is None else b.const(np.float64(default))
    if x.type.kind not in "biuf":
        raise ValueError("random numbers with other parameters than real numbers")
    return b.cast(x, FLOAT64)


def _moved(method: str, parameters: Sequence[Any], size: Any, moved: Call) -> Draw:
    """Numbers in the common shape of their parameters, or in one that is said; a single one is Python's."""
    types = [x.type for x in parameters if x is not None]
    if not all(type.is_static for type in types):
        raise ValueError("random numbers with parameters of unknown shape")
    shape = np.broadcast_shapes(*(type.shape for type in types))
    if size is None:
        return Draw(method, (), shape, FLOAT64, is_weak=shape == (), moved=moved)
    wanted = _shape_of([size])
    if np.broadcast_shapes(shape, wanted) != wanted:
        raise ValueError("random numbers with parameters of another shape")
    return Draw(method, (), wanted, FLOAT64, moved=moved)


def _shape_of(lengths: Sequence[Any]) -> tuple[int, ...]:
    """The shape that lengths say, or a single one that is a shape."""
    if any(x.op != "const" for x in lengths):
        raise ValueError("as many random numbers as only the run can tell")
    known = [x.attr for x in lengths]
    return tuple(np.atleast_1d(bounded(known[0] if len(known) == 1 else tuple(known), "random numbers")).tolist())


def _normals(b: Any, loc: Any = None, scale: Any = None, size: Any = None) -> Draw:
    mean, width = _as_float(b, loc), _as_float(b, scale)

    def moved(standard: Any) -> tuple[Any, Any]:
        spread = standard if width is None else b.mul(width, standard)
        found = b.add(spread, 0.0) if mean is None else b.add(mean, spread)
        return found, None if width is None else b.and_(b.signbit(width), b.eq(width, width))

    return _moved("standard_normal", (mean, width), size, moved)


def _uniforms(b: Any, low: Any = None, high: Any = None, size: Any = None) -> Draw:
    first, last = _as_float(b, low, 0.0), _as_float(b, high, 1.0)

    def moved(standard: Any) -> tuple[Any, Any]:
        width = b.sub(last, first)
        return b.add(first, b.mul(width, standard)), b.ne(b.sub(width, width), 0.0)  # it has to be finite

    return _moved("random", (first, last), size, moved)


def _standards(method: str) -> Call:
    return lambda b, *lengths: Draw(method, (), _shape_of(lengths) if lengths else (), FLOAT64, is_weak=not lengths)


say("numpy.random.normal", domain=DOMAIN, drawing=_normals)
say("numpy.random.uniform", domain=DOMAIN, drawing=_uniforms)
say("numpy.random.randn", domain=DOMAIN, drawing=_standards("standard_normal"))
say("numpy.random.rand", domain=DOMAIN, drawing=_standards("random"))
