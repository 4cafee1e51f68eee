"""What kind of value a name holds inside an emitted function, and how values get in and out.

Numbers of float64, int64 and bool without dimensions live there as Python's own, which cost a tenth of numpy's;
other numbers without dimensions as numpy's scalars; arrays as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

FLOAT, INT, BOOL, SCALAR, ARRAY, OTHER = "float", "int", "bool", "scalar", "array", "other"
FLOAT64, INT64, TRUTH = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)


@dataclass(frozen=True)
class Kind:
    """A form, and what is known with it.

    ``weak`` numbers came as Python's own (MDF bodies) and must stay so.  The shape of an array is None where it
    may change from iteration to iteration.  ``is_array`` says of a number that it is an array without dimensions
    outside: bodies without types hand on what they are given, so there that is told apart from numpy's scalars.
    """

    form: str
    dtype: np.dtype | None = None
    shape: tuple[int, ...] | None = ()
    weak: bool = False
    is_array: bool = False

    @property
    def is_number(self) -> bool:
        """Whether it is one of Python's numbers inside."""
        return self.form in (FLOAT, INT, BOOL)

    @property
    def is_open(self) -> bool:
        """Whether it is an array whose shape may change from iteration to iteration."""
        return self.form == ARRAY and self.shape is None


class Changed(Exception):
    """A value is not of the kind that a function was emitted for."""


PYTHON = {float: Kind(FLOAT, FLOAT64, weak=True), int: Kind(INT, INT64, weak=True), bool: Kind(BOOL, TRUTH, weak=True)}
"""Python's own numbers, which are weak."""
PYTHON_BY_KIND = {"f": PYTHON[float], "i": PYTHON[int], "b": PYTHON[bool]}
_NATIVE = {FLOAT64: Kind(FLOAT, FLOAT64), INT64: Kind(INT, INT64), TRUTH: Kind(BOOL, TRUTH)}


def kind_of_value(value: Any, exact: bool = False) -> Kind:
    """The kind of a value; ``exact`` tells arrays without dimensions from numpy's scalars."""
    found = PYTHON.get(type(value))
    if found is not None:
        return found
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind not in "fiubcV":
        return Kind(OTHER)
    if value.shape == ():
        found = _NATIVE.get(value.dtype) or Kind(SCALAR, value.dtype)
        return replace(found, is_array=True) if exact and isinstance(value, np.ndarray) else found
    return Kind(ARRAY, value.dtype, value.shape)


def common_kind(one: Kind, other: Kind) -> Kind:
    """The kind of a value that is now one, now the other."""
    if one == other:
        return one
    if (one.form, one.dtype) == (other.form, other.dtype) == (ARRAY, one.dtype):
        return Kind(ARRAY, one.dtype, None)
    return Kind(OTHER)


def into(kind: Kind, exact: bool = False) -> Callable[[Any], Any]:
    """The function that makes a value from outside what it is inside; it raises Changed for another kind of value."""

    def checked(value: Any) -> Any:
        found = kind_of_value(value, exact)
        if found != kind and not (kind.shape is None and (found.form, found.dtype) == (kind.form, kind.dtype)):
            raise Changed
        if kind.weak or kind.form not in (FLOAT, INT, BOOL, SCALAR):
            return value
        return value.item() if kind.form != SCALAR else value[()]

    return checked if kind.form != OTHER else lambda value: value


def as_float(value: Any) -> float:
    """A float64 without dimensions as a Python number."""
    if type(value) is np.float64 or (type(value) is np.ndarray and value.shape == () and value.dtype == FLOAT64):
        return value.item()
    raise Changed


def as_int(value: Any) -> int:
    """An int64 without dimensions as a Python number."""
    if type(value) is np.int64 or (type(value) is np.ndarray and value.shape == () and value.dtype == INT64):
        return value.item()
    raise Changed


def as_bool(value: Any) -> bool:
    """A truth value without dimensions as Python's."""
    if type(value) is np.bool_ or (type(value) is np.ndarray and value.shape == () and value.dtype == TRUTH):
        return value.item()
    raise Changed


def out_of(kind: Kind, value: Any) -> Any:
    """A value from inside as it is outside; it keeps no block of iterations alive."""
    if kind.is_number and not kind.weak:
        value = TO_KERNEL[kind.form](value)
    if kind.is_array:
        return np.asarray(value)
    return value.copy() if isinstance(value, np.ndarray) and value.base is not None else value


FROM_KERNEL = {FLOAT: as_float, INT: as_int, BOOL: as_bool}
TO_KERNEL = {FLOAT: np.float64, INT: np.int64, BOOL: np.bool_}
