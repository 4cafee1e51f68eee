"""numpy's functions as MDF expressions call them: ``numpy.exp`` and its kin, in domain ``mdf``.

Only what is registered here can be called by an expression.  A function with a kernel of its own is written
as a kernel is: positional parameters are values, keyword-only ones have to be known when the body is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.bounds import elements_of, refuse_digits, refuse_elements, refuse_product, refuse_unbounded
from mdf_loop.kernels.mdf.expression_operators import DOMAIN, operation
from mdf_loop.kernels.numbers.transcendental import error_function
from mdf_loop.ops.batching import Result, Rule, all_stacked, along, by_step, elementwise
from mdf_loop.ops.registry import kernel, say

Attributes = Mapping[str, Any]


def universal_functions(names: str) -> None:
    """numpy's universal functions: element by element, each its own kernel."""
    for name in names.split():
        operation(f"numpy.{name}", getattr(np, name))


universal_functions("exp exp2 expm1 log log2 log10 log1p sqrt cbrt reciprocal sign fabs")
universal_functions("sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh hypot")
universal_functions("degrees radians deg2rad rad2deg floor ceil trunc rint copysign nextafter heaviside")
universal_functions("maximum minimum fmax fmin fmod float_power logaddexp logaddexp2 gcd ldexp")
universal_functions("isnan isinf isfinite signbit logical_and logical_or logical_xor logical_not")


def own_functions(batch: Rule | None, functions: Mapping[str, Callable[..., Any]]) -> None:
    """Functions that only call numpy's: what stands behind ``*`` has to be known when the body is read."""
    for name, run in functions.items():
        kernel(f"numpy.{name}", domain=DOMAIN, batch=batch)(run)


@kernel("numpy.square", domain=DOMAIN, batch=elementwise)
def square(x):
    """x * x."""
    refuse_unbounded("a square", x)
    return np.square(x)


@kernel("numpy.lcm", domain=DOMAIN, batch=elementwise)
def lcm(x, y):
    """The least common multiple."""
    refuse_unbounded("a multiple", x, y)
    return np.lcm(x, y)


@kernel("scipy.special.erf", domain=DOMAIN, batch=elementwise)
def erf(x):
    """The error function of numbers and arrays, which numpy lacks."""
    values = np.asarray(x)
    is_float = values.dtype.kind == "f" and values.dtype.itemsize >= 4
    return np.asarray(error_function(values if is_float else values.astype(np.float64)))[()]


OF_MATH = {"erfc": "erfc", "gamma": "gamma", "gammaln": "lgamma"}
"""Functions of scipy's that Python's math computes of numbers, by what they are called there."""


def _by_math(name: str) -> None:
    function, at_poles = getattr(math, OF_MATH[name]), math.inf if name == "gammaln" else math.nan

    def as_scipy(x: Any) -> float:
        """Python's math has errors where scipy has infinity, or nan between two infinities."""
        try:
            return function(x)
        except OverflowError:
            return math.inf
        except ValueError:
            return at_poles

    each = np.frompyfunc(as_scipy, 1, 1)

    @kernel(f"scipy.special.{name}", domain=DOMAIN)
    def special(x):
        """A function of Python's math, of each number of an array."""
        values = np.asarray(x)
        is_float = values.dtype.kind == "f" and values.dtype.itemsize >= 4
        return np.asarray(each(values)).astype(values.dtype if is_float else np.float64)[()]


for _op in OF_MATH:
    _by_math(_op)


own_functions(
    elementwise,
    {
        "clip": lambda a, a_min=None, a_max=None: np.clip(a, a_min, a_max),
        "where": lambda condition, x, y: np.where(condition, x, y),
        "sinc": lambda x: np.sinc(x),
        "nan_to_num": lambda x, *, nan=0.0, posinf=None, neginf=None: np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf),
    },
)
say("numpy.where", domain=DOMAIN, selects=True)


def _rounding(op: str) -> None:
    @kernel(op, domain=DOMAIN, batch=elementwise)
    def round_(a, *, decimals=0):
        """Halves go to the even neighbour."""
        refuse_digits(decimals)
        return np.round(a, decimals)


for _op in ("numpy.round", "numpy.around"):
    _rounding(_op)


def _one_curve(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Attributes) -> Result:
    return all_stacked(run(*args, **attrs)) if stacked[0] and not any(stacked[1:]) else None


@kernel("numpy.interp", domain=DOMAIN, batch=_one_curve)
def interp(x, xp, fp):
    """The piecewise linear curve through the points (xp, fp), at x."""
    return np.interp(x, xp, fp)


def converting(name: str) -> None:
    """A scalar type of numpy called as a function: the value with that element type."""
    dtype = np.dtype(name)

    @kernel(f"numpy.{name}", domain=DOMAIN, batch=elementwise)
    def convert(x):
        """The value with this element type."""
        return np.asarray(x).astype(dtype)[()]


for _name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool_"):
    converting(_name)


def _reducing(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Attributes) -> Result:
    """A reduction of the first argument: along the axes behind the iteration axis, or all of them."""
    if not stacked[0] or any(stacked[1:]):
        return None
    x, axis = args[0], attrs.get("axis")
    if x.ndim == 1 and axis in (None, 0, -1):  # single numbers, to which numpy gives an axis
        kept = {name: value for name, value in attrs.items() if name != "keepdims"}
        return all_stacked(run(_flat(x), *args[1:], **{**kept, "axis": 1}))
    if axis is None and attrs.get("keepdims"):
        return all_stacked(run(x, *args[1:], **{**attrs, "axis": tuple(range(1, x.ndim))}))
    if axis is None:
        return all_stacked(run(_flat(x), *args[1:], **{**attrs, "axis": 1}))
    return all_stacked(run(x, *args[1:], **{**attrs, "axis": behind(axis)}))


def _flat(x: Any) -> Any:
    """Each iteration's values in a row."""
    return x.reshape(len(x), int(np.prod(x.shape[1:])))


def behind(axis: Any) -> Any:
    """Axes moved up by one; those counted from the end stay right."""
    if isinstance(axis, tuple):
        return tuple(map(behind, axis))
    return axis + 1 if axis >= 0 else axis


def reduction(name: str) -> None:
    """A function of numpy that reduces axes."""
    function = getattr(np, name)

    @kernel(f"numpy.{name}", domain=DOMAIN, batch=_reducing)
    def reduce(a, *, axis=None, keepdims=False):
        """numpy's reduction of this name."""
        refuse_unbounded(f"numpy.{name}", a)
        return function(a, axis=axis, keepdims=keepdims)


for _name in ("sum", "prod", "mean", "median", "min", "max", "amin", "amax", "ptp", "all", "any"):
    reduction(_name)
for _name in ("nansum", "nanprod", "nanmean", "nanmin", "nanmax"):
    reduction(_name)


own_functions(
    _reducing,
    {
        "std": lambda a, *, axis=None, ddof=0, keepdims=False: np.std(a, axis=axis, ddof=ddof, keepdims=keepdims),
        "var": lambda a, *, axis=None, ddof=0, keepdims=False: np.var(a, axis=axis, ddof=ddof, keepdims=keepdims),
    },
)


def along_one_axis(name: str) -> None:
    """A function of numpy that runs along one axis, or over the flat array if none is said."""
    function = getattr(np, name)

    @kernel(f"numpy.{name}", domain=DOMAIN, batch=_reducing)
    def work(a, *, axis=None):
        """numpy's function of this name."""
        refuse_unbounded(f"numpy.{name}", a)
        return function(a, axis=axis)


for _name in ("cumsum", "cumprod"):
    along_one_axis(_name)


def finding(name: str) -> None:
    """numpy's ``argmax`` and ``argmin``: along one axis, or in the flat array if none is said."""
    function = getattr(np, name)

    @kernel(f"numpy.{name}", domain=DOMAIN, batch=_reducing)
    def find(a, *, axis=None, keepdims=False):
        """The place that numpy's function of this name gives."""
        refuse_unbounded(f"numpy.{name}", a)
        return function(a, axis=axis, keepdims=keepdims)


for _name in ("argmax", "argmin"):
    finding(_name)


def sorting(name: str) -> None:
    """numpy's ``sort`` and ``argsort``: the last axis if none is said."""
    function = getattr(np, name)

    @kernel(f"numpy.{name}", domain=DOMAIN, batch=along("axis", -1))
    def sort(a, *, axis=-1):
        """numpy's function of this name."""
        return function(a, axis=axis, stable=True)


for _name in ("sort", "argsort"):
    sorting(_name)


for _name in (
    *("maximum", "minimum", "fmax", "fmin", "clip", "max", "min", "amax", "amin", "nanmax", "nanmin"),
    *("ptp", "median", "argmax", "argmin", "sort", "argsort"),
):
    say(f"numpy.{_name}", domain=DOMAIN, orders=True)


@kernel("numpy.diff", domain=DOMAIN, batch=along("axis", -1))
def diff(a, *, n=1, axis=-1):
    """Differences of neighbours, n times."""
    return np.diff(a, min(n, max(np.shape(a), default=0)), axis)  # numpy goes on taking them of nothing


@kernel("numpy.dot", domain=DOMAIN, batch=by_step)
def dot(a, b):
    """numpy's dot product."""
    refuse_unbounded("a product", a, b)
    refuse_elements(_of_dot(np.shape(a), np.shape(b)), "numpy.dot")
    return _summed(np.dot, a, b)


def _summed(multiply: Callable[..., Any], a: Any, b: Any) -> Any:
    """A product of vectors or matrices, which is a sum: of two single elements numpy gives their product, -0.0 perhaps."""
    is_product = np.size(a) == np.size(b) == 1 and 0 < np.ndim(a) < 3 and 0 < np.ndim(b) < 3
    found = multiply(a, b)
    return found + found.dtype.type(0) if is_product else found


def _of_dot(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """How many elements a product over the last axis of a and the last but one of b has."""
    return elements_of(a[:-1]) * elements_of((*b[:-2], *b[-1:])) if len(b) > 1 else elements_of(a[:-1] if b else a)


@kernel("numpy.outer", domain=DOMAIN, batch=by_step)
def outer(a, b):
    """Each element of a times each element of b."""
    refuse_unbounded("a product", a, b)
    refuse_elements(np.size(a) * np.size(b), "numpy.outer")
    return np.outer(a, b)


@kernel("numpy.inner", domain=DOMAIN)
def inner(a, b):
    """numpy's inner product, over the last axes."""
    refuse_unbounded("a product", a, b)
    refuse_elements(elements_of(np.shape(a)[:-1]) * elements_of(np.shape(b)[:-1]), "numpy.inner")
    return _summed(np.inner, a, b)


@kernel("numpy.tensordot", domain=DOMAIN)
def tensordot(a, b, *, axes=2):
    """numpy's tensor product over several axes."""
    refuse_unbounded("a product", a, b)
    refuse_product("numpy.tensordot", a, b, axes if isinstance(axes, int) else len(np.ravel(axes[0])))
    return np.tensordot(a, b, axes)


def size_of(shape: Any) -> Any:
    """A shape that came as a value: a number or a row of them."""
    return tuple(np.asarray(shape).tolist()) if np.ndim(shape) else int(shape)


own_functions(
    by_step,
    {
        "reshape": lambda a, shape: np.reshape(a, size_of(shape)),
        "ravel": lambda a: np.ravel(a),
        "transpose": lambda a, *, axes=None: np.transpose(a, axes),
        "swapaxes": lambda a, *, axis1, axis2: np.swapaxes(a, axis1, axis2),
        "moveaxis": lambda a, *, source, destination: np.moveaxis(a, source, destination),
        "expand_dims": lambda a, *, axis: np.expand_dims(a, axis),
        "squeeze": lambda a, *, axis=None: np.squeeze(a, axis),
        "flip": lambda m, *, axis=None: np.flip(m, axis),
        "roll": lambda a, shift, *, axis=None: np.roll(a, size_of(shift), axis),
    },
)
own_functions(
    None,
    {
        "count_nonzero": lambda a, *, axis=None, keepdims=False: np.count_nonzero(a, axis, keepdims=keepdims),
        "trace": lambda a: np.trace(a),
        "linalg.norm": lambda x, *, ord=None, axis=None, keepdims=False: np.linalg.norm(x, ord, axis, keepdims),
    },
)
