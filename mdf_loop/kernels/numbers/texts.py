"""Numbers written as texts, and texts read as numbers, by the rules of Cast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mdf_loop.types.elements import kind_of


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
