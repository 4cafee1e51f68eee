"""Trials, sweeps and fits say what a run says of its first iterations, each once, however the runs are computed."""

import warnings

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopWarning
from mdf_loop.sweeps import task

MODEL = """
m:
  graphs:
    g:
      nodes:
        a:
          input_ports: {{d: {{default_value: [1.0, 2.0, 3.0, 4.0], shape: [3]}}}}
          parameters:
            w: {{value: 1.0}}
            b: {{value: {{carried: {{x: "{text}"}}}}}}
            run: {{function: "onnx::Loop", args: {{M: 4, x: {start}, body: b}}}}
          output_ports: {{o: {{value: numpy.sum(w * run)}}}}
"""
ODD = {
    "shapes": ("x + w * d", "[0.0]", "has shape [1] at first"),
    "draws": ("x + w * d * 0 + noise()", "[0.0, 0.0, 0.0, 0.0]", "all elements of x share"),
    "an index": ("x + w * d[i - 1]", "0.0", "counts from the end"),
    "truth": ("((x > 0) + (w * d > 0)) * 1.0 + 0 * x", "[0.0, 0.0, 0.0, 0.0]", "adds truth values"),
}


def said(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in caught if issubclass(each.category, LoopWarning)]


@pytest.mark.parametrize("engine", ["auto", "interpret"])
@pytest.mark.parametrize("times", [1, 3, 100])
@pytest.mark.parametrize("case", ODD)
def test_many_runs_say_what_one_says(tmp_path, case, times, engine):
    text, start, what = ODD[case]
    path = tmp_path / "m.yaml"
    path.write_text(MODEL.format(text=text, start=start))
    calls = [
        lambda: mdf_loop.run(path, seed=1),
        lambda: mdf_loop.run(path, trials=times, seed=1),
        lambda: mdf_loop.sweep(path, {"w": np.linspace(0.5, 1.0, times)}, seed=1),
        lambda: mdf_loop.sweep(path, {"w": [0.5, 1.0]}, trials=times, seed=1),
    ]
    with mdf_loop.options(engine=engine):
        for call in calls:
            found = said(call)
            assert sum(what in each for each in found) == 1, found
            assert sum("is declared with shape [3]" in each for each in found) == 1, found


def test_runs_of_which_nothing_is_odd_are_silent(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(MODEL.format(text="x + w * sum(d)", start="0.0").replace("shape: [3]", "shape: [4]"))
    assert said(lambda: mdf_loop.run(path, trials=30)) == []
    assert said(lambda: mdf_loop.sweep(path, {"w": np.linspace(0.5, 1.0, 30)})) == []


def test_only_what_may_warn_is_begun_by_an_engine_that_compiles(tmp_path, monkeypatch):
    path, begun = tmp_path / "m.yaml", []

    def begin(told, prepared, arguments, run):
        begun.append(run.options.engine)
        return task.results_of(prepared, arguments, run)

    monkeypatch.setattr(task, "_begun", begin)
    path.write_text(MODEL.format(text="x + w * sum(d)", start="0.0"))
    mdf_loop.run(path, trials=2)
    assert begun == ["auto"]
    mdf_loop.run("examples/drift_diffusion.yaml", trials=2)  # its body says all types
    assert begun == ["auto"]
