"""A sweep that can be gone on with: each chunk is a file of its own, and several jobs may write them side by side.

``sweep.npz`` says which sweep it is, ``chunk_0_100_of_40.npz`` holds runs.  Each file ends in a
checksum of its content, its name, and everything that decides its numbers: what is damaged, or was written for something else,
is found, set aside and computed again.

Jobs see from the names what is done.  An empty file ``claim_...`` tells others what a job works at.  That is a hint about where
to go on, so the claim of a job that died holds nothing up.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.errors import LoopError, MalformedBody, warn_user
from mdf_loop.sweeps.checkpoints.chunk_files import (
    chunk_name,
    chunk_names,
    numbers_of,
    parts_of,
    read_chunk,
    sealed,
    unsealed,
    written_chunk,
)
from mdf_loop.sweeps.checkpoints.digest import differences, digest_of, digest_of_points, lines_of
from mdf_loop.sweeps.checkpoints.storage import UNFINISHED, LocalPlace, RemotePlace, place_of
from mdf_loop.sweeps.rows.labels import Labels
from mdf_loop.sweeps.rows.rows_of_runs import Chunk
from mdf_loop.sweeps.stores.regular import RowLayout, layout_of
from mdf_loop.sweeps.task import Task

VERSION = 3
"""Of the form of a checkpoint."""

SWEEP, DAMAGED = "sweep.npz", ".damaged"
"""What says which sweep it is; and how the name of what is set aside ends."""

LOOKING = 0.05
"""The part of its time in which a job may look at what others do."""

FEW = 3
"""Damaged parts that a warning names."""

_CLAIM = re.compile(r"claim_(\d{1,18})_(\d{1,18})_of_(\d{1,18})_([0-9a-f]{16})")

Place = LocalPlace | RemotePlace
Span = tuple[int, int]


def begun(path: Any, what: str) -> int | None:
    """The seed of the sweep whose checkpoint, or store, is there, as a number; a call without one goes on with it."""
    try:
        seed = said_in(place_of(path, what))["lines"]["seed"].strip("'")
    except (MalformedBody, KeyError):
        return None
    return int(seed) if seed.isdecimal() else None


def said_in(place: Place) -> dict[str, Any]:
    """What a checkpoint says of its sweep: lines, digest of its points, labels, and the layout of its arrays if it has some.

    Raises
    ------
    MalformedBody
        It is damaged, or not there.
    """
    if SWEEP not in place.names():
        raise MalformedBody(f"{str(place)!r} does not say of which sweep it is")
    said, arrays = unsealed(place.read(SWEEP), f"{SWEEP} in {str(place)!r}", SWEEP)
    try:
        if said["version"] != VERSION:
            raise MalformedBody(f"{str(place)!r} is a checkpoint of form {said['version']}; this version reads form {VERSION}")
        named = said["labels"]["coordinates"].items()
        labels = said["labels"] | {"coordinates": {name: (dim, arrays[f"coordinate {name}"]) for name, dim in named}}
        lines = {str(name): str(line) for name, line in said["lines"].items()}
        layout = None if said.get("layout") is None else layout_of(said["layout"])
        return {"lines": lines, "digest": str(said["digest"]), "labels": Labels(**labels), "layout": layout}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedBody(f"{str(place)!r} does not say of which sweep it is: {error}") from error


def holds_checkpoint(names: list[str]) -> bool:
    """Whether a folder with such parts is a checkpoint, perhaps a damaged one."""
    return SWEEP in names or bool(chunk_names(names))


def what_is_wrong(place: Place, damaged: Mapping[str, Exception]) -> str:
    """Damaged parts in words: the first few, and why."""
    few = "; ".join(map(str, list(damaged.values())[:FEW]))
    return f"{str(place)!r}: {few}{f'; and {len(damaged) - FEW} more' if len(damaged) > FEW else ''}"


class Checkpoint:
    """The chunks of one sweep that are complete, and the runs that are left.

    Parameters
    ----------
    path : str or path-like
        A ``.zarr`` folder, made if it is not there, or an address that fsspec knows.
    task : Task
    labels : Labels
        What its results are called, for :func:`mdf_loop.open`.

    Raises
    ------
    LoopError
        The folder holds something else, or another sweep: says what is different.
    """

    WHAT = "checkpoint"
    """The argument of :func:`mdf_loop.sweep` that names it."""

    WRITES_ITSELF = True
    """Whether this process writes all that this job does; otherwise its workers do."""

    def __init__(self, path: Any, task: Task, labels: Labels) -> None:
        self.place, self.task, self.labels = place_of(path, self.WHAT), task, labels
        self._lines = lines_of(task)
        self._belongs, self._job = digest_of(self._lines), os.urandom(8).hex()
        self._seen, self._new, self._damaged = set[str](), list[str](), dict[str, Exception]()
        self._own, self._claims = dict[Span, str](), dict[Span, str]()
        self._at, self._looked, self._took, self._is_shared = 0, 0.0, 0.0, False
        while not self._begin([name for name in self.place.names() if not name.startswith(UNFINISHED)]):
            continue  # another job began at the same time
        self.size, self.trials = (task.size, task.trials) if self.layout is None else (self.layout.count, 1)
        self._taken = np.zeros(self.size, bool)  # done, or under way here
        self._done = f"complete_{self.size}_of_{self.trials}"
        self._missing = self._not_there(self.place.names())

    @property
    def layout(self) -> RowLayout | None:
        """The blocks that it consists of, where that is not runs."""
        return None

    def _begin(self, names: list[str]) -> bool:
        """See that the folder is that of this sweep, and says so; False if another job was faster."""
        if names and not holds_checkpoint(names):
            raise MalformedBody(f"{str(self.place)!r} exists and is not the {self.WHAT} of a sweep; it is not replaced")
        try:
            if names and not self._grows(said_in(self.place)):
                return True
        except MalformedBody as error:
            if not any(map(self._is_ours, chunk_names(names))):
                raise MalformedBody(f"{error}, and there is no chunk of this one in it; name another file") from error
            self._set_aside(SWEEP, error)
            names = []
        return self._say(is_new=not names)

    def _grows(self, said: dict[str, Any]) -> bool:
        """Whether this sweep has more points or trials than that of a checkpoint, and is the same otherwise."""
        self._see_kind(said["layout"])
        found, labels, grid = differences(said["lines"], self._lines), said["labels"], self.task.grid
        if not found and (grid.size < labels.points or digest_of_points(grid, 0, labels.points) != said["digest"]):
            found = labels.other_points(self.labels)
        if found:
            raise LoopError(
                f"{str(self.place)!r} is the {self.WHAT} of another sweep: {found}; name another file, or remove this one"
            )
        return grid.size > labels.points or self.task.trials > labels.trials

    def _see_kind(self, layout: RowLayout | None) -> None:
        """See that what is there was written by the same argument."""
        if layout is not None:
            raise LoopError(f"{str(self.place)!r} is the store of a sweep: continue it with store=")

    def _say(self, is_new: bool) -> bool:
        """Write of which sweep it is, unless another job was faster: then False."""
        task, labels = self.task, self.labels
        arrays = {f"coordinate {name}": values for name, (_, values) in labels.coordinates.items()}
        known = vars(labels) | {"coordinates": {name: dim for name, (dim, _) in labels.coordinates.items()}}
        digest = digest_of_points(task.grid, 0, task.grid.size)
        said = {"version": VERSION, "lines": self._lines, "digest": digest, "labels": known}
        said["layout"] = None if self.layout is None else self.layout.said()
        return self.place.write(SWEEP, sealed(said, arrays, SWEEP), is_new)

    # What is done

    @property
    def is_complete(self) -> bool:
        """Whether all runs are done, or under way here."""
        return bool(self._taken.all())

    def chunks(self) -> Generator[tuple[Span, Chunk]]:
        """The runs that are done and were not given yet, in parts that do not overlap.

        What is damaged is set aside, with a warning.
        """
        self._look(not self._seen)
        while self._new:
            name = self._new.pop()
            try:
                chunk = self._read(name)
            except MalformedBody as error:
                self._set_aside(name, error)
                continue
            yield from self._untaken(name, chunk)
        self._warn_of_damage("runs")

    def _warn_of_damage(self, what: str) -> None:
        if self._missing:
            self._damaged[""], self._missing = MalformedBody(f"{self._missing} {what} are missing that were done"), 0
        if self._damaged:
            wrong, self._damaged = what_is_wrong(self.place, self._damaged), {}
            warn_user(f"{wrong}. Its files are kept under names that end in {DAMAGED!r}, and its {what} are computed again")

    def _not_there(self, names: list[str]) -> int:
        """How many runs no chunk has although all were done."""
        there = np.zeros(self.size if self._done in names else 0, bool)
        for name in chunk_names(names) if len(there) else ():
            start, stop, trials = numbers_of(name)
            if start < stop <= self.size // self.trials * trials:
                for first, behind, _ in parts_of(name, self.trials):
                    there[first:behind] = True
        return int(np.count_nonzero(~there))

    def _untaken(self, name: str, chunk: Chunk) -> Iterator[tuple[Span, Chunk]]:
        """The parts of a chunk that were not given yet."""
        if chunk.errors and self.task.stops:
            return  # run again, so that it is raised
        for first, behind, at in parts_of(name, self.task.trials):
            free, can_be_cut = np.flatnonzero(~self._taken[first:behind]), self.task.rows_in(first, behind) == behind - first
            for part in np.split(free, np.flatnonzero(np.diff(free) > 1) + 1) if len(free) else ():
                low, high = int(part[0]), int(part[-1]) + 1
                if not can_be_cut and high - low < behind - first:
                    continue  # what is made of trials
                self._taken[first + low : first + high] = True
                yield (first + low, first + high), chunk.part(at + low, at + high) if can_be_cut else chunk

    def _read(self, name: str) -> Chunk:
        """A chunk, if it is what was written for this sweep."""
        content, task = self.place.read(name), self.task
        return read_chunk(content, name, task.grid.size, task.merging, self._belongs, task.grid)

    def _is_ours(self, name: str) -> bool:
        try:
            return bool(self._read(name))
        except MalformedBody:
            return False

    def _set_aside(self, name: str, error: Exception) -> None:
        self.place.rename(name, name + DAMAGED)
        self._damaged[name] = error
        self._seen.discard(name)

    def _look(self, is_urgent: bool) -> None:
        """Note what others have done, and what they work at."""
        now = time.monotonic()
        if not is_urgent and (now - self._looked) * LOOKING < self._took:
            return
        names = self.place.names()
        claims = [found for name in names if (found := _CLAIM.fullmatch(name)) and found[4] != self._job]
        self._claims = {(int(c[1]), int(c[2])): c[4] for c in claims if int(c[3]) == self.trials}
        new = [name for name in chunk_names(names) if name not in self._seen]
        self._is_shared |= bool(claims or (new and self._seen and self.WRITES_ITSELF))
        self._seen.update(new)
        self._new = new[::-1] + self._new
        self._looked = time.monotonic()
        self._took = self._looked - now

    # What is left

    def take(self, most: int) -> Span | None:
        """The next runs for this job, at most so many; None if others have done the rest.

        Other jobs see what is taken.  What they work at comes last, because they may be dead.
        """
        while True:
            self._look(self._is_shared)
            done = [numbers_of(name)[:2] for name in self._new]
            free = self._next(most, [*done, *self._claims])
            span = free or self._next(most, done)
            if span is None:
                return None
            is_cut = self.layout is None and span[1] - span[0] == most
            span = span[0], self.task.fitted(*span) if is_cut else span[1]
            name = f"claim_{span[0]}_{span[1]}_of_{self.trials}_{self._job}"
            if self.WRITES_ITSELF or self._is_shared:
                self.place.write(name, b"")  # other jobs see it
            self._look(self._is_shared or not self._at)
            if free and any(a < span[1] and span[0] < b and job < self._job for (a, b), job in self._claims.items()):
                self.place.remove(name)  # both came at the same time
                continue
            self._own[span], self._at = name, span[1]
            self._taken[slice(*span)] = True
            return span

    def _next(self, most: int, busy: list[Span]) -> Span | None:
        """Runs that are not taken and not busy: behind those taken last, or else the first."""
        taken = self._taken.copy() if busy else self._taken
        for start, stop in busy:
            taken[start:stop] = True
        for start in (self._at, 0):
            rest = taken[start:]
            if len(rest) and not rest[free := int(rest.argmin())]:
                behind = np.flatnonzero(rest[free : free + most])
                count = int(behind[0]) if len(behind) else len(rest[free : free + most])
                return start + free, start + free + count
        return None

    def write(self, span: Span, chunk: Chunk) -> None:
        """Keep a chunk that this job took.

        Raises
        ------
        FileError, ArgumentError
            It cannot be written.
        """
        (start, stop), trials = span, self.trials
        name = chunk_name(start, stop, trials)
        if name not in self._seen:
            points = digest_of_points(self.task.grid, start // trials, (stop - 1) // trials + 1)
            self.place.write(name, written_chunk(name, chunk, self._belongs, points))
            self._seen.add(name)
        self._give_up_claim(span[1])

    def _give_up_claim(self, stop: int) -> None:
        """What ends there is done."""
        for own in [own for own in self._own if own[1] == stop]:
            name = self._own.pop(own)
            if self.WRITES_ITSELF or self._is_shared:
                self.place.remove(name)

    @property
    def left(self) -> int:
        """How many runs are neither done nor under way here."""
        return int(self._taken.size - np.count_nonzero(self._taken))

    def give_back(self, start: int, stop: int) -> None:
        """The last runs of those that were taken are not done: they come next."""
        self._taken[start:stop], self._at = False, start
        self._own = {(a, start if b == stop else b): name for (a, b), name in self._own.items()}

    def _summary(self) -> bytes:
        """What the file says by which others see that all is done."""
        return b""

    def close(self) -> None:
        """Take back what this job claimed; when all is done, remove what killed jobs left."""
        is_done = self.is_complete and not self._own
        for name in self._own.values():
            self.place.remove(name)
        self._own.clear()
        if is_done:
            self.place.write(self._done, self._summary())
            for name in self.place.names():
                if name.startswith(UNFINISHED) or _CLAIM.fullmatch(name):
                    self.place.remove(name)
