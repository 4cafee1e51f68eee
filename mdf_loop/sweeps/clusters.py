"""The pieces of a sweep as tasks of a cluster of dask: workers may come late, go, and come again."""

from __future__ import annotations

import contextlib
import itertools
import logging
import queue
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from mdf_loop.errors import LoopError, let_through
from mdf_loop.options import Deadline
from mdf_loop.settings.engines import needed
from mdf_loop.sweeps.pieces import FAR_AWAY, Asked, Pieces
from mdf_loop.sweeps.rows.rows_of_runs import Ran, Span
from mdf_loop.sweeps.workers import AHEAD, Work

log = logging.getLogger(__name__)

PROBES = 16
"""Pieces that may be under way before it is known how many runs take long enough."""

TOGETHER = 0.01
"""Seconds in which further pieces may be done that are taken together: workers have others meanwhile."""

SOON = 0.05
"""Seconds in which workers are not looked at again, which asks the scheduler."""

TICK = 0.5
"""Seconds after which the workers and the time are looked at although no piece is done."""


def on_cluster(task: Work, pieces: Pieces, client: Any, deadline: Deadline | None) -> Generator[tuple[Span, Any]]:
    """Pieces as tasks of a cluster, as they are done; a worker that dies costs the time of its pieces.

    Raises
    ------
    LoopError
        dask.distributed is not installed; the client was closed; or a piece ended each worker that ran it.
    """
    cluster = _Cluster(client, task)
    try:
        while True:
            most = (cluster.most if pieces.is_paced else min(cluster.most, PROBES)) - len(cluster.under_way)
            taken = (pieces.take(max(cluster.threads, 1), FAR_AWAY) for _ in range(most))
            cluster.begin(list(itertools.takewhile(lambda asked: asked is not None, taken)))
            if not cluster.under_way:
                return
            done = cluster.next()
            if deadline is not None:
                deadline.check()
            for span, ran in done:
                pieces.took(span, ran)
                yield from ran.chunks
    finally:
        cluster.leave()


class _Cluster:
    """The workers that there are, and the pieces that they have.

    The sweep itself is a task as well, of the bytes that it is pickled to: where the workers that had it are gone it is computed
    again.
    """

    def __init__(self, client: Any, task: Work) -> None:
        pickling = needed("distributed.protocol.pickle", "client= needs dask.distributed", "distributed")
        self._client, self._done = client, queue.SimpleQueue[Any]()
        self.under_way: dict[str, tuple[Any, Span]] = {}
        self.threads, self._looked = 0, 0.0
        with self._reached():
            self._sweep = client.submit(pickling.loads, pickling.dumps(task), pure=False)
            self._look()

    @property
    def most(self) -> int:
        """How many pieces may be under way: one waits for the first worker."""
        return max(self.threads * AHEAD, 1)

    def begin(self, pieces: Sequence[Any]) -> None:
        """Have some pieces run: one message, since each costs the scheduler as much as a piece."""
        if not pieces:
            return
        with self._reached():
            futures = self._client.map(_run_piece, pieces, sweep=self._sweep, pure=False)
            for future, asked in zip(futures, pieces, strict=True):
                self.under_way[future.key] = future, asked[:2]
                future.add_done_callback(self._done.put)

    def next(self) -> list[tuple[Span, Ran]]:
        """What was asked for and what became of it, of all pieces that are done; none if none is for a while."""
        done = []
        with contextlib.suppress(queue.Empty):
            done.append(self._done.get(timeout=TICK))
            time.sleep(TOGETHER)
            while True:
                done.append(self._done.get_nowait())
        with self._reached():
            self._look()
        spans = [self.under_way.pop(future.key)[1] for future in done]
        for future, span in zip(done, spans, strict=True):
            if future.status != "finished":
                with self._reached(f"runs {span[0]} to {span[1] - 1}"):
                    future.result()
        with self._reached():
            return list(zip(spans, self._client.gather(done), strict=True)) if done else []

    def leave(self) -> None:
        """Nothing more is wanted."""
        with contextlib.suppress(Exception):  # a client that is closed has cancelled everything
            self._client.cancel([future for future, _ in self.under_way.values()])

    def _look(self) -> None:
        """See which workers are there now."""
        if self.threads and self.under_way and time.monotonic() - self._looked < SOON:
            return
        self._looked = time.monotonic()
        if self._client.status not in ("running", "connecting"):
            raise LoopError(f"the client of the cluster is {self._client.status}")
        before, self.threads = self.threads, sum(self._client.nthreads().values())
        if self.threads != before or not self.under_way:
            log.log(logging.INFO if self.threads else logging.WARNING, "%s", _said(self.threads))

    @contextlib.contextmanager
    def _reached(self, what: str = "") -> Iterator[None]:
        """What goes wrong in dask, or in a worker, is an error of ours."""
        try:
            yield
        except LoopError:
            raise
        except Exception as error:
            let_through(error)
            where = f"a cluster could not run {what}" if what else "the cluster cannot be reached"
            raise LoopError(f"{where}: {type(error).__name__}: {error}") from error


def _said(threads: int) -> str:
    return f"{threads} threads of workers are there" if threads else "no worker of the cluster is there; waiting for one"


def _run_piece(asked: Asked, sweep: Work) -> Ran:
    """What a worker does."""
    return sweep.run(*asked)
