"""What many runs gave, as arrays: a row for each run, filled up where runs differ in length."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from mdf_loop.errors import ArgumentError, LoopError, LoopInterrupted, LoopStopped, LoopTimeout, PartialResults, in_words
from mdf_loop.execute.warnings.wrapped_numbers import looks_wrapped
from mdf_loop.models.labelled import padded, rectangular
from mdf_loop.models.written import holding, widened
from mdf_loop.options import Run, part_of
from mdf_loop.progress import Tally

Span = tuple[int, int]
"""The first of some runs, and the one after the last."""

Column = tuple[np.ndarray, np.ndarray | None]
"""A row for each run, and how long each is along its first axis, where it has one."""


@dataclass
class Chunk:
    """What some runs gave, one after the other.

    Attributes
    ----------
    columns : dict of str to Column
        Outputs by name.
    errors : dict of int to str
        What went wrong in which run, by its place in the chunk.
    iterations, stops : array, or None
        Of each run, where it has one loop.
    suspects : dict of str to int
        Runs, counted in the whole sweep, that may have something to warn of: the first one for each reason.
    at_m : array of bool, int or None
        Which of them ended by the trip count, or how many where trials are reduced; None where it is not known.
    """

    columns: dict[str, Column]
    errors: dict[int, str] = field(default_factory=dict)
    iterations: np.ndarray | None = None
    stops: np.ndarray | None = None
    suspects: dict[str, int] = field(default_factory=dict)
    at_m: np.ndarray | int | None = None

    def part(self, start: int, stop: int) -> Chunk:
        """Some of the runs."""
        columns = {
            name: (rows[start:stop], None if lengths is None else lengths[start:stop])
            for name, (rows, lengths) in self.columns.items()
        }
        errors = {k - start: error for k, error in self.errors.items() if start <= k < stop}
        of_runs = (self.iterations, self.stops, self.at_m)
        iterations, stops, at_m = (each[start:stop] if isinstance(each, np.ndarray) else None for each in of_runs)
        return Chunk(columns, errors, iterations, stops, self.suspects, at_m)


@dataclass(frozen=True)
class Ran:
    """What became of a piece of a sweep.

    Attributes
    ----------
    span : Span
        The runs that are done: the first ones of those that were asked for.
    chunks : list of (Span, Chunk)
        What they gave; where that is written elsewhere, what is known of it.
    seconds : float
        How long they took.
    bytes : int
        How large what they gave was before anything was made of it.
    """

    span: Span
    chunks: list[tuple[Span, Any]]
    seconds: float
    bytes: int


def column_of(rows: Sequence[Any], fill: Any = np.nan) -> Column:
    """Values of runs as one array; None is a run that failed."""
    known = [rectangular(row)[0] for row in rows if row is not None]
    if not known:
        return np.full(len(rows), fill, np.result_type(type(fill), np.float64)), None
    rank = max(row.ndim for row in known)
    known = [row.reshape(row.shape + (1,) * (rank - row.ndim)) for row in known]
    if len(known) == len(rows) and len({row.shape for row in known}) == 1:
        return whole_column(np.stack(known))
    are_texts = any(row.dtype.kind in "US" for row in known)
    filled, short = padded(known, "" if are_texts else fill)
    if len(known) == len(rows):
        return filled, short if filled.ndim > 1 else None
    places = [k for k, row in enumerate(rows) if row is not None]
    column = np.full((len(rows), *filled.shape[1:]), "" if are_texts else fill, filled.dtype)
    lengths = np.zeros(len(rows), np.int64)
    column[places], lengths[places] = filled, short
    return column, lengths if column.ndim > 1 else None


def whole_column(rows: np.ndarray) -> Column:
    """Rows that are all as long."""
    return rows, np.full(len(rows), rows.shape[1]) if rows.ndim > 1 else None


def filled_up(rows: np.ndarray, lengths: np.ndarray, fill: Any) -> np.ndarray:
    """Rows of several lengths, filled up behind their ends."""
    if (lengths == rows.shape[1]).all():
        return rows
    dtype = holding(rows.dtype, fill)
    wide = rows if rows.dtype == dtype and rows.flags.owndata else rows.astype(dtype)
    for row, length in zip(wide, lengths.tolist(), strict=True):
        row[length:] = fill
    return wide


def _filling(fill: Any, dtype: np.dtype) -> Any:
    if dtype.kind in "US":
        return ""
    return fill if holding(dtype, fill) == dtype else 0  # it is not seen: rows of whole numbers are all there in the end


def first_odd(columns: Mapping[str, np.ndarray | None], among: Any = True) -> dict[str, int]:
    """Of each column, of all rows or some, the first with nan or infinity, or the one with the largest of large whole numbers."""
    found = dict[str, int]()
    for name, column in columns.items():
        if column is None or column.dtype.kind not in "fciu" or not column.size:
            continue
        axes, is_whole = tuple(range(1, column.ndim)), column.dtype.kind in "iu"
        odd = (looks_wrapped(column) if is_whole else ~np.isfinite(column)).any(axis=axes) & among
        if odd.any():
            found[name] = int(np.argmax(np.abs(column.astype(float)).max(axis=axes) * odd if is_whole else odd))
    return found


def earliest(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """The first run for each reason."""
    return {reason: min(one.get(reason, run), run) for reason, run in {**one, **other}.items()}


def all_at_m(before: int | None, more: np.ndarray | int | None) -> int | None:
    """How many runs ended by the trip count, with more of them; None where it is not known of all."""
    return None if before is None or more is None else before + int(np.sum(more))


class Table:
    """The results of all runs, filled in chunk by chunk.

    Parameters
    ----------
    count : int
        How many runs there are.
    fill : number
        What stands where there is no value.
    """

    def __init__(self, count: int, fill: Any = np.nan) -> None:
        self.count, self.fill = count, fill
        self.arrays: dict[str, np.ndarray] = {}
        self._blank: dict[str, np.ndarray] = {}  # which rows of an output were never there
        self.lengths: dict[str, np.ndarray] = {}
        self.errors: dict[int, str] = {}
        self.suspects: dict[str, int] = {}
        self.at_m: int | None = 0
        self.done = self._empty(count)

    @staticmethod
    def _empty(count: int) -> np.ndarray:
        try:
            return np.zeros(count, bool)
        except (ValueError, MemoryError) as error:  # numpy calls more elements than there are addresses a ValueError
            raise ArgumentError(f"the results of {in_words(count)} runs do not fit into memory; ask for fewer") from error

    def add(self, start: int, chunk: Chunk, count: int) -> None:
        """Fill in the rows from ``start`` on."""
        for name, (rows, lengths) in chunk.columns.items():
            self.put(slice(start, start + len(rows)), name, rows)
            if lengths is not None:
                known = self.lengths.setdefault(name, np.zeros(self.count, np.int64))
                known[start : start + len(rows)] = lengths
        self.note(start, chunk)
        self.done[start : start + count] = True

    def note(self, start: int, chunk: Chunk) -> None:
        """What went wrong in runs from ``start`` on, and what may be warned of."""
        self.errors |= {start + k: error for k, error in chunk.errors.items()}
        self.suspects = earliest(self.suspects, chunk.suspects)
        self.at_m = all_at_m(self.at_m, chunk.at_m)

    def put(self, where: slice | np.ndarray, name: str, rows: np.ndarray) -> None:
        """Fill in some rows of one output; all of them at once stay where they are, if nothing else is there."""
        rows = widened(rows)
        if len(rows) == self.count and rows.flags.writeable and rows.flags.c_contiguous and not self._holds(name, rows):
            self.arrays[name], self._blank[name] = rows, np.zeros(self.count, bool)
            return
        self._write(self._room(name, rows), where, rows)
        self._blank[name][where] = False

    def _write(self, array: np.ndarray, where: slice | np.ndarray, rows: np.ndarray) -> None:
        """Write rows, and fill up what is behind them along each axis."""
        for axis in range(1, rows.ndim):
            if rows.shape[axis] < array.shape[axis]:
                behind: Any = (where, *map(slice, rows.shape[1:axis]), slice(rows.shape[axis], None))
                array[behind] = _filling(self.fill, array.dtype)
        index: Any = (where, *map(slice, rows.shape[1:]))
        array[index] = rows

    def _holds(self, name: str, rows: np.ndarray) -> bool:
        """Whether an output is there already, or another one in the same memory."""
        return name in self.arrays or any(np.may_share_memory(rows, other) for other in self.arrays.values())

    @property
    def failed(self) -> int:
        """How many runs failed."""
        return len(self.errors)

    @property
    def complete(self) -> int:
        """How many runs are done."""
        return int(self.done.sum())

    def _room(self, name: str, rows: np.ndarray) -> np.ndarray:
        """The array of an output, made larger or of a wider type where these rows need it."""
        old = self.arrays.get(name)
        shape, dtype = rows.shape[1:], rows.dtype
        if old is not None:
            if old.ndim != rows.ndim:
                raise LoopError(
                    f"output {name!r} has {rows.ndim - 1} axes in some runs and {old.ndim - 1} in others; leave it out"
                )
            shape, dtype = tuple(map(max, old.shape[1:], shape)), np.result_type(old.dtype, dtype)
            if not old.shape[1:] == shape == rows.shape[1:]:
                dtype = holding(dtype, self.fill)
            if old.shape[1:] == shape and old.dtype == dtype:
                return old
        array = self._allocated(name, shape, dtype)
        if old is None:
            self._blank[name] = np.ones(self.count, bool)
        else:
            with np.errstate(invalid="ignore"):  # rows that are not there yet may hold anything
                self._write(array, slice(None), old)
        self.arrays[name] = array
        return array

    def _allocated(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Room for the rows of all runs; rows that never come are filled in the end."""
        try:
            return np.empty((self.count, *shape), dtype)
        except (ValueError, MemoryError) as error:
            size = self.count * math.prod(shape) * dtype.itemsize / 2**30
            raise ArgumentError(
                f"output {name!r} of {self.count:,} runs, each {dtype}{list(shape)}, takes {size:,.1f} GiB of memory; ask for "
                "fewer, or for a sweep that keeps other outputs (outputs=), reduces trials (reduce=) or writes to disk (store=)"
            ) from error

    def finish(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The arrays, and the lengths of those outputs whose runs differ in length."""
        missing = ~self.done
        missing[list(self.errors)] = True
        self._fill_gaps(missing)
        ragged = {
            name: lengths for name, lengths in self.lengths.items() if (lengths[self.done] != self.arrays[name].shape[1]).any()
        }
        return self.arrays, ragged

    def _fill_gaps(self, missing: np.ndarray) -> None:
        """Fill rows that are missing, or were never there of an output."""
        for name, array in self.arrays.items():
            without = missing | self._blank[name]
            if without.any():
                wide = array.astype(holding(array.dtype, self.fill), copy=False)
                wide[without] = _filling(self.fill, wide.dtype)
                self.arrays[name] = wide


@contextlib.contextmanager
def keeping(results: Callable[[], Any], far: Callable[[], str] = str) -> Iterator[None]:
    """Give what is complete to the error that ends it early, as ``.results``, and a note that says how ``far`` it came."""
    try:
        yield
    except BaseException as error:  # a signal handler may raise anything
        is_plain = isinstance(error, KeyboardInterrupt) and not isinstance(error, PartialResults)
        ended = LoopInterrupted("interrupted") if is_plain else error
        with contextlib.suppress(AttributeError):
            ended.results = results()  # type: ignore[attr-defined]
        if isinstance(ended, LoopInterrupted | LoopTimeout | LoopStopped) and far():
            ended.iteration = ended.partial = ended.outputs = None  # they are of the run that was under way
            ended.add_note(far())
        if ended is not error:
            raise ended from error
        raise


class Filled(Protocol):
    """What takes the runs that are done."""

    def add(self, start: int, chunk: Any, count: int, /) -> None:
        """Take some of them, from one on."""


def fill(table: Filled, found: Generator[tuple[Span, Any]], run: Run, tally: Tally | None = None) -> int:
    """Fill in chunks as they come, and tell how many runs are done.

    Parameters
    ----------
    table : Filled
    found : generator
        Closed in the end, however it ends.
    run : Run
        Which everything is a part of.
    tally : Tally, optional
        What counts the runs that are done.

    Returns
    -------
    int
        How many runs came.
    """
    run.watch, done = None, 0  # runs are counted, not the iterations in them
    with contextlib.closing(found), part_of(run):
        for (start, stop), chunk in found:
            table.add(start, chunk, stop - start)
            done += stop - start
            if tally is not None:
                tally(stop - start)
    return done
