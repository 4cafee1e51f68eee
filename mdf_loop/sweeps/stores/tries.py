"""A few runs that are tried before a store is made: what rows are, and how many of them last long enough for a block."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mdf_loop.errors import LoopError
from mdf_loop.models.written import holding
from mdf_loop.sweeps.pieces import Pieces, Uncut
from mdf_loop.sweeps.rows.labels import Labels
from mdf_loop.sweeps.rows.rows_of_runs import Ran
from mdf_loop.sweeps.stores.regular import KINDS, RowForm, RowLayout, chunk_shape
from mdf_loop.sweeps.task import Task

PLACES = 3
"""Tries: from the first row on, from behind a third of them, and from behind two."""

TWICE, ONCE = 2, 5.0
"""Pieces of a try, and seconds of those after which there is no other one."""

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
        """Make one of the tries: a first piece, which compiles, and a second one, which shows the pace."""
        begun, first = time.perf_counter(), start * self.rows // PLACES * (self.task.size // self.rows)
        pieces = Pieces(Uncut(self.task.size - first, self.task.fitted, first), None, self.task.trials)
        known = list[Ran]()
        while len(known) < TWICE and sum(ran.seconds for ran in known) < ONCE and (asked := pieces.take()) is not None:
            known.append(self.task.run(*asked))
            pieces.took(asked, known[-1])
        table = self.task.table(known[-1].span[1] - first)
        for (at, behind), chunk in itertools.chain.from_iterable(ran.chunks for ran in known):
            table.add(at - first, chunk, behind - at)
        forms = {name: _form_of(name, rows, name in table.lengths) for name, rows in table.finish()[0].items()}
        pace = min(ran.seconds / (ran.span[1] - ran.span[0]) for ran in known)
        tried = Tried(forms, pace, next(iter(table.errors.values()), ""))
        return Ran((start, stop), [((start, stop), tried)], time.perf_counter() - begun, 0)


def _form_of(name: str, rows: np.ndarray, has_lengths: bool) -> RowForm:
    if rows.dtype.kind not in KINDS:
        raise LoopError(f"output {name!r} is {rows.dtype}, which a store does not hold; leave it out with outputs=[...]")
    return RowForm(rows.dtype.str, tuple(max(size, 1) for size in rows.shape[1:]), has_lengths)


def _bytes_of(forms: dict[str, RowForm]) -> int:
    """How large a row is."""
    return sum(np.dtype(form.dtype).itemsize * math.prod(form.shape) for form in forms.values()) or 1


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
