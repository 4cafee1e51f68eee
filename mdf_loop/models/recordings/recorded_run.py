"""One loop run with a recording: at once, or in stretches behind which what was recorded is taken away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mdf_loop.calls.calling import alone_or_all
from mdf_loop.errors import ArgumentError, keeps_results
from mdf_loop.execute.collect import Gathering
from mdf_loop.execute.interpret import Arguments, Session
from mdf_loop.execute.numpy_engine import NumpyLoop
from mdf_loop.execute.partial_results import keeping
from mdf_loop.ir import Collected, Loop
from mdf_loop.kernels.arrays.sequence_operators import ValueTrace
from mdf_loop.models.recordings.more_outputs import in_rows, recorded_loop, rows_of
from mdf_loop.models.recordings.ways import Way
from mdf_loop.models.recordings.zarr_folder import Folder, writing
from mdf_loop.models.written import widened
from mdf_loop.options import Run
from mdf_loop.types.fitting import handed_out, handed_out_partly

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


@dataclass
class Recorder:
    """What is recorded of a run, and how.

    Attributes
    ----------
    every : int
    folder : Folder or None
        Where it is written; None keeps it in memory.
    before : mapping of str to list
        What was recorded before the loop begins, which counts as the first iterations.
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

    def offset(self, name: str) -> int:
        """How many iterations there were before the loop."""
        return len(self.before.get(name, ()))

    def sink(self, name: str) -> DrainedRows | ZarrRows:
        """Where the values of one name go, with those from before the loop."""
        sink = DrainedRows() if self.folder is None else ZarrRows(self.folder, name)
        if rows := self.before.get(name, ())[:: self.every]:
            sink.write(0, filled(rows, name))
        return sink

    def keep(self, name: str, value: Any) -> None:
        """Keep the values of a whole loop, thinned out."""
        if isinstance(value, list):  # of a loop inside it
            value = [*self.before.get(name, ()), *value][:: self.every]
            self.found[name] = in_rows(value)
            return
        sink, offset = self.sink(name), self.offset(name)
        if value is not None:
            first = -offset % self.every
            sink.write((offset + first) // self.every, np.asarray(value)[first :: self.every])
        self.found[name] = sink.result()


def filled(rows: Sequence[Any], name: str) -> np.ndarray:
    """Values as rows of one array; those that are not there yet are nan.

    Raises
    ------
    ArgumentError
        One of them is several arrays, such as all results of a loop.
    """
    try:
        arrays = [None if row is None else np.asarray(row) for row in rows]
    except ValueError as error:
        raise ArgumentError(
            f"{name!r} is several values of different shapes, which cannot be rows of an array; record each of them"
        ) from error
    known = next((row for row in arrays if row is not None), np.asarray(np.nan))
    return np.stack([np.full(known.shape, np.nan) if row is None else row for row in arrays])


class LoopRecording:
    """A loop that gives what is recorded as well.

    Parameters
    ----------
    loop : Loop
    ways : mapping of str to Way
        The names of what is recorded, and the way to each.
    collected : sequence of str
        Names of what is recorded and collected by the loop already: its last collected values.
    """

    def __init__(self, loop: Loop, ways: Mapping[str, Way], collected: Sequence[str] = ()) -> None:
        record, self.traces, flat = recorded_loop(loop, ways)
        self.ways, self.flat, self.execute = ways, [*collected, *flat], NumpyLoop(record)
        self.n_before = len(loop.carried) + len(loop.last)

    def run(self, arguments: Arguments, run: Run, recorder: Recorder) -> Any:
        """What the loop gives without a recording; what is recorded goes to the recorder.

        Raises
        ------
        PartialResults
            ``.partial`` is what the loop itself had computed.
        """
        try:
            return keeping(run, lambda: alone_or_all(handed_out(self.results_of(arguments, run, recorder))))
        except BaseException as error:
            if not keeps_results(error):
                raise
            error.recorded = dict(recorder.found)
            raise

    def results_of(self, arguments: Arguments, run: Run, recorder: Recorder) -> list[Any]:
        """The same as a list, whose values cannot be changed."""
        run.finish = lambda results: handed_out_partly(self._split(results, recorder))
        return self._split(self._results(arguments, run, recorder), recorder)

    def _split(self, results: list[Any], recorder: Recorder) -> list[Any]:
        """The results of the loop itself, without what is recorded."""
        begin, end = self.n_before, len(results) - len(self.flat)
        behind = begin + len(self.traces)
        for name, trace in zip(self.traces, results[begin:behind], strict=True):
            recorder.keep(name, rows_of(trace or ValueTrace(), self.ways[name]))
        for name, value in zip(self.flat, results[end:], strict=True):
            if recorder.is_draining:
                recorder.found[name] = value
            else:
                recorder.keep(name, value)
        return [*results[:begin], *results[behind:end]]

    def _results(self, arguments: Arguments, run: Run, recorder: Recorder) -> list[Any]:
        if arguments.hidden is not None:
            traces = [state.initial for state in self.execute.loop.body.state[len(arguments.hidden) :]]
            arguments = replace(arguments, hidden=(*arguments.hidden, *traces))
        if not recorder.is_draining:
            return self.execute.results(arguments, run)
        session = self.execute.begin(arguments, run)
        gatherings = session.progress.gatherings
        drained: list[Draining] = []
        for k, name in enumerate(self.flat, len(gatherings) - len(self.flat)):
            made = Draining(gatherings[k].what, recorder.every, recorder.sink(name), recorder.offset(name))
            gatherings[k] = made
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
