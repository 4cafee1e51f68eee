"""Carried values that become nan of finite numbers: each engine says which, and in which iteration, once."""

import warnings
from unittest import mock

import numpy as np
import onnx.parser
import pytest
from engines import ENGINES
from hypothesis import given, settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop.errors import LoopWarning
from mdf_loop.execute.numpy_engine import watched_loops
from mdf_loop.execute.warnings import nan_warnings


@pytest.fixture(autouse=True, scope="module")
def no_limit():
    """The iteration is searched for however long it takes."""
    with mock.patch.object(nan_warnings, "SECONDS", 1e6):
        yield


@pytest.fixture(params=ENGINES)
def engine(request):
    with mdf_loop.options(engine=request.param):
        yield request.param


def warned(call):
    """What a call gives, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = call()
    return found, [str(each.message) for each in caught if issubclass(each.category, LoopWarning)]


POLE = "x: x + (a - i) / (a - i)\ny: y + 1\ncollect path: x"


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ENGINES), st.integers(1, 200), st.integers(-5, 205), st.sampled_from([(), (1,), (3,), (2, 3)]))
def test_the_iteration_is_the_first_whose_value_is_nan(how, count, pole, shape):
    with mdf_loop.options(engine=how):
        (x, _, path), said = warned(lambda: mdf_loop.loop(count, True, np.full(shape, 0.5), 0.0, body=POLE, a=float(pole)))
    is_nan = np.isnan(path).reshape(count, -1).any(axis=1)
    assert np.isnan(x).all() == is_nan.any() == (0 <= pole < count)
    if is_nan.any():
        (text,) = said
        assert text.startswith(f"iteration {is_nan.argmax()} of Loop: x became nan, though the loop was given finite numbers")
    else:
        assert not said


def test_it_is_the_same_with_random_numbers(engine):
    """The iteration is found by running again, with the same random numbers; those that follow do not change."""
    body = "x: sqrt(x + 1 + noise())\ncollect path: x"
    with mdf_loop.options(seed=5):
        (_, path), said = warned(lambda: mdf_loop.loop(2000, True, 1.0, body=body))
    assert [text.partition(":")[0] for text in said] == [f"iteration {np.isnan(path).argmax()} of Loop"]


TWICE = """<ir_version: 10, opset_import: ["" : 20]>
g (double s, double z, double[1] o) => (double r, double[1] v) <int64 M = {9}, bool go = {1}> {
    r = Loop <body = b (int64 i, bool c, double x) => (bool c, double y) { q = Div (z, x) y = Mul (q, x) }> (M, go, s)
    v = Loop <body = d (int64 i, bool c, double[1] w) => (bool c, double[1] u) {
        k = RandomNormal <dtype = 11, shape = [1]> () u = Add (w, k) }> (M, go, o) }
"""
NEW = [(0.0, 0.0), (0.0, 1.0)]


@pytest.mark.parametrize("values", [*NEW, (1.0, 2.0), (np.nan, 0.0), (0.0, np.inf), (-np.inf, 1.0)], ids=str)
def test_every_engine_says_the_same_of_a_graph_that_is_one_program_and_draws_the_same_numbers(values):
    model, found = onnx.parser.parse_model(TWICE), {}
    for how in ENGINES:
        with mdf_loop.options(engine=how, seed=2):
            prepared = mdf_loop.backend.prepare(model)
            found[how] = [warned(lambda prepared=prepared: prepared.run([*values, np.zeros(1)])) for _ in range(3)]
    for how in ENGINES:
        np.testing.assert_equal(found[how], found["interpret"], how)
    for _, said in found["interpret"]:
        assert [text.partition(", though")[0].partition(": ")[2] for text in said] == ["x became nan"] * (values in NEW)


MEANT = {
    "it was nan before": ("x: x + 1", {"x": np.nan}),
    "a captured value is nan": ("x: x * k", {"x": 1.0, "k": np.array([1.0, np.nan])}),
    "it was infinite before": ("x: x - x", {"x": np.inf}),
    "a captured value is infinite": ("x: x * k", {"x": 0.0, "k": np.inf}),
    "a running maximum": ("x: maximum(x, i)", {"x": -np.inf}),
    "the body writes infinity": ("x: where(x > 3, inf, x + 1)", {"x": 0.0}),
    "the body writes it": ("x: where(x > 3, nan, x + 1)", {"x": 0.0}),
    "only what is collected": ("x: x + 1\ncollect r: (x - 1) / (x - 1)", {"x": 0.0}),
}


@pytest.mark.parametrize("case", MEANT)
def test_nan_and_infinity_that_are_meant_are_not_said(case, engine):
    body, values = MEANT[case]
    assert warned(lambda: mdf_loop.loop(20, True, body=body, **values))[1] == []


INFINITE = {
    "it overflows": ("x: x * 1e200", {"x": 1.0}, 1, "x"),
    "an array does": ("x: x * 1e200", {"x": np.array([0.0, 1.0])}, 1, "x"),
    "a pole": ("x: x + 1 / (a - i)\ny: y + 1", {"x": 0.0, "y": 0.0, "a": 7.0}, 7, "x"),
    "only what is collected": ("x: x + 1\ncollect r: 1 / (x - a)", {"x": 0.0, "a": 4.0}, 3, "r"),
    "of what comes back": ("x: where(x > 1, 0.0, x + 1 / a)\ncollect r: x", {"x": 0.0, "a": 0.0}, 0, "x"),
}


@pytest.mark.parametrize("case", INFINITE)
def test_infinity_that_was_made_of_finite_numbers_is_said(case, engine):
    body, values, first, name = INFINITE[case]
    for _ in range(3):
        (said,) = warned(lambda: mdf_loop.loop(20, True, body=body, **values))[1]
        assert said.startswith(f"iteration {first} of Loop: {name} became infinite, though the loop was given finite numbers")


@pytest.mark.parametrize("place", [0, 1])
def test_what_a_python_function_collects_is_named_by_its_place(place, engine):
    collected = [1.0, 1.0]
    collected[place] = np.inf
    results, said = warned(lambda: mdf_loop.loop(4, True, 10.0, body=lambda i, go, x: (True, x * 2, *collected)))
    assert [np.asarray(value).tolist() for value in results] == [160.0, *([value] * 4 for value in collected)]
    assert [each.split(", though")[0] for each in said] == [f"iteration 0 of Loop: collected value {place} became infinite"]


def test_a_graph_of_onnx_may_make_infinity(engine):
    """As the logarithm of 0 is in the probabilities of a hidden Markov model."""
    model = mdf_loop.backend.prepare(onnx.parser.parse_model(POLES))
    for _ in range(4):
        (found,), said = warned(lambda: model.run([1.0, 0.0]))
        assert np.isinf(found)
        assert said == []


POLES = """<ir_version: 10, opset_import: ["" : 20]> g (double s, double z) => (double r) <int64 M = {9}, bool go = {1}> {
    r = Loop <body = b (int64 i, bool c, double x) => (bool c, double y) { q = Div (x, z) y = Add (q, x) }> (M, go, s) }
"""

MODEL = """
cell:
  graphs:
    cell:
      nodes:
        cell:
          input_ports: {current: {default_value: 1.5}}
          parameters:
            tau: {value: 20.0}
            dt: {value: 0.1}
            body: {value: {derivatives: {v: (current - v) / tau}, collected: {path: v}}}
            run: {function: onnx::Loop, args: {M: 500, v: 0.0, body: body}}
          output_ports: {v: {value: run.v}, path: {value: run.path}}
"""
SAID = "iteration 1 of Loop 'cell.run': v became nan"


def test_a_model_says_it_in_each_run_and_in_sweeps_and_trials_once(engine, tmp_path):
    path = tmp_path / "cell.yaml"
    path.write_text(MODEL)
    model = mdf_loop.prepare(path)
    for _ in range(3):
        assert [text[: len(SAID)] for text in warned(lambda: model(tau=0.0))[1]] == [SAID]
        assert warned(lambda: model())[1] == []
    _, said = warned(lambda: mdf_loop.sweep(model, {"tau": [5.0, 0.0, 10.0, 0.0]}))
    assert [text.partition(", though")[0] for text in said] == [f"point 1 (tau=0.0), trial 0, and perhaps other runs: {SAID}"]
    _, said = warned(lambda: model(tau=0.0, trials=3))
    assert len(said) == 1
    assert SAID in said[0]


def test_the_search_has_a_second_for_all_runs_of_a_loop(monkeypatch):
    body = "x: x + k * x / x"
    monkeypatch.setattr("mdf_loop.execute.warnings.nan_warnings.SECONDS", 0.0)
    for _ in range(2):
        _, said = warned(lambda: mdf_loop.loop(40, True, 0.0, body=body, k=1.0))
        assert [text.partition(" of Loop")[0] for text in said] == ["between iterations 0 and 39"]
    monkeypatch.setattr("mdf_loop.execute.warnings.nan_warnings.SECONDS", 1e6)
    with watched_loops() as loops:
        _, said = warned(lambda: mdf_loop.loop(40, True, 0.0, body=body, k=1.0))
    assert [text.partition(" of Loop")[0] for text in said] == ["iteration 0"]
    assert loops[0].noticed["search for nan"]["seconds"] > 0


def test_what_does_more_than_compute_is_not_run_again(engine):
    called = []

    def step(i, go, x):
        called.append(int(i))
        return True, x / x

    _, said = warned(lambda: mdf_loop.loop(5, True, np.float64(0.0), body=step))
    assert called == [0, 1, 2, 3, 4]
    assert [text.partition(" of Loop")[0] for text in said] == ["between iterations 0 and 4"]


def test_a_loop_inside_a_loop_is_said_by_the_outer_one(engine):
    body = """outer (int64 i, bool c, double x) => (bool c, double y) {
        three = Constant <value = int64 {3}> () d = Sub (x, x)
        y = Loop <body = inner (int64 j, bool e, double z) => (bool e, double w) { w = Div (z, d) }> (three, c, x) }"""
    _, said = warned(lambda: mdf_loop.loop(4, True, 0.0, body=body))
    assert [text.partition(" became")[0] for text in said] == ["iteration 0 of Loop: x"]


@pytest.mark.parametrize("text", ["sqrt(z)", "log(z) * i", "(z[0] - z[0]) / (z[0] - z[0])"])
def test_what_is_collected_as_nan_in_all_iterations_is_said(text, engine):
    body, z = f"x: x + 1\ncollect y: {text}", -np.ones(2)
    _, (message,) = warned(lambda: mdf_loop.loop(4, True, x=1.0, z=z, body=body))
    assert message.startswith("iteration 0 of Loop: y became nan, though the loop was given finite numbers")


@pytest.mark.parametrize(
    ("text", "z"), [("where(i > 1, z, nan)", 1.0), ("sqrt(z - i)", 2.0), ("sqrt(z)", np.nan), ("nan * z", 1.0)]
)
def test_nan_in_some_iterations_or_of_nan_is_meant(text, z, engine):
    assert warned(lambda: mdf_loop.loop(4, True, x=1.0, z=z, body=f"x: x + 1\ncollect y: {text}"))[1] == []
