"""A sweep is the loop of its single runs, to the last bit, for models whose numbers come from many places."""

import numpy as np
import pytest
from modeci_mdf.mdf import Graph, Model, Node, OutputPort, Parameter

pytest.importorskip("xarray")

import mdf_loop
from mdf_loop.settings.engines import settled_engine

NOISY = "b (int64 i, bool c, double x) => (bool c_out, double y) { c_out = Identity (c) z = RandomNormalLike (x) y = Add (x, z) }"
QUIET = "b (int64 i, bool c, double x) => (bool c_out, double y) { c_out = Identity (c) y = Add (x, x) }"
WAVY = "b (int64 i, bool c, double x) => (bool c_out, double y) { c_out = Identity (c) e = Exp (x) s = Tanh (e) y = Add (x, s) }"
DRAWN = {"onnx": "t () => (double s) { s = RandomNormalLike (a) }"}

ENGINES = ["interpret", "numpy", "jit", "auto"]


def model(body, *, before=True, outputs=("run",)):
    """A loop of three iterations, whose first value may be drawn in front of it."""
    parameters = [Parameter(id="a", value=1.0), Parameter(id="drawn", value=DRAWN), Parameter(id="body", value={"onnx": body})]
    if before:
        branches = {"cond": True, "then_branch": "drawn", "else_branch": "drawn"}
        parameters.append(Parameter(id="start", function="onnx::If", args=branches))
    args = {"M": 3, "cond": True, "x": "start" if before else "a", "body": "body"}
    parameters.append(Parameter(id="run", function="onnx::Loop", args=args))
    ports = [OutputPort(id=f"out{k}", value=text) for k, text in enumerate(outputs)]
    return Model(id="m", graphs=[Graph(id="g", nodes=[Node(id="n", parameters=parameters, output_ports=ports)])])


def single_runs(prepared, points, trials, name):
    """The same runs, one by one."""
    return [
        [prepared(a=a, seed=np.random.SeedSequence(5, spawn_key=(p, t)))[name] for t in range(trials)]
        for p, a in enumerate(points)
    ]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("outputs", [("run",), ("run", "run * 2")], ids=["the loop's own", "made of the loop's"])
@pytest.mark.parametrize("body", [NOISY, QUIET], ids=["noisy", "quiet"])
def test_what_is_drawn_in_front_of_a_loop_is_drawn_by_each_run(body, outputs, engine):
    prepared = mdf_loop.prepare(model(body, outputs=outputs))
    with mdf_loop.options(engine=engine):
        s = mdf_loop.sweep(prepared, {"a": [1.0, 2.0]}, trials=3, seed=5)
        for k in range(len(outputs)):
            np.testing.assert_array_equal(s[f"out{k}"], single_runs(prepared, [1.0, 2.0], 3, f"out{k}"))


@pytest.mark.parametrize("runs", [1, 3, 30])
def test_a_sweep_is_run_in_one_engine_which_it_names(runs):
    prepared = mdf_loop.prepare(model(WAVY, before=False))
    s = mdf_loop.sweep(prepared, {"a": np.linspace(0, 1, runs)}, seed=5)
    assert s.attrs["engine"] == settled_engine(compiles=True)
    with mdf_loop.options(engine=s.attrs["engine"]):
        alone = [prepared(a=a)["out0"] for a in s.a.values]
    np.testing.assert_array_equal(s.out0, alone)
    again = mdf_loop.sweep(prepared, {"a": np.linspace(0, 1, runs)}, seed=5, chunk=2)
    np.testing.assert_array_equal(s.out0, again.out0)


def test_where_engines_agree_the_engine_stays_what_was_chosen():
    for engine in ("auto", "numpy", "interpret"):
        with mdf_loop.options(engine=engine):
            s = mdf_loop.sweep(model(QUIET, before=False), {"a": [1.0, 2.0]}, seed=5)
            assert s.attrs["engine"] == engine
    with mdf_loop.options(engine="interpret"):
        assert mdf_loop.sweep(model(WAVY, before=False), {"a": [1.0, 2.0]}).attrs["engine"] == "interpret"
