"""What compiling takes, part by part, and loading the same code from the disk: time of the processor, the shortest of several.

python benchmarks/compiling.py [--repeat N] [ROWS...]       bodies of different kinds and sizes
python benchmarks/compiling.py --first                      the first time in a process: llvmlite, our modules, the machine
python benchmarks/compiling.py --engines                    one loop in each engine: an iteration, the first call, the code
python benchmarks/compiling.py --auto                       first calls of many lengths in engine auto next to the others
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from timing import in_turns, machine, onnxruntime_call  # isort: skip  (sets the number of threads before numpy loads)

import numpy as np
from loops import our_call, with_engine
from workloads import EVERY
from workloads.record import Workload
from workloads.writing import Writing

import mdf_loop

PARTS = "primitives", "writing", "reading", "passes", "emitting", "linking"
"""Of compiling: primitives in the place of operators, our text, LLVM's reading of it, its passes, its code, addresses."""

ROWS = {
    "newton": 12, "fitzhugh_nagumo": 12, "vector_1000": 12, "logistic_10": 12, "hodgkin_huxley": 12, "life_16": 12, "rnn": 30,
    "lstm_8": 30, "kalman": 30, "scalars_1000": 150, "vectors_1000": 150,
}  # fmt: skip
"""Bodies, and how many milliseconds we aim at."""


def long_body(name: str, kind: str, start: Any, nodes: int = 1000) -> Workload:
    """So many nodes one after the other."""
    w = Writing(name, f"int64 i, bool go, {kind} x", "double rate")
    y = w["x"]
    for k in range(nodes // 2):
        y = y * w["rate"] + 0.001 * k if k % 8 else w("Sin", y) - w["x"]
    return Workload(name, w.text(w.go, y), 100, carried=(start,), captured={"rate": np.float64(0.9)})


def works() -> Iterator[Workload]:
    """The rows."""
    yield from (work for make in EVERY if (work := make()).name in ROWS)
    yield long_body("scalars_1000", "double", np.float64(0.5))
    yield long_body("vectors_1000", "double[64]", np.linspace(0, 1, 64))


@contextlib.contextmanager
def replaced(owner: Any, name: str, other: Callable[[Any], Any]) -> Iterator[None]:
    """Another function in the place of one, which it is given."""
    plain = getattr(owner, name)
    setattr(owner, name, other(plain))
    try:
        yield
    finally:
        setattr(owner, name, plain)


def steps_of(work: Workload) -> list[tuple[Any, ...]]:
    """What is compiled when a loop is run: the arguments of ``program``."""
    from mdf_loop.backends.llvm import compiled_program as module

    found: list[tuple[Any, ...]] = []

    def noting(plain: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: found.append(given) or plain(*given)

    with replaced(module, "program", noting):
        our_call(work, "jit")()
    return found


def timed(spent: dict[str, float], part: str) -> Callable[[Any], Any]:
    """A function that is timed."""

    def other(plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            begun = time.thread_time()
            try:
                return plain(*given)
            finally:
                spent[part] = spent.get(part, 0.0) + time.thread_time() - begun

        return call

    return other


def once(steps: list[tuple[Any, ...]]) -> tuple[dict[str, float], int]:
    """Seconds of each part and of all, and bytes of instructions."""
    from mdf_loop.backends.llvm import compiled_program as module
    from mdf_loop.backends.llvm import program_text
    from mdf_loop.backends.llvm.linking.machine import Machine

    spent: dict[str, float] = {}
    steps_of_llvm = ((Machine, name) for name in ("_read", "_optimise", "_emitted", "_link"))
    where = (program_text, "inlined"), (module, "ProgramText"), *steps_of_llvm
    with contextlib.ExitStack() as stack:
        for (owner, name), part in zip(where, PARTS, strict=True):
            stack.enter_context(replaced(owner, name, timed(spent, part)))
        begun = time.thread_time()
        size = sum(module.program(*given).size for given in steps)
        spent["all"] = time.thread_time() - begun
    spent["writing"] -= spent["primitives"]  # which are made in the same call
    return spent, size


def measured(steps: list[tuple[Any, ...]], repeat: int, cache: str) -> tuple[dict[str, float], int]:
    """The shortest of several."""
    os.environ["MDF_LOOP_CACHE"] = cache
    runs = [once(steps) for _ in range(repeat)]
    return {part: min(spent.get(part, 0.0) for spent, _ in runs) for part in (*PARTS, "all")}, runs[0][1]


def table(names: list[str], repeat: int) -> None:
    """Print all rows."""
    print(f"{'ms':18}" + "".join(f"{part:>11}" for part in PARTS) + f"{'all':>9}{'aim':>6}{'from disk':>11}{'bytes':>9}")
    for work in works():
        if names and not any(name in work.name for name in names):
            continue
        os.environ["MDF_LOOP_CACHE"] = "off"
        steps = steps_of(work)
        spent, size = measured(steps, repeat, "off")
        with tempfile.TemporaryDirectory() as folder:
            loaded, _ = measured(steps, repeat + 1, folder)
        parts = "".join(f"{1e3 * spent[part]:11.2f}" for part in PARTS)
        print(
            f"{work.name:18}{parts}{1e3 * spent['all']:9.2f}{ROWS[work.name]:6}{1e3 * loaded['all']:11.2f}{size:9,}", flush=True
        )


FIRST = """
import time
import mdf_loop
from mdf_loop import options
body = "b (int64 i, bool c, double x) => (bool c, double y) { s = Mul (x, k) t = Tanh (s) e = Exp (t) y = Sub (e, k) }"
spent, now = {}, time.thread_time
with options(engine="numpy"):
    mdf_loop.loop(300, True, 1.0, body=body.replace("Tanh", "Cosh"), k=0.5)

def timed(what, call):
    begun = now()
    found = call()
    spent[what] = 1e3 * (now() - begun)
    return found

def llvmlite():
    import llvmlite.binding

def modules():
    from mdf_loop.backends.llvm import compiled_program as program

def machine():
    from mdf_loop.backends.llvm.linking.machine import machine
    machine()

def shared():
    from mdf_loop.backends.llvm import compiled_program as program
    program._entries(True)

def first():
    with options(engine="jit"):
        mdf_loop.loop(5000, True, 1.0, body=body, k=0.5)

for what in (llvmlite, modules, machine, shared, first):
    timed(what.__name__, what)
print(*spent.values())
"""


def first(repeat: int) -> None:
    """Print what the first time in a process takes, with an empty folder and with a full one."""
    names = "llvmlite", "our modules", "this machine", "what programs share", "a first body"
    print(f"{'ms, the first time in a process':34}" + "".join(f"{name:>21}" for name in names))
    with tempfile.TemporaryDirectory() as folder:
        for what, each in (("with nothing on disk", "off"), ("with all on disk", folder)):
            environment = {**os.environ, "MDF_LOOP_CACHE": each}
            runs = []
            for _ in range(repeat + 1):
                said = subprocess.run([sys.executable, "-c", FIRST], env=environment, capture_output=True, text=True, check=True)
                runs.append([float(x) for x in said.stdout.split()])
            print(f"{what:34}" + "".join(f"{min(column):21.2f}" for column in zip(*runs, strict=True)))


def engines(seconds: float = 2.0) -> None:
    """Print what one loop takes in each engine, and what it becomes."""
    (work,) = (work for make in EVERY if (work := make()).name == "fitzhugh_nagumo")
    planned, values = mdf_loop.compile({"onnx": work.text, "opset": 20}), (work.trip_count, work.cond, *work.carried)
    calls = {"onnxruntime": onnxruntime_call(work.model, work.inputs)}
    begun, what = {}, {"onnxruntime": ""}
    for engine in ("interpret", "numpy", "jit"):
        calls[engine] = functools.partial(with_engine(engine).run, planned, *values, **work.captured)
        now = time.perf_counter()
        calls[engine]()
        begun[engine] = time.perf_counter() - now
        calls[engine]()
        what[engine] = planned.explain().splitlines()[-1] if engine != "interpret" else "node by node"
    times = in_turns(calls, seconds)
    print(f"{work.name}, {work.trip_count:,} iterations of {len(work.body.node)} nodes")
    print(f"{'engine':12}{'ns an iteration':>16}{'first call, ms':>16}{'next, ms':>10}  what ran")
    for engine, found in times.items():
        first = f"{1e3 * begun[engine]:16.1f}" if engine in begun else " " * 16
        each = 1e9 * min(found) / (work.trip_count or 1)
        print(f"{engine:12}{each:16,.1f}{first}{1e3 * min(found):10.2f}  {what[engine]}")


AUTO = """
import sys, time
import numpy as np
import mdf_loop
from mdf_loop import options
engine, kind, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with options(engine="numpy"):
    mdf_loop.loop(300, True, 1.0, body="x: x * 0.5 + k", k=0.5)
given = {"v": 1.0, "w": 0.5} if kind == "scalars" else {"v": np.linspace(0, 1, 64), "w": np.linspace(1, 2, 64)}
body = "v: v + h * (v - v * v * v * a - w + k)" + chr(10) + "w: w + h * (v + a - w)"
begun = time.perf_counter()
with options(engine=engine):
    mdf_loop.loop(count, True, *given.values(), body=body, a=0.3, k=0.1, h=0.01)
print(1e3 * (time.perf_counter() - begun))
"""


FIRST_CALLS = (
    ("scalars", (1_000, 30_000, 300_000, 600_000, 1_000_000, 3_000_000)),
    ("vectors", (1_000, 10_000, 20_000, 40_000, 100_000)),
)
"""Loops and how many iterations: close together where numpy alone takes as long as compiling."""


def auto(repeat: int) -> None:
    """Print first-ever calls, each the shortest of several processes; ``best`` is numpy only or compiling first."""
    print(f"{'ms, first calls':16}{'iterations':>12}{'numpy':>10}{'jit':>10}{'auto':>10}{'auto / best':>13}")
    environment = {**os.environ, "MDF_LOOP_CACHE": "off"}
    for kind, counts in FIRST_CALLS:
        for count in counts:
            found = {}
            for engine in ("numpy", "jit", "auto") * repeat:
                command = [sys.executable, "-c", AUTO, engine, kind, str(count)]
                said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                found[engine] = min(found.get(engine, math.inf), float(said.stdout))
            ratio = found["auto"] / min(found["numpy"], found["jit"])
            print(f"{kind:16}{count:12,}" + "".join(f"{x:10.1f}" for x in found.values()) + f"{ratio:13.2f}", flush=True)


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of rows; all if none")
    parser.add_argument("--repeat", type=int, default=7, help="how often each is compiled")
    parser.add_argument("--first", action="store_true", help="the first time in a process")
    parser.add_argument("--engines", action="store_true", help="one loop in each engine")
    parser.add_argument("--auto", action="store_true", help="first calls in engine auto")
    said = parser.parse_args()
    print(machine())
    if said.first:
        first(said.repeat)
    elif said.engines:
        engines()
    elif said.auto:
        auto(said.repeat)
    else:
        table(said.names, said.repeat)


if __name__ == "__main__":
    main()
