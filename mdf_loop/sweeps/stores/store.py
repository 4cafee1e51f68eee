"""A sweep whose rows go straight to arrays on a disk or in a storage: checkpoint and result are the same.

It is a checkpoint (:mod:`mdf_loop.sweeps.checkpoints.checkpoint`) of blocks in the place of runs.  Workers run and write them
(:mod:`mdf_loop.sweeps.stores.block_writer`); this process counts.  Workers check blocks that were done before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterable
from typing import Any

import numpy as np

from mdf_loop.errors import LoopError, MalformedBody, warn_user
from mdf_loop.models.labelled import xarray
from mdf_loop.models.strangers import refuse_strange
from mdf_loop.sweeps.checkpoints.checkpoint import Checkpoint, Place
from mdf_loop.sweeps.checkpoints.chunk_files import chunk_name, chunk_names, numbers_of
from mdf_loop.sweeps.checkpoints.digest import digest_of, digest_of_points
from mdf_loop.sweeps.checkpoints.storage import LocalPlace
from mdf_loop.sweeps.rows.labels import Labels, labelled
from mdf_loop.sweeps.rows.rows_of_runs import Ran, Span
from mdf_loop.sweeps.stores.block_writer import BlockWriter, Noted
from mdf_loop.sweeps.stores.regular import RowLayout, group_files
from mdf_loop.sweeps.task import Task

MOST_ERRORS = 1000
"""Errors that are kept, those of the first runs; the others are counted."""


class StoreCounts(Noted):
    """What is known of the runs that are done, in the place of a table of what they gave.

    Parameters
    ----------
    labels : Labels
    layout : RowLayout
    """

    def __init__(self, labels: Labels, layout: RowLayout) -> None:
        super().__init__(at_m=0, shapes={name: [*form.shape] for name, form in layout.forms.items()})
        self.count, self.fill, self.complete, self._layout = labels.rows, labels.fill, 0, layout

    def take(self, noted: Noted, count: int) -> bool:
        """So many more runs are done; whether their rows are larger than all before."""
        before = self.shapes
        self.complete += count
        self.add(noted, MOST_ERRORS)
        return self.shapes != before

    def finish(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Arrays of the shapes and types of the results, which take no memory."""
        forms = {name: np.zeros((), form.stored(self.fill)) for name, form in self._layout.forms.items()}
        arrays = {name: np.broadcast_to(zero, (self.count, *self.shapes[name])) for name, zero in forms.items()}
        return arrays, {name: np.broadcast_to(np.int64(0), (self.count,)) for name in self.ragged}


class SweepStore(Checkpoint):
    """The blocks of one sweep that are complete, and those that are left.

    Parameters
    ----------
    path : str or path-like
        A ``.zarr`` folder, made if it is not there, or an address that fsspec knows.
    task : Task
    labels : Labels
    make : callable
        Gives the layout, where the store is new.

    Raises
    ------
    LoopError
        There is something else, or the store of another sweep.
    """

    WHAT = "store"
    WRITES_ITSELF = False

    def __init__(self, path: Any, task: Task, labels: Labels, make: Callable[[], RowLayout]) -> None:
        self._make, self._presence = make, ""
        self._layout: RowLayout | None = None
        super().__init__(path, task, labels)
        self.counted = StoreCounts(labels, self.layout)

    @property
    def layout(self) -> RowLayout:
        """How rows lie."""
        if self._layout is None:
            self._layout = self._make()
        return self._layout

    @property
    def writer(self) -> BlockWriter:
        """The work that is to be done."""
        local = isinstance(self.place, LocalPlace)
        address = os.path.abspath(str(self.place)) if local else str(self.place)
        points = digest_of_points(self.task.grid, 0, self.task.grid.size)
        belongs = digest_of([self._belongs, points, self.task.trials, self.layout.said()])
        labels = {name: (self.labels.label(name), self.labels.length_label(name)) for name in self.layout.forms}
        return BlockWriter(self.task, address, self.layout, labels, belongs)

    @property
    def pace(self) -> tuple[Span, Ran]:
        """What is known of it before the first piece: a block, as if it had been run."""
        return (0, 1), Ran((0, 1), [], self.layout.seconds, 0)

    # What it says of itself

    def _see_kind(self, layout: RowLayout | None) -> None:
        if layout is None:
            raise LoopError(f"{str(self.place)!r} is a checkpoint of a sweep: continue it with checkpoint=")
        self._layout = layout

    def _grows(self, said: dict[str, Any]) -> bool:
        found = said["labels"]
        if super()._grows(said) or self.task.trials != found.trials:
            raise LoopError(
                f"{str(self.place)!r} is a store for {found.points} points with {found.trials} trials each, here there are "
                f"{self.task.grid.size} with {self.task.trials}; you cannot add to a store: use another one"
            )
        return False

    def _is_ours(self, name: str) -> bool:
        return False  # without what it says of itself no array is known

    def _begin(self, names: list[str]) -> bool:
        is_settled = super()._begin(names)
        if "zarr.json" not in names:
            self._publish(StoreCounts(self.labels, self.layout), [])
        return is_settled

    def _publish(self, counted: StoreCounts, errors: Iterable[str]) -> None:
        """Write what the arrays are, and how many runs are done."""
        template = labelled(self.labels, counted, list(errors))  # type: ignore[arg-type]
        is_whole = counted.complete == self.task.size and not counted.failed
        chunks, fills, masked = dict[str, tuple[int, ...]](), dict[str, Any](), dict[str, Any]()
        for name, form in self.layout.forms.items():
            label, filling = self.labels.label(name), form.filling(self.labels.fill)
            chunks[label], fills[label] = (*self.layout.chunk, *form.shape), filling
            are_all_there = is_whole and name not in (*counted.ragged, *counted.absent)
            if are_all_there and form.is_truth:
                template[label].attrs["dtype"] = "bool"  # as xarray says it
            if form.stands_in(self.labels.fill) and name not in counted.unclear and not are_all_there:
                masked[label] = filling
            if name in counted.ragged:
                label = self.labels.length_label(name)
                chunks[label], fills[label] = self.layout.chunk, form.shape[0]
        for path, content in group_files(template, chunks, fills, masked):
            self.place.write(path, content)

    def results(self, errors: Iterable[str]) -> Any:
        """The Dataset, opened lazily."""
        self._publish(self.counted, errors)
        counted = self.counted
        for name in counted.unclear if counted.failed else {*counted.unclear} & {*counted.ragged, *counted.absent}:
            filling = self.layout.forms[name].filling(self.labels.fill)
            warn_user(f"output {name!r} is {filling} in some runs, which also fills places without a value; give fill=")
        return opened(self.place)

    # What is done, and what is left

    def chunks(self) -> Generator[tuple[Span, Any]]:
        """Nothing: what others did comes from :meth:`take`, to be checked."""
        yield from ()

    def take(self, most: int) -> Span | None:
        """The next blocks for this job, at most so many, or some that are done and not checked yet; None if none is left."""
        if not self._presence:
            self._presence = f"claim_0_0_of_1_{self._job}"  # of no block: others see that there is another job
            self.place.write(self._presence, b"")
        self._look(is_urgent=False)
        while self._new:
            start, stop, _ = numbers_of(self._new.pop())
            if start < stop <= self.size and not self._taken[start:stop].any():
                self._taken[start:stop] = True
                return start, stop
        return super().take(most)

    def _look(self, is_urgent: bool) -> None:
        was_shared = self._is_shared
        super()._look(not self._looked)
        if self._is_shared and not was_shared:
            for name in self._own.values():
                self.place.write(name, b"")

    def write(self, span: Span, noted: Any) -> None:
        """Blocks are done, and written."""
        start, stop = noted.blocks
        name = chunk_name(start, stop, 1)
        self._seen.add(name)
        if noted.damaged:
            self._damaged[name] = MalformedBody(noted.damaged)
        self._give_up_claim(stop)

    def add(self, start: int, noted: Noted, count: int) -> None:
        """Count blocks that are done."""
        if self.counted.take(noted, count):
            self._publish(self.counted, [])

    def _summary(self) -> bytes:
        """How many chunks each array has, so that those that get lost are missed."""
        return json.dumps(self.counted.chunks).encode()

    def close(self) -> None:
        """Take back what this job claimed; when all is done, remove what killed jobs left."""
        super().close()
        if self._presence:
            self.place.remove(self._presence)
        self._warn_of_damage("blocks")


def opened(place: Place) -> Any:
    """The Dataset of a store; its arrays are read when they are asked for.

    Raises
    ------
    MalformedBody
        It is no group of zarr, or holds more than numbers.
    """
    if isinstance(place, LocalPlace):
        refuse_strange(place.folder, "rows")
    return xarray().open_zarr(str(place), chunks=None, zarr_format=3, decode_times=False)


def done_in_store(place: Place, layout: RowLayout) -> Any:
    """The Dataset of a store that perhaps another process writes; ``complete`` is counted now."""
    found, names = opened(place), place.names()
    _miss_chunks(place, f"complete_{layout.count}_of_1", names)
    done = np.zeros(layout.count, bool)
    for name in chunk_names(names):
        start, stop, _ = numbers_of(name)
        done[start:stop] = True
    runs = sum(stop - start for start, stop in (layout.runs(int(k), int(k) + 1) for k in np.flatnonzero(done)))
    return found.assign_attrs(complete=runs)


def _miss_chunks(place: Place, summary: str, names: Iterable[str]) -> None:
    """Warn of chunks that were there when all was done: zarr gives the filling in their place."""
    if summary not in names:
        return
    try:
        expected = {str(label): int(count) for label, count in json.loads(place.read(summary)).items()}
    except (LoopError, ValueError, TypeError, AttributeError) as error:
        raise MalformedBody(
            f"{summary} in {str(place)!r} is damaged: {error}; remove it, and call sweep(store=...) again"
        ) from error
    for label, count in expected.items():
        there = sum(name.startswith("c") for name in place.names(label))
        if there < count:
            warn_user(
                f"{str(place)!r}: {count - there} of {count} chunks of {label!r} are missing, and read as runs not done; "
                "the same call of sweep(store=...) computes them again"
            )
