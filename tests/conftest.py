"""Shared fixtures."""

import atexit
import gc
import os
import shutil
import signal
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")  # onnxruntime refuses the newest opsets without it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell: tests of Ctrl-C would wait for ever
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("MDF_LOOP_CHECK", "1")  # what every pass makes of a Step is looked at

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each process that is started compiles mdf_loop again

if "MDF_LOOP_CACHE" not in os.environ:  # nothing of the user's is read or written; processes that are started share it
    os.environ["MDF_LOOP_CACHE"] = tempfile.mkdtemp(prefix="mdf-loop-cache-")
    atexit.register(shutil.rmtree, os.environ["MDF_LOOP_CACHE"], ignore_errors=True)


gc.disable()  # what is collected stays: each look through 20,000 tests takes a second, and many would follow


def pytest_collection_finish():
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _whole_tracebacks():
    """What fails is looked at by who works on the library."""
    from mdf_loop.options import options

    with options(traceback=True):
        yield


@pytest.fixture
def rng():
    """Random numbers that are the same in every run of the tests."""
    return np.random.default_rng(20)


@pytest.fixture
def in_64_bits():
    """Numbers of 64 bits in JAX; one test of a process asks for it, and it stays so."""
    pytest.importorskip("jax").config.update("jax_enable_x64", True)


@pytest.fixture(scope="module")
def compiled_quickly():
    """XLA optimises little: most of the time is its, which writes each program once and runs it once."""
    config = pytest.importorskip("jax").config
    config.update("jax_disable_most_optimizations", True)
    yield
    config.update("jax_disable_most_optimizations", False)


NEWER = "modeci-mdf 0.4.15 or later"
"""What mdf_loop says of what MDF 0.4.13 does not have."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """With MDF 0.4.13 tests of ``default_value`` and ``reduce`` of ports are skipped, and those that are refused in words."""
    report = yield
    is_old = call.excinfo is not None and report.failed and version("modeci-mdf") == "0.4.13"
    if is_old and (NEWER in report.capstderr or _needs_newer(call.excinfo)):
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: needs {NEWER}")
    return report


def _needs_newer(found):
    """Whether an error has those words, or is MDF's own while a test made a model."""
    error, said = found.value, str(found.value)
    if NEWER in said or NEWER in "".join(getattr(error, "__notes__", ())):
        return True
    package = Path(__file__).parent.parent / "mdf_loop"
    is_of_ours = any(package in Path(entry.path).parents for entry in found.traceback)
    return not is_of_ours and isinstance(error, TypeError | AttributeError) and ("default_value" in said or "'reduce'" in said)


def pytest_report_header():
    """Say so if the engine that compiles is left out."""
    from mdf_loop.settings.engines import can_compile

    return None if can_compile() else "llvmlite is not installed: nothing runs in engine jit"
