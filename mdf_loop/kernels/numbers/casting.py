"""Changing element types: Cast, CastLike and BitCast, numbers as texts included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.ops.batching import Result, elementwise
from mdf_loop.ops.registry import kernel, say
from mdf_loop.ops.rows import Call, Known
from mdf_loop.types.elements import DTYPES, NAMES, kind_of

TEXT, BFLOAT16, E8M0 = DTYPES[8], DTYPES[16], DTYPES[24]

DIRECT = {d for d in DTYPES.values() if d.isbuiltin == 1 and d.kind in "biuf"} | {BFLOAT16}
"""Types between which ``astype`` does what ONNX says."""

LARGEST = {DTYPES[17]: 448.0, DTYPES[18]: 240.0, DTYPES[19]: 57344.0, DTYPES[20]: 57344.0}
"""The float8 types and their largest numbers."""

WITHOUT_INFINITY = {DTYPES[18], DTYPES[20]}
"""The float8 types for which opsets 19 to 23 made NaN of infinity."""


def element_type(to: int) -> np.dtype:
    """The numpy type of a number of ``TensorProto.DataType``.

    Raises
    ------
    ValueError
        There is no such type.
    """
    if to not in DTYPES:
        raise ValueError(f"there is no element type of number {to}; ONNX has {min(DTYPES)} to {max(DTYPES)}")
    return DTYPES[to]


def converted(x: Any, dtype: np.dtype, saturate: int = 1, round_mode: str = "up", infinity_to_nan: bool = False) -> Any:
    """The elements of ``x`` in another type.

    Parameters
    ----------
    saturate : int
        Whether a number too large for a float8 type becomes its largest, rather than NaN or infinity.
    round_mode : {"up", "down", "nearest"}
        Rounding to float8e8m0, which has only powers of two.
    infinity_to_nan : bool
        The reading of opsets 19 to 23: saturation does not hold for infinity in types that have none.

    Raises
    ------
    ValueError
        A text that is not a number.
    TypeError
        A complex type, for which no conversion is defined.
    """
    source = x.dtype
    if source == dtype:
        return x
    if source in DIRECT and dtype in DIRECT:
        return x.astype(dtype)
    if "c" in (source.kind, dtype.kind):
        raise TypeError(f"there is no conversion between {source.name} and {dtype.name}; complex numbers cannot be cast")
    if kind_of(source) == "string":
        return _from_texts(x, dtype, saturate, round_mode, infinity_to_nan)
    if source not in DIRECT:
        x = x.astype(np.float32)  # exact, and not all of the small types know each other
    if dtype == TEXT:
        return printed(x if kind_of(source) == "float" or source in DIRECT else x.astype(np.int8))
    if dtype == E8M0:
        return _power_of_two(x, saturate, round_mode)
    if dtype in LARGEST and saturate:
        return _saturated(x, dtype, infinity_to_nan)
    return x.astype(dtype)


def _from_texts(x: Any, dtype: np.dtype, saturate: int, round_mode: str, infinity_to_nan: bool) -> Any:
    if dtype == TEXT:
        return x.astype(object)
    kind = kind_of(dtype)
    numbers = parsed(x, kind)
    if kind == "integer":  # numpy does not turn texts' whole numbers into the small types
        numbers = numbers.astype(dtype if dtype in DIRECT else np.int64)
    return converted(numbers, dtype, saturate, round_mode, infinity_to_nan)


def _saturated(x: Any, dtype: np.dtype, infinity_to_nan: bool) -> Any:
    wide = x if x.dtype == np.float32 else x.astype(np.float64)
    limit = LARGEST[dtype]
    limited = np.minimum(np.maximum(wide, -limit), limit)
    if infinity_to_nan and dtype in WITHOUT_INFINITY:
        limited = np.where(np.isinf(wide), np.nan, limited)
    return limited.astype(dtype)


def _power_of_two(x: Any, saturate: int, round_mode: str) -> Any:
    """Powers of two from 2**-127 to 2**127, stored as the exponent + 127; 255 is NaN, which negative numbers become too."""
    lowest, highest = 2.0**-127, 2.0**127
    wide = np.where(x < 0, np.nan, x.astype(np.float64))
    if saturate:
        wide = np.minimum(np.maximum(wide, lowest), highest)
    mantissa, exponent = np.frexp(wide)  # mantissa from 1/2 up to 1
    if round_mode == "up":
        exponent = exponent + (mantissa > 0.5)
    elif round_mode == "nearest":
        exponent = exponent + (mantissa >= 0.75)
    elif round_mode != "down":
        raise ValueError(f"round_mode must be up, down or nearest; got {round_mode!r}")
    inside = (wide >= lowest) & (wide <= highest)
    return np.where(inside, exponent + 126, 255).astype(np.uint8).view(E8M0)


@kernel("Cast", batch=elementwise)
def cast_1(x, *, to):
    """x in the type of a name such as FLOAT or INT64."""
    if to.lower() not in NAMES:
        raise ValueError(f"there is no element type {to!r}; ONNX has {', '.join(NAMES).upper()}")
    return converted(x, NAMES[to.lower()])


@kernel("Cast", since=6, batch=elementwise)
def cast_6(x, *, to, saturate=1):
    """x in another type; from infinity to float8 as opsets 19 to 23 have it."""
    return converted(x, element_type(to), saturate, infinity_to_nan=True)


@kernel("Cast", since=24, batch=elementwise)
def cast(x, *, to, saturate=1, round_mode="up"):
    """x in another type; infinity is saturated like any large number."""
    return converted(x, element_type(to), saturate, round_mode)


def of_first(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """The rule for an operator that reads of its second input the type alone."""
    return (run(*args, **attrs),), (stacked[0],)


@kernel("CastLike", since=15, batch=of_first)
def cast_like_15(x, target_type, *, saturate=1):
    """x in the type of another tensor; from infinity to float8 as opsets 19 to 23 have it."""
    return converted(x, target_type.dtype, saturate, infinity_to_nan=True)


@kernel("CastLike", since=24, batch=of_first)
def cast_like(x, target_type, *, saturate=1, round_mode="up"):
    """x in the type of another tensor; infinity is saturated like any large number."""
    return converted(x, target_type.dtype, saturate, round_mode)


@kernel("BitCast", since=26, batch=elementwise)
def bit_cast(x, *, to):
    """The same bits read as another type of the same width."""
    dtype = element_type(to)
    if TEXT in (x.dtype, dtype):
        raise TypeError("texts have no bits to be read as another type")
    if width(x.dtype) != width(dtype):
        raise ValueError(
            f"a type of the same width as {x.dtype.name} ({width(x.dtype)} bits) is needed; {dtype.name} has {width(dtype)}"
        )
    return x.view(dtype)


_NARROW = {DTYPES[21]: 4, DTYPES[22]: 4, DTYPES[23]: 4, DTYPES[25]: 2, DTYPES[26]: 2, DTYPES[27]: 6, DTYPES[28]: 6}
"""Bits of the types that numpy keeps in a byte each."""


def width(dtype: np.dtype) -> int:
    return _NARROW.get(dtype) or 8 * dtype.itemsize


def is_cast_to_itself(x: Known, *, to: int, saturate: int = 1, round_mode: str = "up") -> bool:
    """Whether something is converted to the type that it has."""
    return to in DTYPES and x.dtype is not None and x.dtype == DTYPES[to]


say("Cast", since=6, alias=is_cast_to_itself)
say("CastLike", traced=True)


def printed(x: Any) -> np.ndarray:
    """Each number as a text that reads back as the same number: ``0.1``, ``1.0``, ``-3``, ``NaN``, ``-INF``.

    Truth values are written as the numbers 1 and 0.
    """
    if kind_of(x.dtype) == "float":
        return _each(x if x.dtype.kind == "f" else x.astype(np.float32), _decimal)
    return _each(x, lambda number: str(int(number)))


def _decimal(number: Any) -> str:
    """The fewest digits that tell a number from its neighbours, without an exponent."""
    if np.isnan(number):
        return "NaN"
    if np.isinf(number):
        return "INF" if number > 0 else "-INF"
    return np.format_float_positional(number, trim="0")


def parsed(x: Any, kind: str) -> np.ndarray:
    """Texts as numbers of a kind: float64, bool, or Python's whole numbers, which have no limits.

    Raises
    ------
    ValueError
        A text that is not a number.
    """
    if kind == "integer":
        return _each(x, _whole)
    if kind == "bool":
        return _each(x, _truth).astype(np.bool_)
    return _each(x, float).astype(np.float64)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(float(text))  # "100.5" is 100


def _truth(text: str) -> bool:
    lowered = text.strip().lower()
    return lowered == "true" or (lowered != "false" and float(text) != 0)


def _each(x: Any, change: Callable[[Any], Any]) -> np.ndarray:
    """A function of each element, in an array of objects of the same shape."""
    values = np.empty(np.shape(x), object)
    values.flat = [change(element) for element in np.asarray(x).flat]
    return values
