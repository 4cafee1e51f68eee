"""Shared fixtures."""

import atexit
import os
import shutil
import signal
import tempfile

import numpy as np
import pytest

os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")  # onnxruntime refuses the newest opsets without it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell: tests of Ctrl-C would wait for ever
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("MDF_LOOP_CHECK", "1")  # what every pass makes of a Step is looked at

if "MDF_LOOP_CACHE" not in os.environ:  # nothing of the user's is read or written; processes that are started share it
    os.environ["MDF_LOOP_CACHE"] = tempfile.mkdtemp(prefix="mdf-loop-cache-")
    atexit.register(shutil.rmtree, os.environ["MDF_LOOP_CACHE"], ignore_errors=True)


@pytest.fixture
def rng():
    """Random numbers that are the same in every run of the tests."""
    return np.random.default_rng(20)


def pytest_report_header():
    """Say so if the engine that compiles is left out."""
    from mdf_loop.settings.engines import can_compile

    return None if can_compile() else "llvmlite is not installed: nothing runs in engine jit"
