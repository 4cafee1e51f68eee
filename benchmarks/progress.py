"""What it costs to watch a run: the same loops without progress, with a function that is called, and with lines in the log.

Measured twice.  *run*: short runs with and without it by turns, in seconds of the processor for this thread.  What else the
machine does only ever adds to a run, and more than what is looked for; so runs are put into groups, and of each group the
fastest watched run is held against the fastest other one.  Told is the median of what the groups say, and the 95 % interval of
that median, which follows from their order alone.  *nothing* is a third kind of run, as little watched as the first: what it
takes more is the error of all this.  *counted*: how often something is counted down, the clock is looked at and a line is
written in a run of some tenths of a second, times what each costs by itself; that is far below what any clock can tell of a run,
but leaves out what watching changes in it.

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
from collections.abc import Callable, Sequence
from typing import Any

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


LOOPS: dict[tuple[str, str], Callable[[float], Any]] = {
    ("a number", "interpret"): lambda k: mdf_loop.loop(int(2_500 * k), True, 0.5, body=NUMBER),
    ("a number", "numpy"): lambda k: mdf_loop.loop(int(150_000 * k), True, 0.5, body=NUMBER),
    ("a number", "jit"): lambda k: mdf_loop.loop(int(600_000 * k), True, 0.5, body=NUMBER),
    ("a row of 10,000", "numpy"): lambda k: mdf_loop.loop(int(2_000 * k), True, np.zeros(10_000), body=ROW, step=0.01),
    ("a row of 10,000", "jit"): lambda k: mdf_loop.loop(int(12_000 * k), True, np.zeros(10_000), body=ROW, step=0.01),
    ("a while loop", "numpy"): lambda k: mdf_loop.loop(None, True, 1.0, body=WHILE, rate=1 - 2e-5 / k, least=1e-3),
    ("a Python function", "interpret"): lambda k: mdf_loop.loop(int(1_500 * k), True, 0.0, body=called),
}
"""Loops of about twenty milliseconds, or ``k`` times as long."""

LONG = 10
"""How much longer the run is in which is counted: long enough for some reports."""

GROUPS = 15


def watched(call: Callable[[float], Any], engine: str, progress: object, k: float = 1) -> Call:
    """The call under an engine, watched or not."""

    def run() -> None:
        with mdf_loop.options(engine=engine, progress=progress):
            call(k)

    return run


def more(times: Sequence[float], usual: Sequence[float]) -> tuple[float, float, float]:
    """What runs take more than those beside them: the fastest of each group, and over the groups the median and its interval."""
    groups = max(1, min(GROUPS, len(times) // 4))
    return interval([min(times[k::groups]) / min(usual[k::groups]) - 1 for k in range(groups)])


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


def counted(call: Callable[[float], Any], listener: object) -> Counter[str]:
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
        watched(call, *listener, LONG)()  # type: ignore[misc]
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
    return {name: fastest(call, 0.05) / often for name, call in calls.items()}


def logged(report: Report) -> None:
    """What a bar does where there is neither terminal nor notebook."""
    logging.getLogger("mdf_loop.progress").info("%s", report)


def row(name: str, engine: str, call: Callable[[float], Any], seconds: float) -> list[float]:
    """Measure one loop and print it; what was added in the middle of all groups, for each way."""
    ways = {"": False, "nothing": False, "function": lambda report: True, "log": True}
    times = in_turns({way: watched(call, engine, progress) for way, progress in ways.items()}, seconds, time.thread_time)
    usual, each = min(times[""]), costs(logged, engine)
    told, medians = "", []
    for way in ("nothing", "function", "log"):
        middle, least, most = more(times[way], times[""])
        medians.append(middle)
        told += f"{middle:>+8.2%} [{least:+.2%}, {most:+.2%}]".ljust(27)
    parts, long = counted(call, (engine, logged)), fastest(watched(call, engine, False, LONG), 0, 1)
    share = sum(count * each[part] for part, count in parts.items()) / long
    print(f"{name:<18}{engine:<10}{usual * 1e3:>7.1f} ms{told}{share:>8.4%}{len(times['']):>6}", flush=True)
    return medians[1:]


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=9.0, help="for each row")
    seconds = arguments.parse_args().seconds
    log = logging.getLogger("mdf_loop.progress")
    log.addHandler(logging.StreamHandler(open(os.devnull, "w")))  # noqa: SIM115
    log.setLevel(logging.INFO)
    log.propagate = False
    print(machine())
    print(f"{'loop':<18}{'engine':<10}{'not watched':>11}{'nothing':>9}{'with a function':>34}", end="")
    print(f"{'with the log':>27}{'counted':>17}{'runs':>6}")
    medians = [median for (name, engine), call in LOOPS.items() for median in row(name, engine, call, seconds)]
    print(f"the middle row: {statistics.median(medians):+.2%}, the worst: {max(medians):+.2%}")


if __name__ == "__main__":
    main()
