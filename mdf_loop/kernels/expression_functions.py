"""numpy's functions as MDF expressions call them: ``numpy.exp`` and its kin, in domain ``mdf``.

Only what is registered here can be called by an expression.  A function with a kernel of its own is written
as a kernel is: positional parameters are values, keyword-only ones have to be known when the body is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.batching import Result, Rule, all_stacked, along, elementwise, matmul, of_shape
from mdf_loop.kernels.expression import DOMAIN, operation
from mdf_loop.registry import kernel

Attributes = Mapping[str, Any]


def universal_functions(names: str) -> None:
    """numpy's universal functions: element by element, each its own kernel."""
    for name in names.split():
        operation(f"numpy.{name}", getattr(np, name))


universal_functions("exp exp2 expm1 log log2 log10 log1p sqrt cbrt square reciprocal sign fabs")
universal_functions("sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh hypot")
universal_functions("degrees radians deg2rad rad2deg floor ceil trunc rint copysign nextafter heaviside")
universal_functions("maximum minimum fmax fmin fmod float_power logaddexp logaddexp2 gcd lcm ldexp")
universal_functions("isnan isinf isfinite signbit logical_and logical_or logical_xor logical_not")


@kernel("numpy.clip", domain=DOMAIN, batch=elementwise)
def clip(a, a_min=None, a_max=None):
    """Values below a_min become a_min, those above a_max a_max."""
    return np.clip(a, a_min, a_max)


@kernel("numpy.where", domain=DOMAIN, batch=elementwise)
def where(condition, x, y):
    """x where the condition is true, y elsewhere."""
    return np.where(condition, x, y)


def _rounding(op: str) -> None:
    @kernel(op, domain=DOMAIN, batch=elementwise)
    def round_(a, *, decimals=0):
        """Halves go to the even neighbour."""
        return np.round(a, decimals)


for _op in ("numpy.round", "numpy.around"):
    _rounding(_op)


@kernel("numpy.nan_to_num", domain=DOMAIN, batch=elementwise)
def nan_to_num(x, *, nan=0.0, posinf=None, neginf=None):
    """Numbers in place of nan and the infinities."""
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


@kernel("numpy.sinc", domain=DOMAIN, batch=elementwise)
def sinc(x):
    """sin(pi x) / (pi x)."""
    return np.sinc(x)


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
    if axis is None and attrs.get("keepdims"):
        return all_stacked(run(x, *args[1:], **{**attrs, "axis": tuple(range(1, x.ndim))}))
    if axis is None:
        return all_stacked(run(_flat(x), *args[1:], **{**attrs, "axis": 1}))
    return all_stacked(run(x, *args[1:], **{**attrs, "axis": _behind(axis)}))


def _flat(x: Any) -> Any:
    """Each iteration's values in a row."""
    return x.reshape(len(x), int(np.prod(x.shape[1:])))


def _behind(axis: Any) -> Any:
    """Axes moved up by one; those counted from the end stay right."""
    if isinstance(axis, tuple):
        return tuple(map(_behind, axis))
    return axis + 1 if axis >= 0 else axis


def reduction(name: str) -> None:
    """A function of numpy that reduces axes."""
    function = getattr(np, name)

    @kernel(f"numpy.{name}", domain=DOMAIN, batch=_reducing)
    def reduce(a, *, axis=None, keepdims=False):
        """numpy's reduction of this name."""
        return function(a, axis=axis, keepdims=keepdims)


for _name in ("sum", "prod", "mean", "median", "min", "max", "amin", "amax", "ptp", "all", "any"):
    reduction(_name)
for _name in ("nansum", "nanprod", "nanmean", "nanmin", "nanmax"):
    reduction(_name)


@kernel("numpy.count_nonzero", domain=DOMAIN)
def count_nonzero(a, *, axis=None, keepdims=False):
    """How many elements are not zero."""
    return np.count_nonzero(a, axis, keepdims=keepdims)


@kernel("numpy.std", domain=DOMAIN, batch=_reducing)
def std(a, *, axis=None, ddof=0, keepdims=False):
    """The standard deviation."""
    return np.std(a, axis=axis, ddof=ddof, keepdims=keepdims)


@kernel("numpy.var", domain=DOMAIN, batch=_reducing)
def var(a, *, axis=None, ddof=0, keepdims=False):
    """The variance."""
    return np.var(a, axis=axis, ddof=ddof, keepdims=keepdims)


def along_one_axis(name: str) -> None:
    """A function of numpy that works along one axis, or on the flat array if none is said."""
    function = getattr(np, name)

    @kernel(f"numpy.{name}", domain=DOMAIN, batch=_reducing)
    def work(a, *, axis=None):
        """numpy's function of this name."""
        return function(a, axis=axis)


for _name in ("argmax", "argmin", "cumsum", "cumprod"):
    along_one_axis(_name)


def sorting(name: str) -> None:
    """numpy's ``sort`` and ``argsort``: the last axis if none is said."""
    function = getattr(np, name)

    @kernel(f"numpy.{name}", domain=DOMAIN, batch=along("axis", -1))
    def sort(a, *, axis=-1):
        """numpy's function of this name."""
        return function(a, axis=axis, kind="stable")


for _name in ("sort", "argsort"):
    sorting(_name)


@kernel("numpy.diff", domain=DOMAIN, batch=along("axis", -1))
def diff(a, *, n=1, axis=-1):
    """Differences of neighbours, n times."""
    return np.diff(a, n, axis)


def _product(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Attributes) -> Result:
    """Products of vectors and matrices are those of ``@``."""
    ranks = [np.ndim(a) - s for a, s in zip(args, stacked, strict=True)]
    return matmul(np.matmul, args, stacked, attrs) if all(rank in (1, 2) for rank in ranks) else None


@kernel("numpy.dot", domain=DOMAIN, batch=_product)
def dot(a, b):
    """numpy's dot product."""
    return np.dot(a, b)


def _outer_product(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Attributes) -> Result:
    columns = [_flat(a) if s else np.ravel(a)[None] for a, s in zip(args, stacked, strict=True)]
    return all_stacked(columns[0][:, :, None] * columns[1][:, None, :])


@kernel("numpy.outer", domain=DOMAIN, batch=_outer_product)
def outer(a, b):
    """Each element of a times each element of b."""
    return np.outer(a, b)


@kernel("numpy.inner", domain=DOMAIN)
def inner(a, b):
    """numpy's inner product, over the last axes."""
    return np.inner(a, b)


@kernel("numpy.tensordot", domain=DOMAIN)
def tensordot(a, b, *, axes=2):
    """numpy's tensor product over several axes."""
    return np.tensordot(a, b, axes)


@kernel("numpy.trace", domain=DOMAIN)
def trace(a):
    """The sum of the diagonal."""
    return np.trace(a)


@kernel("numpy.linalg.norm", domain=DOMAIN)
def norm(x, *, ord=None, axis=None, keepdims=False):
    """The norm of a vector or matrix."""
    return np.linalg.norm(x, ord, axis, keepdims)


def _size(shape: Any) -> Any:
    """A shape that came as a value: a number or a row of them."""
    return tuple(shape.tolist()) if np.ndim(shape) else int(shape)


def _reshaping(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Attributes) -> Result:
    if stacked[1]:
        return None
    return all_stacked(args[0].reshape(len(args[0]), *np.atleast_1d(args[1]).tolist())) if args[0].size else None


@kernel("numpy.reshape", domain=DOMAIN, batch=_reshaping)
def reshape(a, shape):
    """The same elements in another shape; -1 is what is left."""
    return np.reshape(a, _size(shape))


@kernel("numpy.ravel", domain=DOMAIN, batch=lambda run, args, stacked, attrs: all_stacked(_flat(args[0])))
def ravel(a):
    """All elements in a row."""
    return np.ravel(a)


def _transposing(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Attributes) -> Result:
    rank = args[0].ndim - 1
    axes = attrs.get("axes") or range(rank)[::-1]
    return all_stacked(np.transpose(args[0], (0, *(axis % rank + 1 for axis in axes))))


@kernel("numpy.transpose", domain=DOMAIN, batch=_transposing)
def transpose(a, *, axes=None):
    """The axes in another order; reversed if none is said."""
    return np.transpose(a, axes)


def _shifting(*names: str) -> Rule:
    """Attributes that name axes of the first argument, none of them optional."""

    def rule(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Attributes) -> Result:
        if not stacked[0] or any(stacked[1:]) or any(attrs.get(name) is None for name in names):
            return None
        return all_stacked(run(*args, **{**attrs, **{name: _behind(attrs[name]) for name in names}}))

    return rule


@kernel("numpy.swapaxes", domain=DOMAIN, batch=_shifting("axis1", "axis2"))
def swapaxes(a, *, axis1, axis2):
    """Two axes change places."""
    return np.swapaxes(a, axis1, axis2)


@kernel("numpy.moveaxis", domain=DOMAIN, batch=_shifting("source", "destination"))
def moveaxis(a, *, source, destination):
    """Axes moved to other places."""
    return np.moveaxis(a, source, destination)


@kernel("numpy.expand_dims", domain=DOMAIN, batch=_shifting("axis"))
def expand_dims(a, *, axis):
    """New axes of length 1."""
    return np.expand_dims(a, axis)


@kernel("numpy.squeeze", domain=DOMAIN, batch=_shifting("axis"))
def squeeze(a, *, axis=None):
    """Without axes of length 1."""
    return np.squeeze(a, axis)


@kernel("numpy.flip", domain=DOMAIN, batch=_shifting("axis"))
def flip(m, *, axis=None):
    """The elements in reversed order."""
    return np.flip(m, axis)


@kernel("numpy.roll", domain=DOMAIN, batch=_shifting("axis"))
def roll(a, shift, *, axis=None):
    """Elements moved on, those that fall off at the end come in at the start."""
    return np.roll(a, _size(shift), axis)


@kernel("numpy.repeat", domain=DOMAIN, batch=_shifting("axis"))
def repeat(a, repeats, *, axis=None):
    """Each element several times."""
    return np.repeat(a, repeats, axis)


@kernel("numpy.tile", domain=DOMAIN)
def tile(A, reps):
    """The whole array several times."""
    return np.tile(A, _size(reps))


@kernel("numpy.take", domain=DOMAIN, batch=_shifting("axis"))
def take(a, indices, *, axis=None):
    """Elements at these indices."""
    return np.take(a, indices, axis)


def diagonals(name: str) -> None:
    """numpy's ``tril`` and ``triu``: on the last two axes."""
    function = getattr(np, name)

    @kernel(
        f"numpy.{name}",
        domain=DOMAIN,
        batch=lambda run, args, s, attrs: all_stacked(run(*args, **attrs)) if args[0].ndim > 2 else None,
    )
    def triangle(m, *, k=0):
        """What is below or above a diagonal, zeros elsewhere."""
        return function(m, k)


for _name in ("tril", "triu"):
    diagonals(_name)


@kernel("numpy.diag", domain=DOMAIN)
def diag(v, *, k=0):
    """The diagonal of a matrix, or the matrix with this diagonal."""
    return np.diag(v, k)


def _joining(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Attributes) -> Result:
    return all_stacked(run(*_all_stacked(args, stacked), **{**attrs, "axis": _behind(attrs.get("axis", 0))}))


def _all_stacked(args: Sequence[Any], stacked: Sequence[bool]) -> list[Any]:
    """Unstacked arguments repeated for each iteration."""
    n = next(len(a) for a, s in zip(args, stacked, strict=True) if s)
    return [a if s else np.broadcast_to(a, (n, *np.shape(a))) for a, s in zip(args, stacked, strict=True)]


@kernel("numpy.concatenate", domain=DOMAIN, batch=_joining)
def concatenate(*arrays, axis=0):
    """Arrays joined along an axis they have."""
    return np.concatenate(arrays, axis)


@kernel("numpy.stack", domain=DOMAIN, batch=_joining)
def stack(*arrays, axis=0):
    """Arrays put together along a new axis."""
    return np.stack(arrays, axis)


@kernel("numpy.hstack", domain=DOMAIN)
def hstack(*arrays):
    """Arrays side by side."""
    return np.hstack(arrays)


@kernel("numpy.vstack", domain=DOMAIN)
def vstack(*arrays):
    """Arrays one above the other."""
    return np.vstack(arrays)


SEQUENCES = {"numpy.concatenate", "numpy.stack", "numpy.hstack", "numpy.vstack"}
"""Functions whose first argument is a list of arrays: the inputs of their kernels."""


def _made(name: str) -> None:
    """numpy's ``array`` and ``asarray``."""

    @kernel(f"numpy.{name}", domain=DOMAIN, batch=elementwise)
    def make(object, *, dtype=None):
        """The value as an array."""
        return np.asarray(object, dtype)


for _name in ("array", "asarray"):
    _made(_name)


@kernel("numpy.atleast_1d", domain=DOMAIN)
def atleast_1d(x):
    """Numbers as arrays of one element; arrays as they are."""
    return np.atleast_1d(x)


def filled(name: str) -> None:
    """numpy's ``zeros`` and ``ones``."""
    function = getattr(np, name)

    @kernel(f"numpy.{name}", domain=DOMAIN)
    def fill(shape, *, dtype=float):
        """An array of this shape."""
        return function(_size(shape), dtype)

    @kernel(f"numpy.{name}_like", domain=DOMAIN, batch=of_shape)
    def fill_like(a, *, dtype=None):
        """An array of the same shape and type."""
        return getattr(np, f"{name}_like")(a, dtype)


for _name in ("zeros", "ones"):
    filled(_name)


@kernel("numpy.full", domain=DOMAIN)
def full(shape, fill_value, *, dtype=None):
    """An array of this shape, one value in all places."""
    return np.full(_size(shape), fill_value, dtype)


@kernel("numpy.full_like", domain=DOMAIN)
def full_like(a, fill_value, *, dtype=None):
    """An array of the same shape and type, one value in all places."""
    return np.full_like(a, fill_value, dtype)


@kernel("numpy.eye", domain=DOMAIN)
def eye(N, M=None, *, k=0, dtype=float):
    """Ones on a diagonal."""
    return np.eye(int(N), None if M is None else int(M), k, dtype)


@kernel("numpy.identity", domain=DOMAIN)
def identity(n, *, dtype=float):
    """The square matrix with ones on its diagonal."""
    return np.identity(int(n), dtype)


@kernel("numpy.arange", domain=DOMAIN)
def arange(start, stop=None, step=None, *, dtype=None):
    """Equally spaced numbers, from their distance."""
    return np.arange(start, stop, step, dtype) if stop is not None else np.arange(start, dtype=dtype)


@kernel("numpy.linspace", domain=DOMAIN)
def linspace(start, stop, *, num=50, endpoint=True):
    """Equally spaced numbers, from their count."""
    return np.linspace(start, stop, num, endpoint)


@kernel("numpy.shape", domain=DOMAIN)
def shape(a):
    """The length of each axis."""
    return np.array(np.shape(a), np.int64)


@kernel("numpy.size", domain=DOMAIN)
def size(a):
    """The number of elements."""
    return int(np.size(a))


operation("numpy.ndim", np.ndim, None)


@kernel("numpy.random.normal", domain=DOMAIN)
def normal(loc=0.0, scale=1.0, size=None, *, rng):
    """Normally distributed random numbers."""
    return rng.normal(loc, scale, None if size is None else _size(size))


@kernel("numpy.random.uniform", domain=DOMAIN)
def uniform(low=0.0, high=1.0, size=None, *, rng):
    """Equally distributed random numbers."""
    return rng.uniform(low, high, None if size is None else _size(size))


@kernel("numpy.random.rand", domain=DOMAIN)
def rand(*lengths, rng):
    """Random numbers between 0 and 1."""
    return rng.random(tuple(map(int, lengths)) or None)


@kernel("numpy.random.randn", domain=DOMAIN)
def randn(*lengths, rng):
    """Random numbers of the standard normal distribution."""
    return rng.standard_normal(tuple(map(int, lengths)) or None)
