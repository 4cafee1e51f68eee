"""How much memory a long loop needs beyond its inputs and outputs: each row in a process of its own.

python benchmarks/memory.py [--engine NAME] [ROWS...]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable

from timing import machine  # isort: skip  (sets the number of threads before numpy loads)

import numpy as np
from workloads.record import Workload
from workloads.writing import Writing

N = 10_000_000
INT64_MAX = 2**63 - 1


def mapped(n: int = N) -> Workload:
    """sin(i * w) + b of scalars, collected: all of it batched."""
    w = Writing("mapped", "int64 i, bool go", "double w, double b")
    y = w("Sin", w("Cast", w["i"], to=11, kind="double") * w["w"]) + w["b"]
    return Workload("mapped", w.text(w.go, y), n, captured={"w": np.float64(0.1), "b": np.float64(1)})


def looked_up(n: int = N) -> Workload:
    """A few operations on x[i], collected: batched, its input as long as its output."""
    w = Writing("looked_up", "int64 i, bool go", "double[n] x")
    x = w("Gather", w["x"], w["i"], kind="double")
    return Workload("looked_up", w.text(w.go, x * x + x * 0.5 - 1.0), n, captured={"x": np.linspace(0, 1, n)})


def summed(n: int = N) -> Workload:
    """The sum of sin(i * w): batched and accumulated, nothing collected."""
    w = Writing("summed", "int64 i, bool go, double s", "double w")
    y = w("Sin", w("Cast", w["i"], to=11, kind="double") * w["w"])
    return Workload("summed", w.text(w.go, w["s"] + y), n, carried=(np.float64(0),), captured={"w": np.float64(0.1)})


def wide(n: int = N // 1000) -> Workload:
    """Ten thousand iterations of ten thousand elements, of which one number is collected: intermediate values are large."""
    w = Writing("wide", "int64 i, bool go", "double[10000] x")
    y = w("Sin", w("Cast", w["i"], to=11, kind="double") * w["x"])
    return Workload("wide", w.text(w.go, w("ReduceMax", y, keepdims=0)), n, captured={"x": np.linspace(0, 1, 10_000)})


def searched(n: int = N) -> Workload:
    """A trip count that is no count, a condition that ends the loop, nothing collected."""
    w = Writing("searched", "int64 i, bool go, int64 last", "int64 end")
    go = w("Less", w["i"] * 3 + 1, w["end"], kind="bool")
    captured = {"end": np.int64(3 * n)}
    return Workload("searched", w.text(go, w["i"]), INT64_MAX, carried=(np.int64(0),), captured=captured)


def stepped(n: int = N // 10) -> Workload:
    """The Henon map, both numbers collected: a recurrence, a million iterations."""
    w = Writing("stepped", "int64 i, bool go, double x, double y")
    x, y = 1.0 - w["x"] * w["x"] * 1.4 + w["y"], w["x"] * 0.3
    return Workload("stepped", w.text(w.go, x, y, x, y), n, carried=(np.float64(0), np.float64(0)))


ROWS: dict[str, Callable[..., Workload]] = {f.__name__: f for f in (mapped, looked_up, summed, wide, searched, stepped)}


def measured(name: str, engine: str) -> dict[str, float]:
    """Run one row here: short, so that what is made once does not count, then for its time, then traced."""
    from loops import our_call

    warm_up = our_call(ROWS[name](1000), engine)
    warm_up()
    work = ROWS[name]()
    call = our_call(work, engine)
    start = time.perf_counter()
    call()
    seconds = time.perf_counter() - start
    tracemalloc.start()
    results = call()
    _, most = tracemalloc.get_traced_memory()
    outputs = sum(np.asarray(value).nbytes for value in (results if isinstance(results, tuple) else (results,)))
    return {"outputs": outputs, "beyond": most - outputs, "seconds": seconds}


def main() -> None:
    """Print the table, or the figures of the one row this process is for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"rows: {', '.join(ROWS)}")
    parser.add_argument("--engine", default="auto", help="an engine of options()")
    parser.add_argument("--here", action="store_true", help="one row in this process, as JSON")
    said = parser.parse_args()
    if said.here:
        print(json.dumps(measured(said.names[0], said.engine)))
        return
    print(machine())
    print(f"{'loop':12}{'iterations':>12}{'outputs MB':>12}{'beyond MB':>11}{'seconds':>9}   (engine {said.engine})")
    for name in said.names or ROWS:
        command = [sys.executable, __file__, name, "--here", "--engine", said.engine]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        count = N if name == "searched" else ROWS[name]().trip_count
        mega = {key: found[key] / 1e6 for key in ("outputs", "beyond")}
        print(f"{name:12}{count:12}{mega['outputs']:12.1f}{mega['beyond']:11.1f}{found['seconds']:9.2f}", flush=True)


if __name__ == "__main__":
    main()
