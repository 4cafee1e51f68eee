"""What it costs to watch a run: the same loops without progress, with a function that is told, and with lines in the log.

Measured twice.  *run*: runs with and without it by turns, in seconds of the processor for this thread; the median of what
a watched run takes more than the run beside it, and the 95 % interval of that median, which follows from the order of the
samples alone.  *counted*: how often something is counted down, the clock is looked at and a report is made in such a run, times
what each costs by itself; that is far below what any clock can tell of a run, but leaves out what watching changes in it, such as
shorter blocks.

python benchmarks/progress.py [--seconds S]
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import statistics
import time
from collections import Counter
from collections.abc import Sequence

from timing import Call, fastest, in_turns, machine  # isort: skip  (sets the number of threads before numpy loads)

import numpy as np

import mdf_loop
from mdf_loop.progress import Report, Watch

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


def interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """The median, and the samples between which that of all possible ones lies in 95 of 100 cases."""
    ordered, count = sorted(samples), len(samples)
    below, tail = 0, 0.5**count
    while tail <= 0.025:  # as many as that below the median: each sample is, or is not, like a coin
        below += 1
        tail += math.comb(count, below) * 0.5**count
    return statistics.median(ordered), ordered[max(below - 1, 0)], ordered[count - max(below, 1)]


PARTS = ("look", "_report")
"""What a watch does now and then, the second inside the first; in between it counts down what passes."""


def counted(call: Call, listener: object) -> Counter[str]:
    """How often each part is done in a run; ``passed`` is what was counted down between looks: iterations, or blocks."""
    found: Counter[str] = Counter()
    kept = {name: getattr(Watch, name) for name in PARTS}
    for name, plain in kept.items():

        def counting(watch: Watch, *arguments: object, name: str = name, plain: Call = plain) -> None:
            found[name] += 1
            found["passed"] += watch.skip if name == "look" else 0
            plain(watch, *arguments)

        setattr(Watch, name, counting)
    try:
        watched(call, *listener)()  # type: ignore[misc]
    finally:
        for name, plain in kept.items():
            setattr(Watch, name, plain)
    return found


def costs(listener: object, engine: str, often: int = 2000) -> dict[str, float]:
    """Seconds of each part by itself; the interpreter counts down without a call."""
    position = ("a loop", 1, 1000)
    watch = Watch(listener, lambda: position)  # type: ignore[arg-type]
    watch.reported = math.inf

    def looking() -> None:
        for _ in range(often):
            watch.skip = 1
            watch.look()

    def passing() -> None:
        watch.countdown = often + 1
        for _ in range(often):
            watch.passed()

    def counting_down() -> None:
        watch.countdown = often + 1
        for _ in range(often):
            if watch is not None:
                watch.countdown -= 1
                if watch.countdown <= 0:
                    watch.look()

    def reporting() -> None:
        for _ in range(often):
            watch._report(watch.started + 1)

    calls = {"passed": counting_down if engine == "interpret" else passing, "look": looking, "_report": reporting}
    return {name: fastest(call, 0.3) / often for name, call in calls.items()}


def logged(report: Report) -> None:
    """What a bar does where there is neither terminal nor notebook."""
    logging.getLogger("mdf_loop.progress").info("%s", report)


def row(name: str, engine: str, call: Call, seconds: float) -> list[float]:
    """Measure one loop and print it; what was added in the middle of all runs, for each way."""
    ways = {"": False, "function": lambda report: True, "log": True}
    times = in_turns({way: watched(call, engine, progress) for way, progress in ways.items()}, seconds, time.thread_time)
    usual, told, medians = statistics.median(times[""]), "", []
    for way, listener in (("function", ways["function"]), ("log", logged)):
        middle, least, most = interval([one / two - 1 for one, two in zip(times[way], times[""], strict=True)])
        each = costs(listener, engine)
        parts = counted(call, (engine, ways[way]))
        medians.append(middle)
        told += (
            f"{middle:>+9.2%} [{least:+.2%}, {most:+.2%}]".ljust(28)
            + f"{sum(count * each[part] for part, count in parts.items()) / usual:>8.4%}"
        )
    print(f"{name:<20}{engine:<11}{usual * 1e3:>8.1f} ms{told}{len(times['']):>6}", flush=True)
    return medians


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=60.0, help="for each row")
    seconds = arguments.parse_args().seconds
    log = logging.getLogger("mdf_loop.progress")
    log.addHandler(logging.StreamHandler(open(os.devnull, "w")))  # noqa: SIM115
    log.setLevel(logging.INFO)
    log.propagate = False
    print(machine())
    print(f"{'':<42}{'told to a function':<36}written to the log")
    print(f"{'loop':<20}{'engine':<11}{'not watched':>11}" + f"{'run':>9}{'counted':>27}" * 2 + f"{'runs':>6}")
    more = [median for (name, engine), call in LOOPS.items() for median in row(name, engine, call, seconds)]
    print(f"the middle row: {statistics.median(more):+.2%}, the worst: {max(more):+.2%}")


if __name__ == "__main__":
    main()
