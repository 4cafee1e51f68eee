"""Loops that never run collect nothing of the type and shape that one iteration would have given."""

import numpy as np
import onnx
import pytest
from engines import ENGINES
from mdf_bodies import graph, node
from modeci_mdf.mdf import Parameter

import mdf_loop

EQUATIONS = {"carried": {"x": "x * 0.5 + k"}, "collected": {"path": "x", "above": "x > 1", "total": "sum(x)"}}

HIDDEN = graph(
    node("A", ["x"], {"y": "x", "seen": "n + x"}, [Parameter(id="n", default_initial_value=[0.25], value="n * 2")]),
    outputs=["go", "y", "seen"],
)


@mdf_loop.body
def traced(i, go, x):
    return go, np.tanh(x), np.outer(x, x)


BODIES = {
    "equations": (EQUATIONS, {"k": 1.0}),
    "drawing": ("x: x + noise()\ncollect path: x * uniform()", {}),
    "an MDF graph with state": (HIDDEN, {}),
    "a Python function": (traced, {}),
}
STARTS = {
    "whole numbers": np.arange(2),
    "float32": np.ones(2, np.float32),
    "a matrix": np.ones((3, 2)),
    "one element": np.ones(1),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", BODIES)
def test_nothing_is_of_the_type_of_something(name, start, engine):
    body, given = BODIES[name]
    x = STARTS[start]
    with mdf_loop.options(engine=engine, seed=1):
        _, *rows = mdf_loop.loop(1, True, x, body=body, **given)
        carried, *nothing = mdf_loop.loop(0, True, x, body=body, **given)
    np.testing.assert_array_equal(carried, x)
    for one, none in zip(rows, nothing, strict=True):
        assert (none.dtype, none.shape) == (one.dtype, (0, *one.shape[1:]))


@pytest.mark.parametrize("engine", ENGINES)
def test_types_are_inferred_again_only_for_other_inputs(engine, monkeypatch):
    looked, infer = [], onnx.shape_inference.infer_shapes
    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", lambda *args, **more: looked.append(1) or infer(*args, **more))
    text = f"b_{engine} (int64 i, bool go, float[n] x) => (bool go, float[n] x, rows) {{ rows = Concat <axis = 0> (x, x) }}"
    planned = mdf_loop.compile(text)
    with mdf_loop.options(engine=engine):
        for length, often in ((3, 1), (3, 1), (2, 2), (2, 2), (3, 3)):
            assert planned(0, True, np.ones(length, np.float32))[1].shape == (0, 2 * length)
            assert len(looked) == often
