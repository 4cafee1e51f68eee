"""What a value was in each iteration of a block: stacked in one array, or one by one in a list, whichever is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mdf_loop.backends.python.numbers import box_of, is_native
from mdf_loop.ir import Scanned
from mdf_loop.step.build import type_of_value
from mdf_loop.step.records import UNKNOWN, Type


class NotStackable(Exception):
    """The values of a block do not make one array."""


class History:
    """A value in each iteration of a block.

    Either form is made from the other when it is first asked for.  ``type`` says what the rows of a list are;
    those that a program holds as Python's own numbers are that there.
    """

    __slots__ = ("_array", "_rows", "is_borrowed", "length", "type")

    def __init__(
        self, array: np.ndarray | None, rows: Sequence[Any] | None, type: Type, length: int, is_borrowed: bool = False
    ) -> None:
        self._array, self._rows, self.type, self.length = array, rows, type, length
        self.is_borrowed = is_borrowed

    @classmethod
    def of_array(cls, array: np.ndarray, is_borrowed: bool = False, type: Type | None = None) -> History:
        """From values stacked on axis 0; borrowed are those in memory that was there before."""
        return cls(array, None, type or type_of_row(array), len(array), is_borrowed)

    @classmethod
    def of_index(cls, index: np.ndarray) -> History:
        """From iteration numbers, one after the other."""
        if index.ndim > 1:
            return cls.of_array(index)
        return cls(index, range(int(index[0]), int(index[-1]) + 1), type_of_row(index), len(index))

    @classmethod
    def of_rows(cls, rows: list[Any], type: Type) -> History:
        """From one value for each iteration, as they are inside a program."""
        return cls(None, rows, type, len(rows))

    @classmethod
    def of_values(cls, values: list[Any], exact: bool = False) -> History:
        """From one value for each iteration, as kernels give them; ``exact`` as in :func:`~mdf_loop.step.build.type_of_value`."""
        type = _common_type(values, exact)
        if type.is_number and not type.weak:
            return cls(np.array(values, type.dtype), None, type, len(values))
        return cls(None, values, type, len(values))

    def stacked(self) -> np.ndarray:
        """One array with the iterations on axis 0.

        Raises
        ------
        NotStackable
            Shapes or types differ, or they are not tensors.
        """
        if self._array is None:
            self._array = self._stack()
        return self._array

    def _stack(self) -> np.ndarray:
        assert self._rows is not None
        if self.type.weak:
            raise NotStackable
        if self.type.is_number:
            return np.array(self._rows, self.type.dtype)
        first = self._rows[0] if self._rows else None
        if not isinstance(first, np.ndarray) or first.dtype.hasobject:
            raise NotStackable
        if any(not isinstance(row, np.ndarray) or row.shape != first.shape or row.dtype != first.dtype for row in self._rows):
            raise NotStackable
        out = np.empty((len(self._rows), *first.shape), first.dtype)
        np.stack(self._rows, out=out)
        return out

    def rows(self) -> Sequence[Any]:
        """One value for each iteration, as a program takes them."""
        if self._rows is None:
            assert self._array is not None
            if is_native(self.type):
                self._rows = self._array.tolist()
            elif self._array.dtype.hasobject:
                self._rows = [self._array[k : k + 1].reshape(self._array.shape[1:]) for k in range(self.length)]
            else:
                self._rows = list(self._array)
        return self._rows

    def values(self) -> Sequence[Any]:
        """One value for each iteration, as kernels take them."""
        if self.type.is_array:
            return [np.asarray(value) for value in self.stacked()]
        if is_native(self.type) and not self.type.weak:
            return list(self.stacked())
        return self.rows()

    def last(self) -> Any:
        """The value of the last iteration, as kernels take it; a copy, so that no block is kept alive."""
        if self._array is not None:
            row = self._array[-1]
            if self.type.is_array:
                return np.asarray(row)
            return row.copy() if isinstance(row, np.ndarray) else row if not self._array.dtype.hasobject else self.rows()[-1]
        assert self._rows is not None
        box, value = box_of(self.type), self._rows[-1]
        if box is not None:
            return box(value)
        return value.copy() if isinstance(value, np.ndarray) and value.base is not None else value

    def head(self, length: int) -> History:
        """The first iterations alone."""
        array = None if self._array is None else self._array[:length]
        rows = None if self._rows is None else self._rows[:length]
        return History(array, rows, self.type, length, self.is_borrowed)

    def shifted(self, first: Any, exact: bool = False) -> History:
        """What the value was one iteration before, ``first`` at the beginning; ``exact`` as in ``of_values``."""
        type = type_of_value(first, exact)
        same = type.dtype is not None and replace(type, shape=self.type.shape) == self.type
        if same and self._array is not None and np.shape(first) == self._array.shape[1:]:
            out = np.empty_like(self._array)
            out[0] = first
            out[1:] = self._array[:-1]
            return History.of_array(out, type=self.type)
        if same:
            is_plain = type.is_number and not type.weak
            start = (first.item() if is_native(type) else first[()]) if is_plain else first
            return History.of_rows([start, *self.rows()[:-1]], type if type.shape == self.type.shape else UNKNOWN)
        return History.of_values([first, *self.values()[:-1]], exact)

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        if self.is_borrowed:
            return 128 * self.length  # for views of it
        if self._array is not None:
            return self._array.nbytes
        first = self._rows[0] if self._rows else None
        return self.length * (first.nbytes if isinstance(first, np.ndarray) else 32)


def type_of_row(array: np.ndarray) -> Type:
    """The type of one iteration's value out of a stacked array."""
    return Type(array.dtype, array.shape[1:]) if array.dtype.kind in "fiubcV" else UNKNOWN


def _common_type(values: Sequence[Any], exact: bool) -> Type:
    """The type that all values have; unknown where they differ."""
    forms = {(value.dtype, value.shape) if type(value) is np.ndarray else None for value in values}
    if len(forms) == 1 and None not in forms:  # a type is made once, not for each
        return type_of_value(values[0], exact)
    types = {type_of_value(value, exact) for value in values}
    return types.pop() if len(types) == 1 else UNKNOWN


def parts_of(scanned: Scanned, array: np.ndarray) -> Callable[[int, int], History]:
    """The function that gives iterations ``start`` to ``start + length`` their parts of a scanned input."""
    rows = rows_of(scanned, array)
    return lambda start, length: History.of_array(rows[start : start + length], is_borrowed=True)


def rows_of(scanned: Scanned, array: np.ndarray) -> np.ndarray:
    """A scanned input with the iterations on axis 0."""
    moved = np.moveaxis(array, scanned.axis, 0)
    if scanned.part is None:
        return moved[scanned.start :: scanned.stride][:: -1 if scanned.reverse else 1]
    windows = sliding_window_view(moved, scanned.part, axis=0)[scanned.start :: scanned.stride]
    axis = scanned.axis % array.ndim
    return np.moveaxis(windows[:: -1 if scanned.reverse else 1], -1, 1 + axis)
