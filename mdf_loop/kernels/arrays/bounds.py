"""Bounds of what an expression may make out of nothing: digits of whole numbers, elements of arrays.

A text of a few characters can ask for a number or an array that no memory holds: ``2 ** 2 ** 2 ** 2 ** 2 ** 2``,
``numpy.ones((10 ** 9, 10 ** 9))``.  Where a result is as large as a *value* says, rather than as large as the arguments
are, its size is looked at before it is made.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.options import current_options

MOST_BITS = 1 << 16
"""Python integers have no end: a product, power or shift that would need more bits than this is refused."""

MOST_DIGITS = 20_000
"""A whole number of so many bits has fewer, and a float too."""

MOST_ELEMENTS = 1 << 26
"""So many elements an expression may make; ``options(trusted=True)`` lets it make more."""

SOME_BYTES = 1 << 40
"""Bytes of one value at the most where the system does not say how much memory there is."""

LIMITS = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
"""Where Linux says how much memory a container may have."""


@functools.cache
def most_bytes() -> int:
    """Bytes that one value may have whose lengths a model's numbers say: half of the memory that there is for this process."""
    found = [SOME_BYTES]
    with contextlib.suppress(AttributeError, ValueError, OSError):  # a system that does not say
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for place in LIMITS:
        with contextlib.suppress(OSError, ValueError):  # there is none, or no limit
            found.append(int(Path(place).read_text()))
    return max(min(n for n in found if n > 0) // 2, 1)


def shape_for(lengths: Iterable[Any], itemsize: int = 1, what: str = "the result") -> tuple[int, ...]:
    """Lengths that a model's numbers say, as a shape for which there can be memory.

    Raises
    ------
    ValueError
        One is negative.
    OverflowError
        There is no memory for so many elements.
    """
    shape = tuple(map(int, lengths))
    if min(shape, default=0) < 0:
        raise ValueError(f"{what} would have the shape {list(shape)}; lengths are not negative")
    if math.prod(filter(None, shape)) * max(itemsize, 1) > most_bytes():
        raise OverflowError(f"{what} would have the shape {list(shape)}, for which there is no memory")
    return shape


def refuse_bits(bits: int, what: str) -> None:
    """See that a whole number does not become too long.

    Raises
    ------
    OverflowError
    """
    if bits > MOST_BITS:
        raise OverflowError(f"{what} has more than {MOST_BITS} bits")


def refuse_digits(digits: Any) -> None:
    """See that a number is rounded to digits that it may have: Python and numpy count powers of ten, one by one.

    Raises
    ------
    OverflowError
    """
    if digits is not None and abs(digits) > MOST_DIGITS:
        raise OverflowError(f"a number is rounded to at most {MOST_DIGITS} digits")


def refuse_elements(count: Any, what: str) -> None:
    """See that an array or list does not become too large.

    Raises
    ------
    OverflowError
    """
    refuse_unaddressed(count, what)
    if count > MOST_ELEMENTS and not current_options().trusted:
        raise OverflowError(
            f"{what} would have more than {MOST_ELEMENTS} elements; options(trusted=True) lets a model that you trust make them"
        )


def refuse_unbounded(what: str, *values: Any) -> None:
    """See that numpy is not given whole numbers of more than 64 bits: it would multiply them without an end.

    Raises
    ------
    OverflowError
    TypeError
        One is a text.
    """
    for value in values:
        if isinstance(value, np.ndarray) and value.dtype.hasobject and any(isinstance(item, str) for item in value.flat):
            raise TypeError(f"{what} needs numbers; one of them is a text")
        is_long = value.bit_length() > 64 if type(value) is int else isinstance(value, np.ndarray) and value.dtype.hasobject
        if is_long:
            raise OverflowError(f"{what} of whole numbers of more than 64 bits")


def elements_of(shape: Sequence[int]) -> int:
    """How many elements a shape has; exact, since a negative or huge length is refused by someone else."""
    return math.prod(max(int(length), 0) for length in shape)


def refuse_unaddressed(count: Any, what: str) -> None:
    """See that there can be memory for an array at all.

    ``numpy.repeat`` and ``numpy.tile`` do not look: they write where they have no memory once its size exceeds 64 bits.

    Raises
    ------
    OverflowError
    """
    if count > most_bytes():
        raise OverflowError(f"{what} would have {count} elements, for which there is no memory")


def refuse_shape(shape: Any, what: str) -> None:
    """:func:`refuse_elements` of an array with this shape, a number or a tuple of them."""
    refuse_elements(elements_of(shape if isinstance(shape, tuple) else (shape,)), what)


def refuse_broadcast(what: str, *values: Any) -> None:
    """:func:`refuse_elements` of arrays that are brought to one shape; shapes that do not fit are not meant."""
    shapes = [np.shape(value) for value in values]
    if elements_of([elements_of(shape) for shape in shapes]) <= MOST_ELEMENTS:
        return
    try:
        refuse_elements(elements_of(np.broadcast_shapes(*shapes)), what)
    except ValueError:
        return


def refuse_product(what: str, a: Any, b: Any, axes: int = 1) -> None:
    """:func:`refuse_elements` of a tensor product over so many axes."""
    left, right = np.shape(a), np.shape(b)
    refuse_elements(elements_of(left[: len(left) - axes]) * elements_of(right[axes:]), what)


def refuse_matmul(a: Any, b: Any) -> None:
    """:func:`refuse_elements` of a product of matrices, or of rows of them."""
    left, right = np.shape(a), np.shape(b)
    if elements_of(left) * elements_of(right) <= MOST_ELEMENTS:
        return
    try:
        rows = elements_of(np.broadcast_shapes(left[:-2], right[:-2]))
    except ValueError:
        return
    refuse_elements(rows * elements_of(left[-2:-1]) * elements_of(right[-1:] if len(right) > 1 else ()), "a product")


def total(value: Any, known: dict[int, int] | None = None) -> int:
    """How many values a Python list holds, those of the lists in it counted each time; characters of a text."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, np.ndarray):
        return int(value.size)
    if not isinstance(value, list | tuple | dict):
        return 1
    known = {} if known is None else known
    if id(value) not in known:
        items = [*value.values()] if isinstance(value, dict) else value
        single = set(map(type, items)) <= {bool, int, float, complex, type(None)}  # a long row is looked at in no time
        known[id(value)] = len(items) + 1 if single else sum(total(item, known) for item in items) + 1
    return known[id(value)]
