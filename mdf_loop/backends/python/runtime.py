"""What printed programs call besides numpy and the kernels; each refuses what only the interpreter can judge."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import PartialResults
from mdf_loop.ir import Collected
from mdf_loop.kernels.mdf import expression_operators as expression
from mdf_loop.options import Run
from mdf_loop.plan.comparisons import has_nan
from mdf_loop.step.failing import FallBack


class Ended(Exception):
    """A loop that ran as a whole ended early, with what it had computed."""

    def __init__(self, error: PartialResults) -> None:
        self.error = error


def whole(call: Callable[..., Any], run: Run, *operands: Any) -> Any:
    """A loop as an operator; how it ends is how it ends."""
    try:
        return call(run, *operands)
    except PartialResults as error:
        if not isinstance(error, Exception):
            raise
        raise Ended(error) from error


def in_range(number: int, end: int) -> int:
    """A whole number that a type can hold."""
    if -end <= number < end:
        return number
    raise FallBack


def power(a: Any, b: Any) -> Any:
    """The power of two of Python's numbers, of the type that a definition could foretell."""
    if float not in (type(a), type(b)) and b < 0:
        raise FallBack
    found = expression.power(a, b)
    if type(found) is complex:
        raise FallBack
    return found


def numbers_together(values: Sequence[Any]) -> np.ndarray:
    """Collected numbers of Python's own, if they turned out to be of one kind."""
    if len(set(map(type, values))) != 1:
        raise FallBack
    return np.array(values)


def wrapped(number: int, end: int) -> int:
    """A whole number brought back into the range of its type, as arithmetic does."""
    return (number + end) % (2 * end) - end


def trip_count(value: Any) -> int:
    """A trip count that is one integer."""
    array = np.asarray(value)
    if array.size != 1 or array.ndim > 1 or array.dtype.kind not in "iu":
        raise FallBack
    return int(array.item())


def truth(value: Any) -> bool:
    """A condition that is one boolean."""
    if type(value) is bool or type(value) is np.bool_:
        return bool(value)
    array = np.asarray(value)
    if array.size != 1 or array.ndim > 1 or array.dtype != np.bool_:
        raise FallBack
    return bool(array.item())


def divide(a: float, b: float) -> float:
    """The quotient of two floats by numpy's rules."""
    return float(np.divide(a, b))


WHOLE = float(1 << 52)
"""Floats from which on all are whole numbers."""


@functools.cache
def total(function: Callable[..., float], ufunc: np.ufunc) -> Callable[..., float]:
    """A function of Python's math that gives what numpy gives where Python raises an error."""

    def call(*numbers: float) -> float:
        try:
            return function(*numbers)
        except (ValueError, ArithmeticError):
            return float(ufunc(*numbers))

    return call


def _rounding(whole: Callable[[float], int]) -> Callable[[float], float]:
    """A function that rounds a float in one of Python's ways; zeros keep their sign, and what is no finite number stays."""

    @functools.wraps(whole)
    def rounded(x: float) -> float:
        return math.copysign(float(whole(x)), x) if -WHOLE < x < WHOLE else x

    return rounded


floor, ceil, trunc = _rounding(math.floor), _rounding(math.ceil), _rounding(math.trunc)
rint = _rounding(round)


def rows_of(array: Any, axis: int, reverse: bool) -> Any:
    """The parts of a scanned array, one for each iteration."""
    if not isinstance(array, np.ndarray) or array.ndim == 0 or array.dtype == object:
        raise FallBack
    rows = np.moveaxis(array, axis, 0) if axis else array
    return rows[::-1] if reverse else rows


def same_length(*rows: Any) -> int:
    """The number of parts that all scanned arrays have."""
    lengths = set(map(len, rows))
    if len(lengths) != 1:
        raise FallBack
    return lengths.pop()


def stacked(values: Sequence[Any], what: Collected) -> np.ndarray:
    """What was collected, one of each iteration, put together."""
    first = values[0] if values else None
    if not isinstance(first, np.ndarray | np.generic) or first.dtype == object:
        raise FallBack
    if any(v.shape != first.shape or v.dtype != first.dtype for v in values):
        raise FallBack
    whole = np.concatenate(values).reshape(len(values), *first.shape) if first.ndim else np.array(values, first.dtype)
    return arranged(whole, what)


def arranged(whole: np.ndarray, what: Collected) -> np.ndarray:
    """Collected rows along the axis and in the direction that is asked for."""
    if what.reverse:
        whole = whole[::-1]
    return np.moveaxis(whole, 0, what.axis) if what.axis else whole


def expanded(x: Any, shape: Sequence[int]) -> np.ndarray:
    """A value repeated to a shape, in memory of its own."""
    out = np.empty(shape, np.asarray(x).dtype)
    out[...] = x
    return out


def with_put(x: np.ndarray, update: Any, *places: int) -> np.ndarray:
    """A copy of an array with one part replaced."""
    out = x.copy()
    out[places] = update
    return out


def inserted(x: np.ndarray, row: Any, place: int) -> np.ndarray:
    """A copy of an array with one row more."""
    out = np.empty((len(x) + 1, *x.shape[1:]), x.dtype)
    out[:place], out[place], out[place + 1 :] = x[:place], row, x[place:]
    return out


def erased(x: np.ndarray, place: int) -> np.ndarray:
    """An array without one row; a copy, but where the row is the first one or the last."""
    if place in (0, len(x) - 1):
        return x[1:] if not place else x[:-1]
    return np.concatenate((x[:place], x[place + 1 :]))


def no_nan(made: Sequence[Any], given: Sequence[Any]) -> bool:
    """False; a run that made nan of finite numbers is left to the interpreter, which says so."""
    if any(map(has_nan, made)) and all(np.isfinite(x).all() for x in given):
        raise FallBack
    return False


def place_in(index: int, length: int) -> int:
    """A place counted from the front."""
    if -length <= index < length:
        return index + length if index < 0 else index
    raise FallBack
