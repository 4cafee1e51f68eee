"""Who runs the pieces of a sweep: this thread, several threads, or a cluster of dask."""

from __future__ import annotations

import contextvars
from collections.abc import Generator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol

from mdf_loop.sweeps.crew import Crew, working
from mdf_loop.sweeps.pieces import Pieces
from mdf_loop.sweeps.rows.rows_of_runs import Ran, Span

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
