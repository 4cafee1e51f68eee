"""``trials=``: one model run some times, each with a random stream of its own."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError
from mdf_loop.models.model import Found, Model, Wish
from mdf_loop.models.results import About, Results
from mdf_loop.options import Run, current_options, part_of, start_run
from mdf_loop.progress import Tally
from mdf_loop.settings.counts import counted
from mdf_loop.settings.random_streams import RandomStream, Seed
from mdf_loop.sweeps.pieces import Pieces, Uncut
from mdf_loop.sweeps.rows.rows_of_runs import Chunk, Span, Table, column_of, fill, keeping
from mdf_loop.sweeps.task import Task
from mdf_loop.sweeps.workers import here


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
    if wish.record_to is not None:
        raise ArgumentError("record_to is for one run; leave out trials, or keep what is recorded in memory")
    run = start_run(seed)
    task = Task(model, dict(inputs), trials=int(trials), seed=run.stream.seed, wish=wish, stops=True)
    about = About(
        model.name, seed=run.stream.seed, inputs=inputs, every=wish.every, options=dict(run.options.chosen), trials=int(trials)
    )
    about.dt, about.units = None if wish.steps is not None else model.step_of(inputs), model.units
    kept: _Kept | _Recorded = _Recorded(task, about) if wish.record else _Kept(task, about)
    with keeping(kept.results):
        fill(kept, kept.found(), run, Tally(run.options.progress or None, model.name, task.size))
        if isinstance(kept, _Kept):
            task.warn_of(kept.table.suspects)
    return kept.results()


class _Kept:
    """The trials that are complete: they come in order."""

    def __init__(self, task: Task, about: About) -> None:
        self.task, self.about, self.table = task, about, Table(task.size)
        self.done = 0
        self.notes = list[tuple[np.ndarray | None, np.ndarray | None]]()

    def found(self) -> Generator[tuple[Span, Chunk]]:
        """Chunks of trials."""
        size, is_watched = self.task.size, bool(current_options().progress)
        return here(self.task, Pieces(Uncut(size), self.task.length(), trials=size, is_watched=is_watched))

    def add(self, start: int, chunk: Chunk, count: int) -> None:
        """Take some trials."""
        self.table.add(start, chunk, count)
        self.notes.append((chunk.iterations, chunk.stops))
        self.done = start + count

    def results(self) -> Results:
        """All that are complete."""
        task, about, done = self.task, self.about, self.done
        arrays, ragged = self.table.finish()
        about.trials, about.collected = done, task.model.collected(task.wish)
        about.lengths = {name: lengths[:done] for name, lengths in ragged.items()}
        about.iterations, about.stop = map(_joined, zip(*self.notes, strict=True)) if self.notes else (None, None)
        return Results({name: arrays[name][:done] for name in task.names if name in arrays}, about)


def _joined(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """What is known of all trials; None where it is not known of some."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


class _Recorded:
    """The trials that are complete, with what is recorded of each: they are run one by one."""

    def __init__(self, task: Task, about: About) -> None:
        self.task, self.about, self.runs = task, about, list[Found]()

    def found(self) -> Generator[tuple[Span, Found]]:
        """One trial after the other."""
        task = self.task
        for k in range(task.size):
            with task.chosen():
                inner = start_run()
                part = Run(inner.options, RandomStream(task.seed_of(k)), deadline=inner.deadline, enclosing=inner)
                with part_of(inner):
                    found = task.model.evaluate(task.inputs, part, task.wish)
            yield (k, k + 1), found

    def add(self, start: int, found: Found, count: int) -> None:
        """Take a trial."""
        self.runs.append(found)

    def results(self) -> Results:
        """All that are complete."""
        task, about, runs = self.task, self.about, self.runs
        about.trials, about.collected = len(runs), task.model.collected(task.wish)
        if not runs:
            return Results({}, about)
        about.iterations = np.array([found.iterations for found in runs])
        about.stop = np.array([found.stop for found in runs])
        outputs = {name: column_of([found.outputs[name] for found in runs]) for name in task.names}
        recorded = {name: column_of([found.recorded[name] for found in runs]) for name in task.wish.record}
        columns = (*outputs.items(), *recorded.items())
        about.lengths = {name: more for name, (rows, more) in columns if more is not None and (more != rows.shape[1]).any()}
        about.recorded = {name: rows for name, (rows, _) in recorded.items()}
        return Results({name: rows for name, (rows, _) in outputs.items()}, about)
