"""What a worker does for a store: it runs blocks, writes their chunks, and then a note that says that they are done.

The note is a file as chunks of a checkpoint are (:mod:`mdf_loop.sweeps.checkpoints.chunk_files`), with a checksum of each file in
the place of rows: what is damaged is found, and made again.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from mdf_loop.errors import FileError, LoopError, MalformedBody
from mdf_loop.sweeps.checkpoints.checkpoint import DAMAGED, Place
from mdf_loop.sweeps.checkpoints.chunk_files import chunk_name, sealed, unsealed
from mdf_loop.sweeps.checkpoints.storage import place_of
from mdf_loop.sweeps.pieces import Pieces, Uncut
from mdf_loop.sweeps.rows.rows_of_runs import Ran, Span, Table, all_at_m, earliest
from mdf_loop.sweeps.stores.regular import RowLayout, chunk_files
from mdf_loop.sweeps.task import Task
from mdf_loop.sweeps.workers import here
from mdf_loop.system.checksums import checksum

MOST_ERRORS = 100
"""Errors that are kept of one piece, those of the first runs; the others are counted."""


@dataclass
class Noted:
    """What is known of some blocks that are done.

    Attributes
    ----------
    errors : mapping of int to str
        What went wrong first, by the number of the run in the whole sweep.
    failed : int
        How many runs failed.
    at_m : int or None
        How many runs ended by the trip count, where it is known.
    shapes : mapping of str to list of int
        How large the rows of outputs are.
    ragged : list of str
        Outputs whose rows differ in length, here or from those that were tried.
    absent : list of str
        Outputs that some runs do not have.
    unclear : list of str
        Outputs with values that are what stands where there is none.
    chunks : mapping of str to int
        How many chunks arrays have: what is nothing but filling has none.
    files : mapping of str to str
        The checksum of each file; the client does not need it.
    suspects : mapping of str to int
        Runs that may have something to warn of: the first one for each reason.
    damaged : str
        What was wrong with what was there before.
    blocks : (int, int)
        The first of the blocks, and the one behind the last; for the client alone.
    """

    errors: dict[int, str] = field(default_factory=dict)
    failed: int = 0
    at_m: int | None = None
    shapes: dict[str, list[int]] = field(default_factory=dict)
    ragged: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    chunks: dict[str, int] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    suspects: dict[str, int] = field(default_factory=dict)
    damaged: str = ""
    blocks: Span = (0, 0)

    def add(self, other: Noted, most: int = MOST_ERRORS) -> None:
        """More blocks are done; of the errors the first ones are kept."""
        self.errors = dict(itertools.islice(sorted((self.errors | other.errors).items()), most))
        self.failed, self.at_m = self.failed + other.failed, all_at_m(self.at_m, other.at_m)
        larger = {name: [*map(max, shape, self.shapes.get(name, shape))] for name, shape in other.shapes.items()}
        self.shapes = {**self.shapes, **larger}
        self.ragged, self.absent = sorted({*self.ragged, *other.ragged}), sorted({*self.absent, *other.absent})
        self.unclear = sorted({*self.unclear, *other.unclear})
        self.chunks = dict(Counter(self.chunks) + Counter(other.chunks))
        self.files |= other.files
        self.suspects = earliest(self.suspects, other.suspects)


@dataclass(frozen=True)
class BlockWriter:
    """The blocks of a store, as pieces of work.

    Attributes
    ----------
    task : Task
    address : str
        Where the store is, for each worker.
    layout : RowLayout
    labels : mapping of str to (str, str)
        What the array of an output is called, and that of the lengths of its rows.
    belongs : str
        What decides the content of each chunk.
    """

    task: Task
    address: str
    layout: RowLayout
    labels: Mapping[str, tuple[str, str]]
    belongs: str

    def run(self, start: int, stop: int, seconds: float = math.inf) -> Ran:
        """Make some blocks: those that are begun within some seconds, at least one; or see that they are there.

        Raises
        ------
        LoopError
            A run failed, and that ends everything; or a block cannot be written.
        """
        begun, place = time.perf_counter(), place_of(self.address, "store")
        noted, damaged = self._there(place, chunk_name(start, stop, 1))
        if noted is not None:
            return self._ran(start, stop, noted, 0.0)
        noted, block = Noted(at_m=0, damaged=damaged), start
        with ThreadPoolExecutor(1, "mdf-loop store") as disk:  # it writes a block while the next one runs
            written: Iterator[Any] = iter(())
            while block < stop and (block == start or time.perf_counter() - begun < seconds):
                files, more = self.files(block, self.rows(*self.layout.runs(block, block + 1)))
                noted.add(more)
                deque(written, 0)  # waits, and raises what went wrong
                written = disk.map(place.write, files, files.values())
                block += 1
            deque(written, 0)
        self.note(place, start, block, noted)
        return self._ran(start, block, noted, time.perf_counter() - begun)

    def note(self, place: Place, start: int, stop: int, noted: Noted) -> None:
        """Write that blocks are done."""
        name = chunk_name(start, stop, 1)
        place.write(name, sealed({**asdict(noted), "damaged": ""}, {}, self.belongs, name))

    def _ran(self, start: int, stop: int, noted: Noted, seconds: float) -> Ran:
        chunks = dict(Counter(path.partition("/")[0] for path in noted.files))
        noted = replace(noted, chunks=chunks, files={}, blocks=(start, stop))
        return Ran((start, stop), [(self.layout.runs(start, stop), noted)], seconds, 0)

    def _there(self, place: Place, name: str) -> tuple[Noted | None, str]:
        """The note of blocks that are there as they were written; or what is wrong with them."""
        if not place.has(name):
            return None, ""
        path = name
        try:
            said, _ = unsealed(place.read(name), name, self.belongs, name)
            noted = Noted(**said | {"errors": {int(run): error for run, error in said["errors"].items()}})
            for path, seal in noted.files.items():
                if checksum(place.read(path)) != seal:
                    raise MalformedBody(f"{path} is damaged")
        except (FileError, MalformedBody) as error:
            for part in {name, path}:
                place.rename(part, part + DAMAGED)
            return None, str(error)
        return (None if noted.errors and self.task.stops else noted), ""

    def rows(self, start: int, stop: int) -> Table:
        """What some runs give; where trials are reduced the first run is the first of a point."""
        table, task = self.task.table(stop - start), self.task
        for (first, behind), chunk in here(task, Pieces(Uncut(stop - start, task.fitted, start), None, task.trials, False)):
            table.add(first - start, chunk, behind - first)
        return table

    def files(self, block: int, table: Table) -> tuple[dict[str, bytes], Noted]:
        """The chunks of a block by their paths, and what is known of it."""
        first = self.layout.runs(block, block + 1)[0]
        errors = {first + run: error for run, error in table.errors.items()}
        noted = Noted(errors, table.failed, table.at_m, suspects=table.suspects)
        arrays, _ = table.finish()
        files = dict(self._chunks(block, arrays, table.lengths, noted))
        noted.files = {path: checksum(content) for path, content in files.items()}
        return files, noted

    def _chunks(
        self, block: int, arrays: Mapping[str, np.ndarray], lengths: Mapping[str, np.ndarray], noted: Noted
    ) -> Iterator[tuple[str, bytes]]:
        """The files of one block: chunks of nothing but filling have none."""
        shape, place = self.layout.block_shape(block), self.layout.place(block)
        if unknown := arrays.keys() - self.layout.forms.keys():
            raise LoopError(f"output {min(unknown)!r} has values here, and had none in the runs that were tried first")
        for name, form in self.layout.forms.items():
            fill, (label, label_of_lengths) = form.filling(self.task.fill), self.labels[name]
            rows = arrays.get(name)
            if rows is None or (form.stands_in(self.task.fill) and rows.dtype != form.dtype):
                noted.absent.append(name)
            if rows is not None:
                if form.stands_in(self.task.fill) and (rows == fill).any():
                    noted.unclear.append(name)
                rows = form.fitted(rows, name, self.task.fill)
                noted.shapes[name] = [*rows.shape[1:]]
                rows = rows.reshape((*shape, *rows.shape[1:]))
                yield from chunk_files(label, rows, (*self.layout.chunk, *form.shape), fill, place)
            if not form.has_lengths:
                continue
            known = lengths.get(name, np.zeros(math.prod(shape), np.int64))
            if (known != form.shape[0]).any():
                noted.ragged.append(name)
                yield from chunk_files(label_of_lengths, known.reshape(shape), self.layout.chunk, form.shape[0], place)
