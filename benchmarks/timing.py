"""Timing in one process, one thread each; import this before numpy."""

from __future__ import annotations

import gc
import math
import os
import platform
import random
import time
from collections.abc import Callable
from typing import Any

Call = Callable[[], Any]

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")


def fastest(
    call: Callable[[], Any], seconds: float = 1.0, least: int = 3, clock: Callable[[], float] = time.perf_counter
) -> float:
    """The shortest of several runs, in seconds: the one the rest of the machine disturbed least."""
    call()
    best, spent, runs = float("inf"), 0.0, 0
    while spent < seconds or runs < least:
        start = clock()
        call()
        took = clock() - start
        best, spent, runs = min(best, took), spent + took, runs + 1
    return best


def tried(call: Call) -> tuple[Any, str]:
    """The results of a call and nothing, or nothing and what went wrong."""
    try:
        results = call()
    except Exception as error:
        return None, f"{type(error).__name__}: {str(error).splitlines()[0][:160]}" if str(error) else type(error).__name__
    return results if isinstance(results, tuple) else (results,), ""


def in_turns(calls: dict[str, Call], seconds: float, clock: Callable[[], float] = time.perf_counter) -> dict[str, list[float]]:
    """Seconds of repeated calls, one of each kind after the other until the time is up; at least three of each.

    ``clock`` may be ``time.process_time``, for differences so small that what else the machine does would hide them.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    often = dict.fromkeys(calls, 1)
    for name, call in calls.items():  # a sample is a millisecond or more
        while (took := _sample(call, often[name], clock)) < 1e-3:
            often[name] = max(2 * often[name], math.ceil(often[name] * 1e-3 / max(took, 1e-7)))
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        order, chance = list(calls), random.Random(0)
        while time.perf_counter() - start < seconds or min(map(len, times.values())) < 3:
            for name in order:
                times[name].append(_sample(calls[name], often[name], clock) / often[name])
            chance.shuffle(order)  # no one always runs after the same other one, on its caches
    finally:
        if enabled:
            gc.enable()
    return times


def _sample(call: Call, often: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(often):
        call()
    return clock() - start


def onnxruntime_session(model: Any) -> Any:
    """A session of onnxruntime for a model's bytes, or its path: one thread."""
    import onnxruntime

    chosen = onnxruntime.SessionOptions()
    chosen.intra_op_num_threads = chosen.inter_op_num_threads = 1
    chosen.log_severity_level = 3  # errors alone
    return onnxruntime.InferenceSession(model, chosen, providers=["CPUExecutionProvider"])


def onnxruntime_call(model: Any, inputs: dict[str, Any]) -> Callable[[], Any]:
    """A function that runs a model on onnxruntime, one thread."""
    import numpy as np

    session = onnxruntime_session(model.SerializeToString())
    feeds = {name: value if isinstance(value, list) else np.asarray(value) for name, value in inputs.items()}
    return lambda: session.run(None, feeds)


def machine() -> str:
    """What the figures were measured on, in one line."""
    import numpy
    import onnx
    import onnxruntime

    processor = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            processor = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), processor)
    versions = f"numpy {numpy.__version__}, onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}"
    return f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}, {versions}; one thread each"
