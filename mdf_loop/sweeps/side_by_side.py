"""Runs of a model side by side: its loops by one call of machine code for all runs, everything around them run by run."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.errors import let_through
from mdf_loop.execute.nan_warnings import Compared
from mdf_loop.execute.programs import program_values
from mdf_loop.models.model import Model, Wish
from mdf_loop.models.once import Request
from mdf_loop.models.results import stop_of
from mdf_loop.options import Run
from mdf_loop.sweeps.graph_programs import WholeGraph
from mdf_loop.sweeps.machine_runs import (
    Columns,
    MachineLoop,
    NotTogether,
    columns_of,
    many,
    may_be_compiled,
    pays,
    refuse_other,
)
from mdf_loop.sweeps.row_programs import request_of_columns
from mdf_loop.sweeps.rows.rows_of_runs import Chunk, Column, column_of, filled_up, first_nans, whole_column
from mdf_loop.sweeps.seeds import Seeds
from mdf_loop.sweeps.sources import MOST, Evaluated, OfNodes, Steps, Unread, results_in, source_of
from mdf_loop.system.starting import no_collecting

if TYPE_CHECKING:
    from mdf_loop.sweeps.task import Task

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunsAtOnce:
    """Runs of a sweep that are done at once.

    Attributes
    ----------
    task : Task
    first : int
        The point of the first of them.
    which : array of int
        For each run, which point it is of, counted from the first.
    seeds : Seeds or None
        Of their random streams, if the model draws.
    run : Run
    seconds : float
        After which no further run is begun.
    """

    task: Task
    first: int
    which: np.ndarray
    seeds: Seeds | None
    run: Run
    seconds: float


class SideBySide:
    """A model whose runs can be run side by side.

    Parameters
    ----------
    model : Model
    source : Evaluated
    """

    def __init__(self, model: Model, source: Evaluated) -> None:
        self.model, self.source = model, source
        self._made: dict[Any, tuple[Any, MachineLoop]] = {}  # with what it was made of, so that its place stays taken

    @classmethod
    def of(cls, model: Model, wish: Wish, recorded: Mapping[str, str]) -> SideBySide | None:
        """The model, if its runs can be run side by side; ``recorded`` are the names of what it records, as :func:`source_of`
        takes them."""
        if wish.steps is not None or wish.every > 1:  # machine code keeps each iteration
            return None

        def made() -> SideBySide | None:
            source = source_of(model, recorded)
            return None if source is None else cls(model, source)

        found: SideBySide | None = model.made_for("side_by_side", MOST).of(tuple(recorded), made)
        return found

    def run(self, task: Task, start: int, stop: int, run: Run, seconds: float = math.inf) -> Chunk | None:
        """The outputs of some runs, or of the first of them; None if they have to be run one by one.

        Raises
        ------
        LoopTimeout
        """
        if not may_be_compiled(run.options):
            return None
        try:
            return self._columns(task, start, stop, run, seconds)
        except Exception as reason:  # each run alone says what is wrong, if anything is
            let_through(reason)
            log.debug("%s: runs are run one by one: %r", self.model.name, reason, exc_info=True)
            return None

    def _columns(self, task: Task, start: int, stop: int, run: Run, seconds: float) -> Chunk:
        first, source = start // task.trials, self.source
        which = np.arange(start, stop) // task.trials - first
        runs = RunsAtOnce(task, first, which, task.seeds(start, stop) if source.draws else None, run, seconds)
        taken = source.taken(task.columns) if source.loops == 1 else None
        found = self._of_columns(source, taken, runs) if taken is not None and isinstance(source, OfNodes) else None
        if found is None and isinstance(source, OfNodes) and pays(run.options, task.size):
            found = self._of_graph(source, runs)
        if found is not None:
            return found
        outside = Run(run.options, Unread(0), deadline=run.deadline, enclosing=run)
        points = [task.inputs_of(point) for point in range(first, (stop - 1) // task.trials + 1)]
        if taken is not None and (isinstance(source, OfNodes) or source.is_exact(points[0])):
            request = next(source.steps(points[0], outside))
            machine = self._machine(request, set(taken.values()), runs)  # others are begun if there is one
            with no_collecting():
                requests = [request, *(next(source.steps(inputs, outside)) for inputs in points[1:])]
            return self._chunk(task, self._looped(machine, requests, runs), taken, requests, which)
        if not isinstance(source, OfNodes) and pays(run.options, task.size):
            whole = source.whole(points, which, runs.seeds, run, seconds)
            if whole is not None:
                return Chunk({name: self._column(task, name, whole[name]) for name in task.columns})
        return self._stepwise([source.steps(points[k], outside) for k in which], runs)

    def _of_graph(self, source: OfNodes, runs: RunsAtOnce) -> Chunk | None:
        """The outputs of some runs by one program of the whole graph; None if there is none."""
        task, which, run, first = runs.task, runs.which, runs.run, runs.first
        try:
            graph, values = source.whole(task.inputs_of(first), task.columns, run)
            rows = self._rows(source, graph, values, runs)
            made = graph.machine_code(values, [*rows], run.options)
            found, counts = many(made, graph.vectors, values, rows, which, runs.seeds, run, runs.seconds), len(task.columns)
        except NotTogether as reason:
            log.debug("%s: the graph is no program of all runs: %s", self.model.name, reason)
            return None
        chunk = Chunk({name: self._column(task, name, column) for name, column in zip(task.columns, found, strict=False)})
        if source.loops == 1:
            lengths = np.asarray(found[counts])
            chunk.iterations, chunk.stops = lengths, _stops([graph.request], np.zeros_like(which[: len(lengths)]), lengths)
            ends = {f"carried {name}": np.asarray(x) for name, x in zip(graph.ends, found[counts + 1 :], strict=True)}
            chunk.suspects = first_nans(ends, chunk.stops == stop_of(0, 1))
        return chunk

    @staticmethod
    def _rows(source: OfNodes, graph: WholeGraph, values: Sequence[Any], runs: RunsAtOnce) -> dict[int, np.ndarray]:
        """What differs of what a graph is run with, by its place: a row for each point."""
        points = np.arange(runs.first, runs.first + runs.which[-1] + 1)
        columns = runs.task.grid.columns(points)
        if columns is None:
            given = [source.given(runs.task.inputs_of(point)) for point in points]
            if any(evaluation is not graph.evaluation for _, evaluation in given):
                raise NotTogether("points have values of several kinds")
            return columns_of([graph.evaluation.values(each) for each, _ in given])
        places = source.places([*columns], graph)
        return {k: column for at, column in zip(places, columns.values(), strict=True) for k in at}

    def _of_columns(self, source: OfNodes, taken: Mapping[str, int], runs: RunsAtOnce) -> Chunk | None:
        """The outputs of some runs whose loop gets what is swept as it is: nothing of Python's for each point."""
        task, which = runs.task, runs.which
        columns = task.grid.columns(np.arange(runs.first, runs.first + which[-1] + 1))
        if columns is None:
            return None
        try:
            request, places = request_of_columns(source, task.inputs_of(runs.first), list(columns), runs.run)
        except Exception as reason:  # something is computed with what is swept, or goes wrong: each point says what
            let_through(reason)
            return None
        rows = {k: column for at, column in zip(places, columns.values(), strict=True) for k in at}
        machine = self._machine(request, set(taken.values()), runs)
        found = machine.run(request.arguments, rows, which, runs.seeds, runs.run, runs.seconds)
        return self._chunk(task, found, taken, [request], np.zeros_like(which))

    def _machine(self, request: Request, wanted: set[int] | None, runs: RunsAtOnce) -> MachineLoop:
        """The machine code of a loop in all runs; of its results some are ``wanted``, or all.

        Raises
        ------
        NotTogether
            There is none, or it does not pay.
        """
        prepared, options = request.prepared, runs.run.options
        if not pays(options, runs.task.size, request.arguments.trip_count):
            raise NotTogether("compiling takes longer than all runs")
        keeps = tuple(wanted is None or k in wanted for k in range(results_in(prepared.record)))
        known = self._made.get((id(prepared), keeps))
        if known is None:
            known = self._made[id(prepared), keeps] = prepared, MachineLoop(prepared.record, keeps)
        machine = known[1]
        if machine.program(request.arguments, options) is None:
            raise NotTogether("there is no machine code for a loop")
        return machine

    def _stepwise(self, begun: list[Steps], runs: RunsAtOnce) -> Chunk:
        """Evaluate all runs up to their next loop, run those loops at once, and so on."""
        task = runs.task
        if self.source.loops > 1 and runs.seeds is not None:
            raise NotTogether("several loops draw from one stream")
        outputs: list[Any] = [None] * len(begun)
        waiting: dict[int, Request] = {}
        chunk = Chunk({})
        for k, steps in enumerate(begun):
            self._go_on(k, steps, None, waiting, outputs)
            if not k and waiting:
                self._machine(waiting[k], None, runs)  # others are begun if there is one
        while waiting:
            step = next(iter(waiting.values())).step
            those = [k for k, request in waiting.items() if request.step == step]
            requests = [waiting.pop(k) for k in those]
            if runs.seeds is not None and len(those) != len(begun):
                raise NotTogether("a loop that draws is not run by all")
            which = np.arange(len(those))
            each = replace(runs, which=which, seconds=math.inf)
            columns = self._looped(self._machine(requests[0], None, runs), requests, each)
            if self.source.loops == 1 and len(those) == len(begun):
                chunk.iterations, chunk.stops = columns.lengths, _stops(requests, which, columns.lengths)
                chunk.suspects = _ended_at_nan(requests[0], columns, chunk.stops)
            for row, k in enumerate(those):
                results = columns.results(row)
                self._go_on(k, begun[k], tuple(results) if len(results) != 1 else results[0], waiting, outputs)
        chunk.columns = {name: self._column(task, name, [row[name] for row in outputs]) for name in task.columns}
        return chunk

    def _column(self, task: Task, name: str, rows: Sequence[Any]) -> Column:
        """An output of all runs, or what is recorded of them."""
        if isinstance(rows, np.ndarray):
            return whole_column(rows[:, None] if name in self.source.singles else rows)
        return column_of([np.asarray(row)[None] for row in rows] if name in self.source.singles else rows, task.padding)

    def _chunk(self, task: Task, columns: Columns, taken: Mapping[str, int], requests: list[Request], which: np.ndarray) -> Chunk:
        """The outputs of runs, of the results of their loops."""
        found = {}
        for name, place in taken.items():
            found[name] = rows, _ = _column(columns, place, task.padding)
            if name in self.source.singles:
                found[name] = rows[:, None], np.ones(len(rows), np.int64)
        stops = _stops(requests, which[: len(columns.lengths)], columns.lengths)
        return Chunk(found, {}, columns.lengths, stops, _ended_at_nan(requests[0], columns, stops))

    @staticmethod
    def _go_on(k: int, steps: Steps, results: Any, waiting: dict[int, Request], outputs: list[Any]) -> None:
        try:
            waiting[k] = next(steps) if results is None else steps.send(results)
        except StopIteration as end:
            outputs[k] = end.value

    @staticmethod
    def _looped(machine: MachineLoop, requests: list[Request], runs: RunsAtOnce) -> Columns:
        """Run one loop in all runs, or in the first that end in some time; there is a request for each of their points."""
        for request in requests:
            refuse_other(request, requests[0].prepared, runs.run)
        given = [request.arguments for request in requests]
        if len({(each.trip_count is None, each.go is None) for each in given}) > 1:
            raise NotTogether("a loop has a trip count or a condition in some runs alone")
        columns = columns_of([*map(program_values, given)])
        return machine.run(given[0], columns, runs.which, runs.seeds, runs.run, runs.seconds)


def _ended_at_nan(request: Request, columns: Columns, stops: np.ndarray) -> dict[str, int]:
    """The first run whose loop ended by its condition, and carries nan in a value that the condition compares."""
    carried = Compared(request.prepared.record).carried
    return first_nans({f"carried {name}": columns.values[k] for k, name in carried}, stops == stop_of(0, 1))


def _stops(requests: list[Request], which: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Why each run's loop ended."""
    limits = [request.arguments.trip_count for request in requests]
    counts = np.array([np.inf if count is None else count for count in limits])[which]
    return np.where(lengths >= counts, stop_of(1, 1), stop_of(0, 1))


def _column(columns: Columns, place: int, fill: Any) -> Column:
    """One result of a loop in all runs; those that ended early are filled up behind their end."""
    if place < len(columns.values):
        return whole_column(columns.values[place])
    found = columns.collected[place - len(columns.values)]
    assert found is not None
    return filled_up(found, columns.lengths, fill), columns.lengths
