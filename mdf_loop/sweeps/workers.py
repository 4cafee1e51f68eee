"""Pieces run in this thread, or in several that help each other with the runs in them."""

from __future__ import annotations

import contextvars
import math
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Protocol

from mdf_loop.errors import LoopInterrupted
from mdf_loop.sweeps.pieces import Pieces
from mdf_loop.sweeps.rows.rows_of_runs import Ran, Span
from mdf_loop.system.threads import holding

AHEAD = 2
"""Pieces that are under way for each worker: it has the next one when it is done, and more would only take memory."""


class Work(Protocol):
    """What pieces are pieces of: the runs of a task, or the blocks of a store."""

    def run(self, start: int, stop: int, /) -> Ran:
        """Do a piece; where the clock decides how long it is, a third argument says how many seconds."""


def here(task: Work, pieces: Pieces) -> Generator[tuple[Span, Any]]:
    """One piece after the other."""
    while (asked := pieces.take()) is not None:
        ran = task.run(*asked)
        pieces.took(asked, ran)
        yield from ran.chunks


def in_threads(task: Work, pieces: Pieces, workers: int) -> Generator[tuple[Span, Any]]:
    """Pieces in several threads, as they are done: numpy and compiled loops let go of Python's lock while they compute."""
    crew, waiting = Crew(workers), dict[Future[Ran], Span]()

    def run(*asked: float) -> Ran:
        with working(crew):
            return task.run(*asked)  # type: ignore[arg-type]

    with ThreadPoolExecutor(workers, "mdf-loop sweep") as pool:
        helpers = 0
        try:
            while True:
                while len(waiting) < workers * AHEAD and (asked := pieces.take(workers)) is not None:
                    waiting[pool.submit(contextvars.copy_context().run, run, *asked)] = asked[:2]
                if not waiting:
                    break
                while helpers < workers - len(waiting):  # threads without a piece help the others
                    pool.submit(crew.help)
                    helpers += 1
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    ran = future.result()
                    pieces.took(waiting.pop(future), ran)
                    yield from ran.chunks
        finally:
            crew.end()
            pool.shutdown(wait=True, cancel_futures=True)


FIRST, MORE = 1, 4
"""Runs that are taken before it is known how long one takes, and how many times as many at most then, each time."""

SHORTEST, LONGEST = 0.0002, 0.05
"""Seconds that the runs which are taken at once shall last: so long that taking them is nothing beside it, so short that Ctrl-C
and the time are seen in between."""

Runs = Callable[[int, int], None]
"""Runs some: the first one, and the one behind the last."""


class Crew:
    """Threads that work on the same sweep.

    Parameters
    ----------
    size : int
        How many they are.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._shared: list[_Shared] = []
        self._changed = threading.Condition()
        self._is_over = False

    def share(self, count: int, runs: Runs, seconds: float = math.inf) -> int:
        """Do some runs, together with the threads that help; what goes wrong in any thread is raised here.

        Returns
        -------
        int
            How many are done: the first ones, and fewer than ``count`` where the seconds are over.
        """
        work = _Shared(count, runs, self.size, seconds)
        with self._changed:
            self._shared.append(work)
            self._changed.notify_all()
        try:
            work.go_on()
            return work.finish()
        except BaseException as error:  # Ctrl-C may come anywhere
            work.leave_off(error)
            raise
        finally:
            with self._changed:
                self._shared.remove(work)

    def help(self) -> None:
        """Work on what others share, until everything is over."""
        while (work := self._next()) is not None:
            work.context.copy().run(work.go_on)

    def end(self) -> None:
        """Everything is over, or shall be: who still works leaves off as soon as possible."""
        with self._changed:
            self._is_over = True
            for work in self._shared:
                work.leave_off(LoopInterrupted("interrupted"))
            self._changed.notify_all()

    def _next(self) -> _Shared | None:
        with self._changed:
            while not self._is_over:
                found = next((work for work in self._shared if work.is_left), None)
                if found is not None:
                    return found
                self._changed.wait()
        return None


class _Shared:
    """Runs that several threads take from, each with the options and streams of the one that shares them."""

    def __init__(self, count: int, runs: Runs, threads: int, seconds: float) -> None:
        self._count, self._runs, self._threads = count, runs, threads
        self._end = time.perf_counter() + seconds
        self._behind = self._under_way = 0
        self._pace, self._longest = 0.0, FIRST
        self._error: BaseException | None = None
        self.context = contextvars.copy_context()
        self._changed = threading.Condition()

    @property
    def is_left(self) -> bool:
        """Whether there is anything to take."""
        return self._behind < self._count

    def go_on(self) -> None:
        """Take some until nothing is left."""
        while (span := self._take()) is not None:
            begun = time.perf_counter()
            try:
                self._runs(*span)
            except BaseException as error:  # raised where it is asked for
                self.leave_off(error)
            with self._changed:
                self._pace = (time.perf_counter() - begun) / (span[1] - span[0])
                self._under_way -= 1
                self._changed.notify_all()

    def finish(self) -> int:
        """Wait for others, raise what went wrong, and say how many are done."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way)
        if self._error is not None:
            raise self._error
        return self._behind

    def leave_off(self, error: BaseException) -> None:
        """Take nothing more."""
        with self._changed:
            self._behind, self._error = self._count, self._error or error

    def _take(self) -> tuple[int, int] | None:
        with self._changed:
            start = self._behind
            if start and time.perf_counter() >= self._end:
                self._count = start
            if start >= self._count:
                return None
            self._behind = min(start + self._next_length(self._count - start), self._count)
            self._under_way += 1
            return start, self._behind

    def _next_length(self, left: int) -> int:
        """How many to take: a part of what is left, so that all threads end at about the same time."""
        part = left if self._threads == 1 else left // (2 * self._threads)
        if not self._pace:
            return max(1, min(FIRST, part))
        self._longest *= MORE
        return max(1, int(min(max(part, SHORTEST / self._pace), LONGEST / self._pace, self._longest)))


_crew: contextvars.ContextVar[Crew | None] = contextvars.ContextVar("mdf_loop_crew", default=None)


@contextmanager
def working(crew: Crew) -> Iterator[None]:
    """What is run inside a ``with`` block is shared by a crew."""
    with holding(_crew, crew):
        yield


def current_crew() -> Crew:
    """Those who share what is run here: this thread alone by default."""
    return _crew.get() or Crew(1)
