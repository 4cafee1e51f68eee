"""Random numbers of scheduled models: drawn from the stream of the run, so they obey its seed, in a loop and in MDF's engine."""

import numpy as np
import pytest
from engines import ENGINES
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.mdf import Condition, ConditionSet, Edge, Function, Graph, InputPort, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.convert.scheduled.loops import lower
from mdf_loop.errors import LoopWarning, NotLowered, UnsupportedOp
from mdf_loop.integrations.engine_runs import run_in_mdf
from mdf_loop.options import random_stream
from mdf_loop.settings.random_streams import RandomStream

CALLS = ["numpy.random.normal(0, 1)", "numpy.random.uniform(-1, 1)", "numpy.random.randn()", "numpy.random.rand() - 0.5"]


def walk(call=CALLS[0], **more):
    """A random walk, and a node that follows it."""
    parameters = [Parameter(id="x", value=f"x + dt * {call}", default_initial_value=0.0), Parameter(id="dt", value=0.1)]
    walking = Node(id="walk", parameters=parameters, output_ports=[OutputPort(id="o", value="x")])
    twice = Node(id="twice", input_ports=[InputPort(id="i")], output_ports=[OutputPort(id="p", value="2 * i")])
    edge = Edge(id="e", sender="walk", sender_port="o", receiver="twice", receiver_port="i")
    return Graph(id="g", nodes=[walking, twice], edges=[edge], **more)


@pytest.mark.parametrize("call", CALLS)
def test_noise_becomes_part_of_the_loop_and_obeys_the_seed(call):
    graph = walk(call)
    assert lower(graph, 50).loop is not None
    found = [mdf_loop.run(graph, steps=50, seed=seed, collect=True)["p"] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).all()
    steps = np.diff(found[0])
    assert len(set(steps.tolist())) == 49, "each step draws a number of its own, the first ones too"


def test_every_engine_draws_the_same_numbers():
    found = []
    for engine in ENGINES:
        with mdf_loop.options(engine=engine):
            found.append(mdf_loop.run(walk(), steps=100, seed=3, collect=True)["p"])
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_the_numbers_are_those_of_the_stream_in_order():
    found = mdf_loop.run(walk(), steps=6, seed=3, collect=True)["p"]
    expected = 2 * np.cumsum(0.1 * np.random.default_rng(3).normal(0, 1, 6))
    np.testing.assert_allclose(found, expected)


def test_mdfs_engine_draws_from_the_stream_of_the_run_as_well():
    conditions = ConditionSet(node_specific={"twice": Condition(type="TimeInterval", kwargs={"repeat": 1, "unit": "ms"})})
    graph = walk(conditions=conditions)
    with pytest.warns(mdf_loop.errors.LoopWarning, match="MDF's engine"):
        found = [mdf_loop.run(graph, steps=5, seed=seed, record="walk.x").recorded["walk.x"] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()
    once = [mdf_loop.run(walk(), seed=seed)["p"] for seed in (1, 1, 2)]
    assert once[0] == once[1] != once[2]


def test_trials_of_a_scheduled_model_are_the_runs_with_their_seeds():
    r = mdf_loop.run(walk(), steps=30, trials=4, seed=5)
    for k in range(4):
        one = mdf_loop.run(walk(), steps=30, seed=np.random.SeedSequence(5, spawn_key=(0, k)))
        assert r["p"][k] == one["p"]
    assert len(set(r["p"].tolist())) == 4


def test_what_is_recorded_is_what_was_drawn():
    r = mdf_loop.run(walk(), steps=30, seed=5, record="walk.x")
    np.testing.assert_array_equal(r.recorded["walk.x"] * 2, mdf_loop.run(walk(), steps=30, seed=5, collect=True)["p"])


def seeded_operator():
    parameter = Parameter(id="x", function="onnx::RandomNormal", args={"shape": (2,), "seed": 3.0})
    return Graph(id="g", nodes=[Node(id="n", parameters=[parameter], output_ports=[OutputPort(id="o", value="x")])])


def seeded_loop():
    nodes = "r = RandomNormal <shape = [1], seed = 3.0> () s = Squeeze (r) y = Add (x, s)"
    body = f"b (int64 i, bool c, float x) => (bool c, float y) {{ {nodes} }}"
    run = Parameter(id="run", function="onnx::Loop", args={"M": 3, "cond": True, "x": 0.0, "body": "body"})
    parameters = [Parameter(id="body", value={"onnx": body}), run]
    return Graph(id="g", nodes=[Node(id="n", parameters=parameters, output_ports=[OutputPort(id="o", value="run")])])


@pytest.mark.parametrize("make", [seeded_operator, seeded_loop])
def test_a_seed_of_its_own_is_left_to_mdfs_engine(make):
    """Each making of a node would begin its stream again: the first steps drew the same numbers twice."""
    with pytest.warns(LoopWarning, match="n: RandomNormal has a seed of its own") as told:
        found = mdf_loop.run(make(), steps=5, collect=True, seed=1)["o"]
    assert len(told) == 1
    with random_stream(RandomStream(1)):
        np.testing.assert_array_equal(found, run_in_mdf(make(), 5, None, True)["o"])
    with pytest.raises(NotLowered, match="RandomNormal has a seed of its own"):
        mdf_loop.to_onnx(make(), steps=5)


@pytest.mark.parametrize("form", ["parameters", "functions"])
@pytest.mark.parametrize("how", [{}, {"steps": 3}, {"steps": 3, "record": "n.k"}, {"trials": 2}])
def test_a_function_that_mdf_names_and_does_not_run_is_said_in_one_line(form, how, recwarn):
    args = {"starting_point": 0.0, "non_decision_time": 0.1, "drift_rate": 0.5, "threshold": "k"}
    made = {"id": "f", "function": "drift_diffusion_integrator", "args": args}
    node = Node(id="n", parameters=[Parameter(id="k", value=1.0)], output_ports=[OutputPort(id="o", value="f")])
    getattr(node, form).append(Parameter(**made) if form == "parameters" else Function(**made))
    with pytest.raises(UnsupportedOp, match=r"g/n/f: drift_diffusion_integrator .* does not run"):
        mdf_loop.run(Graph(id="g", nodes=[node]), **how)
    assert not recwarn.list


def test_mdfs_engine_itself_does_not_run_it():
    args = {"starting_point": 0.0, "non_decision_time": 0.1, "drift_rate": 0.5, "threshold": 1.0}
    function = Function(id="f", function="drift_diffusion_integrator", args=args)
    node = Node(id="n", functions=[function], output_ports=[OutputPort(id="o", value="f")])
    with pytest.raises(Exception, match="Not implemented"):
        EvaluableGraph(Graph(id="g", nodes=[node]), verbose=False).evaluate()
