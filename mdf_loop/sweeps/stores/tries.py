"""A few runs that are tried before a store is made: what rows are, and how many of them last long enough for a block."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mdf_loop.errors import LoopError
from mdf_loop.sweeps.pieces import Pieces, Uncut
from mdf_loop.sweeps.rows.labels import Labels
from mdf_loop.sweeps.rows.rows_of_runs import Ran, Table, holding
from mdf_loop.sweeps.stores.regular import KINDS, RowForm, RowLayout, chunk_shape
from mdf_loop.sweeps.task import Task
from mdf_loop.sweeps.workers import here

PLACES = 3
"""Tries: from the first row on, from behind a third of them, and from behind two."""

MORE, MANY = 32, 1024
"""A try is made with at most so many times as many runs until it lasts long enough; and so many runs, vectorised, take hardly
longer than one."""

ENOUGH, LONG, ONCE = 0.1, 1.0, 5.0
"""Seconds of a try with many runs, and of one with few; and of one that is not made again, as others are because they compile."""

BLOCK = 0.5
"""Seconds of a block."""

MOST_BLOCKS, MOST_BYTES = 1 << 18, 1 << 26
"""Blocks that a store has at most, where that takes less than the bytes of one."""


@dataclass(frozen=True)
class Tried:
    """What a try gave.

    Attributes
    ----------
    forms : mapping of str to RowForm
        By output; without those of which no run gave anything.
    seconds : float
        Of one run.
    error : str
        What went wrong in one of the runs.
    """

    forms: dict[str, RowForm]
    seconds: float
    error: str


@dataclass(frozen=True)
class Tries:
    """Tries, as pieces of work: each is a row of results, of which as many runs are made as it takes.

    Attributes
    ----------
    task : Task
    rows : int
        How many rows the whole has.
    """

    task: Task
    rows: int

    def run(self, start: int, stop: int, seconds: float = math.inf) -> Ran:
        """Make one of the tries."""
        begun, each = time.perf_counter(), self.task.size // self.rows
        first = start * self.rows // PLACES * each
        found, count = self._tried(first, 1), 1
        while True:
            if found.seconds * count < ONCE:
                found = min(found, self._tried(first, count), key=lambda tried: tried.seconds)
            enough = ENOUGH if count >= MANY else LONG
            more = min(MORE * count, math.ceil(1.2 * enough / found.seconds), self._most(found), self.task.size - first)
            if more <= count or found.seconds * count >= enough:
                return Ran((start, stop), [((start, stop), found)], time.perf_counter() - begun, 0)
            found, count = self._tried(first, more), more

    def _most(self, found: Tried) -> int:
        return max(MOST_BYTES // _bytes_of(found.forms), 1)

    def _tried(self, start: int, count: int) -> Tried:
        begun = time.perf_counter()
        table = rows_of(self.task, start, start + count)
        arrays, _ = table.finish()
        forms = {name: _form_of(name, rows, name in table.lengths) for name, rows in arrays.items()}
        return Tried(forms, (time.perf_counter() - begun) / count, next(iter(table.errors.values()), ""))


def _form_of(name: str, rows: np.ndarray, has_lengths: bool) -> RowForm:
    if rows.dtype.kind not in KINDS:
        raise LoopError(f"output {name!r} is {rows.dtype}, which a store does not hold; leave it out with outputs=[...]")
    return RowForm(rows.dtype.str, tuple(max(size, 1) for size in rows.shape[1:]), has_lengths)


def _bytes_of(forms: dict[str, RowForm]) -> int:
    """How large a row is."""
    return sum(np.dtype(form.dtype).itemsize * math.prod(form.shape) for form in forms.values()) or 1


def rows_of(task: Task, start: int, stop: int) -> Table:
    """What some runs give, as rows; where trials are reduced the first run is the first of a point."""
    table = task.table(stop - start)
    pieces = Pieces(Uncut(stop - start, task.fitted, start), None, task.trials, is_watched=False)
    for (first, behind), chunk in here(task, pieces):
        table.add(first - start, chunk, behind - first)
    return table


def layout_of_tries(task: Task, labels: Labels, tries: Iterable[Tried], length: int | None) -> RowLayout:
    """The layout that fits what was tried; ``length`` is how many runs a block has, where the caller says so.

    Raises
    ------
    LoopError
        Nothing is known of an output, because all runs failed; or an output has another number of axes in other runs.
    """
    if named := [name for name in labels.names if "/" in name]:
        raise LoopError(f"output {named[0]!r} has a slash in its name, which an array of a store cannot have; leave it out")
    known = list(tries)
    seconds = sum(found.seconds for found in known) / len(known)
    forms = {
        name: _joined(name, task.fill, [found.forms[name] for found in known if name in found.forms]) for name in labels.names
    }
    if missing := [name for name, form in forms.items() if form is None]:
        error = next((found.error for found in known if found.error), "it has no value")
        raise LoopError(f"a store has to know what rows are, and all runs that were tried gave no {missing[0]!r}: {error}")
    settled = {name: form for name, form in forms.items() if form is not None}
    shape, each = tuple(labels.shape), task.size // labels.rows
    if length is None:
        length = min(math.ceil(BLOCK / max(seconds, 1e-9)), MOST_BYTES // _bytes_of(settled) * each)
        length = max(length, task.size // MOST_BLOCKS)
    chunk = chunk_shape(shape, max(length // each, 1))
    return RowLayout(shape, chunk, each, settled, seconds * math.prod(chunk) * each)


def _joined(name: str, fill: float, forms: list[RowForm]) -> RowForm | None:
    """The form that holds rows of all of them."""
    if not forms:
        return None
    if len({len(form.shape) for form in forms}) > 1:
        raise LoopError(f"output {name!r} has more axes in some runs than in others; leave it out with outputs=[...]")
    shape = tuple(map(max, zip(*(form.shape for form in forms), strict=True)))
    dtype = np.result_type(*(np.dtype(form.dtype) for form in forms))
    if len({form.shape for form in forms}) > 1:
        dtype = holding(dtype, fill)
    if not np.isnan(fill) and holding(dtype, fill) != dtype:
        raise LoopError(f"output {name!r} is {dtype} and fill={fill} is not: give a fill= that is, or none")
    return RowForm(dtype.str, shape, any(form.has_lengths for form in forms))
