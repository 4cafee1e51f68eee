"""What moves when a model is explored: its numbers, from where to where, and where each begins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, KindError, in_words, unknown_name
from mdf_loop.models.model import Model
from mdf_loop.readers.arguments import is_called, names_in

STEPS = 100
"""Places of a slider."""


@dataclass(frozen=True)
class Range:
    """From where to where an input moves.

    Attributes
    ----------
    low, high : number
    start : number
        Where it begins: the default of the model if that is inside.
    step : number
        Between two places; whole numbers move by whole numbers.
    """

    low: float
    high: float
    start: float
    step: float

    @property
    def is_whole(self) -> bool:
        """Whether it moves by whole numbers."""
        return isinstance(self.step, int)


def ranges_of(model: Model, over: Mapping[str, Any]) -> tuple[dict[str, Range], dict[str, Any]]:
    """What moves, and what all runs are given: a tuple is a range, anything else a value.

    Without a range, all numbers of the model that have a default move, from a tenth to twice of it.

    Raises
    ------
    ArgumentError, KindError
        There is no such input, a range is none, or there is nothing that could move.
    """
    for name in over:
        if not model.takes(name):
            error = unknown_name("the model has no input called", name, model.inputs)
            error.args = (f"{error}; write {names_in(over[name], '{}=(low, high)')}" if is_called(name, "over") else str(error),)
            raise error
    given = {name: value for name, value in over.items() if not isinstance(value, tuple)}
    ranges = {name: _said(name, ends, _default(model, name)) for name, ends in over.items() if isinstance(ends, tuple)}
    if not ranges:
        found = {name: _default(model, name) for name in model.inputs if name not in given}
        ranges = {name: _around(default) for name, default in found.items() if default is not None}
    if not ranges:
        raise ArgumentError("the model has no number with a default that could move; give ranges, such as explore(rate=(0, 2))")
    return ranges, given


def _default(model: Model, name: str) -> float | None:
    """The value of an input or a constant where none is given; None if that is no finite number."""
    known = {**getattr(model, "constants", {}), **model.inputs}
    port = known.get(name, known.get(name.rpartition(".")[2]))
    return _number(None if port is None else port.default)


def _number(value: Any) -> float | None:
    if isinstance(value, str | dict) or np.ndim(value) or np.asarray(value).dtype.kind not in "iuf":
        return None
    plain: float = np.asarray(value).item()
    return plain if math.isfinite(plain) else None


def _said(name: str, ends: tuple[Any, ...], default: float | None) -> Range:
    """The range that two numbers are."""
    numbers = [number for number in map(_number, ends) if number is not None]
    if len(ends) != 2 or len(numbers) != 2:
        raise KindError(f"{name} must be (from, to), two finite numbers, or a value that is not a tuple; got {in_words(ends)}")
    low, high = numbers
    if low >= high:
        raise ArgumentError(f"{name} must be (from, to) with from below to; got ({low:g}, {high:g})")
    is_whole = all(isinstance(number, int) for number in (low, high, default))
    start = default if default is not None and low <= default <= high else low + (high - low) / 2
    return Range(low, high, start, max(1, round((high - low) / STEPS)) if is_whole else (high - low) / STEPS)


def _around(default: float) -> Range:
    """The range around a number: of one sign, and without zero, with which a step of time would never end a loop."""
    if isinstance(default, int):
        return Range(min(0, 2 * default), max(10, 2 * default), default, max(1, abs(default) // 50))
    if default == 0:
        return Range(-1.0, 1.0, 0.0, 0.02)
    low, high = sorted((default / 10, 2 * default))
    return Range(low, high, default, abs(default) / STEPS)
