"""The run of a sweep: chunks of its task from whoever runs them, put together and labelled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from mdf_loop.counts import counted
from mdf_loop.errors import ArgumentError, KindError, LoopInterrupted, PartialResults, is_from_outside
from mdf_loop.models.labelled import xarray
from mdf_loop.models.model import HOW, Model, Wish, suggest_argument, unknown_name
from mdf_loop.models.opening import prepare
from mdf_loop.options import Run, Seed, current_options, part_of, start_run
from mdf_loop.sweeps.checkpoint import Checkpoint, begun
from mdf_loop.sweeps.grid import Grid, grid_of
from mdf_loop.sweeps.labels import labelled, labels_of_sweep
from mdf_loop.sweeps.reducing import reduce_of
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
    length, labels = _chunk_of(task, said), labels_of_sweep(task, run, said.trials is not None)
    table = Table(task.rows, said.fill)
    saved = None if said.checkpoint is None else Checkpoint(said.checkpoint, task, labels)
    found = chunked(task, length, run, workers, said.client, saved)
    try:
        with part_of(run):
            _fill(table, task, found, said.progress)
    except BaseException as error:
        if not isinstance(error, PartialResults) and not is_from_outside(error):
            raise
        ended = LoopInterrupted("interrupted") if type(error) is KeyboardInterrupt else error
        with contextlib.suppress(AttributeError):  # what a user's handler raised may have no room for it
            ended.results = labelled(labels, table, _errors(task, table))  # type: ignore[attr-defined]
        if ended is error:
            raise
        raise ended from error
    return labelled(labels, table, _errors(task, table))


def _completed(said: Said) -> Said:
    """A seed that is left open as the checkpoint has it, so that the same call goes on."""
    if said.checkpoint is None or said.seed is not None or current_options().seed is not None:
        return said
    return replace(said, seed=begun(said.checkpoint))


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
    if saved is None:
        yield from _spread(task, chunks_of(task, length), run, workers, client)
        return
    try:
        while not saved.is_complete:
            yield from saved.chunks()
            for span, chunk in _spread(task, iter(partial(saved.take, length), None), run, workers, client):
                saved.write(span, chunk)
                yield span, chunk
                yield from saved.chunks()
    finally:
        saved.close()


def _spread(task: Task, spans: Iterable[Span], run: Run, workers: int, client: Any) -> Iterator[tuple[Span, Chunk]]:
    """Chunks from whoever runs them."""
    if client is not None:
        return on_cluster(task, spans, client, run.deadline)
    if workers > 1 and isinstance(spans, list) and len(spans) == 1:
        return helped(task, spans[0], workers)
    return in_threads(task, spans, workers) if workers > 1 else here(task, spans)


def _fill(table: Table, task: Task, found: Iterable[tuple[Span, Chunk]], progress: Progress | None) -> None:
    done = 0
    for (start, stop), chunk in found:
        first, behind = task.rows_of(start, stop)
        table.add(first, chunk, behind - first)
        done += stop - start
        if progress is not None:
            progress(done, task.size)


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
    model.refuse_missing((*swept, *inputs))


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
