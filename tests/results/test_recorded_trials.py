"""What trials record, run side by side or one by one, is what each trial alone records, to the last bit."""

import warnings

import numpy as np
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modeci_mdf.mdf import Edge, Graph, InputPort, Node, OutputPort, Parameter
from swept_models import DIFFUSION, loop_graph

import mdf_loop
from mdf_loop.errors import ArgumentError, LoopWarning
from mdf_loop.models.labelled import rectangular
from mdf_loop.settings.engines import can_compile
from mdf_loop.sweeps import task as tasks

ENGINES = ["interpret", "numpy", "jit", "auto"]

COUNTING = """b (int64 i, bool c, double x) => (bool on, double y) {
  u = RandomUniformLike (x) y = Add (x, u) limit = Constant <value = double {0.8}> () half = Add (u, u) low = Less (u, limit)
  n = Cast <to = 7> (half) zero = Constant <value = int64[1] {0}> () a = Unsqueeze (u, zero) b = Unsqueeze (y, zero)
  pair = Concat <axis = 0> (a, b) on = And (low, c) }"""
NETWORK = """<ir_version: 8, opset_import: ["" : 18]>
m (double start, int64 n) => (double y, double[k] path) {
  go = Constant <value = bool {1}> () twice = Add (start, start)
  y, path = Loop (n, go, twice) <body = b (int64 i, bool c, double x) => (bool on, double y, double y) {
    z = RandomNormalLike (x) y = Add (x, z) size = Abs (y) one = Constant <value = double {2.0}> () on = Less (size, one) %s }>
}"""
NESTED = """
    inner = Loop (i, c, y) <body = d (int64 j, bool e, double v) => (bool e2, double w) {
      e2 = Identity (e) half = Constant <value = double {0.5}> () w = Mul (v, half) }>
    chosen = If (on) <then_branch = t () => (double p) { p = Add (y, y) }, else_branch = f () => (double q) { q = Abs (y) }>
"""


def network(form="onnx", inside=""):
    model = onnx.parser.parse_model(NETWORK % inside)
    return mdf_loop.prepare(model if form == "onnx" else mdf_loop.convert(model))


def two_nodes():
    graph = loop_graph(COUNTING, {"x": 0.5}, {"x": "x"}, ("run",), 9)
    port = InputPort(id="fed")
    behind = Node(id="k", input_ports=[port], parameters=[Parameter(id="square", value="fed * fed")])
    behind.output_ports.append(OutputPort(id="out", value="square"))
    nodes = [*graph.nodes, behind]
    edge = Edge(id="e", sender="n", sender_port="o0", receiver="k", receiver_port="fed")
    return Graph(id="g", nodes=nodes, edges=[edge])


CASES = {
    "a diffusion": (DIFFUSION, {"max_steps": 60}, ["decision.x_out", "decision.distance", "decision.evidence", "decision.dt"]),
    "whole numbers, truths and vectors": (loop_graph(COUNTING, {"x": 0.5}, {"x": "x"}), {}, ["n.n", "n.low", "n.pair", "n.x"]),
    "a node behind the loop": (two_nodes(), {}, ["n.u", "k.square", "k.fed", "n.o0"]),
    "no iteration": (DIFFUSION, {"max_steps": 0}, ["decision.x_out", "decision.drift"]),
    "an ONNX graph": (network(), {"start": 0.25, "n": 11}, ["y.size", "twice", "y", "path", "y.z"]),
    "a converted graph": (network("mdf"), {"start": 0.25, "n": 11}, ["Loop.size", "twice", "y", "path"]),
    "inside a loop of the loop": (network(inside=NESTED), {"start": 0.25, "n": 11}, ["y.inner.w", "y.z"]),
    "in a branch": (network(inside=NESTED), {"start": 0.25, "n": 11}, ["y.p", "y.size"]),
}

NESTS = ("inside a loop of the loop", "in a branch")


def alone(model, k, **how):
    return model(seed=np.random.SeedSequence(3, spawn_key=(0, k)), **how)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=3, deadline=None)
@given(st.integers(1, 6), st.sampled_from([1, 1, 2, 5]), st.data())
def test_each_trial_records_what_it_records_alone(name, engine, trials, every, data):
    model, inputs, names = CASES[name]
    model = mdf_loop.prepare(model)
    how = {**inputs, "every": every, "record": data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))}
    with mdf_loop.options(engine=engine):
        many = model(trials=trials, seed=3, **how)
        each = [alone(model, k, **how) for k in range(trials)]
    assert list(many.recorded) == how["record"]
    # A program of a whole graph does not count; how a loop with loops in it ended follows, in auto, from when code is ready
    if name not in NESTS and all(one.iterations is not None for one in each):
        assert many.iterations.tolist() == [one.iterations for one in each]
        assert many.stop.tolist() == [one.stop for one in each]
    for found, single in ((many, each), (many.recorded, [one.recorded for one in each])):
        for output, rows in found.items():
            values = [rectangular(one[output])[0] for one in single]
            for row, value in zip(rows, values, strict=True):
                np.testing.assert_array_equal(row[tuple(map(slice, value.shape))], value, err_msg=output)
            is_padded = any(value.shape != rows.shape[1:] for value in values)
            assert is_padded or rows.dtype == values[0].dtype


@pytest.mark.skipif(not can_compile(), reason="runs are one call of machine code, which needs llvmlite")
@pytest.mark.parametrize("name", [name for name in CASES if name not in (*NESTS, "no iteration")])
def test_they_are_run_side_by_side(name, monkeypatch):
    monkeypatch.setattr(tasks.Task, "warn_of_loops", lambda _: None)  # which looks at the first run
    monkeypatch.setattr(tasks.Task, "_alone", lambda *_: pytest.fail("a trial by itself"))
    model, inputs, names = CASES[name]
    with mdf_loop.options(engine="jit"):
        assert len(mdf_loop.run(model, trials=4, seed=3, record=names, **inputs).recorded[names[0]]) == 4


def test_names_of_outputs_and_of_what_is_recorded_may_be_the_same():
    read = onnx.parser.parse_model(NETWORK % "")
    read.graph.output[1].name = read.graph.node[2].output[1] = "recorded y"
    found = mdf_loop.prepare(read)(start=0.0, n=4, trials=3, seed=1, record=["y", "recorded y"])
    np.testing.assert_array_equal(found.recorded["y"][:, 0], found["y"])
    np.testing.assert_array_equal(found.recorded["recorded y"][:, 0], found["recorded y"])


def test_unknown_names_are_said_as_in_one_run():
    with pytest.raises(ArgumentError, match=r"did you mean 'decision\.x_out'"):
        mdf_loop.run(DIFFUSION, trials=2, record="decision.x_ou")


def test_results_say_how_many_trials_had_no_decision():
    runs = mdf_loop.run("examples/drift_diffusion.yaml", trials=50, max_steps=200, seed=1)
    count = int((runs.stop == "trip count").sum())
    assert 0 < count < 50
    said = "50 trials ended at M, not earlier by their condition"
    assert repr(runs).startswith(f"results of drift_diffusion, {count} of {said}\n")
    none = mdf_loop.run("examples/drift_diffusion.yaml", trials=50, max_steps=20, seed=1)
    assert repr(none).startswith(f"results of drift_diffusion, 50 of {said}\n")


@pytest.mark.parametrize("name", ["accumulate", "leaky_accumulator", "oscillator", "power_iteration"])
def test_a_loop_that_is_meant_to_run_m_iterations_says_nothing_of_it(name):
    assert repr(mdf_loop.run(f"examples/{name}.yaml", trials=3)).startswith(f"results of {name}, 3 trials\n")


@pytest.mark.parametrize(
    ("how", "steps", "is_said"), [({"reduce": "mean"}, 200, 1), ({}, 200, 0), ({"reduce": "mean"}, 100_000, 0)]
)
@pytest.mark.parametrize("place", ["memory", "store"])
def test_a_sweep_warns_of_runs_without_decision_in_a_mean(how, steps, is_said, place, tmp_path):
    where = {"store": tmp_path / "s.zarr"} if place == "store" else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LoopWarning)
        mdf_loop.sweep(
            DIFFUSION, {"drift": [0.0, 3.0]}, trials=40, seed=1, max_steps=steps, outputs=["reaction_time"], **how, **where
        )
    assert sum("80 runs ended at M" in str(each.message) for each in caught) == is_said


@pytest.mark.parametrize("how", [{}, {"reduce": "mean"}, {"workers": 2, "chunk": 7}, {"reduce": "mean", "chunk": 7}])
def test_a_sweep_says_how_many_runs_had_no_decision(how):
    given = {"trials": 40, "seed": 1, "max_steps": 200, **how}
    count = int((mdf_loop.sweep(DIFFUSION, {"drift": [0.0, 3.0]}, **given | {"reduce": None}).reaction_time > 0.4999).sum())
    assert 0 < count < 80
    found = mdf_loop.sweep(DIFFUSION, {"drift": [0.0, 3.0]}, **given)
    assert found.attrs["ended"] == f"{count} of 80 runs ended at M, not earlier by their condition"


@pytest.mark.parametrize("how", [{}, {"reduce": "mean"}])
@pytest.mark.parametrize("kept", ["checkpoint", "store"])
def test_a_sweep_that_is_continued_says_it_too(kept, how, tmp_path):
    given = {"trials": 40, "seed": 1, "max_steps": 200, "chunk": 8, "outputs": ["reaction_time"], **how}
    wanted = mdf_loop.sweep(DIFFUSION, {"drift": [0.0, 3.0]}, **given).attrs["ended"]
    place = {kept: tmp_path / "s.zarr"}
    with pytest.raises(mdf_loop.LoopError):
        mdf_loop.sweep(DIFFUSION, {"drift": [0.0, 3.0]}, **given, **place, progress=lambda done, _: done < 20)
    assert 0 < mdf_loop.open(place[kept]).attrs["complete"] < 80
    assert mdf_loop.sweep(DIFFUSION, {"drift": [0.0, 3.0]}, **given, **place).attrs["ended"] == wanted
    assert mdf_loop.open(place[kept]).attrs["ended"] == wanted


def test_more_trials_of_a_checkpoint_are_counted_as_well(tmp_path):
    over, given = {"drift": [0.0, 3.0]}, {"seed": 1, "max_steps": 200, "outputs": ["reaction_time"]}
    mdf_loop.sweep(DIFFUSION, over, trials=20, checkpoint=tmp_path / "s.zarr", **given)
    found = mdf_loop.sweep(DIFFUSION, over, trials=40, checkpoint=tmp_path / "s.zarr", **given)
    assert found.attrs["ended"] == mdf_loop.sweep(DIFFUSION, over, trials=40, **given).attrs["ended"]
