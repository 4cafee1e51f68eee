"""Models that PyTorch exported; where PyTorch is installed, the code of the documentation exports them again."""

import importlib.util
import runpy
import textwrap
from pathlib import Path

import numpy as np
import pytest
from bodies import MODELS
from converting import by_engine, by_onnxruntime

import mdf_loop

PAGE = Path(__file__).parents[2] / "docs" / "pytorch.rst"

TRIAL = {"start": 0.0, "drift": 0.3, "non_decision_time": 0.15, "bound": 0.6, "noise": 1.0, "dt": 0.001}


def code():
    """The code block of the page."""
    block = PAGE.read_text().split(":caption: ddm.py\n\n", 1)[1]
    lines = []
    for line in block.splitlines():
        if line and not line.startswith("   "):
            break
        lines.append(line)
    return textwrap.dedent("\n".join(lines))


def assert_is_the_trial(path):
    model = mdf_loop.convert(path)
    quiet = {**TRIAL, "noise": 0.0}
    expected = by_onnxruntime(mdf_loop.to_onnx(model), quiet)
    for outputs in (mdf_loop.run(model, **quiet), dict(zip(expected, by_engine(model, quiet), strict=True))):
        assert list(outputs) == ["reaction_time", "decision"]
        np.testing.assert_allclose(outputs["reaction_time"], 0.15 + 0.6 / 0.3, rtol=2e-3)
        assert outputs["decision"]
        for name, value in expected.items():
            np.testing.assert_allclose(outputs[name], value, rtol=1e-6)
    outcomes = []
    for seed in range(40):
        with mdf_loop.options(seed=seed):
            outcomes.append(mdf_loop.run(model, **{**TRIAL, "drift": 2.0, "dt": 0.01}))
    times = np.array([outcome["reaction_time"] for outcome in outcomes])
    assert (times > 0.15).all()
    assert len(set(times.tolist())) > 10
    assert np.mean([outcome["decision"] for outcome in outcomes]) > 0.7  # in theory 0.92


@pytest.mark.parametrize("name", ["ddm_ts", "ddm_dyn"])
def test_the_exported_trials_run_in_mdfs_engine(name):
    assert_is_the_trial(MODELS / f"{name}.onnx")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="exporting needs torch, which the tests do not install")
def test_the_code_of_the_page_exports_them(tmp_path, monkeypatch):
    (tmp_path / "ddm.py").write_text(code())
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(tmp_path / "ddm.py"))
    for name in ("ddm_ts", "ddm_dyn"):
        assert_is_the_trial(tmp_path / f"{name}.onnx")


def test_the_page_has_code_that_python_can_read():
    compile(code(), "ddm.py", "exec")
