"""What is made of the trials of each point, merged as pieces of a sweep come: the same bits for any pieces, in any order.

Trials of a point are taken in blocks of eight, and blocks are merged in pairs, those again in pairs, and so on: a tree that
depends on the number of trials alone.  A piece becomes the largest parts of that tree that lie in it.  Memory is that of a few
parts for each piece, however many trials there are.  What needs all trials of a point at once holds those of the points that are
under way.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdf_loop.errors import LoopError, let_through
from mdf_loop.sweeps.rows.reducing import MOMENTS, NOTHING, Moments, One, Quantiles, Reduce
from mdf_loop.sweeps.rows.rows_of_runs import Chunk, Span, Table, all_at_m, column_of

BLOCK = 8
"""Trials that are added up one after the other."""

VALUE = "value"
"""The part of what is made of all trials of a point at once."""


@dataclass(frozen=True)
class Parts:
    """Parts of the trees of some points, in the order of their first trials.

    Attributes
    ----------
    first, level : array of int
        The number of each part's first block, counted through all points; its height in the tree.
    columns : mapping of str to array
        ``output/part``: a row for each part.
    """

    first: np.ndarray
    level: np.ndarray
    columns: dict[str, np.ndarray]

    def some(self, which: np.ndarray) -> Parts:
        """Some of them."""
        return Parts(self.first[which], self.level[which], {name: rows[which] for name, rows in self.columns.items()})

    def state(self, output: str, parts: tuple[str, ...]) -> dict[str, np.ndarray]:
        """What is known of one output."""
        return {part: self.columns[f"{output}/{part}"] for part in parts}


@dataclass(frozen=True)
class Merging:
    """How the trials of points are reduced.

    Attributes
    ----------
    reduce : Reduce
    trials : int
        How many there are at each point.
    """

    reduce: Reduce
    trials: int

    @property
    def group(self) -> int:
        """So many trials of a point have to be there before anything is made of them."""
        are_moments = all(isinstance(one, Moments) for one in self.reduce.values())
        return min(BLOCK, self.trials) if are_moments else self.trials

    @property
    def blocks(self) -> int:
        """How many blocks a point has."""
        return -(-self.trials // BLOCK)

    @property
    def top(self) -> int:
        """The height of the tree of a point."""
        return (self.blocks - 1).bit_length()

    def below(self, run: int) -> int:
        """The last bound between groups up to a run."""
        trial = run % self.trials
        return run - trial % self.group

    def fitted(self, start: int, stop: int) -> int:
        """Where a piece ends that shall end at ``stop`` or shortly before: between groups, if it has a whole one."""
        bound = self.below(stop)
        return bound if bound > start else stop

    def split(self, span: Span) -> Iterator[Span]:
        """The part of some runs that is whole groups, and what is before and behind it."""
        start, stop = span
        before = self.below(start)
        if before < start:
            point_end = start - start % self.trials + self.trials
            before = min(before + self.group, point_end)
        behind = self.below(stop)
        bounds = [start, before, behind, stop] if before <= behind else [start, stop]
        yield from ((a, b) for a, b in itertools.pairwise(bounds) if a < b)

    def is_whole(self, start: int, stop: int) -> bool:
        """Whether some runs are whole groups."""
        return self.below(start) == start and self.below(stop) == stop

    def rows_in(self, start: int, stop: int) -> int:
        """How many rows the chunk of some runs has: that of whole groups has one for each part of a tree."""
        if not self.is_whole(start, stop):
            return stop - start
        before, points, behind = self._places(start, stop)
        return len(before) + len(points) + len(behind)

    def _places(self, start: int, stop: int) -> tuple[list[tuple[int, int]], range, list[tuple[int, int]]]:
        """The largest parts of trees in whole groups: of a first point, of points that are all there, and of a last one."""
        (first, t), (last, u) = divmod(start, self.trials), divmod(stop, self.trials)
        if first == last:
            return self._inside(first, t // BLOCK, u // BLOCK), range(0), []
        before = self._inside(first, t // BLOCK, self.blocks) if t else []
        return before, range(first + bool(t), last), self._inside(last, 0, u // BLOCK)

    def _inside(self, point: int, start: int, stop: int) -> list[tuple[int, int]]:
        """First block and level of the largest parts in some blocks of a point."""
        found = []
        while start < stop:
            level = 0
            while level < self.top and not start % (2 << level) and min(start + (2 << level), self.blocks) <= stop:
                level += 1
            found.append((point * self.blocks + start, level))
            start = min(start + (1 << level), self.blocks)
        return found

    def reduced(self, start: int, chunk: Chunk, there: np.ndarray) -> Chunk:
        """The parts that are made of whole groups of runs, as a chunk; ``there`` are those that have not failed."""
        columns: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
        blocks = _Blocks(self, start, len(there))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # points without a single value
            for name, column in chunk.columns.items():
                one = self.reduce.get(name)
                if isinstance(one, Moments):
                    made = blocks.moments(one, name, column, there)
                    columns |= {f"{name}/{part}": (made.columns[f"{name}/{part}"], None) for part in one.parts}
                elif one is not None:
                    values = list(blocks.whole(one, name, column, there))
                    if any(value is not None for value in values):
                        columns[f"{name}/{VALUE}"] = column_of(values)
        return replace(chunk, columns=columns, iterations=None, stops=None, at_m=all_at_m(0, chunk.at_m))

    def parts_of(self, span: Span, chunk: Chunk) -> Parts:
        """A chunk of reduced runs as parts of trees: which they are follows from the runs."""
        columns = {name: rows for name, (rows, _) in chunk.columns.items()}
        before, points, behind = self._places(*span)
        roots = [(point * self.blocks, self.top) for point in points]
        first, level = np.array([*before, *roots, *behind], np.int64).reshape(-1, 2).T
        return Parts(first, level, columns)

    def climbed(self, parts: Parts) -> Parts:
        """Merge what lies side by side in the tree of a point, as high as that goes."""
        with np.errstate(all="ignore"):
            return self._climbed(parts)

    def _climbed(self, parts: Parts) -> Parts:
        for level in range(self.top):
            at, place = parts.level == level, parts.first % self.blocks >> level
            last = -(-self.blocks >> level) - 1
            parts.level[at & (place == last) & (place % 2 == 0)] += 1  # it has no brother
            pairs = at[:-1] & at[1:] & (place[:-1] % 2 == 0) & (place[1:] == place[:-1] + 1)
            pairs &= np.diff(parts.first // self.blocks) == 0
            if not pairs.any():
                continue
            parts = self.paired(parts, np.flatnonzero(pairs))
        return parts

    def paired(self, parts: Parts, left: np.ndarray) -> Parts:
        """Merge some parts, each with the next one."""
        a, b = parts.some(left), parts.some(left + 1)
        kept = np.delete(np.arange(len(parts.first)), left + 1)
        found, merged = parts.some(kept), np.isin(kept, left)
        found.level[merged] += 1
        for name, one in self._outputs(parts):
            for part, rows in one.merged(a.state(name, one.parts), b.state(name, one.parts)).items():
                found.columns[f"{name}/{part}"][merged] = rows
        return found

    def _outputs(self, parts: Parts) -> Iterator[tuple[str, Moments]]:
        """The outputs of which there are moments."""
        for name in dict.fromkeys(column.rpartition("/")[0] for column in parts.columns):
            one = self.reduce.get(name)
            if isinstance(one, Moments):
                yield name, one


class _Blocks:
    """Some runs that are whole groups, in blocks."""

    def __init__(self, merging: Merging, start: int, count: int) -> None:
        self.merging, self.start, self.count = merging, start, count
        point, trial = np.divmod(np.arange(start, start + count), merging.trials)
        number = point * merging.blocks + trial // BLOCK
        self.begin = np.flatnonzero(np.diff(number, prepend=-1))
        self.lengths = np.diff(self.begin, append=count)
        self.parts = Parts(number[self.begin], np.zeros(len(self.begin), np.int64), {})

    def moments(self, one: Moments, name: str, column: tuple[np.ndarray, Any], there: np.ndarray) -> Parts:
        """The moments of an output, in the largest parts that there are."""
        trials, known = list[np.ndarray](), list[np.ndarray]()
        for k in range(int(self.lengths.max(initial=1))):
            rows = self.begin + np.minimum(k, self.lengths - 1)
            values, is_there = _there(column, there, rows)
            trials.append(values)
            known.append(is_there & _along(k < self.lengths, values))
        state = one.begun(trials, known, name)
        columns = {f"{name}/{part}": rows for part, rows in state.items()}
        return self.merging.climbed(Parts(self.parts.first.copy(), self.parts.level.copy(), columns))

    def whole(
        self, one: Callable[[np.ndarray], Any], name: str, column: tuple[np.ndarray, Any], there: np.ndarray
    ) -> Iterator[Any]:
        """What is made of all trials of each point that are there; None where there is none."""
        (rows, lengths), trials = column, self.merging.trials
        if (
            isinstance(one, Quantiles)
            and lengths is None
            and rows.dtype.kind in "iuf"
            and there.all()
            and not np.isnan(rows).any()
        ):
            yield from one.of_points(rows.reshape(-1, trials, *rows.shape[1:]))
            return
        for k in range(0, self.count, trials):
            known = there[k : k + trials]
            point = rows[k : k + trials][known]
            if lengths is not None and rows.ndim > 1:
                point = point[:, : lengths[k : k + trials][known].max(initial=0)]  # other points may be longer
            try:
                yield np.asarray(one(point)) if len(point) else None
            except Exception as error:
                let_through(error)
                at = (self.start + k) // trials
                raise LoopError(f"reduce of output {name!r}, of {len(point)} trials at point {at}: {error!r}") from error


def _along(flags: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Flags of rows, as an array that goes with their values."""
    return flags.reshape(-1, *(1,) * (values.ndim - 1))


def _there(column: tuple[np.ndarray, Any], there: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values of some runs, and which of them are there."""
    values, lengths = column
    found = values[rows]
    known = np.broadcast_to(_along(there[rows], found), found.shape)
    if lengths is not None and found.ndim > 1:
        short = np.arange(found.shape[1]) < lengths[rows, None]
        known = known & short.reshape(*short.shape, *(1,) * (found.ndim - 2))
    return found, known & ~np.isnan(found) if found.dtype.kind == "f" else known


class Merged(Table):
    """What is made of the trials of all points, as far as they are there: a table with a row for each point.

    Parameters
    ----------
    merging : Merging
    points : int
    fill : number
        What stands where there is no value.
    """

    def __init__(self, merging: Merging, points: int, fill: Any = np.nan) -> None:
        super().__init__(points)
        self.merging, self._filling, self._runs = merging, fill, 0
        self._open = Parts(np.zeros(0, np.int64), np.zeros(0, np.int64), {})
        self._groups: dict[int, Table] = {}

    @property
    def complete(self) -> int:
        """How many runs are done."""
        return self._runs

    def add(self, start: int, chunk: Chunk, count: int) -> None:
        """Take a piece: the parts of whole groups, or the runs of a part of a group."""
        self._runs += count
        self.note(start, chunk)
        if self.merging.is_whole(start, start + count):
            self._take(self.merging.parts_of((start, start + count), chunk))
            return
        first = self.merging.below(start)
        size = min(self.merging.group, self.merging.trials - first % self.merging.trials)
        group = self._groups.setdefault(first, Table(size))
        group.add(start - first, chunk, count)
        if group.done.all():
            self._close(first)

    def finish(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """What is made of each point; of those that are not complete, from the trials that are there."""
        for first in sorted(self._groups):
            self._close(first)
        while (same := np.diff(self._open.first // self.merging.blocks) == 0).any():
            left = np.flatnonzero(same & np.append(True, ~same[:-1]))
            self._open = self.merging.paired(self._open, left)
        self._put_points(self._open)
        self._open = self._open.some(np.zeros(len(self._open.first), bool))
        self._fill_gaps(~self.done)
        return {name: self._finished(name, rows) for name, rows in self.arrays.items()}, {}

    def _finished(self, name: str, rows: np.ndarray) -> np.ndarray:
        if self.merging.reduce.get(name) == MOMENTS["count"]:
            return np.nan_to_num(rows).astype(np.int64)
        if not self.done.all() and not np.isnan(self._filling):
            rows[~self.done] = self._filling
        return rows

    def _close(self, first: int) -> None:
        """Reduce the runs of a group that are there."""
        group = self._groups.pop(first)
        (arrays, _), lengths = group.finish(), group.lengths
        there = group.done.copy()
        there[list(group.errors)] = False
        chunk = Chunk({name: (rows, lengths.get(name)) for name, rows in arrays.items()})
        self._take(self.merging.parts_of((first, first + group.count), self.merging.reduced(first, chunk, there)))

    def _take(self, parts: Parts) -> None:
        parts = _joined(self._open, parts)
        parts = self.merging.climbed(parts.some(np.argsort(parts.first)))
        is_whole = parts.level == self.merging.top
        self._put_points(parts.some(is_whole))
        self._open = parts.some(~is_whole)

    def _put_points(self, parts: Parts) -> None:
        """Fill in what is made of points, each of which is one part."""
        points = parts.first // self.merging.blocks
        self.done[points] = True
        for name in dict.fromkeys(column.rpartition("/")[0] for column in parts.columns):
            one: One | None = self.merging.reduce.get(name)
            with np.errstate(all="ignore"):
                made = one.made(parts.state(name, one.parts)) if isinstance(one, Moments) else parts.columns[f"{name}/{VALUE}"]
            self.put(points, name, made)


def table_of(merging: Merging | None, runs: int, fill: Any) -> Table:
    """What the results of so many runs are filled in."""
    return Table(runs, fill) if merging is None else Merged(merging, -(-runs // merging.trials), fill)


def _joined(a: Parts, b: Parts) -> Parts:
    """Parts of both; what one of them has nothing of is filled up."""
    if not len(a.first) or not len(b.first):
        return b if len(b.first) else a
    columns = dict[str, np.ndarray]()
    for name in dict.fromkeys([*a.columns, *b.columns]):
        part = name.rpartition("/")[2]
        nothing = NOTHING.get(part, np.nan)
        known = [each.columns[name] for each in (a, b) if name in each.columns]
        if len({rows.ndim for rows in known}) > 1:
            raise LoopError(f"output {name.rpartition('/')[0]!r} has other axes in some runs than in others; leave it out")
        shape = tuple(max(sizes) for sizes in zip(*(rows.shape[1:] for rows in known), strict=True))
        rows = [
            _wide(each.columns.get(name), len(each.first), shape, nothing, known[0].dtype, part == "count") for each in (a, b)
        ]
        columns[name] = np.concatenate(rows)
    return Parts(np.concatenate([a.first, b.first]), np.concatenate([a.level, b.level]), columns)


def _wide(
    rows: np.ndarray | None, count: int, shape: tuple[int, ...], nothing: float, dtype: np.dtype, is_count: bool
) -> np.ndarray:
    """Rows of a larger shape; ``rows`` is None where there are none.  Whole numbers that are not all there become floats."""
    if rows is not None and rows.shape[1:] == shape:
        return rows
    dtype = dtype if rows is None else rows.dtype
    if not is_count and dtype.kind in "biu":
        dtype = np.dtype(np.float64)
    found = np.full((count, *shape), nothing, dtype)
    if rows is not None:
        index: Any = tuple(map(slice, rows.shape))
        found[index] = rows
    return found
