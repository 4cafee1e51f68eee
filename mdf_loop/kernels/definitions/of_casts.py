"""Element types changed: what ONNX says of it, in conversions of numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.numbers.casting import DIRECT, E8M0, LARGEST, WITHOUT_INFINITY, width
from mdf_loop.ops.registry import definition
from mdf_loop.types.elements import DTYPES, NAMES, kind_of


def converted(b: Any, x: Any, dtype: np.dtype | None, saturate: int = 1, infinity_to_nan: bool = False) -> Any:
    """The kernel's conversion, but for texts and powers of two."""
    source = x.type.dtype
    if source == dtype:
        return x
    if source in DIRECT and dtype in DIRECT:
        return b.cast(x, dtype)
    if dtype is None or dtype == E8M0 or {kind_of(source), kind_of(dtype)} & {"complex", "string", "other"}:
        raise ValueError("a conversion that is not made of numpy's")
    if source not in DIRECT:
        x = b.cast(x, np.dtype(np.float32))
    if dtype in LARGEST and saturate:
        return _saturated(b, x, dtype, infinity_to_nan)
    return b.cast(x, dtype)


def _saturated(b: Any, x: Any, dtype: np.dtype, infinity_to_nan: bool) -> Any:
    wide = x if x.type.dtype == np.float32 else b.cast(x, np.dtype(np.float64))
    limit = LARGEST[dtype]
    limited = b.min(b.max(wide, -limit), limit)
    if infinity_to_nan and dtype in WITHOUT_INFINITY:
        limited = b.select(b.eq(b.abs(wide), np.inf), np.nan, limited)
    return b.cast(limited, dtype)


@definition("Cast", until=6)
def cast_1(b, x, *, to):
    """Another element type, by name."""
    return converted(b, x, NAMES.get(to.lower()))


@definition("Cast", since=6, until=24)
def cast_6(b, x, *, to, saturate=1):
    """Another element type."""
    return converted(b, x, DTYPES.get(to), saturate, infinity_to_nan=True)


@definition("Cast", since=24)
def cast(b, x, *, to, saturate=1, round_mode="up"):
    """Another element type."""
    return converted(b, x, DTYPES.get(to), saturate)


@definition("CastLike", since=15, until=24)
def cast_like_15(b, x, like, *, saturate=1):
    """The element type of another value."""
    return converted(b, x, like.type.dtype, saturate, infinity_to_nan=True)


@definition("CastLike", since=24)
def cast_like(b, x, like, *, saturate=1, round_mode="up"):
    """The element type of another value."""
    return converted(b, x, like.type.dtype, saturate)


@definition("BitCast", since=26)
def bit_cast(b, x, *, to):
    """The same bits, read as another type of the same width."""
    dtype = DTYPES.get(to)
    if dtype is None or "string" in (kind_of(dtype), kind_of(x.type.dtype)) or width(dtype) != width(x.type.dtype):
        raise ValueError("not a type of the same width")
    return b.bitcast(x, dtype)
