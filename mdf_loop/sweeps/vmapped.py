"""Engines on devices: all runs of a piece of a sweep in one call of a back end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.calls.on_device import in_rows, key_of
from mdf_loop.models.results import stops_of
from mdf_loop.models.to_jax import device_of, found_on_device
from mdf_loop.options import Run
from mdf_loop.sweeps.rows.rows_of_runs import Chunk, Column, filled_up

if TYPE_CHECKING:
    from mdf_loop.sweeps.task import Task

FEW = 1024
"""Runs of a sweep that are one call whatever they give."""

MOST_BYTES = 1 << 30
"""Of the results of one call: a sweep of more runs that gives more is several calls."""


def runs_on_device(task: Task, start: int, stop: int, run: Run) -> Chunk | None:
    """What some runs give; None, with a warning, if they are run in another way.

    A run's random numbers depend on the seed of the sweep, its point and its trial, as in every engine.
    """
    points, trials = np.divmod(np.arange(start, stop), task.trials)
    columns = task.grid.columns(points, mixed=True)
    if columns is None:
        device_of(task.model).left("what is swept over is no column of numbers, or of arrays of one shape")
        return None
    numbers = points if task.numbers is None else task.numbers[points]
    places = (np.zeros_like(numbers) if task.common_noise else numbers, trials)
    inputs, backend = {**task.inputs, **columns}, run.options.how.on_device

    def call(function: Any) -> Any:
        return backend.vmapped(function, task.inputs, columns, key_of(task.seed), places)

    found = found_on_device(task.model, inputs, run, task.wish, call, task.names)
    if found is None:
        return None
    counts = [np.ravel(found.pop(name)) for name in backend.COUNTS if name in found]
    rows = in_rows(found, (stop - start,))
    chunk = Chunk({name: _column(array, lengths, task.padding) for name, (array, lengths) in rows.items()})
    if counts:
        chunk.iterations, chunk.stops = counts[0], stops_of(*counts)
    return chunk


def runs_at_once(task: Task, run: Run) -> int | None:
    """How many runs one call shall have: all of them, as long as their results fit; None if the device runs none."""
    columns = task.grid.columns(np.zeros(1, np.int64), mixed=True)
    if columns is None:
        return None
    backend = run.options.how.on_device
    inputs = {**task.inputs, **{name: backend.traced(column[0]) for name, column in columns.items()}}
    size = found_on_device(task.model, inputs, run, task.wish, lambda f: backend.bytes_of_a_run(f, inputs), task.names)
    if size is None or task.size <= FEW:
        return None if size is None else task.size
    calls = max(-(-task.size * size // MOST_BYTES), 1)
    return -(-task.size // calls)


def _column(array: np.ndarray, lengths: np.ndarray | None, fill: Any) -> Column:
    """Rows as long as the longest, filled up behind their ends, and how long they are."""
    return array if lengths is None else filled_up(array[:, : lengths.max(initial=0)], lengths, fill), lengths
