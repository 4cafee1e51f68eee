"""One program run many times, once for each of many arguments, without anything of Python's between two runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np

from mdf_loop.backends.llvm.around import FIRST_OBJECT, SCRATCH, STREAM
from mdf_loop.backends.llvm.program import Program, Result, Table, error_of
from mdf_loop.settings.random_streams import BYTES, begun, words_of

Share = Callable[[int, Callable[[int, int], None]], int]
"""Does so many runs, calling what runs some of them, from one on, up to another, perhaps in several threads; returns how many of
the first ones are done."""


class Seeds(Protocol):
    """Of the random streams of many runs: what seeds PCG64, if that is what they are, and numpy's own generators."""

    words: np.ndarray | None

    def generators(self) -> Sequence[np.random.Generator]:
        """Made when they are asked for."""


def _streams(seeds: Seeds) -> np.ndarray:
    """For each run a row of the state and the increment of its stream."""
    if seeds.words is not None:
        return begun(seeds.words)
    known = b"".join(words_of(each.bit_generator.state) for each in seeds.generators())  # type: ignore[arg-type]
    return np.frombuffer(bytearray(known), np.uint64).reshape(-1, 2 * BYTES // 8)


def can_run_many(program: object) -> TypeGuard[Program]:
    """Whether nothing of Python's is needed within a run."""
    if not isinstance(program, Program) or program.outside or program.lists:
        return False
    return all(x.is_static for x in program.results)


def run_many(
    program: Program,
    given: Sequence[Sequence[Any]],
    which: np.ndarray,
    seeds: Seeds,
    pause: Callable[[], None],
    share: Share,
) -> list[np.ndarray]:
    """The results of many runs, each an array with a row for each run that ``share`` had done.

    Parameters
    ----------
    given : sequence of sequences
        Arguments, which may be those of many runs.
    which : array of int
        For each run, which of them it is given.
    seeds : Seeds
        Of the random stream of each run, where the program draws.
    pause : callable
        Called now and then, between two runs.
    share : callable
        Has the runs done, some at a time.

    Raises
    ------
    FallBack, TooLong, MemoryError
        A run came upon something that the program leaves to others.
    """
    template, count = program.new_table(), len(which)
    kept = [[_plain(x) for x in program.exact(values)] for values in given]
    tables = np.repeat(template.entries[None], count, axis=0)
    behind = FIRST_OBJECT + len(kept[0])
    tables[:, FIRST_OBJECT:behind] = np.array([[id(x) for x in values] for values in kept], np.uint64)[which]
    streams = _streams(seeds) if program.draws else None
    if streams is not None:
        tables[:, STREAM] = streams.ctypes.data + streams.strides[0] * np.arange(count, dtype=np.uint64)
    found, rooms = list[Any](), list[Any]()
    for k, result in enumerate(program.results):
        found.append(None if result.is_number else np.empty((count, *result.lengths), result.dtype))
        rooms.append(None if result.is_number else list(found[k]))
        if not result.is_number:
            tables[:, behind + k] = np.fromiter(map(id, rooms[k]), np.uint64, count)
    done = _run(program, tables, (kept, streams, found, rooms), pause, share)
    pairs = zip(program.results, found, strict=True)
    return [_column(result, tables[:done]) if x is None else x[:done] for result, x in pairs]


def _plain(x: Any) -> Any:
    """An array whose elements stand row by row."""
    return np.ascontiguousarray(x) if isinstance(x, np.ndarray) and x.ndim else x


def _run(program: Program, tables: np.ndarray, objects: Sequence[Any], pause: Callable[[], None], share: Share) -> int:
    """Run all, some at a time, so that Ctrl-C and the time are seen in between; each thread has memory of its own.

    ``objects`` are what the tables hold the addresses of: they stay as long as any thread runs.
    """
    spare = list[Table]()

    def runs(start: int, stop: int, objects: Sequence[Any] = objects) -> None:
        pause()
        table = spare.pop() if spare else program.new_table()
        tables[start:stop, SCRATCH] = table.entries[SCRATCH]
        code = program.call_many(tables[start:].ctypes.data, tables.strides[0], stop - start)
        spare.append(table)
        if code:
            raise error_of(code)

    return share(len(tables), runs)


def _column(result: Result, tables: np.ndarray) -> np.ndarray:
    """A number that each run left in its table."""
    numbers = np.ascontiguousarray(tables[:, result.place])
    each = numbers.view(np.uint8).reshape(len(numbers), 8)[:, : result.dtype.itemsize]
    return np.ascontiguousarray(each).view(result.dtype).reshape(len(numbers))
