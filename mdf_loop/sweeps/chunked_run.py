"""The run of a sweep: chunks of its task from where they ran, put together and labelled."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, KindError, LoopError, in_words, unknown_name, warn_user
from mdf_loop.integrations.input_places import refuse_options
from mdf_loop.models.ended_runs import at_m_in_words
from mdf_loop.models.labelled import xarray
from mdf_loop.models.model import HOW, Model, Wish
from mdf_loop.models.opening import prepare
from mdf_loop.models.results import read_by_edge
from mdf_loop.options import Run, current_options, options, part_of, start_run
from mdf_loop.progress import Bar, Tally
from mdf_loop.readers.arguments import is_called, names_in, suggest_argument
from mdf_loop.settings.counts import counted
from mdf_loop.settings.random_streams import Seed
from mdf_loop.sweeps.checkpoints.checkpoint import Checkpoint, begun
from mdf_loop.sweeps.clusters import on_cluster
from mdf_loop.sweeps.grid import Grid, grid_of
from mdf_loop.sweeps.pieces import Pieces, Uncut
from mdf_loop.sweeps.rows.labels import Labels, labelled, labels_of_sweep
from mdf_loop.sweeps.rows.reducing import reduce_of
from mdf_loop.sweeps.rows.rows_of_runs import Span, Table, fill, keeping
from mdf_loop.sweeps.stores.regular import RowLayout, zarr
from mdf_loop.sweeps.stores.store import StoreCounts, SweepStore
from mdf_loop.sweeps.stores.tries import PLACES, Tries, layout_of_tries
from mdf_loop.sweeps.task import Task
from mdf_loop.sweeps.workers import Work, here, in_threads

LONG_POINT = 60.0
"""Seconds of a point from which on a warning says that no other worker helps with it."""


FEW_ENDS = 0.01
"""The part of runs that may end at M without a warning."""


class Said(SimpleNamespace):
    """How a sweep is run: the arguments of :func:`mdf_loop.sweep` by name."""

    def given(self) -> dict[str, Any]:
        """The arguments that say something else than they do by themselves."""
        usual = {"common_noise": False, "fill": float("nan"), "on_error": "keep", "workers": 1, "collect": False}
        return {name: value for name, value in vars(self).items() if str(value) != str(usual.get(name))}


def swept(model: Any, over: Any, inputs: Mapping[str, Any], said: Said) -> Any:
    """What :func:`mdf_loop.sweep` gives; see there."""
    xarray()
    with reporting_to(said.progress):
        model = prepare(model)
        model.refuse_how(said.given())
        said = _completed(said)
        run = start_run(said.seed)
        task = _task(model, grid_of(over), inputs, said, run.stream.seed)
        task.warn_of_loops()
        if hasattr(said.workers, "scheduler_info"):
            raise KindError("workers is the number of threads here; a dask.distributed.Client is given as client=")
        workers, length = _counted("workers", said.workers), _length_of(said)
        if said.store is not None:
            return _stored(task, run, workers, length, said)
        labels, table = labels_of_sweep(task, run, said.trials is not None), task.table()
        saved = None if said.checkpoint is None else Checkpoint(said.checkpoint, task, labels)

        def there() -> Any:
            return labelled(labels, table, labels.failed(table.errors))

        with keeping(there, lambda: _far(task, table, said)):
            before = 0 if saved is None else fill(table, saved.chunks(), run)
            is_watched = bool(run.options.progress) or workers > 1 or said.client is not None
            pieces = Pieces(saved or Uncut(task.size, task.fitted), task.length(length), task.trials, is_watched)
            found = _found(task, pieces, run, workers, said.client, saved)
            fill(table, found, run, Tally(run.options.progress or None, task.model.name, task.size, before))
            warn_of_runs(task, table)
            _warn_of_ends(task, table, labels)
    return there()


def _stored(task: Task, run: Run, workers: int, length: int | None, said: Said) -> Any:
    """The same where workers write rows to a store: its Dataset, opened lazily."""
    zarr()
    labels = labels_of_sweep(task, run, said.trials is not None, numbers_trials=False)

    def layout() -> RowLayout:
        tries = Tries(task, labels.rows)
        pieces = Pieces(Uncut(min(labels.rows, PLACES)), 1)
        with part_of(run), contextlib.closing(_spread(tries, pieces, run, workers, said.client)) as found:
            return layout_of_tries(task, labels, [tried for _, tried in found], length)

    def there() -> Any:
        with contextlib.suppress(LoopError):  # perhaps it cannot be written, which is what ends the sweep
            return store.results(labels.failed(store.counted.errors))

    with keeping(lambda: None):
        store = SweepStore(said.store, task, labels, layout)
    if task.reduce is not None and store.layout.seconds > LONG_POINT:
        warn_user(
            f"a point takes a worker about {store.layout.seconds:.0f} s, and in a store one worker computes a whole point: with "
            "checkpoint= instead of store=, workers share the trials of a point"
        )
    with keeping(there, lambda: _far(task, store.counted, said)):
        pieces = Pieces(store, None if length is None else 1)
        pieces.took(*store.pace)
        found = _found(store.writer, pieces, run, workers, said.client, store)
        fill(store, found, run, Tally(run.options.progress or None, task.model.name, task.size))
        warn_of_runs(task, store.counted)
        _warn_of_ends(task, store.counted, labels)
    return store.results(labels.failed(store.counted.errors))


def _far(task: Task, table: Table | StoreCounts, said: Said) -> str:
    """How many runs are complete, and how to continue."""
    place = said.checkpoint if said.store is None else said.store
    more = "with checkpoint= the same call continues" if place is None else f"the same call continues from {str(place)!r}"
    return f"{table.complete:,} of {task.size:,} runs are complete; {more}"


@contextlib.contextmanager
def reporting_to(asked: Any) -> Iterator[None]:
    """Report the progress of a sweep or a fit as its own argument says, or else as ``options(progress=)`` does."""
    if asked is None:
        yield
        return
    chosen = asked
    if callable(asked) and not isinstance(asked, Bar):
        chosen = lambda report: asked(report.iteration, report.total)  # noqa: E731
    with options(progress=chosen):
        yield


def warn_of_runs(task: Task, table: Table | StoreCounts) -> None:
    """Say how many runs failed, and why the first one did; and whether a condition compared nan."""
    task.warn_of(table.suspects)
    if table.errors:
        many = f"{table.failed} of {in_words(task.size)} runs"
        warn_user(f"{many} failed; the first, {table.errors[min(table.errors)]}")


def _warn_of_ends(task: Task, table: Table | StoreCounts, labels: Labels) -> None:
    """Say that runs without a decision are in what is made of trials, where no one can see which they are."""
    at_m = table.at_m or 0
    if task.reduce is not None and labels.may_decide and at_m > FEW_ENDS * table.complete:
        runs = at_m_in_words(at_m, f"{table.complete:,} runs")
        warn_user(f"{runs}: reduce= takes these as the others; give a larger M, or look at trials without reduce=")


def _completed(said: Said) -> Said:
    """A seed that is left open as the checkpoint or the store has it, so that the same call goes on."""
    if said.checkpoint is not None and said.store is not None:
        raise ArgumentError("store= is a checkpoint as well: give store= alone, or checkpoint= for a result in memory")
    name, path = ("checkpoint", said.checkpoint) if said.store is None else ("store", said.store)
    if path is None or said.seed is not None or current_options().seed is not None:
        return said
    return Said(**vars(said) | {"seed": begun(path, name)})


def _task(model: Model, grid: Grid, inputs: Mapping[str, Any], said: Said, seed: Seed) -> Task:
    """The work that is asked for."""
    _refuse_unknown(model, grid, inputs, said)
    _refuse_texts(model, grid)
    _warn_of_numbers(model, grid)
    if said.on_error not in ("keep", "raise"):
        raise ArgumentError(f"on_error must be 'keep' or 'raise'; got {said.on_error!r}")
    if not isinstance(said.fill, int | float | np.number):
        raise KindError(f"fill must be a number; got {said.fill!r}")
    kept, stops = outputs_of(model, said.outputs), said.on_error == "raise"
    trials, reduce = _counted("trials", said.trials), reduce_of(said.reduce, model.outputs if kept is None else kept)
    wish = Wish(said.steps, said.time_increment, said.collect, outputs=kept)
    return Task(model, inputs, grid, trials, seed, wish, said.common_noise, reduce, said.fill, stops)


def _warn_of_numbers(model: Model, grid: Grid) -> None:
    """Say that values are single numbers where the model has an array: they may be meant as one vector, which is one value."""
    types = {name.rpartition(".")[2]: port.type for name, port in model.inputs.items()}
    for name, (dim, values) in grid.axes:
        declared = types.get(name.rpartition(".")[2])
        shape = () if declared is None else declared.shape or ()
        if dim != "point" and {*shape} - {1} and all(isinstance(value, int | float | np.number) for value in values):
            said = f"{name} is an array of shape {[*shape]} in the model, and gets one number at each of {len(values)} points"
            written = [[*values]] if len(values) < 10 else "[[...]]"
            cure = f"a vector is one value: over={{{name!r}: {written}}}, on the command line --over '{name}={written}'"
            warn_user(f"{said}; {cure}")


def _length_of(said: Said) -> int | None:
    """How many runs a chunk has, if the caller says so; the clock decides otherwise."""
    if said.client is not None and not hasattr(said.client, "scheduler_info"):
        raise KindError(f"client must be a dask.distributed.Client; got {type(said.client).__name__}")
    return None if said.chunk is None else _counted("chunk", said.chunk)


def _found(
    task: Work, pieces: Pieces, run: Run, workers: int, client: Any, saved: Checkpoint | None
) -> Generator[tuple[Span, Any]]:
    """What is left of a task, as it is done, here or by other jobs with the same checkpoint."""
    if saved is None:
        yield from _spread(task, pieces, run, workers, client)
        return
    try:
        while not saved.is_complete:
            with contextlib.closing(_spread(task, pieces, run, workers, client)) as found:
                for span, chunk in found:
                    saved.write(span, chunk)
                    yield span, chunk
                    yield from saved.chunks()
            yield from saved.chunks()
    finally:
        saved.close()


def _spread(task: Work, pieces: Pieces, run: Run, workers: int, client: Any) -> Generator[tuple[Span, Any]]:
    """Pieces by whom the caller says."""
    if client is not None:
        return on_cluster(task, pieces, client, run.deadline)
    return in_threads(task, pieces, workers) if workers > 1 else here(task, pieces)


def _refuse_unknown(model: Model, grid: Grid, inputs: Mapping[str, Any], said: Said) -> None:
    swept = [name for name, _ in grid.axes]
    unknown = [name for name in (*swept, *inputs) if not model.takes(name)]
    refuse_options(inputs, inputs.keys() - unknown)
    for name in unknown:
        if name in HOW.keys() - vars(said).keys():
            raise ArgumentError(
                f"a sweep keeps the outputs of its runs, not what happens inside them: it takes no {name}. "
                "Let the model collect the value as an output, or call run(model, trials=..., record=...) at each point"
            )
        error = unknown_name("the model has no input called", name, model.inputs)
        instead = f"; write over={{{names_in(inputs.get(name), '{!r}: [...]')}}}" if is_called(name, "over") else ""
        suggest_argument(error, name, vars(said), instead)
        raise error
    if both := sorted(set(swept) & set(inputs)):
        raise ArgumentError(f"{', '.join(both)}: swept over, and given as well")
    model.refuse_twice((*swept, *inputs))
    model.refuse_missing((*swept, *inputs))


def _refuse_texts(model: Model, grid: Grid) -> None:
    """See that no text is among numbers, or where a number belongs: each run of it would fail."""
    types = {name.rpartition(".")[2]: port.type for name, port in model.inputs.items()}
    for name, (_, values) in grid.axes:
        may_be = {*map(type, values)} - {bool, int, float}
        texts = [k for k, value in enumerate(values) if _is_text(value)] if may_be else []
        declared = types.get(name.rpartition(".")[2])  # a constant of an operator that is called by its name has none
        dtype = None if declared is None else declared.dtype
        if texts and (len(texts) < len(values) or (dtype is not None and dtype.kind in "biuf")):
            what = f"the text {values[texts[0]]!r}" if isinstance(values[texts[0]], str) else f"{values[texts[0]]!r}"
            kind = "numbers or texts, not both" if len(texts) < len(values) else "a number in the model"
            raise ArgumentError(f"over[{name!r}] is {kind}; value {texts[0]} is {what}, not a number")


def _is_text(value: Any) -> bool:
    """Whether a value is a text, or has one in it, or is nothing."""
    if isinstance(value, list | tuple):
        return any(map(_is_text, value))
    return value is None or isinstance(value, str | bytes) or (isinstance(value, np.ndarray) and value.dtype.kind in "US")


def outputs_of(model: Model, outputs: Any) -> tuple[str, ...] | None:
    """Outputs that the model has, if a caller says which; a text is one of them."""
    if outputs is None:
        return None
    names = (outputs,) if isinstance(outputs, str) else tuple(dict.fromkeys(outputs))
    for name in names:
        if name not in model.outputs:
            what = "the model has no output called"
            said = read_by_edge(str(name), model.sent, sweeps=True)
            raise ArgumentError(f"{what} {name!r}{said}") if said else unknown_name(what, str(name), model.outputs)
    return names


def _counted(name: str, count: Any) -> int:
    return 1 if count is None else counted(name, count)
