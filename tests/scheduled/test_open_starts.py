"""Scheduled graphs with open inputs: what they compute for the values of a run is what the run gives, for one input at a time."""

import contextlib
import warnings

import numpy as np
import pytest
from modeci_mdf.mdf import Condition, Function, Parameter
from scheduled_generated import generated_graph
from scheduled_models import PUBLISHED, counter, graph, node

import mdf_loop
from mdf_loop.convert.scheduled.loops import Stepping
from mdf_loop.errors import LoopError, LoopWarning
from mdf_loop.execute.interpret import InterpretedBody
from mdf_loop.models.to_jax import GraphOfMdf
from mdf_loop.options import start_run
from mdf_loop.step.records import Type

EXAMPLES = {
    "examples/oscillator.yaml": 0.01,
    "examples/gallery/hodgkin_huxley.yaml": 1e-5,
    "examples/gallery/threshold.yaml": None,
    "examples/gallery/stroop.json": None,
}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopWarning)
        yield


def others(value):
    """Other values than the default one of an input, as a run may be given them."""
    if isinstance(value, list):
        value = np.asarray(value)
    if isinstance(value, np.ndarray):
        return [value * 1.25 + 0.125] if value.dtype.kind in "iuf" else []
    if type(value) is int:
        return [value + 2, value * 1.25 + 0.125]
    return [value * 1.25 + 0.125] if type(value) is float else []


def changed_inputs(model):
    return [(name, value) for name, port in model.inputs.items() for value in others(port.default)]


def opened(model, how, inputs):
    """What the graph with these inputs open gives for their values."""
    kinds = {
        name: Type(np.asarray(x).dtype, np.shape(x), weak=isinstance(x, int | float) and not isinstance(x, np.generic))
        for name, x in inputs.items()
    }
    made = GraphOfMdf(model, Stepping(**how)).opened({}, kinds)
    given = [inputs[made.inputs[id]] for id in made.body.inputs]
    return collected(made.history, InterpretedBody(made.body)(given, (), start_run()))


def collected(run, results):
    """The outputs by name of the last evaluation, or of all."""
    if not run.width:
        return dict(zip(run.names, results, strict=True))
    w = run.width
    columns = [rows(run, results[k * w : (k + 1) * w]) for k in range(len(run.names))]
    if run.tells_ends:
        ends = rows(run, results[len(run.names) * w :]).astype(bool)
        columns = [column[ends] for column in columns]
    return {
        name: np.concatenate([column, np.repeat(column[-1:], run.steps - len(column), axis=0)])
        for name, column in zip(run.names, columns, strict=True)
    }


def rows(run, parts):
    return np.concatenate([*(np.asarray(x)[None] for x in parts[: run.alone]), *map(np.asarray, parts[run.alone :])])


def assert_same(found, want, where):
    assert list(found) == list(want)
    for name, value in want.items():
        if value is None:
            continue  # its node has not run, and nothing is there for it
        wide = [np.asarray(x, np.float64) for x in (found[name], value)]
        np.testing.assert_allclose(*wide, rtol=1e-13, atol=1e-300, err_msg=f"{where}: {name}")


def assert_open(model, how, inputs):
    with mdf_loop.options(engine="interpret", seed=7):
        assert_same(opened(model, how, inputs), model(**how, **inputs), f"{how}, {inputs}")


def ways(increment):
    time = {} if increment is None else {"time_increment": increment}
    return [{"steps": 6, "collect": True, **time}, {"steps": 6, **time}, {"steps": 1}, {"steps": 2, "collect": True, **time}]


def assert_all(model, increment):
    changed = changed_inputs(model)
    for k, how in enumerate(ways(increment)):
        for name, value in changed[k::3]:
            assert_open(model, how, {name: value})
    assert_open(model, ways(increment)[0], dict(changed))


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples(path):
    assert_all(mdf_loop.prepare(path), EXAMPLES[path])


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_examples(name):
    assert_all(mdf_loop.prepare(PUBLISHED[name][0]()), PUBLISHED[name][1])


def with_slopes_of_slopes(made):
    """A graph whose time derivatives read a parameter that MDF computes behind them, of what they have changed."""
    for each in made.nodes:
        for parameter in [p for p in each.parameters if p.time_derivative is not None]:
            parameter.time_derivative = f"({parameter.time_derivative}) * late"
            each.parameters.append(Parameter(id="late", value=f"1 - {parameter.id} * c"))
    return made


@pytest.mark.parametrize("seed", range(30))
def test_generated_graphs(seed):
    made = generated_graph(seed)
    model = mdf_loop.prepare(with_slopes_of_slopes(made) if seed % 2 else made)
    for how in ({"steps": 3, "collect": True, "time_increment": 0.5}, {"steps": 3}):
        for name, value in changed_inputs(model):
            with mdf_loop.options(engine="interpret"), warnings.catch_warnings():
                warnings.simplefilter("error", LoopWarning)
                try:
                    want = model(**how, **{name: value})
                except (LoopError, LoopWarning):
                    continue  # MDF's engine runs it, or nothing does
            if any(np.asarray(x).dtype == object for x in want.values()):  # a node has not run in some evaluation
                with contextlib.suppress(LoopError), mdf_loop.options(engine="interpret"):
                    assert_same(opened(model, how, {name: value}), want, f"{how}, {name}={value}")
                continue
            with mdf_loop.options(engine="interpret"):
                assert_same(opened(model, how, {name: value}), want, f"{how}, {name}={value}")


def test_what_was_run_of_a_pass_that_open_values_decide_is_run_once():
    """The first node counts before the second one's condition asks for what is open."""
    first = counter("A", y="count")
    grows = node("B", [Parameter(id="s", value="s + rate", default_initial_value=0.0), Parameter(id="rate", value=1.0)], z="s")
    waits = counter("C", "x", w="count")
    beyond = Condition("Threshold", dependency="B", parameter="s", threshold=2, comparator=">")
    made = graph(
        first,
        grows,
        waits,
        edges=["A.y -> C.x", "B.z -> C.x"][:1],
        conditions={"C": beyond},
        until=Condition("AfterNPasses", n=4),
    )
    model = mdf_loop.prepare(made)
    for how in ({"steps": 1}, {"steps": 3}):
        assert_open(model, how, {"rate": 2.5})


def test_a_constant_output_of_a_node_that_is_open():
    sender = node("A", [Parameter(id="rate", value=1.5)], y="rate", two="2.0")
    reads = node(
        "B",
        [Parameter(id="s", value="s + x", default_initial_value=0.0), Parameter(id="late", value="x * 3")],
        ["x"],
        [Function(id="f", function="linear", args={"variable0": "late", "slope": 1, "intercept": 0})],
        z="s",
        f="f",
    )
    model = mdf_loop.prepare(graph(sender, reads, edges=["A.two -> B.x"]))
    for how in ways(None):
        assert_open(model, how, {"rate": 4.0})


def test_random_numbers_are_those_of_the_run():
    walk = node(
        "A",
        [
            Parameter(id="sigma", value=1.0),
            Parameter(id="s", value="s + sigma * numpy.random.normal(0, 1)", default_initial_value=0.0),
        ],
        y="s",
    )
    model = mdf_loop.prepare(graph(walk, counter("B", "x", b="x"), edges=["A.y -> B.x"]))
    for how in ways(None):
        assert_open(model, how, {"sigma": 0.5})
