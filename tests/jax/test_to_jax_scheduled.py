"""Scheduled models as functions of JAX: values, histories and gradients are those of ``run``."""

import warnings

import numpy as np
import pytest
from modeci_mdf.mdf import Condition, Function, InputPort, Parameter
from scheduled_generated import generated_graph
from scheduled_models import PUBLISHED, counter, edge, graph, node

import mdf_loop
from mdf_loop.errors import ArgumentError, LoopError, LoopWarning, NotLowered
from tests.scheduled.test_open_starts import EXAMPLES, changed_inputs

jax = pytest.importorskip("jax", reason='jax is not installed: pip install -e ".[jax]"')
jnp = jax.numpy

MOST_PASSES = 60


pytestmark = pytest.mark.usefixtures("in_64_bits", "compiled_quickly")


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopWarning)
        yield


def assert_same(found, want, rtol=1e-10):
    assert list(found) == list(want)
    for name, value in want.items():
        wide = [np.asarray(x, np.float64) for x in (found[name], value)]
        np.testing.assert_allclose(*wide, rtol=rtol, atol=1e-12, err_msg=name)


def time_of(name):
    increment = PUBLISHED[name][1]
    return {} if increment is None else {"time_increment": increment}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_examples_have_the_histories_of_run(name):
    model = mdf_loop.prepare(PUBLISHED[name][0]())
    how = {"steps": 5, "collect": True, **time_of(name)}
    assert_same(mdf_loop.to_jax(model, max_steps=MOST_PASSES, **how)(), model(**how))


@pytest.mark.parametrize("name", ["Newton cooling", "integrate and fire", "ABCD conditions", "composite"])
def test_last_values_are_those_of_run(name):
    model = mdf_loop.prepare(PUBLISHED[name][0]())
    for steps in (1, 6):
        how = {"steps": steps, **time_of(name)}
        assert_same(mdf_loop.to_jax(model, **how)(), model(**how))


def test_without_steps_a_model_with_conditions_is_evaluated_once():
    model = mdf_loop.prepare(PUBLISHED["ABCD conditions"][0]())
    assert_same(mdf_loop.to_jax(model)(), model())
    oscillator = mdf_loop.prepare("examples/oscillator.yaml")
    assert_same(mdf_loop.to_jax(oscillator)(), oscillator())


TRACED = {
    "states": ("period", 0.5),
    "FitzHugh-Nagumo": ("tau", 10.0),
    "Newton cooling": ("coefficient", 0.2),
    "switched RLC": ("R", 90.0),
}


@pytest.mark.parametrize("name", TRACED)
def test_gradients_with_respect_to_parameters(name):
    model, (parameter, at) = mdf_loop.prepare(PUBLISHED[name][0]()), TRACED[name]
    how = {"steps": 7, "collect": True, **time_of(name)}
    f = mdf_loop.to_jax(model, **how)
    assert_same(f(**{parameter: at}), model(**{parameter: at}, **how))

    def total(x):
        return sum(value.astype(float).sum() for value in f(**{parameter: x}).values())

    value_and_grad, h = jax.jit(jax.value_and_grad(total)), 1e-5 * at
    want = (value_and_grad(at + h)[0] - value_and_grad(at - h)[0]) / (2 * h)
    np.testing.assert_allclose(value_and_grad(at)[1], want, rtol=1e-5)


MODELS = {name: (make(), increment) for name, (make, increment) in PUBLISHED.items()}
MODELS |= {path: (path, increment) for path, increment in EXAMPLES.items()}
"""Scheduled models and their time increments."""


@pytest.mark.parametrize("name", [name for name, (source, _) in MODELS.items() if changed_inputs(mdf_loop.prepare(source))])
def test_each_input_counts_as_in_run(name):
    source, increment = MODELS[name]
    model = mdf_loop.prepare(source)
    how = {"steps": 6, "collect": True, **({} if increment is None else {"time_increment": increment})}
    changed = [(key, x) for key, x in changed_inputs(model) if np.asarray(x).dtype.kind == "f"]
    f = jax.jit(mdf_loop.to_jax(model, max_steps=MOST_PASSES, **how))  # traced once for all of them
    same = {key: model.inputs[key].default for key, _ in changed}
    for key, x in changed:
        given = {k: x if k == key else float(y) if isinstance(y, int) else np.asarray(y, float) for k, y in same.items()}
        found = f(**{k: jnp.asarray(y) for k, y in given.items()})
        assert_same({name: found[name] for name in model.outputs if name in found}, model(**given, **how), rtol=1e-9)


def growing(until):
    """A number that grows until a condition holds."""
    return graph(
        node("A", [Parameter(id="s", value="s * rate + 1", default_initial_value=1.0), Parameter(id="rate", value=1.5)], y="s"),
        until=until,
    )


BEYOND = Condition("Threshold", dependency="A", parameter="s", threshold=20, comparator=">")


@pytest.mark.parametrize("rate", [1.5, 2.0, 40.0])
@pytest.mark.parametrize("steps", [1, 3])
def test_open_values_decide_when_an_evaluation_ends(rate, steps):
    """With a rate of 40 the first pass ends the evaluation, which only the run knows."""
    model = mdf_loop.prepare(growing(BEYOND))
    for collect in ({}, {"collect": True}):
        f = mdf_loop.to_jax(model, steps=steps, max_steps=MOST_PASSES, **collect)
        assert_same(f(rate=rate), model(rate=rate, steps=steps, **collect))


def test_an_end_that_values_decide_has_gradients_for_many_runs():
    f = mdf_loop.to_jax(growing(BEYOND), steps=2, max_steps=20)
    rates, h = np.array([1.5, 2.0, 40.0]), 1e-6
    grads = jax.jit(jax.vmap(jax.value_and_grad(lambda rate: f(rate=rate)["y"])))
    np.testing.assert_allclose(grads(rates)[1], (grads(rates + h)[0] - grads(rates - h)[0]) / (2 * h), rtol=1e-6)


def test_a_node_that_runs_where_an_open_value_says_so():
    count = counter("B", "x", b="x")
    waits = Condition("Threshold", dependency="A", parameter="s", threshold=3, comparator=">")
    grows = node("A", [Parameter(id="s", value="s + rate", default_initial_value=0.0), Parameter(id="rate", value=1.0)], y="s")
    model = mdf_loop.prepare(
        graph(grows, count, edges=["A.y -> B.x"], conditions={"B": waits}, until=Condition("AfterNPasses", n=6))
    )
    for rate in (0.4, 1.0, 5.0):
        assert_same(mdf_loop.to_jax(model)(rate=rate), {**model(rate=rate)} if rate > 0.5 else {"n_B": 0, "b": 0})


def linear():
    return Function(id="f", function="linear", args={"variable0": "x", "slope": 2, "intercept": "s"})


def test_numbers_that_widen_one_after_the_other():
    """A truth value becomes a number behind the first passes, in a loop whose other numbers have become wider before."""
    switch = node(
        "A",
        [Parameter(id="c", value=2.0), Parameter(id="s", value="s + 1 if s < 3 else 0", default_initial_value="c")],
        [InputPort(id="x", shape=(1,), type="float")],
        o="c",
    )
    adding, ports = (
        Parameter(id="s", value="s + x", default_initial_value=True),
        [InputPort(id="x", default_value=1, type="float")],
    )
    adds = node("B", [Parameter(id="c", value=2.0), adding, Parameter(id="d", value="1")], ports, [linear()], y="c + s + d + f")
    first, ports = Parameter(id="s", value="1", default_initial_value=1), [InputPort(id="x", default_value=2, type="float")]
    edges, end = [edge("A.o -> B.x", 3), edge("C.o -> A.x", 0.5)], Condition("AfterNPasses", n=1)
    calls = Condition("AfterCall", dependency="B", n=4, time_scale="TimeScale.LIFE")
    starts = node("C", [first], ports, [linear()], o="f")
    made = graph(starts, adds, switch, edges=edges, until=Condition("Any", dependencies=[calls, end]))
    model = mdf_loop.prepare(made)
    for how in ({"steps": 2}, {"steps": 4}):
        assert_same(mdf_loop.to_jax(model, **how)(), model(**how))


@pytest.mark.parametrize("seed", range(10))
def test_generated_graphs(seed):
    made = generated_graph(seed)
    how = {"steps": 3, "collect": True}
    with warnings.catch_warnings():
        warnings.simplefilter("error", LoopWarning)
        try:
            want = mdf_loop.run(made, **how)
        except (LoopError, LoopWarning):
            pytest.skip("MDF's engine runs it, or nothing does")
    if any(np.asarray(value).dtype == object for value in want.values()):
        with pytest.raises(NotLowered, match="no value in the first evaluation"):
            mdf_loop.to_jax(made, **how)()
        return
    assert_same(mdf_loop.to_jax(made, max_steps=MOST_PASSES, **how)(), want)


def test_random_numbers_of_the_first_passes_are_drawn_as_well():
    walk = node("A", [Parameter(id="s", value="s + numpy.random.normal(0, 1)", default_initial_value=0.0)], y="s")
    model = mdf_loop.prepare(graph(walk))
    f = mdf_loop.to_jax(model, steps=5, collect=True)
    numbers = iter(np.random.default_rng(3).standard_normal(5))
    noise = {
        name: np.array([next(numbers) for _ in range(int(np.prod(draw.shape)))]).reshape(draw.shape)
        for name, draw in f.draws.items()
    }
    np.testing.assert_allclose(f(noise=noise)["y"], model(steps=5, collect=True, seed=3)["y"], rtol=1e-14)
    assert len(np.unique(f(key=1)["y"])) == 5


@pytest.mark.parametrize("text", ["s ** -1", "s % s ** -1", "1 / s", "s // s ** -2"])
def test_numbers_of_python_stay_such_in_a_node_that_waits(text):
    waits = node("A", [Parameter(id="s", value="s + 1", default_initial_value=2), Parameter(id="d", value=text)], y="d")
    conditions = {"A": Condition("EveryNPasses", n=3, time_scale="TimeScale.ENVIRONMENT_STATE_UPDATE")}
    model = mdf_loop.prepare(graph(waits, conditions=conditions, until=Condition("AfterNPasses", n=12)))
    assert_same(mdf_loop.to_jax(model, steps=2)(), model(steps=2))


def test_a_whole_number_to_a_negative_power_is_no_number():
    model = mdf_loop.prepare(graph(node("A", [Parameter(id="s", value="s + 1"), Parameter(id="d", value="2 ** (5 - s)")], y="d")))
    for steps in (5, 6):
        assert_same(mdf_loop.to_jax(model, steps=steps)(), {"y": 2 ** (5 - steps) if steps < 6 else np.iinfo(np.int64).min})
        with mdf_loop.options(engine="jax"):
            assert_same(model(steps=steps), {"y": 2 ** (5 - steps)})


def test_what_has_no_steps_says_so():
    with pytest.raises(ArgumentError, match="for MDF models"):
        mdf_loop.to_jax("examples/gallery/rnn.onnx", steps=3)
    with pytest.raises(ArgumentError, match="give the trip count M"):
        mdf_loop.to_jax("x: x * 2", steps=3)
    with pytest.raises(ArgumentError, match="without steps"):
        mdf_loop.to_jax("examples/oscillator.yaml", time_increment=0.1)
