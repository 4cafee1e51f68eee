"""Runs of a model side by side: one call of a program for all runs, with what differs as columns: no Python for each run."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.errors import let_through
from mdf_loop.models.results import stop_of
from mdf_loop.options import Run
from mdf_loop.sweeps.graph_programs import GraphOfRuns
from mdf_loop.sweeps.machine_runs import NotTogether, columns_of, many, may_be_compiled, may_be_together, pays
from mdf_loop.sweeps.rows.rows_of_runs import Chunk, Column, column_of, first_odd, whole_column
from mdf_loop.sweeps.sources import Evaluated, source_of, stepping
from mdf_loop.sweeps.vectors import FEW
from mdf_loop.sweeps.workers import in_parts

if TYPE_CHECKING:
    from mdf_loop.backends.llvm.many_runs import RunColumns
    from mdf_loop.sweeps.task import Task

log = logging.getLogger(__name__)


def run_together(task: Task, start: int, stop: int, run: Run, seconds: float) -> Chunk:
    """The outputs of some runs, or of the first of them.

    Raises
    ------
    NotTogether
        They have to be run one by one; says why.
    LoopTimeout
    """
    if stop - start < 2 or task.wish.every > 1:  # programs keep each iteration
        raise NotTogether("it is one run, or some iterations are left out")
    source, first = source_of(task.model, task.recorded, stepping(task.wish)), start // task.trials
    if source is None or not may_be_together(run.options):
        raise NotTogether("the model or the options are not those of one program")
    which = np.arange(start, stop) // task.trials - first
    graph, values = source.whole(task.inputs_of(first), task.columns, run)
    is_compiled = may_be_compiled(run.options) and pays(run.options, task.size, graph.trip_count)
    if not is_compiled and len(which) < FEW:
        raise NotTogether("compiling takes longer than all runs")
    rows = _rows(source, graph, values, task, np.arange(first, first + which[-1] + 1))
    if is_compiled:
        made = graph.machine_code(values, [*rows], run.options)
        streams = task.streams(start, stop) if graph.draws else None
        found = many(made, graph.vectors, values, rows, which, streams, run, seconds)
    else:
        found = graph.in_numpy(values, rows, which, run, functools.partial(in_parts, seconds=seconds))
    count = len(found) - len(graph.more)
    results = zip(task.columns, graph.results(found[:count]), strict=True)
    chunk = Chunk({name: _column(source, task, name, column) for name, column in results})
    if graph.more:
        lengths, *more = map(np.asarray, found[count:])
        limits = more[len(graph.ends)].reshape(len(lengths)) if more[len(graph.ends) :] else graph.trip_count
        chunk.iterations, chunk.stops = graph.ended(lengths, limits)
        ends = {f"carried {name}": x for name, x in zip(graph.ends, more, strict=False)}
        chunk.suspects = first_odd(ends, chunk.stops == stop_of(0, 1))
    return chunk


def _rows(source: Evaluated, graph: GraphOfRuns, values: Sequence[Any], task: Task, points: np.ndarray) -> dict[int, np.ndarray]:
    """What differs of what a graph is run with, by its place: a row for each point."""
    columns = task.grid.columns(points)
    if columns is not None and (places := _places(source, graph, values, task.inputs_of(points[0]), [*columns])) is not None:
        return {k: column for at, column in zip(places, columns.values(), strict=True) for k in at}
    return columns_of([source.values(task.inputs_of(point), graph) for point in points])


def _places(
    source: Evaluated, graph: GraphOfRuns, values: Sequence[Any], inputs: Mapping[str, Any], swept: Sequence[str]
) -> list[list[int]] | None:
    """Where a graph gets inputs; None if it does not get them as they are.  If it does, so it gets others of their types."""
    places = source.places(swept, graph)
    for at, name in zip(places, swept, strict=True):
        plain = np.asarray(inputs[name])
        for fitted in (np.asarray(values[k]) for k in at):
            if (fitted.dtype, fitted.shape) != (plain.dtype, plain.shape) or fitted.tobytes() != plain.tobytes():
                return None
    return places


def _column(source: Evaluated, task: Task, name: str, rows: Sequence[Any]) -> Column:
    """An output of all runs, or what is recorded of them."""
    if isinstance(rows, np.ndarray):
        return whole_column(rows[:, None] if name in source.singles else rows)
    return column_of([np.asarray(row)[None] for row in rows] if name in source.singles else rows, task.padding)


def row_program(
    source: Evaluated, inputs: Mapping[str, Any], swept: Sequence[str], names: Sequence[str], times: int, run: Run
) -> RunColumns | None:
    """The program of all runs whose inputs differ in some alone, which it takes as columns; None if there is none.

    Parameters
    ----------
    source : Evaluated
    inputs : mapping
        Those of one of the runs.
    swept : sequence of str
        Which may differ; in all runs they have the types and shapes that they have here.
    names : sequence of str
        The outputs that are wanted.
    times : int
        How many runs, one after the other, have the same inputs.
    run : Run
        Whose options say how everything is run.
    """
    if not may_be_compiled(run.options):
        return None
    try:
        graph, values = source.whole(inputs, names, run)
        places = _places(source, graph, values, inputs, swept)
        if places is None:
            raise NotTogether("a value is not taken as it is")
        made: Any = graph.machine_code(values, [k for at in places for k in at], run.options).call
    except Exception as reason:  # each run alone says what is wrong, if anything is
        let_through(reason)
        log.debug("rows are no columns: %r", reason, exc_info=True)
        return None
    from mdf_loop.backends.llvm.many_runs import RunColumns

    is_static = all(x.is_static for x in made.results)
    return RunColumns(made, values, places, range(len(names)), times) if is_static else None
