"""One loop run with a recording: at once, or in stretches behind which what was recorded is taken away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mdf_loop.calls.calling import alone_or_all
from mdf_loop.errors import ArgumentError, keeps_results
from mdf_loop.execute.interpret import Arguments, Session
from mdf_loop.execute.numpy_engine import NumpyLoop
from mdf_loop.execute.partial_results import keeping
from mdf_loop.ir import Loop
from mdf_loop.kernels.traces import ValueTrace
from mdf_loop.models.recordings.draining import BYTES, FIRST, DrainedRows, Draining, ZarrRows
from mdf_loop.models.recordings.more_outputs import names_by_way, recorded_loop
from mdf_loop.models.recordings.notes import in_rows, rows_of
from mdf_loop.models.recordings.ways import Way
from mdf_loop.models.recordings.zarr_folder import Folder
from mdf_loop.options import Run
from mdf_loop.types.fitting import handed_out, handed_out_partly


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
        What is recorded of it are its last collected values, and last values behind those of its own: traces.
    names : sequence of str
        What they are called, traces first.
    n_nested : int
        How many traces there are.
    ways : mapping of str to Way, optional
        Where they come from.
    """

    def __init__(self, loop: Loop, names: Sequence[str], n_nested: int = 0, ways: Mapping[str, Way] | None = None) -> None:
        self.ways = ways or {}
        self.names, self.n_nested, self.n_flat = list(names), n_nested, len(names) - n_nested
        self.execute = NumpyLoop(loop)
        self.n_before = len(loop.carried) + len(loop.last) - n_nested

    @classmethod
    def of(cls, loop: Loop, names: Mapping[str, Way], collected: Sequence[str] = ()) -> LoopRecording:
        """A loop of which values are recorded: names that were asked for, and the way to each.

        ``collected`` are names of what is recorded and collected by the loop already: its last collected values.
        """
        ordered = names_by_way(names)
        record, n_nested = recorded_loop(loop, [way for _, way in ordered])
        found = [name for name, _ in ordered]
        return cls(record, [*found[:n_nested], *collected, *found[n_nested:]], n_nested, names)

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
        end, place = len(results) - self.n_flat, self.n_before
        for name, trace in zip(self.names, results[place : place + self.n_nested], strict=False):
            recorder.keep(name, rows_of(trace or ValueTrace(), self.ways[name]))
        for name, value in zip(self.names[self.n_nested :], results[end:], strict=True):
            if recorder.is_draining:
                recorder.found[name] = value
            else:
                recorder.keep(name, value)
        return [*results[:place], *results[place + self.n_nested : end]]

    def _results(self, arguments: Arguments, run: Run, recorder: Recorder) -> list[Any]:
        if arguments.hidden is not None:
            traces = [state.initial for state in self.execute.loop.body.state[len(arguments.hidden) :]]
            arguments = replace(arguments, hidden=(*arguments.hidden, *traces))
        if not recorder.is_draining:
            return self.execute.results(arguments, run)
        session = self.execute.begin(arguments, run)
        gatherings = session.progress.gatherings
        drained: list[Draining] = []
        for k, name in enumerate(self.names[self.n_nested :], len(gatherings) - self.n_flat):
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
