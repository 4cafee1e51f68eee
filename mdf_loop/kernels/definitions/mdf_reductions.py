"""numpy's reductions and products of arrays, as MDF's expressions call them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place, places
from mdf_loop.kernels.definitions.mdf_operators import BOOL, FLOAT64
from mdf_loop.kernels.definitions.of_products import product
from mdf_loop.kernels.definitions.of_shapes import count_along, go_together, in_all, is_number, rank_of
from mdf_loop.ops.rows import Call, numpys

INT64, UINT64 = np.dtype(np.int64), np.dtype(np.uint64)
KINDS = "biuf"
"""Element types of real numbers: what half precision and complex numbers add up to is numpy's own affair."""


def array_of(b: Any, x: Any, kinds: str = KINDS) -> Any:
    """An array of known shape, with elements of some kinds; any array or number where the builder takes open lengths.

    Raises
    ------
    ValueError
        It is something else.
    """
    if b.takes_open and x.type.kind in kinds:
        return b.strong(x)
    if not x.type.shape or not x.type.is_static or x.type.kind not in kinds or x.type.dtype == np.float16:
        raise ValueError("not an array of real numbers whose shape is known")
    return x


def truth_of(b: Any, x: Any) -> Any:
    """Whether each element is not zero."""
    return x if x.type.kind == "b" else b.ne(x, x.type.dtype.type(0))


def _added_up(b: Any, x: Any) -> Any:
    """Elements in the type in which numpy adds and multiplies them: short whole numbers in long ones."""
    if x.type.kind in "bi":
        return b.cast(x, INT64)
    return b.cast(x, UINT64) if x.type.kind == "u" else x


def _in_floats(b: Any, x: Any) -> Any:
    """Elements as numpy's means take them."""
    return x if x.type.kind == "f" else b.cast(x, FLOAT64)


def _sum(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
    return b.reduce(_added_up(b, x), "sum", axes, keep)


def _prod(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
    return b.reduce(_added_up(b, x), "prod", axes, keep)


def _mean(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
    x = _in_floats(b, x)
    return b.div(b.reduce(x, "sum", axes, keep), count_along(b, x, axes))


def _extreme(kind: str) -> Callable[..., Any]:
    def extreme(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
        return b.reduce(x, {"max": "any", "min": "all"}[kind] if x.type.kind == "b" else kind, axes, keep)

    return extreme


def _range(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
    largest, smallest = (_extreme(kind)(b, x, axes, keep) for kind in ("max", "min"))
    return b.sub(largest, smallest)


def _logical(kind: str) -> Callable[..., Any]:
    def logical(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
        return b.reduce(truth_of(b, x), kind, axes, keep)

    return logical


def _without_nan(reduce: Callable[..., Any], neutral: float) -> Callable[..., Any]:
    def without(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
        if x.type.kind == "f":
            x = b.select(b.ne(x, x), b.const(x.type.dtype.type(neutral)), x)
        return reduce(b, x, axes, keep)

    return without


def _of_numbers(reduce: Callable[..., Any], neutral: float) -> Callable[..., Any]:
    def of_numbers(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
        """Of nothing it is nan, which numpy warns of."""
        if not b.takes_open:
            raise ValueError("numpy warns of it")
        found = _without_nan(reduce, neutral)(b, x, axes, keep)
        if x.type.kind != "f":
            return found
        return b.select(b.eq(_numbers(b, x, axes, keep), 0), x.type.dtype.type(math.nan), found)

    return of_numbers


def _mean_of_numbers(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
    if not b.takes_open:
        raise ValueError("numpy warns of it")
    x = _in_floats(b, x)
    return b.div(_without_nan(_sum, 0.0)(b, x, axes, keep), _numbers(b, x, axes, keep))


def _numbers(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
    """How many elements are not nan, in their element type."""
    return b.reduce(b.cast(b.eq(x, x), x.type.dtype), "sum", axes, keep)


def along(b: Any, x: Any, axis: Any) -> list[int]:
    """The axes that an attribute names; all of them where it names none. None of them is empty."""
    axes = places(None if axis is None else axis if isinstance(axis, tuple) else [axis], rank_of(x))
    if not b.takes_open:
        x.type.count_along(axes)
    return axes


def _reduced(b: Any, x: Any, axis: Any, keepdims: bool) -> tuple[Any, list[int]]:
    """An array and its axes that are reduced; all elements in a row where these are all, whatever their number."""
    x = array_of(b, x)
    if x.type.shape is None and axis is None and not keepdims:
        x = b.reshape(x, (-1,))
    return x, along(b, x, axis)


def _reduction(reduce: Callable[..., Any]) -> Call:
    def reduction(b: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        return reduce(b, *_reduced(b, x, axis, keepdims), bool(keepdims))

    return reduction


for _name, _reduce in {
    "sum": _sum, "prod": _prod, "mean": _mean, "min": _extreme("min"), "max": _extreme("max"), "amin": _extreme("min"),
    "amax": _extreme("max"), "ptp": _range, "all": _logical("all"), "any": _logical("any"), "nansum": _without_nan(_sum, 0.0),
    "nanprod": _without_nan(_prod, 1.0), "nanmean": _mean_of_numbers, "nanmin": _of_numbers(_extreme("min"), math.inf),
    "nanmax": _of_numbers(_extreme("max"), -math.inf),
}.items():  # fmt: skip
    numpys(f"numpy.{_name}")(_reduction(_reduce))


COUNT = type(np.count_nonzero(np.zeros(1), None))
"""What numpy counts in: versions differ."""


@numpys("numpy.count_nonzero")
def count_nonzero(b, x, *, axis=None, keepdims=False):
    """How many elements are not zero."""
    x, axes = _reduced(b, x, axis, keepdims)
    found = b.reduce(b.cast(truth_of(b, x), INT64), "sum", axes, bool(keepdims))
    return b.python(found, int) if COUNT is int and axis is None and not keepdims else found


@numpys("numpy.var")
def var(b, x, *, axis=None, ddof=0, keepdims=False):
    """The mean of the squares of what is beyond the mean."""
    x, axes = _reduced(b, x, axis, keepdims)
    x = _in_floats(b, x)
    count = count_along(b, x, axes)
    count = count - ddof if isinstance(count, int) else b.sub(count, ddof)
    if isinstance(count, int) and count <= 0 and not b.takes_open:
        raise ValueError("numpy warns of it")
    beyond = b.sub(x, _mean(b, x, axes, True))
    return b.div(b.reduce(b.mul(beyond, beyond), "sum", axes, bool(keepdims)), count)


@numpys("numpy.std")
def std(b, x, *, axis=None, ddof=0, keepdims=False):
    """The root of the variance."""
    return b.sqrt(var(b, x, axis=axis, ddof=ddof, keepdims=keepdims))


@numpys("numpy.linalg.norm")
def norm(b, x, *, ord=None, axis=None, keepdims=False):
    """The root of the sum of squares."""
    if isinstance(axis, tuple) or not (ord is None or (ord == 2 and (axis is not None or rank_of(x) == 1))):
        raise ValueError("another norm")
    x, axes = _reduced(b, x, axis, keepdims)
    x = _in_floats(b, x)
    return b.sqrt(b.reduce(b.mul(x, x), "sum", axes, bool(keepdims)))


def _in_a_row(b: Any, x: Any, axis: Any) -> tuple[Any, int]:
    """The array and one of its axes; all elements in a row where none is said."""
    if axis is None:
        return b.reshape(x, (in_all(x.type.shape),)), 0
    if isinstance(axis, tuple):
        raise ValueError("several axes")
    return x, place(axis, rank_of(x))


def _place_of(kind: str) -> Call:
    def place_of(b: Any, x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        is_known = x.type.shape and x.type.is_static and x.type.kind in "iuf"
        if not (is_known or b.takes_open) or (axis is None and keepdims):
            raise ValueError("not numbers along an axis")
        x, axis = _in_a_row(b, b.cast(x, INT64) if x.type.kind == "b" else b.strong(x), axis)
        along(b, x, axis)
        return b.reduce(x, kind, [axis], keepdims)

    return place_of


for _name in ("argmax", "argmin"):
    numpys(f"numpy.{_name}")(_place_of(_name))


def _running(primitive: str) -> Call:
    def running(b: Any, x: Any, *, axis: Any = None) -> Any:
        return accumulated(b, primitive, *_in_a_row(b, _added_up(b, array_of(b, x)), axis))

    return running


def accumulated(b: Any, primitive: str, x: Any, axis: int) -> Any:
    """Along an axis all elements so far, added or multiplied up."""
    x.type.count_along([axis])
    order = [axis, *(k for k in range(rank_of(x)) if k != axis)]
    rows = b.transpose(x, order)
    first = b.const(np.full(rows.type.shape[1:], 0 if primitive == "add" else 1, x.type.dtype)[()])
    *_, found = b.scan(rows, [first], lambda row, past: (b.element(primitive, past, row),))
    return b.transpose(found, np.argsort(order).tolist())


for _name, _primitive in (("cumsum", "add"), ("cumprod", "mul")):
    numpys(f"numpy.{_name}")(_running(_primitive))


@numpys("numpy.diff")
def diff(b, x, *, n=1, axis=-1):
    """Differences of neighbours, n times."""
    x, axis = _in_a_row(b, array_of(b, x, "iuf"), axis)
    if not 0 <= n < (x.type.shape[axis] if x.type.is_static else n + 1):
        raise ValueError("nothing is left")
    for _ in range(n):
        behind, front = (_part(b, x, axis, part) for part in (slice(1, None), slice(None, -1)))
        x = b.sub(behind, front)
    return x


def _part(b: Any, x: Any, axis: int, part: slice) -> Any:
    return b.slice(x, [part if k == axis else slice(None) for k in range(rank_of(x))])


# Products


def _together(b: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Two arrays in the type of their product."""
    if b.takes_open:
        x, y = array_of(b, x), array_of(b, y)
    elif any(not v.type.shape or v.type.kind not in KINDS or v.type.dtype == np.float16 for v in (x, y)):
        raise ValueError("not arrays of real numbers")
    dtype = np.result_type(x.type.dtype, y.type.dtype)
    return b.cast(x, dtype), b.cast(y, dtype)


def _product(b: Any, x: Any, y: Any) -> Any:
    """The product of matrices and vectors."""
    x, y = _together(b, x, y)
    if not 1 <= rank_of(x) <= 2 or not 1 <= rank_of(y) <= 2 or not go_together(b, x.type.shape[-1], y.type.shape[0]):
        raise ValueError("not a product of two matrices or vectors, or lengths that do not go together")
    return product(b, x, y)


numpys("matmul")(_product)


@numpys("numpy.dot")
def dot(b, x, y):
    """The product; of numbers too where they are arrays without dimensions."""
    if b.takes_open and (is_number(x) or is_number(y)):
        return b.mul(*_together(b, x, y))
    return _product(b, x, y)


@numpys("numpy.inner")
def inner(b, x, y):
    """The product over the last axes."""
    return dot(b, x, b.transpose(y, (1, 0)) if rank_of(y) == 2 and not is_number(x) else y)


@numpys("numpy.outer")
def outer(b, x, y):
    """Each element of x times each element of y."""
    x, y = _together(b, array_of(b, x), array_of(b, y))
    rows, columns = b.reshape(x, (in_all(x.type.shape), 1)), b.reshape(y, (1, in_all(y.type.shape)))
    return b.element("and_" if x.type.dtype == BOOL else "mul", rows, columns)
