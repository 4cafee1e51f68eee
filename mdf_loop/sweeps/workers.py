"""Pieces run in this thread, or in several, and the runs of a piece in parts, between which one can stop."""

from __future__ import annotations

import contextvars
import math
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol

from mdf_loop.errors import LoopInterrupted
from mdf_loop.sweeps.pieces import Pieces
from mdf_loop.sweeps.rows.rows_of_runs import Ran, Span
from mdf_loop.system.threads import holding

WORTH, TRY = 0.012, 0.003
"""Seconds of work from which on other threads are worth it, as each piece costs about a millisecond by itself; and how long
threads wait for the first piece, which says how much there is."""

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
    """Pieces in several threads, as they are done: numpy and compiled loops let go of Python's lock while they compute.

    Where the first piece shows that little is left, this thread does the rest.
    """
    waiting, is_over = dict[Future[Ran], Span](), threading.Event()
    most = 1
    patience: float | None = TRY  # None once the first piece is done, or takes longer

    def run(*asked: float) -> Ran:
        with holding(_is_over, is_over):
            return task.run(*asked)  # type: ignore[arg-type]

    with ThreadPoolExecutor(workers, "mdf-loop sweep") as pool:
        try:
            while True:
                while len(waiting) < most and (asked := pieces.take(workers)) is not None:
                    waiting[pool.submit(contextvars.copy_context().run, run, *asked)] = asked[:2]
                if not waiting:
                    break
                for future in wait(waiting, patience, FIRST_COMPLETED).done:
                    ran = future.result()
                    pieces.took(waiting.pop(future), ran)
                    yield from ran.chunks
                if patience is not None and not waiting and pieces.seconds_left < WORTH:
                    yield from here(task, pieces)
                most, patience = workers * AHEAD, None
        finally:
            is_over.set()
            pool.shutdown(wait=True, cancel_futures=True)


_is_over: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("mdf_loop_is_over", default=None)
"""Set when another thread of a sweep failed, or Ctrl-C was pressed: who still works leaves off as soon as possible."""

FIRST, MORE = 1, 4
"""Runs that are done before it is known how long one takes, and how many times as many at most then, each time."""

LONGEST = 0.05
"""Seconds that runs which are done without a look at the clock may last: Ctrl-C and the time are seen in between."""


def in_parts(count: int, runs: Callable[[int, int], None], seconds: float = math.inf) -> int:
    """Do some runs, a part of them at a time: those that are begun within some seconds, at least one part.

    Parameters
    ----------
    count : int
    runs : callable
        Does some: the first one, and the one behind the last.
    seconds : float

    Returns
    -------
    int
        How many are done: the first ones.

    Raises
    ------
    LoopInterrupted
        Another thread ended everything.
    """
    done, length, end, is_over = 0, FIRST, time.perf_counter() + seconds, _is_over.get()
    while done < count:
        begun = time.perf_counter()
        if done and begun >= end:
            break
        if is_over is not None and is_over.is_set():
            raise LoopInterrupted("interrupted")
        stop = min(done + length, count)
        runs(done, stop)
        pace = (time.perf_counter() - begun) / (stop - done)
        done, length = stop, max(1, int(min(MORE * length, LONGEST / max(pace, 1e-9))))
    return done
