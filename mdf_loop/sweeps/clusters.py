"""The pieces of a sweep as tasks of a cluster of dask: workers may come late, go, and come again."""

from __future__ import annotations

import contextlib
import logging
import queue
from collections.abc import Generator, Iterator
from typing import Any

from mdf_loop.errors import LoopError, let_through
from mdf_loop.options import Deadline
from mdf_loop.sweeps.pieces import FAR_AWAY, Asked, Pieces
from mdf_loop.sweeps.rows.rows_of_runs import Ran, Span
from mdf_loop.sweeps.workers import AHEAD, Work

log = logging.getLogger(__name__)

PROBES = 16
"""Pieces that may be under way before it is known how many runs take long enough."""

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
            while len(cluster.under_way) < (cluster.most if pieces.is_paced else min(cluster.most, PROBES)):
                if (asked := pieces.take(max(cluster.threads, 1), FAR_AWAY)) is None:
                    break
                cluster.begin(asked)
            if not cluster.under_way:
                return
            done = cluster.next()
            if deadline is not None:
                deadline.check()
            if done is not None:
                pieces.took(*done)
                yield from done[1].chunks
    finally:
        cluster.leave()


class _Cluster:
    """The workers that there are, and the pieces that they have.

    The sweep itself is a task as well, of the bytes that it is pickled to: where the workers that had it are gone it is computed
    again.
    """

    def __init__(self, client: Any, task: Work) -> None:
        try:
            from distributed.protocol.pickle import dumps, loads
        except ImportError as error:
            raise LoopError('client= needs dask.distributed: pip install "mdf-loop[distributed]"') from error
        self._client, self._done = client, queue.SimpleQueue[Any]()
        self.under_way: dict[str, tuple[Any, Span]] = {}
        self.threads = 0
        with self._reached():
            self._sweep = client.submit(loads, dumps(task), pure=False)
            self._look()

    @property
    def most(self) -> int:
        """How many pieces may be under way: one waits for the first worker."""
        return max(self.threads * AHEAD, 1)

    def begin(self, asked: Asked) -> None:
        """Have a piece run."""
        with self._reached():
            future = self._client.submit(_run_piece, self._sweep, *asked, pure=False, retries=0)
            self.under_way[future.key] = future, asked[:2]
            future.add_done_callback(self._done.put)

    def next(self) -> tuple[Span, Ran] | None:
        """What was asked for and what became of it, when a piece is done; None if none is for a while."""
        try:
            future = self._done.get(timeout=TICK)
        except queue.Empty:
            future = None
        with self._reached():
            self._look()
        if future is None:
            return None
        _, span = self.under_way.pop(future.key)
        with self._reached(f"runs {span[0]} to {span[1] - 1}"):
            return span, future.result()

    def leave(self) -> None:
        """Nothing more is wanted."""
        with contextlib.suppress(Exception):  # a client that is closed has cancelled everything
            self._client.cancel([future for future, _ in self.under_way.values()])

    def _look(self) -> None:
        """See which workers are there now."""
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


def _run_piece(task: Work, start: int, stop: int, *seconds: float) -> Ran:
    """What a worker does."""
    return task.run(start, stop, *seconds)
