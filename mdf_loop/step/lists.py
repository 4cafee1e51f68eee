"""Lists as the rows of an array: what a builder makes of them.

A list all of whose elements have one type and one shape is an array with one axis more, as long as the list.  It stays an array
wherever it goes, in loops and branches as well; ``rows`` is that list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.step.records import UNKNOWN, Length, Size, Type, Value


@dataclass(eq=False, repr=False)
class Filling:
    """What is put into a carried list that began empty, seen while its loop is looked at for the first time.

    Attributes
    ----------
    type : Type or None
        The type of the elements; ``UNKNOWN`` where they have several.
    """

    type: Type | None = None

    def note(self, type: Type) -> None:
        """An element of this type was put in."""
        self.type = type if self.type in (None, type) else UNKNOWN


class OfLists:
    """The part of a builder that makes lists."""

    put_in: Callable[..., Value]
    const: Callable[..., Value]

    def rows(self, array: Value | None = None, filling: Filling | None = None) -> Value:
        """The list of an array's rows, or one without elements of which nothing is known but what is put in."""
        return self.put_in("rows", () if array is None else (array,), UNKNOWN, filling)

    def no_rows(self, row: Type) -> Value:
        """The array of a list without elements, of which the type is known."""
        return self.const(np.empty((0, *(n for n in row.shape or () if isinstance(n, int))), row.dtype))

    def insert(self, array: Value, row: Value, place: Value) -> Value:
        """An array with one row more, in front of the one at a place that is in range."""
        return self.put_in("insert", (array, row, place), _of_length(array.type, 1))

    def erase(self, array: Value, place: Value) -> Value:
        """An array without the row at a place that is in range."""
        return self.put_in("erase", (array, place), _of_length(array.type, -1))


def _of_length(type: Type, change: int) -> Type:
    """A type with more rows, or fewer."""
    count, *others = type.shape or ()
    length: Length = count + change if isinstance(count, int) else Size()
    return Type(type.dtype, (length, *others))


def row_of(type: Type) -> Type:
    """The type of a row of an array."""
    return Type(type.dtype, (type.shape or ())[1:])


def row_type(array: Value) -> Type | None:
    """The same, if all is known of it."""
    found = row_of(array.type)
    return found if array.type.shape and found.is_static else None


def is_empty(value: Any) -> bool:
    """Whether a value is a list without elements, of which nothing else is known."""
    return value.op == "rows" and not value.args
