"""Numbers that are too small to add up in, in larger ones, and products of matrices.

Only products of float32 and float64 run in BLAS.  Whole numbers go through it as long as every sum on the way is one that
float64 holds exactly; then the result is exact too, in whatever order it is added up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import is_seen
from mdf_loop.types.elements import kind_of

EXACT64 = 1 << 53
"""Whole numbers up to which float64 holds all."""

LITTLE = 1 << 14
"""Products of a matrix product below which converting whole numbers costs more than it saves."""


def widened(x: np.ndarray) -> np.ndarray:
    """x in a type that sums can be taken in: half precision stops growing after a few hundred terms."""
    return x if x.itemsize >= 4 else x.astype(np.float32)


def lowest(dtype: np.dtype) -> Any:
    """What no element is below: minus infinity, False or the smallest whole number."""
    kind = kind_of(dtype)
    return dtype.type(-np.inf) if kind == "float" else dtype.type(False) if kind == "bool" else np.iinfo(dtype).min


def highest(dtype: np.dtype) -> Any:
    """What no element is above: infinity, True or the largest whole number."""
    kind = kind_of(dtype)
    return dtype.type(np.inf) if kind == "float" else dtype.type(True) if kind == "bool" else np.iinfo(dtype).max


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The matrix product of two arrays of one type: sums of half precision in float32, those of whole numbers wrap around."""
    # the same numbers for less than half the overhead; of two single numbers dot gives the product, -0.0 perhaps, and no sum
    multiply = np.dot if 0 < a.ndim < 3 and 0 < b.ndim < 3 and a.size + b.size != 2 else np.matmul
    if a.dtype.kind == "f" and a.itemsize >= 4:
        return multiply(a, b)
    if kind_of(a.dtype) == "float":
        return multiply(widened(a), widened(b)).astype(a.dtype, copy=False)
    if a.dtype.kind in "iu" and a.dtype == b.dtype and _is_exact_in_floats(a, b):
        return multiply(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(a.dtype, copy=False)
    return multiply(a, b)


def _is_exact_in_floats(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether float64 holds all sums of a product of whole numbers, and it is large enough to be worth a conversion."""
    if not (is_seen(a) and is_seen(b) and a.ndim and b.ndim and b.size) or a.size * b.shape[-1] < LITTLE:
        return False
    return _largest(a) * _largest(b) * a.shape[-1] <= EXACT64


def _largest(x: np.ndarray) -> int:
    return max(int(x.max()), -int(x.min()))


def centred(x: np.ndarray, zero_point: np.ndarray | None) -> np.ndarray:
    """Numbers of 8 bits less their zero point, in a type whose products wrap around in 32 bits; small floats in float64."""
    wide = np.dtype(np.float64 if kind_of(x.dtype) == "float" else np.int32)
    return x.astype(wide) if zero_point is None else x.astype(wide) - zero_point.astype(wide)
