"""Products of matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mdf_loop.kernels.definitions.of_shapes import fits, rank_of
from mdf_loop.ops.registry import definition
from mdf_loop.types.elements import kind_of

MOST_PRODUCTS = 1 << 16
"""Products of whole numbers up to which they are added up one by one."""


@definition("MatMul")
def matmul(b, x, y):
    """The matrix product, by numpy's rules for ranks."""
    if not 1 <= rank_of(x) <= 2 or not 1 <= rank_of(y) <= 2 or x.type.shape[-1] != y.type.shape[0]:
        raise ValueError("not a product of two matrices or vectors, or lengths that do not go together")
    return product(b, x, y)


def product(b: Any, x: Any, y: Any) -> Any:
    """The product of two matrices or vectors, or of two stacks of matrices, whose lengths go together.

    Whole numbers are added up one by one: their sum is the same in any order.

    Raises
    ------
    ValueError
        It is rounded otherwise, or there are too many whole numbers for all their products.
    """
    left, right = x.type.shape, y.type.shape
    is_stack = len(left) > 2
    if x.type.kind == "f" and x.type.dtype.itemsize >= 4:
        return b.put_in("dot", (x, y), x.type.__class__(x.type.dtype, left[:-1] + right[1 + is_stack :]))
    if x.type.kind not in "iu" or x.type.dtype != y.type.dtype or not (x.type.is_static and y.type.is_static):
        raise ValueError("numbers that are rounded otherwise")
    columns = right[1 + is_stack :]
    if not 0 < x.type.size * math.prod(columns) <= MOST_PRODUCTS:
        raise ValueError("too many products")
    y = b.reshape(y, (right[0], 1, *right[1:])) if is_stack else y
    terms = b.mul(b.reshape(x, (*left, *(1 for _ in columns))), y)
    return b.reduce(terms, "sum", (len(left) - 1,))


@definition("Gemm", since=7)
def gemm(b, x, y, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    """alpha * A * B + beta * C; half precision in float32, rounded once."""
    dtype = x.type.dtype
    if kind_of(dtype) == "float" and dtype.itemsize < 4:
        x, y, c = (v if v is None else b.cast(v, np.dtype(np.float32)) for v in (x, y, c))
    if not rank_of(x) == rank_of(y) == 2:
        raise ValueError("not two matrices")
    if x.type.kind != "f" and (alpha, beta) != (1, 1):
        raise ValueError("whole numbers by a fraction")
    out = matmul(b, b.transpose(x, (1, 0)) if transA else x, b.transpose(y, (1, 0)) if transB else y)
    if alpha != 1:
        out = b.mul(out, alpha)
    if c is not None:
        out = _with_added(b, out, c if beta == 1 else b.mul(c, beta))
    return b.cast(out, dtype)


@definition("Gemm", until=7)
def gemm_1(b, x, y, c, *, alpha=1.0, beta=1.0, transA=0, transB=0, broadcast=0):
    """alpha * A * B + beta * C, C broadcast only where asked for."""
    if x.type.dtype.itemsize < 4:
        raise ValueError("rounded more than once")
    out = gemm(b, x, y, alpha=alpha, transA=transA, transB=transB)
    if not broadcast and c.type.shape != out.type.shape:
        raise ValueError("C has another shape")
    return _with_added(b, out, c if beta == 1 else b.mul(c, beta))


def _with_added(b: Any, out: Any, c: Any) -> Any:
    if c.type.dtype != out.type.dtype or not fits(c, out):
        raise ValueError("C is larger than the product")
    return b.add(out, c)
