"""``trials=``: one model run some times, each with a random stream of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, warn_user
from mdf_loop.models.model import Found, Model, Wish
from mdf_loop.models.results import About, Results
from mdf_loop.options import start_run
from mdf_loop.settings.counts import counted
from mdf_loop.settings.random_streams import Seed
from mdf_loop.sweeps.rows.rows_of_runs import Chunk, Table, keeping
from mdf_loop.sweeps.sources import may_decide
from mdf_loop.sweeps.task import Task


def run_trials(model: Model, trials: Any, seed: Seed | None, wish: Wish, inputs: Mapping[str, Any]) -> Results:
    """Run a model some times.

    Returns
    -------
    Results
        Outputs with a first axis of trials; iterations and stops are arrays.

    Raises
    ------
    KindError, ArgumentError
        The number of trials is none.
    LoopError
        A trial failed, or something ended the run early: ``.results`` has the trials that are complete.
    """
    counted("trials", trials)
    _warn_of_rows(model, int(trials), inputs)
    if wish.record_to is not None:
        raise ArgumentError("record_to is for one run; leave out trials, or keep what is recorded in memory")
    run = start_run(seed)
    task = Task(model, dict(inputs), trials=int(trials), seed=run.stream.seed, wish=wish, stops=True)
    about = model.about(Found({}), inputs, run, wish)
    about.may_decide = may_decide(model, wish)
    kept = _Kept(task, about)
    task.warn_of_loops()
    with keeping(kept.results, lambda: f"{kept.complete:,} of {task.size:,} trials are complete"):
        task.run_all(kept, run)
        task.warn_of(kept.suspects)
    return kept.results()


def _warn_of_rows(model: Model, trials: int, inputs: Mapping[str, Any]) -> None:
    """Warn of arrays that have a row for each trial, and an axis more than the model has for the input."""
    known = {name: port.type.shape for name, port in model.inputs.items() if port.type.shape or port.default is not None}
    axes = {name: len(shape) for name, shape in known.items() if shape is not None}
    given = {name: np.shape(value if hasattr(value, "shape") else np.asarray(value, object)) for name, value in inputs.items()}
    rows = [name for name, shape in given.items() if shape[:1] == (trials,) and len(shape) > axes.get(name, 99)]
    if rows:
        each = ", ".join(f"{name!r}: {name}[k]" for name in rows)
        cure = f"mdf_loop.sweep(model, [{{{each}}} for k in range({trials})])"
        warn_user(f"each of the {trials} trials gets all {trials} rows of {', '.join(rows)}; one row for each trial is {cure}")


class _Kept(Table):
    """The trials that are complete: they come in order."""

    def __init__(self, task: Task, about: About) -> None:
        super().__init__(task.size)
        self.task, self.about = task, about
        self.notes = list[tuple[np.ndarray | None, np.ndarray | None]]()

    def add(self, start: int, chunk: Chunk, count: int) -> None:
        """Take some trials."""
        super().add(start, chunk, count)
        self.notes.append((chunk.iterations, chunk.stops))

    def results(self) -> Results:
        """All that are complete."""
        task, about, done = self.task, self.about, self.complete
        arrays, ragged = self.finish()
        about.trials, about.collected = done, task.model.collected(task.wish)
        about.lengths = {task.recorded.get(name, name): lengths[:done] for name, lengths in ragged.items()}
        about.recorded = {name: arrays[label][:done] for label, name in task.recorded.items() if label in arrays}
        about.iterations, about.stop = map(_joined, zip(*self.notes, strict=True)) if self.notes else (None, None)
        return Results({name: arrays[name][:done] for name in task.names if name in arrays}, about)


def _joined(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """What is known of all trials; None where it is not known of some."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None
