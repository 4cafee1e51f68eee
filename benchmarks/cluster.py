"""A sweep on 10 to 1,000 workers that come and go, simulated: how many times as fast as one core it is.

The pieces are those that :mod:`mdf_loop.sweeps.pieces` cuts for a cluster; workers, client and scheduler are events on a clock.
What a piece costs client and scheduler is measured first, with tasks of nothing on a scheduler in this process (``--cost`` gives
it instead).  Results go through the client at a rate that is given (``--rate``).

python benchmarks/cluster.py [--cost SECONDS] [--rate BYTES]
"""

from __future__ import annotations

import argparse
import heapq
import random
import time
from collections import deque

from mdf_loop.sweeps.clusters import PROBES
from mdf_loop.sweeps.pieces import FAR_AWAY, Pieces, Uncut
from mdf_loop.sweeps.rows.rows_of_runs import Ran
from mdf_loop.sweeps.workers import AHEAD

WORKS = {
    "1e9 runs of 3 us": (10**9, 3e-6),
    "1e9 runs of 1 ms": (10**9, 1e-3),
    "1e6 runs of 3 us": (10**6, 3e-6),
    "1e6 runs of 0.1 s": (10**6, 0.1),
}
WORKERS = (10, 100, 1000)

BYTES = 17
"""What a run gives: two numbers, and whether it is done."""

LATE, LIVES = 30.0, 1800.0
"""Seconds over which the second half of the workers comes, and after which one dies on average; another one comes at once."""


class Simulation:
    """One sweep; ``seconds`` is how long it takes."""

    def __init__(self, size: int, each: float, workers: int, cost: float, rate: float) -> None:
        self.each, self.cost, self.rate = each, cost, rate
        self.pieces, self.chance = Pieces(Uncut(size)), random.Random(1)
        self.now = self.free = 0.0
        self.under_way = self.threads = self.done = 0
        self.waiting, self.idle = deque[tuple[int, int, float]](), 0
        self.events: list[tuple[float, int, object]] = []
        self.count = 0
        for k in range(workers):
            self.at(0.0 if 2 * k < workers else LATE * self.chance.random(), None)
        while self.done < size:
            self.step()
        self.seconds = self.free

    def at(self, moment: float, what: object) -> None:
        """Something happens at a moment: a worker comes, or a piece ends, well or with its worker."""
        self.count += 1
        heapq.heappush(self.events, (moment, self.count, what))

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
                self.free = max(self.free, self.now) + self.cost + ran.bytes / self.rate
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
        stop = min(stop, start + max(int(limit / self.each), 1))
        seconds = self.each * (stop - start)
        begun = max(self.now, self.free)
        is_dead = self.chance.random() < seconds / LIVES
        self.at(begun + seconds, (asked, Ran((start, stop), [], seconds, BYTES * (stop - start)), is_dead))


def measured() -> float:
    """Seconds of a processor that client and scheduler take for a piece."""
    from distributed import Client

    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        for count in (50, 400):
            begun = time.process_time()
            for future in [client.submit(divmod, k, 7, pure=False) for k in range(count)]:
                future.result()
            taken = (time.process_time() - begun) / count
    return taken


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cost", type=float, help="seconds that a piece costs client and scheduler; measured if not given")
    parser.add_argument("--rate", type=float, default=3e8, help="bytes of results a second that go through the client (3e8)")
    said = parser.parse_args()
    cost = measured() if said.cost is None else said.cost
    print(f"a piece costs client and scheduler {cost * 1e3:.2g} ms; results go through the client at {said.rate / 1e6:.0f} MB/s")
    print(f"{'times one core, workers':25}" + "".join(f"{count:>10,}" for count in WORKERS))
    for name, (size, each) in WORKS.items():
        speeds = [size * each / Simulation(size, each, count, cost, said.rate).seconds for count in WORKERS]
        print(f"{name:25}" + "".join(f"{speed:10.1f}" for speed in speeds))


if __name__ == "__main__":
    main()
