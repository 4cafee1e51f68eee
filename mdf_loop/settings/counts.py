"""How often, how many, how far apart: whole numbers that callers give."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, KindError, in_words

LARGEST = (1 << 63) - 1
"""The largest count: that of an int64, as ONNX counts iterations."""


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, of Python or numpy, and no truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_count(value: Any, least: int) -> bool:
    """Whether a value is a whole number from ``least`` up to the largest count."""
    return is_whole(value) and least <= int(value) <= LARGEST


def check_chosen(name: str, value: Any) -> None:
    """See that something is chosen or not.

    Raises
    ------
    ArgumentError
        It is neither True nor False.
    """
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError(f"{name} must be True or False; got {in_words(value)}")


def counted(name: str, value: Any, what: str = "") -> int:
    """A count from 1 on.

    Parameters
    ----------
    name : str
        What it is called, for the message.
    value : int or numpy integer
    what : str, optional
        What it counts, for the message.

    Raises
    ------
    KindError
        It is no whole number.
    ArgumentError
        It is less than 1, or more than an int64 holds.
    """
    if not is_whole(value):
        raise KindError(f"{name} must be a whole number{what and ', ' + what}; got {in_words(value)}")
    if value < 1:
        raise ArgumentError(f"{name} must be at least 1; got {in_words(int(value))}")
    if value > LARGEST:
        raise ArgumentError(f"{name} must be at most {LARGEST}; got {in_words(int(value))}")
    return int(value)
