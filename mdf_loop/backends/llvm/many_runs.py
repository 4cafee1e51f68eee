"""One program run many times, with arguments as columns, without anything of Python's between two runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeGuard

import numpy as np

from mdf_loop.backends.llvm.compiled_program import MachineProgram, error_of
from mdf_loop.backends.llvm.linking.object_layout import HEAD
from mdf_loop.backends.llvm.linking.prologue import FIRST_OBJECT, OPEN, SCRATCH, STREAM
from mdf_loop.backends.llvm.program_layout import Result, asked_room

Share = Callable[[int, Callable[[int, int], None]], int]
"""Does so many runs, calling what runs some of them, from one on, up to another, perhaps in several threads; returns how many of
the first ones are done."""


def _addresses(rows: np.ndarray) -> Any:
    """Where each row stands, as long as the array lives."""
    first = rows.ctypes.data
    return np.uint64(first) if len(rows) == 1 else first + rows.strides[0] * np.arange(len(rows), dtype=np.uint64)


Rows = np.ndarray | list[np.ndarray]
"""A result of many runs: an array with a row for each, or an array for each where only the run tells how long it is."""


def can_run_many(program: object) -> TypeGuard[MachineProgram]:
    """Whether nothing of Python's is needed within a run but room for results."""
    return isinstance(program, MachineProgram) and not program.outside and not program.lists


class RunColumns:
    """A program whose arguments are the same in all runs but for some: those come as columns, a row for each run or for several.

    Parameters
    ----------
    program : MachineProgram
    values : sequence
        Arguments of one run.
    places : sequence of sequences of int
        For each column the arguments that it is.
    wanted : sequence of int
        The results that are wanted.
    times : int, or array of int
        How many runs, one after the other, have the same row: as many for each row, or the number for each.
    """

    def __init__(
        self,
        program: MachineProgram,
        values: Sequence[Any],
        places: Sequence[Sequence[int]],
        wanted: Sequence[int],
        times: int | np.ndarray,
    ) -> None:
        self.program, self.places, self.wanted, self.times = program, places, wanted, times
        self.values = [_plain(x) for x in program.exact(values)]
        self.table = program.new_table().entries
        self.table[FIRST_OBJECT : FIRST_OBJECT + len(self.values)] = [id(x) for x in self.values]
        self._spare = list[_Room]()
        self._arrays = {k: each for k, each in enumerate(program.results) if each.room}
        self._is_static = all(each.is_static for each in program.results)

    def run(
        self, columns: Sequence[np.ndarray], streams: np.ndarray | None, pause: Callable[[], None], share: Share
    ) -> list[Any]:
        """The results that are wanted, each with a row for each run that ``share`` had done.

        Parameters
        ----------
        columns : sequence of array
            Of the element types and the shapes that the arguments have, behind the first axis.
        streams : array, optional
            For each run the state and the increment of its stream, where the program draws.
        pause : callable
            Called now and then, between two runs.
        share : callable
            Has the runs done, some at a time.

        Raises
        ------
        FallBack, TooLong, MemoryError
            A run came upon something that the program leaves to others.
        """
        rows = len(columns[0]) if isinstance(self.times, int) else len(self.times)
        room = self._room(rows)
        count = self.runs_of(rows)
        kept = room.write(columns)
        if streams is not None:
            room.streams[:count] = streams
        found = self._found(room, count, kept, pause, share)
        if rows <= KEPT:
            self._spare.append(room)
        return found

    def _found(self, room: _Room, count: int, kept: Sequence[Any], pause: Callable[[], None], share: Share) -> list[Rows]:
        """Run so many tables, and read the results that are wanted; ``kept`` is what they hold the addresses of."""
        program, tables = self.program, room.tables[:count]
        first = program.table.first_number - len(program.results)
        arrays = {k: np.empty((count, *each.lengths), each.dtype) for k, each in self._arrays.items()}
        rooms = {k: list(found) for k, found in arrays.items()}
        for k, rows in rooms.items():
            tables[:, first + k] = np.fromiter(map(id, rows), np.uint64, count)
        asked = None if self._is_static else _AskedRooms(tables)
        done = _run(program, room, count, (kept, arrays, rooms, asked), pause, share)
        tables = tables[:done]

        def rows_of(k: int) -> Rows:
            result = program.results[k]
            if asked is not None and not result.is_static:
                return asked.rows(result, done)
            return arrays[k][:done] if k in arrays else _column(result, tables)

        return [rows_of(k) for k in self.wanted]

    def runs_of(self, rows: int) -> int:
        """How many runs so many rows are."""
        return rows * self.times if isinstance(self.times, int) else int(self.times.sum())

    def _room(self, rows: int) -> _Room:
        """Tables for so many rows at least; two threads never share them."""
        try:
            room = self._spare.pop()
        except IndexError:
            return _Room(self, rows)
        return room if room.rows >= rows else _Room(self, rows)


KEPT = 1 << 10
"""Rows up to which their tables are kept for the next call: to write few of them takes longer than the runs."""


class _Room:
    """Tables of many runs, and what machine code reads numbers of columns from: as if they were inside of objects."""

    def __init__(self, owner: RunColumns, rows: int) -> None:
        self.rows, self.places, self.times, width = rows, owner.places, owner.times, HEAD + 16
        self.tables = np.repeat(owner.table[None], owner.runs_of(rows), axis=0)
        self.streams = np.zeros((len(self.tables), 4), np.uint64)
        self.tables[:, STREAM] = _addresses(self.streams)
        self.first = self.tables.ctypes.data  # numpy takes a microsecond to say it
        count = len(owner.places)
        self.memory = np.zeros((rows, count, width), np.uint8)  # no type stands there, so that nothing takes it for an array
        self.numbers: list[np.ndarray | None] = []
        for k, places in enumerate(owner.places):
            value = np.asarray(owner.values[places[0]]) if places else np.zeros(())
            if value.ndim:
                self.numbers.append(None)
                continue
            strides = (count * width,)
            self.numbers.append(np.ndarray(rows, value.dtype, self.memory, k * width + HEAD, strides))
            self._put(places, _addresses(self.memory[:, k]))

    def _put(self, places: Sequence[int], addresses: np.ndarray) -> None:
        """Objects of rows, each for all runs of its row."""
        each = addresses.repeat(self.times)
        for k in places:
            self.tables[: len(each), FIRST_OBJECT + k] = each

    def write(self, columns: Sequence[np.ndarray]) -> list[Any]:
        """Take columns; gives what has to stay as long as anything runs."""
        kept = list[Any]()
        for numbers, places, column in zip(self.numbers, self.places, columns, strict=True):
            if numbers is not None:
                numbers[: len(column)] = column
            elif places:
                kept.append(list(column))
                self._put(places, np.fromiter(map(id, kept[-1]), np.uint64, len(column)))
        return kept


class _AskedRooms:
    """Arrays for results whose lengths only a run knows: it asks for them when it does."""

    def __init__(self, tables: np.ndarray) -> None:
        self._buffer = memoryview(tables.view(np.uint8).reshape(-1))  # type: ignore[arg-type]
        self._stride = tables.strides[0]
        self._found = dict[tuple[int, int], np.ndarray]()
        self._calls = [partial(self._new, k) for k in range(len(tables))]  # tables hold their addresses
        tables[:, OPEN] = np.fromiter(map(id, self._calls), np.uint64, len(tables))

    def _new(self, run: int) -> np.ndarray:
        place, array = asked_room(self._buffer, run * self._stride)
        self._found[run, place] = array
        return array

    def rows(self, result: Result, done: int) -> list[np.ndarray]:
        """Those of one result, of the first runs."""
        return [self._found[run, result.place] for run in range(done)]


def _plain(x: Any) -> Any:
    """An array whose elements stand row by row."""
    return np.ascontiguousarray(x) if isinstance(x, np.ndarray) and x.ndim else x


def _run(
    program: MachineProgram, room: _Room, count: int, objects: Sequence[Any], pause: Callable[[], None], share: Share
) -> int:
    """Run all, some at a time, so that Ctrl-C and the time are seen in between; each thread has memory of its own.

    ``objects`` are what the tables hold the addresses of, with the room: they stay as long as any thread runs.
    """
    tables, first, stride = room.tables, room.first, room.tables.strides[0]

    def runs(start: int, stop: int, objects: Sequence[Any] = (room, *objects)) -> None:
        pause()
        table = program.taken()
        tables[start:stop, SCRATCH] = table.entries[SCRATCH]
        code = program.call_many(first + start * stride, stride, stop - start)
        program.give_back(table)
        if code:
            raise error_of(code)

    return share(count, runs)


def _column(result: Result, tables: np.ndarray) -> np.ndarray:
    """A number that each run left in its table."""
    numbers = tables[:, result.place].copy()  # the tables may be used again
    if result.dtype.itemsize == 8:
        return numbers.view(result.dtype)
    each = numbers.view(np.uint8).reshape(len(numbers), 8)[:, : result.dtype.itemsize]
    return np.ascontiguousarray(each).view(result.dtype).reshape(len(numbers))
