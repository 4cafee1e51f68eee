"""Numbers that are too small to add up in, in larger ones: half precision in float32, whole numbers in floats that hold them.

Only products of float32 and float64 run in BLAS.  Whole numbers go through it as long as every sum on the way is one that
the floats hold exactly; then the result is exact too, in whatever order it is added up.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from mdf_loop.ops.prepared_constants import once
from mdf_loop.types.elements import kind_of

EXACT32, EXACT64 = 1 << 24, 1 << 53
"""Whole numbers up to which float32 and float64 hold all."""

FEW = 256
"""Elements below which a quicker way of converting does not make up for more calls."""

LITTLE = 1 << 14
"""Products of a matrix product below which converting whole numbers costs more than it saves."""

_SIGN_AND_REST = np.array(0x8FFFE000, np.uint32).view(np.int32)
_EXPONENTS = np.float32(2.0**112)

PART = 1 << 16
"""Elements converted at a time: they should stay in the cache."""

_UPPER = slice(1 if sys.byteorder == "little" else 0, None, 2)
_NO_SIGN, _TOO_LARGE, _LEAST_NORMAL = (np.array(bits, np.int32) for bits in (0x7FFFFFFF, 0x477FF000, 0x38800000))
_MOVED, _ONE, _ROUNDED = (np.array(value, np.int32) for value in (13, 1, 0xFFF - (112 << 23)))
_SIGN = np.array(-0x8000, np.int16)


def widened(x: np.ndarray) -> np.ndarray:
    """x in a type that sums can be taken in: half precision stops growing after a few hundred terms."""
    if x.itemsize >= 4:
        return x
    is_many = type(x) is np.ndarray and x.dtype == np.float16 and x.size >= FEW
    return _of_halves(x) if is_many else x.astype(np.float32)


def _of_halves(x: np.ndarray) -> np.ndarray:
    """float16 as float32, several times as fast as numpy: the bits moved to their places, and the exponent put right."""
    bits = x.view(np.int16)
    if (bits & 0x7FFF).max() >= 0x7C00:  # infinity or nan, whose exponent means something else
        return x.astype(np.float32)
    moved = bits.astype(np.int32)
    moved <<= 13
    moved &= _SIGN_AND_REST
    result = moved.view(np.float32)
    result *= _EXPONENTS
    return result


def narrowed(x: Any, dtype: np.dtype) -> Any:
    """x in a type that may be half precision, rounded to even."""
    if dtype != np.float16 or type(x) is not np.ndarray or x.dtype != np.float32 or x.size < FEW:
        return x.astype(dtype, copy=False)
    out, given = np.empty(x.shape, dtype), np.ascontiguousarray(x).reshape(-1)
    found = out.reshape(-1)
    for start in range(0, x.size, PART):
        part = slice(start, start + PART)
        _to_halves(given[part], found[part])
    return out


def _to_halves(x: np.ndarray, out: np.ndarray) -> None:
    """float32 as float16, several times as fast as numpy: rounded where they lie, the exponent put right, and moved."""
    bits = x.view(np.int32)
    size = bits & _NO_SIGN
    if size.max() >= _TOO_LARGE:  # what becomes infinite, or is, or is no number
        out[...] = x
        return
    size -= _LEAST_NORMAL
    odd = np.right_shift(bits, _MOVED)
    odd &= _ONE
    odd += bits
    odd += _ROUNDED
    odd >>= _MOVED
    found = out.view(np.int16)
    np.bitwise_and(x.view(np.int16)[_UPPER], _SIGN, found)
    found |= odd.astype(np.int16)
    if size.min() < 0:  # zero, and what has fewer digits
        small = (size < 0).nonzero()[0]
        out[small] = x[small]


def lowest(dtype: np.dtype) -> Any:
    """What no element is below: minus infinity, False or the smallest whole number."""
    kind = kind_of(dtype)
    return dtype.type(-np.inf) if kind == "float" else dtype.type(False) if kind == "bool" else np.iinfo(dtype).min


def highest(dtype: np.dtype) -> Any:
    """What no element is above: infinity, True or the largest whole number."""
    kind = kind_of(dtype)
    return dtype.type(np.inf) if kind == "float" else dtype.type(True) if kind == "bool" else np.iinfo(dtype).max


def ordered_bits(x: np.ndarray) -> np.ndarray | None:
    """Numbers of 16 bits that are in the order of these floats of 16 bits, which numpy compares far more slowly.

    None if there is a nan among them.
    """
    bits = x.view(np.int16)
    infinity = np.array(np.inf, x.dtype).view(np.int16)
    return None if ((bits & 0x7FFF) > infinity).any() else _turned(bits)


def from_ordered_bits(bits: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The floats of such numbers."""
    return _turned(bits).view(dtype)


def _turned(bits: np.ndarray) -> np.ndarray:
    """The bits of negative floats turned over, but for the sign: the larger these are the lower the float is."""
    return bits ^ ((bits >> 15) & 0x7FFF)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The matrix product of two arrays of one type: sums of half precision in float32, those of whole numbers wrap around."""
    # the same numbers for less than half the overhead; of two single numbers dot gives the product, -0.0 perhaps, and no sum
    multiply = np.dot if 0 < a.ndim < 3 and 0 < b.ndim < 3 and a.size + b.size != 2 else np.matmul
    if a.dtype.kind == "f" and a.itemsize >= 4:
        return multiply(a, b)
    if kind_of(a.dtype) == "float":
        return narrowed(multiply(once(widened, a), once(widened, b)), a.dtype)
    if a.dtype.kind in "iu" and a.dtype == b.dtype and a.ndim and b.ndim:
        return _whole_product(a, b, multiply)
    return multiply(a, b)


def _whole_product(a: np.ndarray, b: np.ndarray, multiply) -> np.ndarray:
    count = a.shape[-1]
    if a.size * b.shape[-1] < LITTLE or not b.size:
        return multiply(a, b)
    most = _largest(a) * _largest(b) * count
    if most <= EXACT64:
        wide = np.float32 if most <= EXACT32 else np.float64
        return multiply(a.astype(wide), b.astype(wide)).astype(np.int64).astype(a.dtype, copy=False)
    if a.itemsize > 4 or count << 32 > EXACT64:
        return multiply(a, b)
    low_a, high_a, low_b, high_b = (half for x in (a, b) for half in _halves_of(x))
    # What both high halves give is a multiple of 2 ** 32, and so 0 when it wraps around.
    mixed = multiply(low_a, high_b).astype(np.int64) + multiply(high_a, low_b).astype(np.int64)
    return (multiply(low_a, low_b).astype(np.int64) + (mixed << 16)).astype(a.dtype)


def _largest(x: np.ndarray) -> int:
    return max(int(x.max()), -int(x.min()))


def _halves_of(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 16 low bits, and the others, as numbers."""
    return (x & 0xFFFF).astype(np.float64), (x >> 16).astype(np.float64)


# Products of 8-bit numbers, less zero points


def largest_from(dtype: np.dtype, zero_point: np.ndarray | None) -> int:
    """How far from its zero point a number of a type can be."""
    least, most = (0, 0) if zero_point is None else once(_ends, zero_point)
    limits = np.iinfo(dtype)
    return max(limits.max - least, most - limits.min)


def _ends(x: np.ndarray) -> tuple[int, int]:
    return (int(x.item()), int(x.item())) if x.size == 1 else (int(x.min()), int(x.max()))


def centred(x: np.ndarray, zero_point: np.ndarray | None) -> np.ndarray:
    """Numbers of 8 bits less their zero point, in float32."""
    wide = x.astype(np.float32)
    if zero_point is not None and (zero_point.size > 1 or zero_point.item()):
        wide -= zero_point.astype(np.float32)
    return wide


def exact_terms(largest_a: int, largest_b: int) -> int:
    """How many products of such numbers float32 adds up exactly."""
    return EXACT32 // max(largest_a * largest_b, 1)


def exact_product(a: np.ndarray, b: np.ndarray, terms: int) -> np.ndarray:
    """The product of matrices of whole numbers in float32: as it is, or in int32 if there are more than so many terms."""
    count = a.shape[-1]
    if count <= terms:
        return np.matmul(a, b)
    total = None
    for start in range(0, count, terms):
        part = slice(start, start + terms)
        product = np.matmul(a[..., part], b[part] if b.ndim == 1 else b[..., part, :]).astype(np.int32)
        total = product if total is None else np.add(total, product, out=total if type(total) is np.ndarray else None)
    return total


def as_int32(whole: np.ndarray) -> np.ndarray:
    """Whole numbers as int32, wrapping around if they came in a larger type."""
    return whole.astype(np.int64).astype(np.int32) if whole.itemsize > 4 else whole.astype(np.int32, copy=False)
