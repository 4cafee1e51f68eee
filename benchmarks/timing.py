"""Timing in one process, one thread each; import this before numpy."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")


def fastest(call: Callable[[], Any], seconds: float = 1.0, least: int = 3) -> float:
    """The shortest of several runs, in seconds: the one the rest of the machine disturbed least."""
    call()
    best, spent, runs = float("inf"), 0.0, 0
    while spent < seconds or runs < least:
        start = time.perf_counter()
        call()
        took = time.perf_counter() - start
        best, spent, runs = min(best, took), spent + took, runs + 1
    return best


def onnxruntime_call(model: Any, inputs: dict[str, Any]) -> Callable[[], Any]:
    """A function that runs a model on onnxruntime, one thread."""
    import numpy as np
    import onnxruntime

    chosen = onnxruntime.SessionOptions()
    chosen.intra_op_num_threads = chosen.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), chosen, providers=["CPUExecutionProvider"])
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
