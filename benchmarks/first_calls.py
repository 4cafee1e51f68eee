"""The time to the n-th result of an exported loop, over onnxruntime's: from the file on, with reading, planning and compiling.

python benchmarks/first_calls.py                       every model of exported/, engine auto, cold caches
python benchmarks/first_calls.py kalman beam           those whose name contains one of these
python benchmarks/first_calls.py --folder PATH         another folder of NAME.onnx and NAME.npz, see exported.py
python benchmarks/first_calls.py --warm                the disk cache is filled: what a second process takes
python benchmarks/first_calls.py --profile NAME        what the first calls of one model take, call by call

Processes of their own take one sample of each row, ``--repeat`` of them for each side in turn, and the shortest counts.  Each
imports both sides and runs one small loop on each first, so that modules are loaded and nothing is known of the models.  No side
runs where the other one did: what a session frees is put in order when memory is asked for next, which takes 0.2 ms.  Beside the
time on the wall is that of the processor, all threads of the process together, for machines that do something else as well.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from timing import machine, onnxruntime_session  # isort: skip  (sets the number of threads before numpy loads)

import numpy as np
import onnx.parser
from exported import FOLDER, Model, differences, models

import mdf_loop
from mdf_loop import backend
from mdf_loop.execute.tiers.background import idle

COUNTS = 1, 10, 100, 1000
"""After which calls the clock is read."""

BUDGET = 1.0
"""Seconds of the processor after which a sample stops; calls that are left are taken to last as long as the last ones did."""

WARMING = """<ir_version: 8, opset_import: ["": 18]> warming (float[4] x, int64 n) => (float[4] z, float[K, 4] zs) {
    go = Constant <value: tensor = bool {1}> ()
    z, zs = Loop <body = step (int64 i, bool c, float[4] y) => (bool d, float[4] t, float[4] u) {
        d = Identity (c) s = Add (y, y) h = Tanh (s) t = Mul (h, y) u = Sub (t, s)
    }> (n, go, x)
}"""
"""A small loop of no model here, for what each side does once in a process."""

SIDES = "onnxruntime", "mdf_loop"


def prepared(side: str, path: str, work: Model) -> Callable[[], Any]:
    """A model made ready by one side."""
    if side == "onnxruntime":
        session = onnxruntime_session(path)
        return lambda: session.run(None, work.inputs)
    ready = backend.prepare(path)
    return lambda: ready.run(work.inputs)


def clocks() -> np.ndarray:
    """Seconds on the wall, and of the processor."""
    return np.array([time.perf_counter(), time.process_time()])


def sample(side: str, path: str, work: Model, most: int) -> dict[str, Any]:
    """Seconds until so many results, each a pair: on the wall, and of the processor."""
    begun = clocks()
    call = prepared(side, path, work)
    results = call()
    found, each, last = {1: clocks() - begun}, np.zeros(2), 1
    for count in (n for n in COUNTS[1:] if n <= most):
        before, done = clocks(), 0
        while done < count - last and (done % 10 or time.process_time() - begun[1] < BUDGET):
            call()
            done += 1
        now = clocks()
        each = (now - before) / done if done else each
        found[count], last = now - begun + (count - last - done) * each, last + done
    return {"seconds": {n: list(seconds) for n, seconds in found.items()}, "wrong": differences(tuple(results), work.expected)}


def profile(path: str, work: Model, calls: int = 40) -> Iterator[str]:
    """What getting ready and each of the first calls takes on the wall, in milliseconds."""
    begun = time.perf_counter()
    call = prepared("mdf_loop", path, work)
    for k in range(calls):
        yield f"{'ready' if not k else f'call {k}':8} {1e3 * (time.perf_counter() - begun):8.2f}"
        begun = time.perf_counter()
        call()


def samples(said: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One sample of each row of one side, in this process."""
    warm_up()
    for work in models(said.folder, said.names):
        path = str(said.folder / f"{work.name}.onnx")
        idle(60.0)  # a thread that still compiles for the row before
        gc.collect()
        yield {"name": work.name, **sample(said.once, path, work, said.calls)}


def measured(said: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows: for each side and count the shortest seconds, on the wall and of the processor."""
    found: dict[str, list[list[dict[str, Any]]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as folder:
        surroundings = {**os.environ, "MDF_LOOP_CACHE": folder if said.warm else "off"}
        for _, side in itertools.product(range(said.repeat + said.warm), SIDES):
            command = [sys.executable, "-W", "ignore", __file__, "--once", side, *sys.argv[1:]]
            printed = subprocess.run(command, env=surroundings, stdout=subprocess.PIPE, text=True, check=True).stdout
            found[side].append([json.loads(line) for line in printed.splitlines()])
    counted = {side: zip(*rows[said.warm :], strict=True) for side, rows in found.items()}
    return [least(dict(zip(SIDES, rows, strict=True))) for rows in zip(*counted.values(), strict=True)]


def least(rows: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """One row of several of each side."""
    both = {}
    for side, several in rows.items():
        both[side] = {int(n): np.min([row["seconds"][n] for row in several], axis=0) for n in several[0]["seconds"]}
    ours = rows["mdf_loop"][0]
    return {"name": ours["name"], "least": both, "wrong": ours["wrong"]}


def ratios(row: dict[str, Any], clock: int) -> dict[int, float]:
    """Our time over onnxruntime's, by the number of calls."""
    ours, theirs = (row["least"][side] for side in reversed(SIDES))
    return {n: float(ours[n][clock] / theirs[n][clock]) for n in ours}


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    theirs = row["least"]["onnxruntime"]
    shares = ["".join(f"{x:8.2f}" for x in ratios(row, clock).values()) for clock in range(2)]
    return f"{row['name']:42}{1e3 * theirs[1][0]:8.2f}{shares[0]}  |{shares[1]}  {row['wrong']}".rstrip()


def summary(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Geometric means, the worst, and how many rows are slower than onnxruntime."""
    for clock, name in enumerate(("on the wall", "of the processor")):
        by_count = {n: [ratios(row, clock)[n] for row in rows] for n in rows[0]["least"]["mdf_loop"]}
        for n, found in by_count.items():
            mean = math.exp(sum(map(math.log, found)) / len(found))
            worst = max(found)
            behind = sum(x > 1 for x in found)
            yield (
                f"{name}, {n} calls: geometric mean {mean:.2f}, worst {worst:.2f} ({rows[found.index(worst)]['name']}), "
                f"{behind} of {len(found)} slower"
            )


def warm_up() -> None:
    """Run one small loop on each side, in machine code on ours."""
    model = onnx.parser.parse_model(WARMING)
    inputs = {"x": np.ones(4, np.float32), "n": np.array(3)}
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        onnx.save(model, file.name)
        for side, engine in itertools.product(SIDES, ("interpret", "numpy", "jit")):
            with mdf_loop.options(engine=engine):
                prepared(side, file.name, Model("warming", model, inputs, ()))()


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of models; all if none")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where NAME.onnx and NAME.npz stand")
    parser.add_argument("--repeat", type=int, default=3, help="how many processes take a sample of each row")
    parser.add_argument("--calls", type=int, default=COUNTS[-1], help="how many calls at most")
    parser.add_argument("--warm", action="store_true", help="with a disk cache that one process more has filled")
    parser.add_argument("--once", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--profile", action="store_true", help="print what each of the first calls takes")
    parser.add_argument("--json", help="a file for all figures")
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    said = arguments()
    if said.once:
        for row in samples(said):
            print(json.dumps(row), flush=True)
    elif said.profile:
        warm_up()
        for work in models(said.folder, said.names):
            print(work.name, *profile(str(said.folder / f"{work.name}.onnx"), work), sep="\n")
    else:
        show(measured(said), said)


def show(rows: list[dict[str, Any]], said: argparse.Namespace) -> None:
    """Print the rows, what they are on average, and write them to a file."""
    counts = "".join(f"{n:8}" for n in COUNTS if n <= said.calls)
    print(machine())
    print(f"{'':42}{'ms':>8}{'on the wall':^32}  |{'of the processor':^32}".rstrip())
    print(f"{'calls':42}{1:8}{counts}  |{counts}")
    print("\n".join(map(line, rows)))
    print("\n".join(summary(rows)))
    if said.json:
        figures = [{"name": row["name"], "wall": ratios(row, 0), "processor": ratios(row, 1)} for row in rows]
        Path(said.json).write_text(json.dumps({"machine": machine(), "rows": figures}))


if __name__ == "__main__":
    main()
