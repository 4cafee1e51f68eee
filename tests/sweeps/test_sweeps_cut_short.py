"""Sweeps go by the clock: runs that were not begun in time are begun later, in every way there is to run many."""

import numpy as np
import onnx.parser
import pytest

import mdf_loop
from mdf_loop.sweeps.task import Task

pytest.importorskip("xarray")

HEAD = '<ir_version: 9, opset_import: ["" : 18]> m (int64[n] t, double[k] x) => (z) '
MODELS = {
    "a loop whose results have a length of their own": """{
        c = Constant <value = int64 {3}> ()
        z = Loop <body = b (int64 i, bool go, double[m] s) => (bool go, double[p] u) {
            v = Add (s, s) u = Unique (v) }> (c, , x) }""",
    "a node": "{ u = Unique (x) z = ReduceSum <keepdims = 0> (u) }",
    "a number": "{ y = Cast <to = 11> (t) z = ReduceSum <keepdims = 0> (y) }",
}


@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit", "auto"])
@pytest.mark.parametrize("name", MODELS)
def test_no_run_is_lost_that_was_not_begun_in_time(name, engine, monkeypatch):
    run = Task.run
    monkeypatch.setattr(Task, "run", lambda self, start, stop, seconds=0.0: run(self, start, stop, 0.0))
    model = onnx.parser.parse_model(HEAD + MODELS[name])
    points = [np.arange(4) * k for k in range(1, 6)]
    with mdf_loop.options(engine=engine):
        swept = mdf_loop.sweep(model, {"t": points}, trials=3, seed=5, x=np.array([1.0, 2.0]))
        alone = [mdf_loop.run(model, t=each, x=np.array([1.0, 2.0]))["z"] for each in points]
    assert swept.attrs["complete"] == 15
    for p, expected in enumerate(alone):
        for trial in range(3):
            np.testing.assert_array_equal(swept["z"].values[p, trial], expected)
