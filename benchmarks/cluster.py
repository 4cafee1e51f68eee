"""A sweep into a store on 10 to 1,000 workers that come and go, simulated: how many times as fast as one core it is.

Blocks and pieces are those that a sweep cuts for a cluster; workers, client and scheduler are events on a clock.  What a piece
costs client and scheduler is measured first, with pieces of nothing that workers in other processes run: the time of this
process's processor, the store's own work included.  So is what a block costs its worker beside its runs, and a piece at its end,
when its last block is written and no other one runs, and how long it takes until the layout of a store is known.  ``--cost``,
``--block``, ``--end`` and ``--tries`` give them instead.

python benchmarks/cluster.py [--cost SECONDS] [--block SECONDS] [--end SECONDS] [--tries SECONDS]
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

from mdf_loop.models.model import Wish
from mdf_loop.models.opening import prepare
from mdf_loop.options import start_run
from mdf_loop.sweeps.clusters import PROBES, on_cluster
from mdf_loop.sweeps.grid import Grid
from mdf_loop.sweeps.pieces import FAR_AWAY, Pieces, Uncut
from mdf_loop.sweeps.rows.labels import Labels, labels_of_sweep
from mdf_loop.sweeps.rows.rows_of_runs import Ran
from mdf_loop.sweeps.stores.block_writer import BlockWriter, Noted
from mdf_loop.sweeps.stores.regular import RowLayout, chunk_shape
from mdf_loop.sweeps.stores.store import SweepStore
from mdf_loop.sweeps.stores.tries import BLOCK, MOST_BLOCKS, Tries, layout_of_tries
from mdf_loop.sweeps.task import Task
from mdf_loop.sweeps.workers import AHEAD

WORKS = {
    "1e9 runs of 3 us": (10**9, 3e-6),
    "1e9 runs of 1 ms": (10**9, 1e-3),
    "1e6 runs of 3 us": (10**6, 3e-6),
    "1e6 runs of 0.1 s": (10**6, 0.1),
}
WORKERS = (10, 100, 1000)

LATE, LIVES = 30.0, 1800.0
"""Seconds over which the second half of the workers comes, and after which one dies on average; another one comes at once."""

PROCESSES, THREADS, PIECES = 2, 4, 500
"""Processes and threads of workers that run pieces of nothing, and how many."""

MODEL = Path(__file__).parent.parent / "examples" / "drift_diffusion.yaml"


class Simulation:
    """One sweep; ``seconds`` is how long it takes."""

    def __init__(self, size: int, each: float, workers: int, costs: Costs) -> None:
        rows = max(math.ceil(BLOCK / each), size // MOST_BLOCKS)
        self.rows = chunk_shape((size,), rows)[0]
        self.block, self.end, self.cost = self.rows * each + costs.block, costs.end, costs.cost
        blocks = -(-size // self.rows)
        self.pieces, self.chance = Pieces(Uncut(blocks)), random.Random(1)
        self.pieces.took((0, 1), Ran((0, 1), [], self.block, 0))
        self.now = self.free = max(costs.tries, 4 * each)
        self.under_way = self.threads = self.done = 0
        self.waiting, self.idle = deque[tuple[int, int, float]](), 0
        self.events: list[tuple[float, int, object]] = []
        self.count = 0
        for k in range(workers):
            self.at(0.0 if 2 * k < workers else LATE * self.chance.random(), None)
        while self.done < blocks:
            self.step()
        self.seconds = self.free

    def at(self, moment: float, what: object) -> None:
        """Something happens at a moment: a worker comes, or a piece ends, well or with its worker."""
        self.count += 1
        heapq.heappush(self.events, (max(moment, self.now), self.count, what))

    def step(self) -> None:
        """What happens next."""
        self.now, _, what = heapq.heappop(self.events)
        self.idle += 1
        if what is None:
            self.threads += 1
        else:
            asked, ran, is_dead = what  # type: ignore[misc]
            if is_dead:
                self.waiting.appendleft(asked)
            else:
                self.free = max(self.free, self.now) + self.cost
                self.pieces.took(asked, ran)
                self.under_way -= 1
                self.done += ran.span[1] - ran.span[0]
        self.submit()
        while self.idle and self.waiting:
            self.begin(self.waiting.popleft())

    def submit(self) -> None:
        """Pieces as :func:`mdf_loop.sweeps.clusters.on_cluster` submits them."""
        most = max(self.threads * AHEAD, 1)
        while self.under_way < (most if self.pieces.is_paced else min(most, PROBES)):
            asked = self.pieces.take(max(self.threads, 1), FAR_AWAY)
            if asked is None:
                return
            self.waiting.append(asked)  # type: ignore[arg-type]
            self.under_way += 1

    def begin(self, asked: tuple[int, int, float]) -> None:
        """An idle worker takes a piece, which the scheduler gives it once it is free."""
        self.idle -= 1
        start, stop, limit = asked
        stop = min(stop, start + max(math.ceil(limit / self.block), 1))
        seconds = self.block * (stop - start) + self.end
        begun = max(self.now, self.free)
        is_dead = self.chance.random() < seconds / LIVES
        self.at(begun + seconds, (asked, Ran((start, stop), [], seconds, 0), is_dead))


class Costs:
    """What is measured, unless it is given.

    Attributes
    ----------
    cost, block, end, tries : float
        Seconds: of client and scheduler for a piece; of a worker for a block, beside its runs, and for the end of a piece; until
        a layout is known.
    """

    def __init__(self, said: Any) -> None:
        self._task = Task(prepare(MODEL), {}, Grid(), 10**9, seed=1, wish=Wish(outputs=frozenset({"reaction_time"})))
        self._labels = labels_of_sweep(self._task, start_run(), has_trials=True, numbers_trials=False)
        self.tries, layout = self._tried()
        (self.block, self.end), self.cost = self._written(layout), 0.0
        if said.cost is None:
            self.cost = measured(self._task, self._labels, layout)
        for name, value in vars(said).items():
            if value is not None:
                setattr(self, name, value)

    def _tried(self) -> tuple[float, RowLayout]:
        Tries(self._task, self._labels.rows).run(0, 1)  # so that it is compiled, as it is in most workers
        begun = time.perf_counter()
        found = [Tries(self._task, self._labels.rows).run(0, 1).chunks[0][1]]
        return time.perf_counter() - begun, layout_of_tries(self._task, self._labels, found, None)

    def _written(self, layout: RowLayout) -> tuple[float, float]:
        """The least of some blocks: until it is bytes, and until these and a note of them are in files."""
        with tempfile.TemporaryDirectory() as folder:
            store = SweepStore(Path(folder, "s.zarr"), self._task, self._labels, lambda: layout)
            writer, made, written = store.writer, [], []
            for block in range(9):
                table = writer.rows(*layout.runs(block, block + 1))
                begun = time.process_time()
                files, noted = writer.files(block, table)
                made.append(time.process_time() - begun)
                begun = time.perf_counter()
                for path, content in files.items():
                    store.place.write(path, content)
                writer.note(store.place, block, block + 1, noted)
                written.append(time.perf_counter() - begun)
        return min(made), min(written)


class Nothing(BlockWriter):
    """Blocks that are done at once, and not written."""

    def run(self, start: int, stop: int, seconds: float = math.inf) -> Ran:
        """Nothing."""
        return Ran((start, stop), [(self.layout.runs(start, stop), Noted(blocks=(start, stop)))], 1.0, 0)


def measured(task: Task, labels: Labels, layout: RowLayout) -> float:
    """Seconds of a processor that client and scheduler take for a piece."""
    from distributed import Client, LocalCluster

    workers = LocalCluster(n_workers=PROCESSES, threads_per_worker=THREADS, dashboard_address=None)
    with workers as cluster, Client(cluster) as client, tempfile.TemporaryDirectory() as folder:
        store = SweepStore(Path(folder, "s.zarr"), task, labels, lambda: layout)
        work, pieces = Nothing(**vars(store.writer)), Pieces(store, 1)
        for count, (span, noted) in enumerate(on_cluster(work, pieces, client, None)):
            store.write(span, noted)
            store.add(span[0], noted, span[1] - span[0])
            if count == PIECES // 5:  # what is done once is done
                begun = time.process_time()
            if count == PIECES // 5 + PIECES:
                return (time.process_time() - begun) / PIECES
    raise ValueError("the sweep has too few blocks")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cost", type=float, help="seconds that a piece costs client and scheduler")
    parser.add_argument("--block", type=float, help="seconds that a block costs its worker beside its runs")
    parser.add_argument("--end", type=float, help="seconds that a chunk costs its worker when its last block has run")
    parser.add_argument("--tries", type=float, help="seconds until the layout of a store is known")
    costs = Costs(parser.parse_args())
    print(f"a chunk costs client and scheduler {costs.cost * 1e3:.2g} ms; beside its runs, it costs its worker")
    print(f"{costs.block * 1e3:.2g} ms for each half second, and {costs.end * 1e3:.2g} ms at its end")
    print(f"the layout is known after {costs.tries:.2g} s")
    print(f"{'times one core, workers':25}" + "".join(f"{count:>10,}" for count in WORKERS))
    for name, (size, each) in WORKS.items():
        speeds = [size * each / Simulation(size, each, count, costs).seconds for count in WORKERS]
        print(f"{name:25}" + "".join(f"{speed:10.1f}" for speed in speeds))


if __name__ == "__main__":
    main()
