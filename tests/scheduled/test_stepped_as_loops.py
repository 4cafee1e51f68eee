"""Stepped loops as part of one loop over passes: what MDF's engine gives, on every engine, in ONNX and in JAX."""

import re

import numpy as np
import pytest
from engines import ENGINES, SETTLED
from modeci_mdf.mdf import Condition, InputPort, Model, Parameter
from scheduled_generated import generated_graph
from scheduled_models import assert_as_mdf, assert_same, by_mdf, counter

import mdf_loop
from mdf_loop.convert.scheduled.loops import execute, lower
from mdf_loop.convert.scheduled.run_order import left_open
from mdf_loop.errors import ArgumentError, KindError, LoopWarning, MalformedBody, NotLowered, UnsupportedOp
from mdf_loop.readers.mdf.engine_body import refuse_hanging
from mdf_loop.readers.mdf.stepped_loops import has_stepped_loops
from tests.scheduled.test_stepped import FINISHED, graph, loop_node

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*is dependent on:UserWarning",
    "ignore:overflow encountered:RuntimeWarning",
    "ignore:.*the body's condition became false:mdf_loop.errors.LoopWarning",
)

POWER = "examples/power_iteration.yaml"


def stepped_graphs(seeds):
    """Generated graphs with stepped loops that become a loop: this, and the graph with its steps and what MDF's engine gives."""
    for seed in seeds:
        source, steps, increment = generated_graph(seed, 0.5), (1, 2, 3, 5, 9)[seed % 5], (None, 0.1, 0.5)[seed % 3]
        if not has_stepped_loops(source):
            continue
        try:
            refuse_hanging(source)
            if [*left_open(source)]:  # MDF gives other results in other processes
                continue
            lowered, expected = lower(source, steps, increment), by_mdf(source, steps, increment)
        except (NotLowered, MalformedBody, ArgumentError):  # the last: a port that has no value
            continue
        yield lowered, source, {"steps": steps} | ({} if increment is None else {"time_increment": increment}), expected


@pytest.mark.parametrize("block", range(3))
def test_generated_graphs_are_exactly_as_in_mdf_s_engine(block):
    passes = 0
    for lowered, _, _, expected in stepped_graphs(range(60 * block, 60 * block + 60)):
        for engine in ("interpret", *SETTLED):
            with mdf_loop.options(engine=engine):
                assert_same(execute(lowered), expected)
        passes += lowered.loop is not None and lowered.trip_count != 0
    assert passes >= 5  # had some left to a loop


def assert_close(found, expected):
    for name, value in expected.items():
        if value is None:  # its node has not run, and JAX gives 0
            continue
        np.testing.assert_allclose(np.asarray(found[name], float), np.asarray(value, float), rtol=1e-9, atol=1e-12, err_msg=name)


def test_generated_graphs_are_the_same_in_onnx():
    written = 0
    for _, source, how, expected in stepped_graphs(range(60)):
        try:
            model = mdf_loop.to_onnx(source, **how)
        except (NotLowered, UnsupportedOp):  # a node has not run at all, or a late one has no value before
            continue
        assert_close(mdf_loop.run(model), expected)
        written += 1
    assert written >= 8


def test_generated_graphs_are_the_same_in_jax(in_64_bits):
    pytest.importorskip("jax", reason='jax is not installed: pip install -e ".[jax]"')
    made = 0
    for _, source, how, expected in stepped_graphs(range(60)):
        try:
            found = mdf_loop.to_jax(source, max_steps=120, **how)()
        except (NotLowered, UnsupportedOp):  # likewise, or rows that are collected are read
            continue
        assert_close(found, expected)
        made += 1
    assert made >= 8


def watched(iterations=2, every=4, until=FINISHED, **how):
    """A stepped loop, and a node that looks at it now and then."""
    condition = {"W": Condition("EveryNLoopIterations", dependency="L", n=every)}
    watcher = counter("W", "x", seen="x")
    return graph(loop_node(iterations, **how), watcher, edges=["L.x -> W.x"], conditions=condition, until=until)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("trip_count", [0, 7, 10, 60, ""])
@pytest.mark.parametrize("iterations", [1, 3, 100])
def test_a_loop_and_its_watcher(iterations, trip_count, steps):
    until = Condition("Any", dependencies=[FINISHED, Condition("AfterNPasses", n=30)])
    source = watched(iterations, trip_count=trip_count, limit=1e5, until=until)
    assert_as_mdf(source, steps)


def test_a_condition_that_is_left_out_does_not_end_the_loop():
    after = Condition("AfterNLoopIterations", dependency="L", n=25)
    for trip_count in ("", 50):
        source = graph(loop_node(4, trip_count=trip_count, cond="", limit=2.0), until=after)
        with pytest.warns(LoopWarning, match="the body's condition became false"):
            assert_as_mdf(source, 2)
        with mdf_loop.options(obey_body_condition=True):
            source.conditions.termination = {"environment_state_update": Condition("AfterNPasses", n=30)}
            assert execute(assert_as_mdf(source, 2))["iteration"] < 25


def test_inputs_are_those_of_the_beginning_of_an_evaluation():
    ports = [InputPort(id="factor"), InputPort(id="M")]
    loop = loop_node(2, trip_count="M", x="factor", y=0.5, limit=1e9)
    loop.parameters = [parameter for parameter in loop.parameters if parameter.id != "factor"]
    loop.input_ports = ports
    source = graph(counter("C", n="count + 3"), loop, edges=["C.n -> L.factor", "C.n -> L.M"], until=FINISHED)
    assert_as_mdf(source, 5)


def test_a_graph_without_conditions_has_one_pass(in_64_bits):
    source = graph(loop_node(3))
    assert_as_mdf(source, 4)
    expected = by_mdf(source, 1)
    assert expected["iteration"] == 3
    assert_close(mdf_loop.run(mdf_loop.to_onnx(source)), expected)
    assert_close(mdf_loop.to_jax(source)(), expected)


def test_what_was_collected_has_no_form_in_jax_where_it_is_read(in_64_bits, tmp_path):
    source = graph(loop_node(3), until=FINISHED)
    Model(id="m", graphs=[source]).to_yaml_file(str(tmp_path / "stepped.yaml"))
    lines = (tmp_path / "stepped.yaml").read_text().splitlines()
    message = r"carries 'L\.run.*', .*: JAX needs types and lengths that stay the same; keep"
    with pytest.raises(UnsupportedOp, match=message) as caught:
        mdf_loop.to_jax(tmp_path / "stepped.yaml", max_steps=50)()
    line = 1 + next(k for k, text in enumerate(lines) if text.strip() == "run:")
    assert f"stepped.yaml, line {line}" in "".join(caught.value.__notes__)
    source.nodes[0].output_ports = [port for port in source.nodes[0].output_ports if port.id not in ("xs", "ks")]
    assert_close(mdf_loop.to_jax(source, max_steps=50)(), by_mdf(source, 1))


def test_what_was_collected_is_what_the_loop_collected_so_far():
    for passes in (1, 4, 25):
        source = graph(loop_node(3, trip_count=70), until=Condition("AfterNPasses", n=passes))
        assert len(execute(assert_as_mdf(source, 2))["xs"]) == min(3 * passes, 70)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (Condition("LoopFinished", dependency="A"), "is LoopFinished of 'A', which is not a node with a stepped loop"),
        (
            Condition("EveryNLoopIterations", dependency="L", n=0),
            "is EveryNLoopIterations with n = 0, which is not a whole number from 1 on",
        ),
        (
            Condition("AfterNLoopIterations", dependency="L", n=2.5),
            "is AfterNLoopIterations with n = 2.5, which is not a whole number from 0 on",
        ),
    ],
)
def test_conditions_that_say_nothing_of_a_loop_are_refused(condition, message):
    with pytest.raises(NotLowered) as error:
        lower(graph(loop_node(2), counter("A"), conditions={"A": condition}, until=FINISHED))
    assert str(error.value) == f"g: the condition of node 'A' {message}"


def test_a_trip_count_that_may_be_no_whole_number_is_refused():
    loop = loop_node(2, trip_count="half", limit=1e9)
    loop.input_ports.append(InputPort(id="n"))
    loop.parameters.insert(0, Parameter(id="half", value="n/2"))
    source = graph(counter("C", n="count * 2"), loop, edges=["C.n -> L.n"], until=FINISHED)
    with pytest.raises(NotLowered, match=re.escape("g/L: the trip count M of the stepped loop L.run is computed")):
        lower(source, 2)


def test_the_example_runs_on_every_engine_and_in_onnx():
    expected = by_mdf(mdf_loop.load(POWER).graphs[0], 1)
    for engine in ENGINES:
        with mdf_loop.options(engine=engine):
            assert_same(dict(mdf_loop.run(POWER, steps=1)), expected)
    written = mdf_loop.run(mdf_loop.to_onnx(POWER))
    assert_close(written, expected)


@pytest.mark.parametrize("wrong", [{"trip_count": 0.5}, {"cond": 2.0}])
def test_what_is_wrong_with_a_loop_is_said_by_what_runs_it(wrong):
    source = graph(loop_node(2, **wrong), until=FINISHED)
    with pytest.raises(NotLowered, match=r"g/L: L\.run: the (trip count M|condition cond) must be one"):
        lower(source)
    with pytest.warns(LoopWarning), pytest.raises(KindError, match=r"^the (trip count M|condition cond) must be one"):
        mdf_loop.run(source, steps=2)


def test_a_sweep_of_the_example():
    matrices = [np.eye(3) + k * np.array([[2.0, 1.0, 0.5], [1.0, 3.0, 1.0], [0.5, 1.0, 4.0]]) for k in (1, 2)]
    swept = mdf_loop.sweep(POWER, over={"matrix": matrices}, steps=1)
    for k, matrix in enumerate(matrices):
        one = mdf_loop.run(POWER, steps=1, matrix=matrix)
        assert swept["iterations"].values[k] == one["iterations"]
        np.testing.assert_array_equal(swept["eigenvalue"].values[k], one["eigenvalue"])
