"""Values of many lanes: a name stands for one value that is the same in all of them, or for a row for each.

Lanes are the first axis, and what stands side by side in memory: arithmetic, and sums and maxima along the axes of a row, then
go through all lanes at once, many times as fast as through a few elements for each lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdf_loop.sweeps.lanes.exact import NotBatched


@dataclass
class LaneTable:
    """Values of the lanes that run: those that are the same in all, and those that are stacked.

    Stacked values that are ``weak`` stand for numbers of Python's, which have no type of their own: see
    :mod:`mdf_loop.sweeps.lanes.weak`.  ``running`` counts those that are ``alive``.
    ``version`` changes whenever a value becomes stacked or weak, or stops.
    ``iteration`` makes one as long as it is ``iteration_version``.
    """

    ids: np.ndarray
    alive: np.ndarray
    running: int
    env: dict[str, Any] = field(default_factory=dict)
    stacked: set[str] = field(default_factory=set)
    weak: set[str] = field(default_factory=set)
    version: int = 0
    iteration: Callable[[dict[str, Any]], None] | None = None
    iteration_version: int = -1

    def set(self, name: str, value: Any, is_stacked: bool, is_weak: bool = False) -> None:
        """Give a name a value."""
        self.env[name] = value
        for holds, names in ((is_stacked, self.stacked), (is_weak, self.weak)):
            if holds != (name in names):
                self.version += 1
                (names.add if holds else names.remove)(name)

    def rows(self, name: str) -> np.ndarray:
        """A value of each lane."""
        value = self.env[name]
        return value if name in self.stacked else np.broadcast_to(value, (len(self.ids), *np.shape(value)))

    def keep(self, lanes: np.ndarray, names: Iterable[str]) -> None:
        """Forget all lanes but some."""
        for name in names:
            if name in self.stacked:
                self.env[name] = some(self.env[name], lanes)
        self.ids, self.alive, self.running = self.ids[lanes], self.alive[lanes], len(lanes)


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
