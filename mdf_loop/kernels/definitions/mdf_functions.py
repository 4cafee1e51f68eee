"""Functions of Python's math, and numpy's that are formulas of several primitives, as MDF's expressions call them."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mdf_loop.kernels.definitions.mdf_operators import FLOAT64
from mdf_loop.kernels.definitions.of_shapes import is_number
from mdf_loop.kernels.mdf.expression_functions import OF_MATH
from mdf_loop.ops.rows import Call, numpys
from mdf_loop.types.elements import kind_of

# Formulas


def formula(name: str) -> Any:
    """A universal function of numpy as a formula of values of its type: numbers of float64, arrays of float32 and float64."""
    ufunc = getattr(np, name)

    def decorate(formed: Call) -> Call:
        @functools.wraps(formed)
        def defined(b: Any, *inputs: Any) -> Any:
            dtype = b.type_by(ufunc, *inputs)
            if dtype is None or not has_formula(b, dtype, *inputs):
                raise ValueError("numpy computes it in another type")
            return formed(b, *b.fitted(inputs, [dtype] * len(inputs)))

        numpys(f"numpy.{name}")(defined)
        return formed

    return decorate


def has_formula(b: Any, dtype: np.dtype, *inputs: Any) -> bool:
    """Whether formulas of several primitives are computed in a type: numbers of float32 take one call of numpy each.

    Inside a kernel that is traced, and where nothing of numpy's is called, they are formulas as well.
    """
    return b.takes_open or dtype == FLOAT64 or (dtype == np.float32 and (b.traces or not all(map(is_number, inputs))))


formula("fabs")(lambda b, x: b.abs(x))
formula("float_power")(lambda b, x, y: b.pow(x, y))
formula("fmax")(lambda b, x, y: b.select(b.or_(b.ge(x, y), b.ne(y, y)), x, y))  # if both are numbers
formula("fmin")(lambda b, x, y: b.select(b.or_(b.le(x, y), b.ne(y, y)), x, y))


@numpys("numpy.square")
def square(b, x):
    """x * x."""
    x = b.strong(x)
    if x.type.kind not in "iuf":
        raise ValueError("numpy has another type for it")
    return b.mul(x, x)


@numpys("scipy.special.erf")
def erf(b, x):
    """The error function."""
    dtype = b.common_type(x, as_numpys=True)
    if dtype.kind not in "bif" or (dtype.kind == "f" and dtype.itemsize < 4):
        raise ValueError("numpy has no such numbers")
    return b.erf(b.strong(x, dtype if dtype.kind == "f" else FLOAT64))


def _of_number(name: str, of_math: str) -> None:
    @numpys(f"scipy.special.{name}")
    def special(b, x):
        """A function of a number, as Python's math has it."""
        if not x.type.weak and x.type.dtype != FLOAT64:
            raise ValueError("Python has no such numbers")
        return b.strong(b.of_math(f"math.{of_math}", x), FLOAT64)


for _name in OF_MATH:
    _of_number(_name, OF_MATH[_name])


def _scaled(name: str, above: float, below: float) -> None:
    @formula(name)
    def scaled(b, x):
        """One angle in another unit."""
        kind = x.type.dtype.type
        return b.mul(x, kind(above) / kind(below))


for _name in ("degrees", "rad2deg"):
    _scaled(_name, 180.0, math.pi)
for _name in ("radians", "deg2rad"):
    _scaled(_name, math.pi, 180.0)


@formula("heaviside")
def heaviside(b, x, half):
    """0 below zero, 1 above it; what is said at zero."""
    side = b.select(b.lt(x, 0), b.number(0, x), b.number(1, x))
    return b.select(b.ne(x, x), x, b.select(b.eq(x, 0), half, side))


def _sum_of_powers(b: Any, x: Any, y: Any, exp: Any, log1p: Any, twice: Any) -> Any:
    apart = x if y.op == "const" and not np.any(y.attr) else b.sub(x, y)
    found = b.add(b.max(x, y), log1p(exp(b.neg(b.abs(apart)))))
    if any(v.op == "const" and np.isfinite(v.attr).all() for v in (x, y)):
        return found
    return b.select(b.eq(x, y), b.add(x, twice), found)  # infinities have no distance


@formula("logaddexp")
def logaddexp(b, x, y):
    """log(e^x + e^y)."""
    return _sum_of_powers(b, x, y, b.exp, b.log1p, x.type.dtype.type(math.log(2.0)))


@formula("logaddexp2")
def logaddexp2(b, x, y):
    """log2(2^x + 2^y)."""
    scale = x.type.dtype.type(1.4426950408889634)
    return _sum_of_powers(b, x, y, b.exp2, lambda z: b.mul(b.log1p(z), scale), 1)


# Questions


def _question(name: str, asked: Call, whole: bool) -> None:
    """A question about numbers, of which ``whole`` is the answer for whole ones."""

    @numpys(f"numpy.{name}")
    def question(b, x):
        """What numpy's function of this name asks."""
        x = b.strong(x)
        if kind_of(x.type.dtype) == "float":
            return asked(b, x)
        if x.type.kind not in "biu":
            raise ValueError("no real numbers")
        return b.eq(x, x) if whole else b.ne(x, x)


_question("isnan", lambda b, x: b.ne(x, x), False)
_question("isinf", lambda b, x: b.eq(b.abs(x), x.type.dtype.type(math.inf)), False)
_question("isfinite", lambda b, x: b.lt(b.abs(x), x.type.dtype.type(math.inf)), True)


def _truth(b: Any, x: Any) -> Any:
    """Whether each element is not zero, as numpy's truth values."""
    x = b.strong(x)
    return x if x.type.kind == "b" else b.ne(x, x.type.dtype.type(0))


def _logical(name: str, primitive: str) -> None:
    @numpys(f"numpy.logical_{name}")
    def logical(b, *inputs):
        """Logic of what is not zero."""
        return b.element(primitive, *[_truth(b, x) for x in inputs])


for _name, _primitive in (("and", "and_"), ("or", "or_"), ("xor", "xor"), ("not", "not_")):
    _logical(_name, _primitive)

# Other functions of one element


@numpys("numpy.clip")
def clip(b, x, low=None, high=None):
    """Between two bounds."""
    bounds = [bound for bound in (low, high) if bound is not None]
    if not all(map(is_number, (x, *bounds))) and x.type.weak and not b.takes_open:
        raise ValueError("a number between arrays")
    x = b.strong(x)
    dtype = b.common_type(x, *bounds)
    if dtype.kind not in ("iuf" if b.takes_open and not any(bound.type.weak for bound in bounds) else "if"):
        raise ValueError("bounds that numpy brings into range")
    x = b.strong(x, dtype)
    if low is not None and high is not None and dtype.kind == "f":
        low, high = b.strong(low, dtype), b.strong(high, dtype)
        if not has_formula(b, dtype, x, low, high):
            raise ValueError("one call of numpy costs less")
        x = b.select(b.or_(b.lt(x, low), b.ne(low, low)), low, x)
        return b.select(b.or_(b.gt(x, high), b.ne(high, high)), high, x)
    x = x if low is None else b.max(x, b.strong(low, dtype))
    return x if high is None else b.min(x, b.strong(high, dtype))


MOST_DECIMALS = 22
"""Powers of ten up to which they are floats without rounding."""


def _rounding(name: str) -> None:
    @numpys(f"numpy.{name}")
    def rounded(b, x, *, decimals=0):
        """Halves go to the even neighbour."""
        x = b.strong(x)
        if x.type.kind in "iu" and decimals >= 0:
            return x
        if x.type.kind == "f" and decimals == 0:
            return b.rint(x)
        if (x.type.dtype != FLOAT64 and not b.takes_open) or abs(decimals) > MOST_DECIMALS:
            raise ValueError("numpy rounds it in its own way")
        scale = np.float64(10.0 ** abs(decimals))
        there, back = (b.mul, b.div) if decimals > 0 else (b.div, b.mul)
        return b.cast(back(b.rint(there(b.cast(x, FLOAT64), scale)), scale), x.type.dtype)


for _name in ("round", "around"):
    _rounding(_name)


@numpys("numpy.nan_to_num")
def nan_to_num(b, x, *, nan=0.0, posinf=None, neginf=None):
    """Numbers in place of nan and the infinities."""
    x = b.strong(x)
    if x.type.kind in "biu":
        return x
    if not has_formula(b, x.type.dtype, x) or any(np.ndim(n) for n in (nan, posinf, neginf)):
        raise ValueError("numpy replaces it in its own way")
    most = np.finfo(x.type.dtype)
    kind = x.type.dtype.type
    x = b.select(b.ne(x, x), kind(nan), b.select(b.eq(x, kind(np.inf)), kind(most.max if posinf is None else posinf), x))
    return b.select(b.eq(x, kind(-np.inf)), kind(most.min if neginf is None else neginf), x)


@numpys("numpy.sinc")
def sinc(b, x):
    """sin(pi x) / (pi x)."""
    x = b.strong(x)
    x = x if x.type.kind == "f" else b.strong(x, FLOAT64)
    if not has_formula(b, x.type.dtype, x):
        raise ValueError("numpy computes it in another type")
    kind = x.type.dtype.type
    x = b.mul(x, kind(np.pi))
    x = b.select(b.ne(x, 0), x, kind(np.finfo(kind).eps))
    return b.div(b.sin(x), x)
