"""Runs of a model side by side: one call of machine code for all runs."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.errors import let_through
from mdf_loop.models.model import Model, Wish
from mdf_loop.models.results import stop_of
from mdf_loop.options import Run
from mdf_loop.sweeps.machine_runs import NotTogether, columns_of, many, may_be_compiled, pays
from mdf_loop.sweeps.row_programs import are_taken
from mdf_loop.sweeps.rows.rows_of_runs import Chunk, Column, column_of, first_nans, whole_column
from mdf_loop.sweeps.sources import MOST, Evaluated, source_of

if TYPE_CHECKING:
    from mdf_loop.sweeps.task import Task

log = logging.getLogger(__name__)


class SideBySide:
    """A model whose runs can be run side by side.

    Parameters
    ----------
    model : Model
    source : Evaluated
    """

    def __init__(self, model: Model, source: Evaluated) -> None:
        self.model, self.source = model, source

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
        graph, values = source.whole(task.inputs_of(first), task.columns, run)
        if not pays(run.options, task.size, graph.trip_count):
            raise NotTogether("compiling takes longer than all runs")
        rows = self._rows(graph, values, task, np.arange(first, first + which[-1] + 1))
        made = graph.machine_code(values, [*rows], run.options)
        seeds = task.seeds(start, stop) if source.draws else None
        found = many(made, graph.vectors, values, rows, which, seeds, run, seconds)
        chunk = Chunk({name: self._column(task, name, column) for name, column in zip(task.columns, found, strict=False)})
        if graph.more:
            lengths, *more = map(np.asarray, found[len(task.columns) :])
            chunk.iterations, count = lengths, len(graph.ends)
            limits = more[count].reshape(len(lengths)) if more[count:] else graph.trip_count
            chunk.stops = np.where(lengths >= (np.inf if limits is None else limits), stop_of(1, 1), stop_of(0, 1))
            ends = {f"carried {name}": x for name, x in zip(graph.ends, more, strict=False)}
            chunk.suspects = first_nans(ends, chunk.stops == stop_of(0, 1))
        return chunk

    def _rows(self, graph: Any, values: Sequence[Any], task: Task, points: np.ndarray) -> dict[int, np.ndarray]:
        """What differs of what a graph is run with, by its place: a row for each point."""
        columns = task.grid.columns(points)
        if columns is not None:
            places, inputs = self.source.places([*columns], graph), task.inputs_of(points[0])
            if are_taken(values, places, [inputs[name] for name in columns]):
                return {k: column for at, column in zip(places, columns.values(), strict=True) for k in at}
        return columns_of([self.source.values(task.inputs_of(point), graph) for point in points])

    def _column(self, task: Task, name: str, rows: Sequence[Any]) -> Column:
        """An output of all runs, or what is recorded of them."""
        if isinstance(rows, np.ndarray):
            return whole_column(rows[:, None] if name in self.source.singles else rows)
        return column_of([np.asarray(row)[None] for row in rows] if name in self.source.singles else rows, task.padding)
