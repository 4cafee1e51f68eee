"""What is recorded of a long run is taken away while it runs: thinned out, and written to a file where one is named."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.execute.collect import Gathering
from mdf_loop.ir import Collected
from mdf_loop.models.recordings.zarr_folder import Folder, writing
from mdf_loop.models.written import widened

FIRST, BYTES = 16, 1 << 21
"""Iterations of the first stretch, and bytes that a stretch may record."""


class DrainedRows:
    """Rows kept in memory, by place: the same place may be written twice, if whatever struck came in between."""

    def __init__(self) -> None:
        self._parts: dict[int, np.ndarray] = {}

    def write(self, place: int, rows: np.ndarray) -> None:
        """Keep rows."""
        self._parts[place] = rows

    def result(self) -> Any:
        """All rows, one array."""
        parts = [self._parts[place] for place in sorted(self._parts)]
        return np.concatenate(parts) if parts else None


class ZarrRows:
    """Rows written to an array of a zarr folder as they come."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, name
        self._array: Any = None

    def write(self, place: int, rows: np.ndarray) -> None:
        """Write rows, behind or over those there are.

        Raises
        ------
        FileError
        """
        rows = widened(rows)
        with writing(self._folder.place):
            if self._array is None:
                self._array = self._new(rows)
            self._array.resize((place + len(rows), *self._array.shape[1:]))
            self._array[place:] = rows

    def _new(self, rows: np.ndarray) -> Any:
        """An array for rows such as these."""
        each = max(rows[:1].nbytes, 1)
        return self._folder.group.create_array(
            self._name,
            shape=(0, *rows.shape[1:]),
            chunks=(max(min(BYTES // each, 1 << 16), 1), *rows.shape[1:]),
            dtype=rows.dtype,
            dimension_names=("iteration", *(f"{self._name}_{k}" for k in range(rows.ndim - 1))),
            fill_value=np.nan if rows.dtype.kind in "fc" else None,  # where the run is killed before it writes them
        )

    def result(self) -> Any:
        """The array of zarr, which reads what is asked of it."""
        return self._array


class Draining(Gathering):
    """A collected value of which one in so many iterations is handed to a sink, and none is kept.

    Attributes
    ----------
    offset : int
        How many iterations there were before these.
    done : int
        How many of these are handed over.
    """

    def __init__(self, what: Collected, every: int, sink: DrainedRows | ZarrRows, offset: int = 0) -> None:
        super().__init__(what)
        self.every, self.sink, self.offset, self.done = every, sink, offset, 0

    def drain(self, iterations: int) -> int:
        """Hand over all values up to so many iterations; the bytes of one of them."""
        rows = super().array(iterations)  # which calls cut
        if rows is None:
            return 0
        at = self.offset + self.done
        first = -at % self.every
        if first < len(rows):
            self.sink.write((at + first) // self.every, np.array(rows[first :: self.every]))
        self.values, self._blocks, self.done = [], None, iterations
        return rows[:1].nbytes

    def room(self, count: int, shape: tuple[int, ...], dtype: np.dtype, most: int | None) -> None:
        """No memory of the whole result is there to write to."""
        return

    def add_block(self, values: Any, length: int, most: int | None = None) -> None:
        """Keep the values of a block; there is no room for all of them."""
        super().add_block(values, length, None)

    def cut(self, iterations: int) -> None:
        """Forget the values behind those of so many iterations."""
        super().cut(max(iterations - self.done, 0))

    def kept(self, iterations: int) -> Any:
        """:meth:`array` for partial results."""
        return self.array(iterations)

    def array(self, iterations: int | None = None) -> Any:
        """What the sink has, once the rest is handed over."""
        if iterations is not None:
            self.drain(iterations)
        return self.sink.result()
