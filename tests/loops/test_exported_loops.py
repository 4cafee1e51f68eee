"""Loops that PyTorch and JAX exported: every engine gives what the frameworks gave."""

import logging
import sys
from pathlib import Path

import numpy as np
import pytest

import mdf_loop
from mdf_loop import backend, options
from mdf_loop.settings.engines import agreeing_engines

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from exported import FOLDER, differences, models

WORKS = {work.name: work for work in models()}


def test_there_are_loops_of_both_frameworks_and_the_folder_stays_small():
    origins = [name.split("_")[0] for name in WORKS]
    assert min(origins.count("jax"), origins.count("torch") + origins.count("script")) >= 20
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file()) < 3_000_000


@pytest.mark.parametrize("engine", agreeing_engines())
@pytest.mark.parametrize("name", WORKS)
def test_exported_loop_gives_what_the_framework_gave(name, engine):
    work = WORKS[name]
    with options(engine=engine):
        prepared = backend.prepare(work.model)
        for _ in range(3):  # engine auto interprets the first calls
            assert differences(prepared.run(work.inputs), work.expected) == ""


@pytest.mark.parametrize("name", WORKS)
def test_exported_loop_is_machine_code_alone(name, caplog):
    """The whole model is one program, none of whose operators runs outside."""
    pytest.importorskip("llvmlite")
    work = WORKS[name]
    with options(engine="jit"), caplog.at_level(logging.INFO, "mdf_loop.execute.programs"):
        prepared = backend.prepare(work.model)
        prepared.run(work.inputs)
        assert "compiled a Step" in caplog.text
        programs = prepared.graph._programs
        found = programs.at_once([work.inputs[name] for name in prepared.body.inputs if name in work.inputs], _run())
    assert found is not None, programs.why
    assert differences(tuple(found), work.expected) == ""


def _run():
    from mdf_loop.options import start_run

    return start_run()


def test_differences_are_found():
    good = np.arange(3.0)
    assert differences((good,), (good,)) == ""
    assert "result 0 differs" in differences((good + 1,), (good,))
    assert "float32" in differences((good.astype(np.float32),), (good,))
    assert mdf_loop
