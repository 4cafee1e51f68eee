"""Engine ``jax``: all runs of a piece of a sweep in one call of JAX, on the device that it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.models.jax.by_jax import function_of, in_rows, key_of, tried
from mdf_loop.options import Run
from mdf_loop.sweeps.rows.rows_of_runs import Chunk, holding

if TYPE_CHECKING:
    from mdf_loop.sweeps.task import Task


def runs_by_jax(task: Task, start: int, stop: int, run: Run) -> Chunk | None:
    """What some runs give; None if they are run in another way.

    A run's random numbers depend on the seed of the sweep, its point and its trial, as in every engine.
    """
    function = function_of(task.model, task.names, run, task.wish)
    if function is None:
        return None
    from mdf_loop.backends.jax.many import vmapped

    points, trials = np.divmod(np.arange(start, stop), task.trials)
    swept = [name for name, _ in task.grid.axes]
    columns = _columns([task.inputs_of(point) for point in points], swept)
    if columns is None:
        return None
    places = (np.zeros_like(points) if task.common_noise else points, trials)
    found = tried(task.model, lambda: vmapped(function, task.inputs, columns, key_of(task.seed), places))
    if found is None:
        return None
    rows = in_rows(found, (stop - start,))
    return Chunk({name: (_filled(array, lengths, task.padding), lengths) for name, (array, lengths) in rows.items()})


def _columns(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, np.ndarray] | None:
    """What differs from run to run, as arrays; None where that is no number or array of one shape."""
    try:
        columns = {name: np.asarray([row[name] for row in rows]) for name in names}
    except ValueError:
        return None
    return columns if all(column.dtype.kind in "biuf" for column in columns.values()) else None


def _filled(array: np.ndarray, lengths: np.ndarray | None, fill: Any) -> np.ndarray:
    """Rows with what fills them up behind their ends."""
    if lengths is None or (lengths == array.shape[1]).all():
        return array
    wide = array.astype(holding(array.dtype, fill))
    wide[np.arange(array.shape[1]) >= lengths[:, None]] = fill
    return wide
