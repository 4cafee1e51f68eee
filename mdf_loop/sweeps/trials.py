"""``trials=``: one model run some times, each with a random stream of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop.counts import counted
from mdf_loop.errors import ArgumentError
from mdf_loop.models.model import Model, Wish
from mdf_loop.models.results import About, Results
from mdf_loop.options import RandomStream, Run, Seed, part_of, start_run
from mdf_loop.sweeps.table import Table, column_of
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
        A trial failed.
    """
    counted("trials", trials)
    if wish.record_to is not None:
        raise ArgumentError("record_to is for one run; leave out trials, or keep what is recorded in memory")
    run = start_run(seed)
    task = Task(model, dict(inputs), trials=int(trials), seed=run.stream.seed, wish=wish, stops=True)
    about = About(
        model.name, seed=run.stream.seed, inputs=inputs, every=wish.every, options=dict(run.options.chosen), trials=int(trials)
    )
    with part_of(run):
        if wish.record:
            return _recorded(task, about)
        table = Table(task.rows)
        chunk = task.run(0, task.size)
        table.add(0, chunk, task.size)
        outputs, about.lengths = table.finish()
        about.iterations, about.stop, about.collected = chunk.iterations, chunk.stops, model.collected(wish)
    return Results({name: outputs[name] for name in task.names if name in outputs}, about)


def _recorded(task: Task, about: About) -> Results:
    """Trials one by one, with what is recorded of each."""
    runs = []
    with task.chosen():
        run = start_run()
        for k in range(task.size):
            part = Run(run.options, RandomStream(task.seed_of(k)), deadline=run.deadline, enclosing=run)
            with part_of(run):
                runs.append(task.model.evaluate(task.inputs, part, task.wish))
    about.collected = task.model.collected(task.wish)
    about.iterations = np.array([found.iterations for found in runs])
    about.stop = np.array([found.stop for found in runs])
    outputs = {name: column_of([found.outputs[name] for found in runs]) for name in task.names}
    recorded = {name: column_of([found.recorded[name] for found in runs]) for name in task.wish.record}
    columns = (*outputs.items(), *recorded.items())
    about.lengths = {name: more for name, (rows, more) in columns if more is not None and (more != rows.shape[1]).any()}
    about.recorded = {name: rows for name, (rows, _) in recorded.items()}
    return Results({name: rows for name, (rows, _) in outputs.items()}, about)
