"""The run of a sweep: chunks of its task from whoever runs them, put together and labelled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from mdf_loop.counts import counted
from mdf_loop.errors import ArgumentError, KindError, LoopInterrupted, PartialResults
from mdf_loop.models.labelled import DIMENSIONS, Axes, attributes, seed_text, xarray
from mdf_loop.models.model import HOW, Model, Wish, suggest_argument, unknown_name
from mdf_loop.models.opening import prepare
from mdf_loop.models.results import About
from mdf_loop.options import Run, Seed, current_options, part_of, start_run
from mdf_loop.sweeps.checkpoint import Checkpoint, begun
from mdf_loop.sweeps.grid import Grid, grid_of
from mdf_loop.sweeps.reducing import QUANTILE, keeps_rows, levels_of, reduce_of
from mdf_loop.sweeps.table import Chunk, Table
from mdf_loop.sweeps.task import Task
from mdf_loop.sweeps.workers import Span, chunks_of, helped, here, in_threads, on_cluster

CHUNK = 1 << 15
"""Runs in a chunk, unless somebody says otherwise."""

CHUNKS = 4
"""Chunks for each thread: fewer keep Python's lock for less time, more let threads end together."""

SHARED = 1 << 14
"""Runs that a chunk has at least which threads share: one for each thread would only be prepared more often."""

Progress = Callable[[int, int], None]
"""Called with how many runs are done, and of how many."""


@dataclass(frozen=True)
class Said:
    """How a sweep is run: the arguments of :func:`mdf_loop.sweep`."""

    trials: int | None
    seed: Seed | None
    common_noise: bool
    outputs: Sequence[str] | None
    reduce: Any
    fill: float
    on_error: str
    workers: int
    client: Any
    chunk: int | None
    checkpoint: Any
    progress: Progress | None
    steps: int | None
    time_increment: float | None
    collect: bool

    def given(self) -> dict[str, Any]:
        """The arguments that say something else than they do by themselves."""
        usual = {"common_noise": False, "fill": float("nan"), "on_error": "keep", "workers": 1, "collect": False}
        return {name: value for name, value in vars(self).items() if str(value) != str(usual.get(name))}


def swept(model: Any, over: Any, inputs: Mapping[str, Any], said: Said) -> Any:
    """What :func:`mdf_loop.sweep` gives; see there."""
    xarray()
    model = prepare(model)
    model.refuse_how(said.given())
    said = _completed(said)
    run = start_run(said.seed)
    task = _task(model, grid_of(over), inputs, said, run.stream.seed)
    workers = _counted("workers", said.workers)
    length = _chunk_of(task, said)
    table = Table(task.rows, said.fill)
    saved = None if said.checkpoint is None else Checkpoint(said.checkpoint, _said(task, length))
    found = chunked(task, length, run, workers, said.client, saved)
    has_trials = said.trials is not None
    try:
        with part_of(run):
            _fill(table, task, found, said.progress)
    except (PartialResults, KeyboardInterrupt) as error:
        ended = error if isinstance(error, PartialResults) else LoopInterrupted("interrupted")
        ended.results = labelled(task, table, run, has_trials)
        if ended is error:
            raise
        raise ended from error
    return labelled(task, table, run, has_trials)


def _completed(said: Said) -> Said:
    """What is left open as the checkpoint has it, so that the same call goes on, with any number of workers."""
    if said.checkpoint is None:
        return said
    seed, chunk = begun(said.checkpoint)
    if said.seed is None and current_options().seed is None:
        said = replace(said, seed=seed)
    return replace(said, chunk=chunk) if said.chunk is None else said


def _task(model: Model, grid: Grid, inputs: Mapping[str, Any], said: Said, seed: Seed) -> Task:
    """The work that is asked for."""
    _refuse_unknown(model, grid, inputs)
    if said.on_error not in ("keep", "raise"):
        raise ArgumentError(f"on_error must be 'keep' or 'raise'; got {said.on_error!r}")
    if not isinstance(said.fill, int | float | np.number):
        raise KindError(f"fill must be a number; got {said.fill!r}")
    kept, stops = _kept(model, said.outputs), said.on_error == "raise"
    trials, reduce = _counted("trials", said.trials), reduce_of(said.reduce, model.outputs if kept is None else kept)
    wish = Wish(said.steps, said.time_increment, said.collect, outputs=kept)
    return Task(model, inputs, grid, trials, seed, wish, said.common_noise, reduce, said.fill, stops)


def _chunk_of(task: Task, said: Said) -> int:
    """How many runs a chunk has."""
    if said.client is not None and not hasattr(said.client, "scheduler_info"):
        raise KindError(f"client must be a dask.distributed.Client; got {type(said.client).__name__}")
    if said.chunk is not None:
        return _counted("chunk", said.chunk)
    if said.client is not None:
        return _share(task.size, 8 * len(said.client.scheduler_info()["workers"]))
    if said.workers > 1 and said.checkpoint is None:  # which goes on with other workers as well
        return max(_share(task.size, said.workers), SHARED) if task.shares else _share(task.size, CHUNKS * said.workers)
    return CHUNK


def chunked(
    task: Task, length: int, run: Run, workers: int = 1, client: Any = None, saved: Checkpoint | None = None
) -> Iterator[tuple[Span, Chunk]]:
    """All chunks of a task, as they are done; those of a checkpoint first."""
    spans = chunks_of(task, length)
    if saved is not None:
        there = saved.done()
        yield from (pair for pair in saved.chunks() if pair[0] in set(spans))
        spans = [span for span in spans if span not in there]
    if client is not None:
        found = on_cluster(task, spans, client, run.deadline)
    elif workers > 1 and len(spans) == 1:
        found = helped(task, spans[0], workers)
    elif workers > 1:
        found = in_threads(task, spans, workers)
    else:
        found = here(task, spans)
    for span, chunk in found:
        if saved is not None:
            saved.write(span, chunk)
        yield span, chunk


def _fill(table: Table, task: Task, found: Iterable[tuple[Span, Chunk]], progress: Progress | None) -> None:
    done = 0
    for (start, stop), chunk in found:
        first, behind = task.rows_of(start, stop)
        table.add(first, chunk, behind - first)
        done += stop - start
        if progress is not None:
            progress(done, task.size)


def labelled(task: Task, table: Table, run: Run, has_trials: bool) -> Any:
    """The results as a Dataset."""
    arrays, ragged = table.finish()
    grid, is_reduced = task.grid, task.reduce is not None
    lead, shape = grid.dims, grid.shape
    coordinates = grid.coordinates()
    if has_trials and not is_reduced:
        lead, shape = (*lead, "trial"), (*shape, task.trials)
        coordinates["trial"] = np.arange(task.trials)
    variables: dict[str, Any] = {}
    axes, collected = Axes(lead), task.model.collected(task.wish)
    for name in task.names:
        rows = arrays.get(name)
        if rows is None:
            if is_reduced and isinstance(task.reduce, Mapping) and name not in task.reduce:
                continue
            rows = np.full(task.rows, table.fill)
        label = f"output {name}" if name in {*coordinates, *DIMENSIONS, QUANTILE} else name
        rows = rows.reshape((*shape, *rows.shape[1:]))
        levels = levels_of(task.reduce, name)
        more = () if levels is None or rows.ndim == len(shape) else (axes.along(QUANTILE, levels, label),)
        variables[label] = axes.of(label, rows.shape, name in collected and keeps_rows(task.reduce, name), more=more), rows
        if name in ragged:
            variables[f"{label}_length"] = lead, ragged[name].reshape(shape)
    about = About(task.model.name, seed=task.seed, inputs=task.inputs, options=dict(run.options.chosen))
    known = {"errors": _errors(task, table), "complete": int(table.done.sum()), "common_noise": bool(task.common_noise)}
    known["engine"] = task.engine
    said = {**attributes(about), **known}
    for name in ("iterations", "stop", "every"):
        said.pop(name)
    said["errors"] = said["errors"] if said["errors"] else []
    return xarray().Dataset(variables, axes.coordinates | coordinates, {**said, "common_noise": int(said["common_noise"])})


def _errors(task: Task, table: Table) -> list[str]:
    """What went wrong, each with its place."""
    if task.reduce is not None:
        return [f"point {row}, {error}" for row, error in sorted(table.errors.items())]
    return [f"{task.described(row)}: {error}" for row, error in sorted(table.errors.items())]


def _refuse_unknown(model: Model, grid: Grid, inputs: Mapping[str, Any]) -> None:
    swept = [name for name, _ in grid.axes]
    unknown = [name for name in (*swept, *inputs) if not model.takes(name)]
    for name in unknown:
        if name in HOW:
            raise ArgumentError(
                f"a sweep keeps the outputs of its runs, not what happens inside them: it takes no {name}. "
                "Let the model collect the value as an output, or call run(model, trials=..., record=...) at each point"
            )
        error = unknown_name("the model has no input called", name, model.inputs)
        suggest_argument(error, name, [field.name for field in fields(Said)])
        raise error
    if both := sorted(set(swept) & set(inputs)):
        raise ArgumentError(f"{', '.join(both)}: swept over, and given as well")
    model.refuse_twice((*swept, *inputs))


def _kept(model: Model, outputs: Any) -> frozenset[str] | None:
    if outputs is None:
        return None
    names = [outputs] if isinstance(outputs, str) else list(outputs)
    for name in names:
        if name not in model.outputs:
            raise unknown_name("the model has no output called", name, model.outputs)
    return frozenset(names)


def _counted(name: str, count: Any) -> int:
    return 1 if count is None else counted(name, count)


def _share(size: int, chunks: int) -> int:
    """How many runs a chunk has, for so many chunks."""
    return max(min(-(-size // max(chunks, 1)), CHUNK), 1)


def _said(task: Task, length: int) -> dict[str, Any]:
    """What tells a sweep from others, for a checkpoint."""
    grid = json.dumps([[name, [str(value) for value in values]] for name, (_, values) in task.grid.axes])
    return {
        "model": task.model.name,
        "seed": seed_text(task.seed),
        "trials": task.trials,
        "grid": grid if len(grid) <= LONGEST_GRID else f"{len(task.grid.axes)} inputs, {task.grid.size} points",
        "outputs": list(task.names),
        "steps": task.wish.steps,
        "time_increment": None if task.wish.time_increment is None else float(task.wish.time_increment),
        "chunk": length,
        "content": task.fingerprint(),
    }


LONGEST_GRID = 2000
"""Characters of a grid that is said in full."""
