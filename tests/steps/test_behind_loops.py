"""What nodes compute behind the only loop of a model, in sweeps: one program of all runs gives what each run gives alone."""

import warnings

import numpy as np
import pytest
from engines import ENGINES, OTHERS, SETTLED
from hypothesis import given, settings
from hypothesis import strategies as st
from modeci_mdf.mdf import Model

import mdf_loop
from mdf_loop.options import start_run
from mdf_loop.settings.engines import can_compile
from mdf_loop.sweeps import machine_runs, side_by_side, vectors
from mdf_loop.sweeps.task import Task

pytestmark = pytest.mark.skipif(not can_compile(), reason="without llvmlite each run is run by itself")
OVER, TRIALS = {"drift": [-0.5, 0.25, 1.5]}, 23  # more runs than LANES
NUMBERS = ["run.x", "run.k", "drift", "scale", "later", "2", "0.5", "run.path[-1]", "run.path[0]", "numpy.sum(run.path)"]
FUNCTIONS = [
    "abs({0})",
    "-({0})",
    "({0}) ** 2",
    "numpy.sqrt(abs({0}))",
    "({0} > 0) * 1",
    "float({0})",
    "min({0}, 1)",
    "numpy.sign({0})",
]
OPERATORS = [
    "({0} + {1})",
    "({0} - {1})",
    "({0} * {1})",
    "({0} / ({1} + 7.5))",
    "({0} < {1})",
    "numpy.where({0} > {1}, {0}, {1})",
]
EXPRESSIONS = st.recursive(
    st.sampled_from(NUMBERS),
    lambda inner: (
        st.builds(str.format, st.sampled_from(FUNCTIONS), inner) | st.builds(str.format, st.sampled_from(OPERATORS), inner, inner)
    ),
    max_leaves=5,
)


def model(*outputs, draws=True, ends=False, body=None):
    """A model with one loop, numbers computed before it, and these outputs."""
    noise = "+ 0.3 * noise()" if draws else ""
    equations = {"carried": {"x": f"x + drift * 0.1 {noise}", "k": "k + 1"}, "collected": {"path": "x"}}
    equations |= {"while": "abs(x) < 0.4"} if ends else {}
    node = {
        "parameters": {
            "drift": {"value": 0.5},
            "scale": {"value": 3},
            "later": {"value": "drift * 2 + scale"},
            "x0": {"value": 0.0},
            "k0": {"value": 0},
            "body": {"value": body or equations},
            "run": {"function": "onnx::Loop", "args": {"M": 25, "x": "x0", "k": "k0", "body": "body"}},
        },
        "output_ports": {f"out{k}": {"value": text} for k, text in enumerate(outputs)},
    }
    return mdf_loop.prepare(Model.from_dict({"m": {"graphs": {"m": {"nodes": {"n": node}}}}}))


def swept(made, engine, **how):
    with mdf_loop.options(engine=engine):
        return mdf_loop.sweep(made, OVER, trials=TRIALS, seed=5, **how)


@settings(max_examples=15, deadline=None)
@given(st.lists(EXPRESSIONS, min_size=1, max_size=3), st.booleans(), st.booleans())
def test_all_runs_at_once_give_what_each_gives_alone(expressions, draws, ends):
    made = model(*expressions, draws=draws, ends=ends)
    expected = swept(made, "interpret")
    for engine in SETTLED:
        found = swept(made, engine)
        for name in expected.data_vars:
            assert found[name].dtype == expected[name].dtype
            np.testing.assert_array_equal(found[name].values, expected[name].values)


@pytest.fixture
def runs(monkeypatch):
    """How many runs were one program of the whole graph."""
    counts, plain = [], side_by_side.many

    def counted(made, vectors, values, rows, which, *more):
        found = plain(made, vectors, values, rows, which, *more)
        counts.append(len(which))
        return found

    monkeypatch.setattr(side_by_side, "many", counted)
    return counts


@pytest.mark.parametrize(
    "outputs",
    [["(run.x > 0) * 1", "run.k"], ["numpy.where(run.x > drift, drift, scale)"], ["run.path[-1] - run.path[0]", "run.path * 2"]],
    ids=["a choice", "what is swept", "collected"],
)
def test_it_is_one_program(outputs, runs):
    swept(model(*outputs), "jit")
    assert sum(runs) == 3 * TRIALS


def test_collected_values_of_several_lengths_are_left_to_each_run(runs):
    found = swept(model("numpy.sum(run.path)", ends=True), "jit", chunk=3 * TRIALS)  # of few runs all may have one length
    np.testing.assert_array_equal(found["out0"], swept(model("numpy.sum(run.path)", ends=True), "interpret")["out0"])
    assert not runs


@pytest.mark.parametrize("engine", ["auto", "jit"])
def test_what_differs_in_the_last_place_is_left_to_each_run(engine, runs):
    with mdf_loop.options(engine=engine):
        mdf_loop.sweep(model("numpy.tanh(run.x)"), OVER, trials=3000, seed=5)
    assert not runs


def test_simulators_give_choices():
    f = mdf_loop.simulator(model("(run.x > 0) * 1", "run.k * 0.1"), ["drift"], trials=50, seed=1)
    with mdf_loop.options(engine="jit"):
        found = f([[0.5], [2.0]], seed=[0, 1])
    with mdf_loop.options(engine="interpret"):
        np.testing.assert_array_equal(found, f([[0.5], [2.0]], seed=[0, 1]))
    with mdf_loop.options(engine="jit"):
        assert f._program(f._batches.of([[0.5], [2.0]], {}), start_run()) is not None


@pytest.mark.parametrize("cond", [None, "x < 0.1"], ids=["none", "one that does not count"])
def test_loops_without_a_condition_run_together_unless_theirs_would_say_something(cond, monkeypatch):
    text = "b (int64 i, bool go, double x, int64 k) => (bool more, double y, int64 n, double path)"
    text += " <double d = {0.1}, double most = {0.4}, int64 one = {1}>"
    body = {"onnx": text + " { y = Add (x, d) n = Add (k, one) more = Less (x, most) path = Identity (x) }"}
    alone, made = [], model("run[0]", draws=False, body=body if cond else None)
    plain = type(made).found_by
    monkeypatch.setattr(Task, "warn_of_loops", lambda _: None)  # which looks at the first run
    monkeypatch.setattr(type(made), "found_by", lambda *args: alone.append(0) or plain(*args))
    with mdf_loop.options(engine="jit"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mdf_loop.sweep(made, {"x0": np.linspace(0, 1, 50)}, seed=5)
    assert len(alone) >= 50 if cond else not alone
    assert any("goes on" in str(each.message) for each in caught) is (cond is not None)


@pytest.mark.parametrize("draws", [True, False])
def test_what_is_swept_need_not_be_read(draws, monkeypatch):
    made, alone = model("run.x", draws=draws), []
    expected = mdf_loop.sweep(made, {"later": [1, 2, 3]}, trials=4, seed=1)
    monkeypatch.setattr(Task, "warn_of_loops", lambda _: None)  # which looks at the first run
    monkeypatch.setattr(type(made), "found_by", lambda *args: alone.append(0))
    with mdf_loop.options(engine="jit"):
        found = mdf_loop.sweep(made, {"later": [1, 2, 3]}, trials=4, seed=1)
    np.testing.assert_array_equal(found["out0"], expected["out0"])
    assert not alone


def test_what_is_a_number_of_pythons_own_in_all_runs_may_be_an_output(runs, monkeypatch):
    monkeypatch.setattr(vectors, "WORTH", 0.0)
    made, over = model("run.x", "scale * 2", draws=False), {"drift": np.linspace(-1, 1, 100)}
    with mdf_loop.options(engine="jit"):
        found = mdf_loop.sweep(made, over)
    assert runs
    assert (found["out1"] == 6).all()


@pytest.mark.parametrize("engine", ["auto", "jit"])
def test_swept_trip_counts_are_one_program(engine, runs, monkeypatch):
    monkeypatch.setattr(machine_runs, "WORTH", 1)
    made, over = (
        several({**FIXED, "most": 9}, {"run": (WALK, {"x": 0.0, "t": 0.0, "M": "most"})}, {"t": "run.t"}),
        {"most": [1, 7, 60]},
    )
    with mdf_loop.options(engine=engine):
        found = mdf_loop.run(made, trials=5, seed=1, most=7), mdf_loop.sweep(made, over, trials=5, seed=1)
    assert sum(runs) >= 15
    with mdf_loop.options(engine="interpret"):
        expected = mdf_loop.run(made, trials=5, seed=1, most=7), mdf_loop.sweep(made, over, trials=5, seed=1)
    np.testing.assert_array_equal(found[1]["t"], expected[1]["t"])
    assert found[0].stop.tolist() == expected[0].stop.tolist()
    assert found[0].iterations.tolist() == expected[0].iterations.tolist()


def several(values, loops, outputs):
    """A model with values, some of them computed, and several loops."""
    parameters = {name: {"value": value} for name, value in values.items()}
    for name, (body, args) in loops.items():
        parameters[f"{name}_body"] = {"value": body}
        parameters[name] = {"function": "onnx::Loop", "args": {"M": 60, **args, "body": f"{name}_body"}}
    node = {"parameters": parameters, "output_ports": {name: {"value": text} for name, text in outputs.items()}}
    return mdf_loop.prepare(Model.from_dict({"m": {"graphs": {"m": {"nodes": {"n": node}}}}}))


WALK = {"carried": {"x": "x + drift * dt + 0.2 * noise()", "t": "t + dt"}, "while": "abs(x) < bound"}
WALKED = ("run", (WALK, {"x": 0.0, "t": 0.0}))
FIRING = {
    "let": {"w": "v + dt * (rest - v + 12 * drift)", "free": "r <= 0", "fired": "(w > top) * free"},
    "carried": {
        "v": "where(free, where(fired, rest, w), rest)",
        "r": "where(fired, 0.3, r - dt)",
        "n": "n + fired",
        "last": "where(fired, i, last)",
    },
    "collected": {"volt": "v", "spike": "fired", "number": "i"},
}
FIXED = {"drift": 0.5, "bound": 1.0, "dt": 0.1, "rest": -65.0, "top": -62.0, "whole": 2.0}
MODELS = {
    "computed before": (
        {**FIXED, "bound": "whole * 0.5", "drift": "rate * 2", "rate": 0.5},
        [WALKED],
        {"choice": "run.x > 0", "t": "run.t"},
        "rate",
    ),
    "drawn before": (
        {**FIXED, "u": "numpy.random.uniform(0, 1)", "g": "numpy.random.uniform(0, 3)"},
        [WALKED],
        {"choice": "numpy.where(u < 0.3, g > 1.5, run.x > 0)", "t": "numpy.where(u < 0.3, g, run.t)"},
        "drift",
    ),
    "two loops": (
        FIXED,
        [WALKED, ("move", ({**WALK, "while": "x < bound"}, {"x": "run.x", "t": 0.0}))],
        {"choice": "run.x > 0", "t": "run.t + move.t", "moved": "move.x"},
        "drift",
    ),
    "types of later iterations": (
        FIXED,
        [("run", (FIRING, {"v": "rest", "r": 0.0, "n": 0, "last": 0}))],
        {"n": "run.n", "fired": "run.n > 0", "last": "run.last", "volt": "run.volt", "spike": "run.spike", "k": "run.number"},
        "drift",
    ),
    "vectors": (
        {**FIXED, "start": [0.0, 0.0, 0.0], "gains": [1.0, 0.5, 0.2]},
        [("run", ({"carried": {"x": "x + drift * gains * dt + 0.2 * noise(x)"}, "while": "max(x) < bound"}, {"x": "start"}))],
        {"choice": "numpy.argmax(run.x)", "won": "run.x > bound", "most": "numpy.max(run.x)"},
        "drift",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_around_loops_are_one_program_that_gives_what_each_run_gives_alone(name, runs):
    values, loops, outputs, swept_name = MODELS[name]
    made, over = several(values, dict(loops), outputs), {swept_name: [-0.5, 0.25, 0.5, 1.5]}
    with mdf_loop.options(engine="interpret"):
        expected = mdf_loop.sweep(made, over, trials=30, seed=5)
    assert expected.attrs["failed"] == 0
    for engine in OTHERS:
        with mdf_loop.options(engine=engine):
            found = mdf_loop.sweep(made, over, trials=30, seed=5)
        for key in expected.data_vars:
            assert found[key].dtype == expected[key].dtype
            np.testing.assert_array_equal(found[key].values, expected[key].values)
    assert sum(runs) >= 4 * 30
    with mdf_loop.options(engine="jit"):
        f = mdf_loop.simulator(made, [swept_name], seed=5, trials=30)
        assert f._program(f._batches.of([[0.5]], {}), start_run()) is not None
        simulated = f.by_name([[x] for x in over[swept_name]])
    for key, rows in simulated.items():
        np.testing.assert_array_equal(rows, expected[key].values)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_few_iterations_in_one_program(steps, runs):
    outputs = {"n": "run.n + 1", "last": "run.last", "number": "run.number", "v": "run.v"}
    args = {"v": "rest", "r": 0.0, "n": 0, "last": 0, "M": steps}
    made = several({**FIXED, "top": -64.9}, {"run": (FIRING, args)}, outputs)
    found = {}
    for engine in ("interpret", "jit"):
        with mdf_loop.options(engine=engine):
            found[engine] = mdf_loop.sweep(made, {"drift": [-0.5, 0.25, 0.5]}, trials=3, seed=5)
    assert found["jit"].drop_attrs().identical(found["interpret"].drop_attrs())
    assert runs or steps == 1  # a loop without iterations behind the first one collects nothing


@pytest.mark.parametrize("count", [1, 2, 3, 50])
@pytest.mark.parametrize("top", [-64.9, -62.0, 5.0])
def test_the_first_iteration_has_types_of_its_own(count, top):
    planned = mdf_loop.compile({**FIRING, "while": "n < 2"})
    values, carried = {}, [-65.0, 0.0, 0, 0]
    for engine in ENGINES:
        with mdf_loop.options(engine=engine):
            values[engine] = planned(count, True, *carried, drift=0.5, rest=-65.0, top=top, dt=0.1)
    for found in values.values():
        for x, expected in zip(found, values["interpret"], strict=True):
            assert (type(x), np.asarray(x).dtype, np.shape(x)) == (type(expected), np.asarray(expected).dtype, np.shape(expected))
            np.testing.assert_array_equal(x, expected)
