"""Rows of what is recorded: kept or written as a loop runs, in stretches behind which they are taken away, or at its end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdf_loop.calls.calling import alone_or_all
from mdf_loop.convert.inner_values import Way, in_rows, is_ragged, loops_on, rows_of
from mdf_loop.errors import ArgumentError, CollectedError, keeps_results
from mdf_loop.execute.collect import Gathering
from mdf_loop.execute.interpret import Arguments, Session
from mdf_loop.execute.numpy_engine import NumpyLoop
from mdf_loop.execute.partial_results import keeping
from mdf_loop.ir import Collected
from mdf_loop.models.recordings.zarr_folder import Folder
from mdf_loop.models.written import widened
from mdf_loop.options import Run
from mdf_loop.types.fitting import handed_out, handed_out_partly
from mdf_loop.writers.atomic_files import naming

FIRST, BYTES = 16, 1 << 21
"""Iterations of the first stretch, and bytes that a stretch may record."""


class KeptRows:
    """Every so many rows of those that come, kept in memory: a place may come twice, if a run is broken off in between."""

    def __init__(self, every: int, name: str) -> None:
        self.every, self._name = every, name
        self._shape: tuple[int, ...] | None = None
        self._parts: dict[int, np.ndarray] = {}

    def take(self, at: int, rows: np.ndarray) -> None:
        """Keep some of the rows from a place on; of none at all their type.

        Raises
        ------
        CollectedError
            They have another shape than those before.
        """
        if len(rows):
            if self._shape not in (None, rows.shape[1:]):
                said = f"{self._name!r} has shape {[*self._shape]} in row {at - 1} and {[*rows.shape[1:]]} in row {at}"
                raise CollectedError(f"{said}; what is recorded has one shape: record something of it, such as its sum")
            self._shape = rows.shape[1:]
        first = -at % self.every
        if first < len(rows) or not at:
            self.write((at + first) // self.every, np.array(rows[first :: self.every]))

    def write(self, place: int, rows: np.ndarray) -> None:
        """Keep rows."""
        self._parts[place] = rows

    def result(self) -> Any:
        """All rows, one array."""
        parts = [self._parts[place] for place in sorted(self._parts)]
        return np.concatenate(parts) if parts else None


class ZarrRows(KeptRows):
    """The same written to an array of a zarr folder as they come."""

    def __init__(self, every: int, folder: Folder, name: str) -> None:
        super().__init__(every, name)
        self._folder = folder
        self._array: Any = None

    def write(self, place: int, rows: np.ndarray) -> None:
        """Write rows, behind or over those there are.

        Raises
        ------
        FileError
        """
        rows = widened(rows)
        with naming(self._folder.place, what="written"):
            if self._array is None:
                self._array = self._new(rows)
            elif (dtype := np.result_type(self._array.dtype, rows.dtype)) != self._array.dtype:  # whole numbers came first
                before = self._array[...].astype(dtype)
                self._array = self._new(before)
                self._array.resize(before.shape)
                self._array[...] = before
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
            overwrite=True,
            dimension_names=("iteration", *(f"{self._name}_{k}" for k in range(rows.ndim - 1))),
            fill_value=np.nan if rows.dtype.kind in "fc" else None,  # where the run is killed before it writes them
        )

    def result(self) -> Any:
        """The array of zarr, which reads what is asked of it."""
        return self._array


class Draining(Gathering):
    """A collected value that is handed over as rows, and not kept.

    Attributes
    ----------
    rows : KeptRows
    offset : int
        How many iterations there were before these.
    done : int
        How many of these are handed over.
    """

    def __init__(self, what: Collected, rows: KeptRows, offset: int = 0) -> None:
        super().__init__(what)
        self.rows, self.offset, self.done = rows, offset, 0

    def drain(self, iterations: int) -> int:
        """Hand over all values up to so many iterations; the bytes of one of them."""
        values = super().array(iterations)  # which calls cut
        if values is None:
            return 0
        self.rows.take(self.offset + self.done, values)
        self.values, self._blocks, self.done = [], None, iterations
        return values[:1].nbytes

    def add_block(self, values: Any, length: int, most: int | None = None) -> None:
        """Keep the values of a block; there is no room for all of them."""
        super().add_block(values, length, None)

    def cut(self, iterations: int) -> None:
        """Forget the values behind those of so many iterations."""
        super().cut(max(iterations - self.done, 0))

    def array(self, iterations: int | None = None) -> Any:
        """All rows, once the rest is handed over."""
        if iterations is not None:
            self.drain(iterations)
        return self.rows.result()


@dataclass
class Recorder:
    """What is recorded of a run, and how.

    Attributes
    ----------
    every : int
    folder : Folder or None
        Where it is written; None keeps it in memory.
    before : mapping of str to list
        What was recorded before the loop begins, which counts as the first iterations; None where there was no value.
    found : dict of str to value
        What was recorded so far, by the names that were asked for.
    """

    every: int = 1
    folder: Folder | None = None
    before: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def is_draining(self) -> bool:
        """Whether what is recorded is taken away while the loop runs."""
        return self.every > 1 or self.folder is not None

    def rows(self, name: str) -> KeptRows:
        """Where the rows of one name go, with those from before the loop."""
        rows = KeptRows(self.every, name) if self.folder is None else ZarrRows(self.every, self.folder, name)
        if before := self.before.get(name):
            rows.take(0, filled(before, name))
        return rows

    def offset(self, name: str) -> int:
        """How many iterations there were before the loop."""
        return len(self.before.get(name, ()))

    def keep(self, name: str, value: Any) -> None:
        """Keep the values of a whole loop: an array, a list where they may differ, or None where there are none."""
        if isinstance(value, list):
            self.found[name] = in_rows([*self.before.get(name, ()), *value][:: self.every])
            return
        rows = self.rows(name)
        if value is not None:
            rows.take(self.offset(name), np.asarray(value))
        self.found[name] = rows.result()

    @contextlib.contextmanager
    def keeping(self) -> Iterator[None]:
        """What ends a run early knows what was recorded."""
        try:
            yield
        except BaseException as error:
            if keeps_results(error):
                error.recorded = getattr(error, "recorded", None) or dict(self.found)
            raise


def filled(rows: Sequence[Any], name: str) -> np.ndarray:
    """Values as rows of one array; those that are not there are nan.

    Raises
    ------
    ArgumentError
        They differ in shape, or one of them is several arrays, such as all results of a loop.
    """
    with contextlib.suppress(ValueError):
        found = in_rows([None if row is None else np.asarray(row) for row in rows])
        if isinstance(found, np.ndarray):
            return found
    raise ArgumentError(f"{name!r} is several values of different shapes, which cannot be rows of an array; record each of them")


@dataclass
class LoopRecording:
    """A loop whose last results are what is recorded of it.

    Attributes
    ----------
    execute : NumpyLoop
    ways : mapping of str to Way
        The ways to these, through the loop itself, by the names that they are recorded under.
    recorder : Recorder
    """

    execute: NumpyLoop
    ways: Mapping[str, Way]
    recorder: Recorder

    def run(self, arguments: Arguments, run: Run) -> Any:
        """What the loop gives without a recording; what is recorded goes to the recorder.

        Raises
        ------
        PartialResults
            ``.partial`` is what the loop itself had computed.
        """
        with self.recorder.keeping():
            return keeping(run, lambda: alone_or_all(handed_out(self.results(arguments, run))))

    def results(self, arguments: Arguments, run: Run) -> list[Any]:
        """The same as a list, whose values cannot be changed."""
        run.finish = lambda results: handed_out_partly(self._taken(results))
        return self._taken(self._results(arguments, run))

    def _taken(self, results: list[Any]) -> list[Any]:
        """The results of the loop itself, without what is recorded."""
        begin = len(results) - len(self.ways)
        for (name, way), value in zip(self.ways.items(), results[begin:], strict=True):
            if self._is_drained(way):
                self.recorder.found[name] = value
            else:
                self.recorder.keep(name, rows_of(value, loops_on(way)))
        return results[:begin]

    def _is_drained(self, way: Way) -> bool:
        """Whether rows are taken away while the loop runs: none that may differ."""
        return self.recorder.is_draining and not is_ragged(way[1:])

    def _results(self, arguments: Arguments, run: Run) -> list[Any]:
        if not self.recorder.is_draining:
            return self.execute.results(arguments, run)
        session = self.execute.begin(arguments, run)
        gatherings = session.progress.gatherings
        drained: list[Draining] = []
        for k, (name, way) in enumerate(self.ways.items(), len(gatherings) - len(self.ways)):
            if self._is_drained(way):
                gatherings[k] = made = Draining(gatherings[k].what, self.recorder.rows(name), self.recorder.offset(name))
                drained.append(made)
        self._in_stretches(session, drained)
        results = self.execute.conclude(session)
        session.progress.end(results)
        return results

    def _in_stretches(self, session: Session, drained: Sequence[Draining]) -> None:
        """Run the loop to its end; the stretches grow up to so many bytes."""
        length = FIRST
        while session.goes_on():
            self.execute.advance(session, session.moment.iteration + length)
            each = sum(gathering.drain(session.moment.iteration) for gathering in drained)
            length = max(min(4 * length, BYTES // max(each, 1)), 1)
