"""Who runs the chunks of a sweep: this thread, several threads, or a cluster of dask."""

from __future__ import annotations

import contextvars
import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from mdf_loop.errors import LoopError
from mdf_loop.options import Deadline
from mdf_loop.sweeps.crew import Crew, working
from mdf_loop.sweeps.table import Chunk
from mdf_loop.sweeps.task import Task

Span = tuple[int, int]
"""The first run of a chunk, and the one behind its last."""

AHEAD = 2
"""Chunks that wait for each worker: more would only take memory."""


def chunks_of(task: Task, length: int) -> list[Span]:
    """The runs of a task in chunks; whole points where something is made of the trials of each."""
    if task.reduce is not None:
        length = max(length // task.trials, 1) * task.trials
    return [(start, min(start + length, task.size)) for start in range(0, task.size, length)]


def here(task: Task, spans: Iterable[Span]) -> Iterator[tuple[Span, Chunk]]:
    """One chunk after the other."""
    for span in spans:
        yield span, task.run(*span)


def helped(task: Task, span: Span, workers: int) -> Iterator[tuple[Span, Chunk]]:
    """One chunk by this thread, with the help of others."""
    crew = Crew(workers)
    with ThreadPoolExecutor(workers - 1, "mdf-loop sweep") as pool:
        for _ in range(workers - 1):
            pool.submit(crew.help)
        try:
            with working(crew):
                chunk = task.run(*span)
        finally:
            crew.end()
    yield span, chunk


def in_threads(task: Task, spans: Iterable[Span], workers: int) -> Iterator[tuple[Span, Chunk]]:
    """Chunks in several threads, as they are done: numpy and compiled loops let go of Python's lock while they compute."""
    todo, crew = iter(spans), Crew(workers)

    def chunk(span: Span) -> Chunk:
        with working(crew):
            return task.run(*span)

    with ThreadPoolExecutor(workers, "mdf-loop sweep") as pool:

        def begun(count: int) -> dict[Future[Chunk], Span]:
            """Begin so many chunks; threads for which there is none help the others."""
            found = {pool.submit(contextvars.copy_context().run, chunk, span): span for span in itertools.islice(todo, count)}
            for _ in range(count - len(found)):
                pool.submit(crew.help)
            return found

        waiting = begun(workers * AHEAD)
        try:
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    span = waiting.pop(future)
                    waiting |= begun(1)
                    yield span, future.result()
        finally:
            crew.end()
            pool.shutdown(wait=True, cancel_futures=True)


def on_cluster(task: Task, spans: Iterable[Span], client: Any, deadline: Deadline | None) -> Iterator[tuple[Span, Chunk]]:
    """Chunks as tasks of a cluster, as they are done; a worker that dies costs the time of its chunks.

    Raises
    ------
    LoopError
        dask.distributed is not installed, or gave a chunk up.
    """
    try:
        from distributed import as_completed
        from distributed.scheduler import KilledWorker
    except ImportError as error:
        raise LoopError('client= needs dask.distributed: pip install "mdf-loop[distributed]"') from error
    shared = client.scatter(task, broadcast=True, hash=False)
    todo, spanned = iter(spans), dict[str, Span]()
    most = max(len(client.scheduler_info()["workers"]), 1) * 2 * AHEAD

    def begin(span: Span) -> Any:
        future = client.submit(_run_chunk, shared, *span, pure=False, retries=3)
        spanned[future.key] = span
        return future

    waiting = as_completed([begin(span) for span in itertools.islice(todo, most)])
    try:
        for future in waiting:
            span = spanned.pop(future.key)
            try:
                chunk = future.result()
            except KilledWorker as error:
                raise LoopError(f"runs {span[0]} to {span[1] - 1} ended the workers that ran them: {error}") from error
            for following in itertools.islice(todo, 1):
                waiting.add(begin(following))
            future.release()
            yield span, chunk
            if deadline is not None:
                deadline.check()
    finally:
        for key in spanned:
            _cancel(client, key)


def _cancel(client: Any, key: str) -> None:
    from distributed import Future as Remote

    Remote(key, client).cancel()


def _run_chunk(task: Task, start: int, stop: int) -> Chunk:
    """What a worker of a cluster does."""
    return task.run(start, stop)
