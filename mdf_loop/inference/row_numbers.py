"""Which random streams the rows of a simulator draw from: no two rows get the same ones by accident."""

from __future__ import annotations

import os
import secrets
import threading
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, KindError
from mdf_loop.settings.random_streams import RandomStream, Seed
from mdf_loop.sweeps.seeds import streams_of
from mdf_loop.types.fitting import as_array

AHEAD = 1024
"""Streams that are begun at once for calls of few rows: many take hardly longer than one."""

LARGEST_ROW = (1 << 63) - 1


class RowNumbers:
    """The numbers of rows, which count on from call to call, and the streams that begin with them.

    A copy of it - pickled, or in a forked process - goes on at a number drawn at random: it would repeat rows otherwise.

    Parameters
    ----------
    seed : int or SeedSequence, optional
        Of the simulator; drawn if it is not given.
    trials : int
        How many streams a row has.
    """

    def __init__(self, seed: Seed | None, trials: int) -> None:
        self.seed: Seed = RandomStream(seed).seed
        self.trials = trials
        self._begin(0)

    def _begin(self, first: int) -> None:
        self._next, self._process, self._lock = first, os.getpid(), threading.Lock()
        self._ahead: tuple[int, int, np.ndarray] = (first, first, np.zeros((0, 4), np.uint64))

    def __getstate__(self) -> dict[str, Any]:
        return {"seed": self.seed, "trials": self.trials}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.seed, self.trials = state["seed"], state["trials"]
        self._begin(_anywhere())

    def take(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The next numbers, and their streams."""
        if os.getpid() != self._process:
            self._begin(_anywhere())
        with self._lock:
            first, self._next = self._next, self._next + count
            return np.arange(first, first + count), self._begun(first, count)

    def _begun(self, first: int, count: int) -> np.ndarray:
        """Streams that begin: of few rows out of those that were made ahead."""
        if count * self.trials > AHEAD // 2:
            return self.streams(np.arange(first, first + count))
        start, stop, made = self._ahead
        if first + count > stop:
            start, stop = first, first + max(AHEAD // self.trials, count)
            self._ahead = start, stop, made = start, stop, self.streams(np.arange(start, stop))
        return made[(first - start) * self.trials : (first - start + count) * self.trials]

    def streams(self, rows: np.ndarray) -> np.ndarray:
        """The streams of all trials of some rows, each a row of words."""
        trials = np.arange(len(rows) * self.trials) % self.trials
        return streams_of(self.seed, rows.repeat(self.trials), trials)

    @staticmethod
    def given(seed: Any, count: int) -> np.ndarray:
        """Numbers that a caller gives for the rows of a call: one for each, or the same for all.

        Raises
        ------
        KindError, ArgumentError
        """
        numbers = as_array(seed, "seed")
        if numbers.dtype.kind not in "iu":
            raise KindError(f"seed must be whole numbers, one for each row; got {numbers.dtype} of shape {numbers.shape}")
        if numbers.shape not in ((), (count,)):
            raise ArgumentError(f"seed has one number for each of {count} rows; got the shape {numbers.shape}")
        if numbers.size and (numbers.min() < 0 or numbers.max() > LARGEST_ROW):
            raise ArgumentError("the seed of a row is a number from 0 to 2 ** 63 - 1")
        return np.broadcast_to(numbers.astype(np.int64), count)


def _anywhere() -> int:
    """A number so large that counting from it meets no other row."""
    return (1 << 62) + secrets.randbits(61)
