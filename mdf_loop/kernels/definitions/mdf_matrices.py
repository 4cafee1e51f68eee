"""Inverses, determinants and linear equations of small matrices: Gaussian elimination with partial pivoting, as LAPACK does it.

What is not clearly regular is left to the kernel, which says that a matrix is singular, or computes what is left of its digits.
Large matrices are left to it as well: LAPACK works on them in tiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.definitions.mdf_operators import FLOAT64
from mdf_loop.kernels.definitions.mdf_reductions import KINDS
from mdf_loop.kernels.definitions.of_places import entry, from_front
from mdf_loop.ops.rows import numpys

LARGEST = 32
"""Rows up to which one loop over them is faster than a call of LAPACK."""


@numpys("numpy.linalg.inv")
def inv(b, a):
    """The x for which a @ x has ones on its diagonal."""
    a = _square(b, a)
    return _solved(b, a, b.const(np.eye(a.type.shape[0], dtype=a.type.dtype)))


@numpys("numpy.linalg.solve")
def solve(b, a, rhs):
    """The x for which a @ x is the right-hand side, a vector or the columns of a matrix."""
    a, shape = _square(b, a), rhs.type.shape
    if not shape or not rhs.type.is_static or len(shape) > 2 or shape[0] != a.type.shape[0] or not shape[-1]:
        raise ValueError("no right-hand side of so many rows")
    dtype = np.result_type(a.type.dtype, _floats(b, rhs).type.dtype)
    columns = b.reshape(b.cast(rhs, dtype), (shape[0], shape[1] if len(shape) == 2 else 1))
    return b.reshape(_solved(b, b.cast(a, dtype), columns), shape)


@numpys("numpy.linalg.det")
def det(b, a):
    """The product of the pivots; of their logarithms, which neither overflows nor vanishes."""
    if b.takes_open and not (a.type.is_static and a.type.rank == 2):
        return b.onnx("Det", _floats(b, a))
    a = _square(b, a)
    rows, sign = _eliminated(b, a, a)
    pivots = b.reduce(b.select(b.const(np.eye(a.type.shape[0], dtype=bool)), rows, 0), "sum", [1])
    negative = b.reduce(b.cast(b.lt(pivots, 0), a.type.dtype), "sum", [0])
    sign = b.mul(sign, b.sub(1, b.mul(2, b.mod(negative, 2))))
    return b.mul(sign, b.exp(b.reduce(b.log(b.abs(pivots)), "sum", [0])))


def _floats(b: Any, x: Any) -> Any:
    """Elements as numpy's linear algebra takes them.

    Raises
    ------
    ValueError
        It takes no such elements.
    """
    if x.type.kind not in KINDS or x.type.dtype == np.float16:
        raise ValueError("not a matrix of real numbers in single or double precision")
    return x if x.type.kind == "f" else b.cast(x, FLOAT64)


def _square(b: Any, a: Any) -> Any:
    """A matrix of floats that has as many rows as columns.

    Raises
    ------
    ValueError
        It is another array, or larger than what is eliminated row by row.
    """
    shape = a.type.shape
    if shape is None or len(shape) != 2 or not a.type.is_static or shape[0] != shape[1] or not 0 < shape[0] <= LARGEST:
        raise ValueError(f"not one square matrix of known size, up to {LARGEST} x {LARGEST}")
    return _floats(b, a)


def _solved(b: Any, a: Any, columns: Any) -> Any:
    """The x for which ``a @ x`` is what the columns are: by elimination, and from the last row back."""
    n = a.type.shape[0]
    rows, _ = _eliminated(b, a, b.concat([a, columns], 1))
    upper, left = (b.slice(rows, [slice(None), part]) for part in (slice(n), slice(n, None)))
    by_column = b.transpose(upper, (1, 0))

    def step(k: Any, _: Any, left: Any) -> tuple[Any, Any]:
        column = entry(b, by_column, k)
        found = b.div(entry(b, left, k), entry(b, column, k))
        return found, _without(b, left, b.select(b.lt(_places(b, n), k), column, 0), found)

    *_, found = b.scan(b.const(np.arange(n)[::-1].copy()), [entry(b, left, b.const(np.int64(0))), left], step)
    return b.slice(found, [slice(None, None, -1), slice(None)])


def _eliminated(b: Any, a: Any, rows: Any) -> tuple[Any, Any]:
    """Rows that begin with those of ``a``, with zeros below the diagonal; and -1.0 after an odd number of exchanges, else 1.0."""
    n, dtype = a.type.shape[0], a.type.dtype
    least = b.mul(b.reduce(b.abs(a), "max", [0]), dtype.type(n * np.finfo(dtype).eps))

    def step(k: Any, _: Any, sign: Any, rows: Any) -> tuple[Any, Any, Any]:
        column = entry(b, b.transpose(rows, (1, 0)), k)
        sizes = b.select(b.lt(_places(b, n), k), -1, b.abs(column))
        place = b.reduce(sizes, "argmax", [0])
        if not b.takes_open:  # a file of ONNX has infinity, or nan
            place = from_front(b, b.select(b.gt(entry(b, sizes, place), entry(b, least, k)), place, n), n)
        pivot = entry(b, rows, place)
        rows = b.put_in("put", (rows, entry(b, rows, k), place), rows.type)
        column = b.put_in("put", (column, entry(b, column, k), place), column.type)
        factors = b.div(b.select(b.gt(_places(b, n), k), column, 0), entry(b, pivot, k))
        return pivot, b.select(b.eq(place, k), sign, b.neg(sign)), _without(b, rows, factors, pivot)

    first = [entry(b, rows, b.const(np.int64(0))), b.const(dtype.type(1)), rows]
    _, sign, _, found = b.scan(b.const(np.arange(n)), first, step)
    return found, sign


def _places(b: Any, n: int) -> Any:
    return b.const(np.arange(n))


def _without(b: Any, rows: Any, factors: Any, row: Any) -> Any:
    """Rows less multiples of one of them."""
    return b.sub(rows, b.mul(b.reshape(factors, (factors.type.shape[0], 1)), row))
