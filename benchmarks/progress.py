"""What it costs to watch a run: the same loops without progress, with a function that is told, and with lines in the log.

Seconds are those of the processor: one per cent is less than what a busy machine adds to the time on the wall.

python benchmarks/progress.py [--seconds S]
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import time

from timing import Call, in_turns, machine  # isort: skip  (sets the number of threads before numpy loads)

import numpy as np

import mdf_loop

NUMBER = "x: x * 0.999 + sin(x)\ncollect path: x"
ROW = "x: x * 0.999 + step * (1 - x * x)"
WHILE = "x: x * rate\nwhile: x > least"


def called(i, go, x):  # type: ignore[no-untyped-def]
    """A Python function, which is called in each iteration."""
    return True, x * 0.5 + i


LOOPS = {
    ("a number", "interpret"): lambda: mdf_loop.loop(20_000, True, 0.5, body=NUMBER),
    ("a number", "numpy"): lambda: mdf_loop.loop(1_000_000, True, 0.5, body=NUMBER),
    ("a number", "jit"): lambda: mdf_loop.loop(3_000_000, True, 0.5, body=NUMBER),
    ("a row of 10,000", "numpy"): lambda: mdf_loop.loop(10_000, True, np.zeros(10_000), body=ROW, step=0.01),
    ("a row of 10,000", "jit"): lambda: mdf_loop.loop(50_000, True, np.zeros(10_000), body=ROW, step=0.01),
    ("a while loop", "numpy"): lambda: mdf_loop.loop(None, True, 1.0, body=WHILE, rate=1 - 1e-5, least=1e-5),
    ("a Python function", "interpret"): lambda: mdf_loop.loop(10_000, True, 0.0, body=called),
}
"""Loops of a few tenths of a second, long enough for some reports."""


def watched(call: Call, engine: str, progress: object) -> Call:
    """The call under an engine, watched or not."""

    def run() -> None:
        with mdf_loop.options(engine=engine, progress=progress):
            call()

    return run


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=20.0, help="for each row")
    seconds = arguments.parse_args().seconds
    log = logging.getLogger("mdf_loop.progress")
    log.addHandler(logging.StreamHandler(open(os.devnull, "w")))  # noqa: SIM115
    log.setLevel(logging.INFO)
    log.propagate = False
    print(machine())
    print(f"{'loop':<20}{'engine':<12}{'not watched':>12}{'function':>12}{'log':>10}   (of the shortest of so many runs)")
    more = []
    for (name, engine), call in LOOPS.items():
        ways = {"": False, "function": lambda report: True, "log": True}
        times = in_turns({way: watched(call, engine, progress) for way, progress in ways.items()}, seconds, time.process_time)
        least = {way: min(found) for way, found in times.items()}
        costs = [least[way] / least[""] - 1 for way in ("function", "log")]
        more += costs
        shares = "".join(f"{cost:>+{width}.2%}" for cost, width in zip(costs, (12, 10), strict=True))
        print(f"{name:<20}{engine:<12}{least[''] * 1e3:>9.1f} ms{shares}   {len(times['']):>4}")
    print(f"the middle one: {statistics.median(more):+.2%}, the worst: {max(more):+.2%}")


if __name__ == "__main__":
    main()
