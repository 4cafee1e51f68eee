"""What one iteration costs: mdf_loop's interpreter, onnx.reference and onnxruntime on the same models.

python benchmarks/interpreter.py
"""

from __future__ import annotations

import os
import subprocess
import sys

from timing import fastest, machine, onnxruntime_call  # isort: skip  (sets the number of threads before numpy loads)

import numpy as np
from onnx.reference import ReferenceEvaluator
from workloads.networks import rnn
from workloads.simulations import accumulate, fitzhugh_nagumo

import mdf_loop


def measure() -> list[tuple[str, int, float, float, float]]:
    """(name, iterations, seconds of the interpreter, of onnx.reference, of onnxruntime) of each workload."""
    rows = []
    for work in (accumulate(10_000), fitzhugh_nagumo(10_000), rnn(1000)):
        model = work.model
        rep, reference = mdf_loop.backend.prepare(model), ReferenceEvaluator(model)
        feeds = {name: np.asarray(value) for name, value in work.inputs.items()}
        with mdf_loop.options(engine="interpret"):
            ours = fastest(lambda rep=rep, feeds=feeds: rep.run(feeds))
        theirs = fastest(lambda reference=reference, feeds=feeds: reference.run(None, feeds))
        rows.append((work.name, work.trip_count, ours, theirs, fastest(onnxruntime_call(model, feeds))))
    return rows


def import_cost() -> float:
    """Seconds that ``import mdf_loop`` adds to the import of MDF's engine; the median of five processes."""
    code = """
import time, modeci_mdf.execution_engine
start = time.perf_counter()
import mdf_loop
print(time.perf_counter() - start)
"""
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True, env=compiled) for _ in range(6)]
    return sorted(float(run.stdout) for run in runs[1:])[2]  # the first one may have compiled the files


def main() -> None:
    """Print the table."""
    print(machine())
    print(f"{'us per iteration':18}{'interpret':>12}{'reference':>12}{'onnxruntime':>13}{'/reference':>12}{'/onnxruntime':>14}")
    for name, n, ours, reference, runtime in measure():
        us = [1e6 * t / n for t in (ours, reference, runtime)]
        print(f"{name:18}{us[0]:12.2f}{us[1]:12.2f}{us[2]:13.2f}{ours / reference:12.2f}{ours / runtime:14.2f}")
    print(f"import mdf_loop: {1000 * import_cost():.0f} ms above modeci_mdf.execution_engine")


if __name__ == "__main__":
    main()
