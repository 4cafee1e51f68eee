"""Values of many lanes: one that is the same in all of them, or a row for each.

Lanes are the first axis, and what stands side by side in memory: arithmetic, and sums and maxima along the axes of a row, then
go through all lanes at once, many times as fast as through a few elements for each lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mdf_loop.ir import Scanned


class NotBatched(Exception):
    """Something that is run lane by lane; says what."""


class LaneColumn(NamedTuple):
    """A value in all lanes: what it is in the first one, and the one that is the same in all or a row for each."""

    first: Any
    values: Any
    is_stacked: bool

    def cut_up(self, part: Scanned) -> LaneColumn:
        """The parts that iterations get of it, in order."""
        along = np.moveaxis(self.values, 1, 0) if self.is_stacked else self.values
        return LaneColumn(self.first[part.start], along[part.start :: part.stride][:: -1 if part.reverse else 1], self.is_stacked)


def stacked(values: Sequence[Any], places: np.ndarray, name: str) -> tuple[Any, bool]:
    """The values of one name in all lanes: one that is the same in all, or a row for each.

    Parameters
    ----------
    values : sequence
        Those that there are.
    places : array of int
        Which of them each lane has.
    name : str

    Raises
    ------
    NotBatched
        They differ in type or shape.
    """
    first = values[0]
    if all(_is_equal(first, value) for value in values[1:]):
        return first, False
    if not all(isinstance(value, np.ndarray | np.generic) for value in values):
        raise NotBatched(f"{name!r} is no array")
    if len({(value.dtype, value.shape) for value in values}) > 1 or first.dtype.hasobject:
        raise NotBatched(f"{name!r} differs in type or shape")
    return some(np.stack(values), places), True


def some(rows: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    """The rows of some lanes, side by side in memory."""
    return np.moveaxis(np.moveaxis(rows, 0, -1).take(lanes, axis=-1), -1, 0)


def _is_equal(one: Any, other: Any) -> bool:
    if not isinstance(one, np.ndarray | np.generic) or not isinstance(other, np.ndarray | np.generic):
        return one is other
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


@dataclass
class Columns:
    """What a loop gave in all lanes.

    Attributes
    ----------
    values : list of array
        Carried, then last values, one row a lane; None where they are not asked for.
    collected : list of array or None
        Collected values: lanes, iterations, then the value's own axes; None where they are not asked for.
    lengths : array
        How many iterations each lane ran.
    """

    values: list[np.ndarray | None]
    collected: list[np.ndarray | None]
    lengths: np.ndarray

    def results(self, lane: int) -> list[Any]:
        """The results of one lane, as the loop itself gives them."""
        length = self.lengths[lane]
        rows = [None if column is None else column[lane, :length].copy() for column in self.collected]
        return [*(None if column is None else column[lane, ...].copy() for column in self.values), *rows]
