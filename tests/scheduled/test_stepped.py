"""Stepped loops: some iterations at each execution of a node, watched and stopped by conditions of graph-scheduler."""

import contextlib
import io
import re

import graph_scheduler
import numpy as np
import pytest
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.mdf import Condition, ConditionSet, Function, Graph, InputPort, Model, Node, OutputPort, Parameter
from modeci_mdf.utils import load_mdf
from scheduled_models import assert_same, counter, edge

import mdf_loop
from mdf_loop.errors import ArgumentError, IterationError, IterationLimit, KindError, MalformedBody
from mdf_loop.integrations.loop_conditions import AfterNLoopIterations, EveryNLoopIterations, LoopFinished

DOUBLING = """b (int64 i, bool go, double x, double y) => (bool go_out, double x_out, double y_out, double xs, int64 k) {
    x_out = Add (x, y)
    y_out = Mul (y, factor)
    go_out = Less (x_out, limit)
    xs = Identity (x_out)
    k = Identity (i)
}"""
RANDOM = """b (int64 i, bool go, double[1] x) => (bool go, double[1] x_out, double[1] xs) {
    noise = RandomNormal <shape = [1], dtype = 11> ()
    x_out = Add (x, noise)
    xs = Identity (x_out)
}"""


def assert_holds(actual, expected):
    """These values, among others."""
    assert_same({name: actual[name] for name in expected}, expected)


def steps_of(iterations):
    return None if iterations is None else {"loop": {"iterations_per_execution": iterations}}


def loop_node(iterations, body=DOUBLING, trip_count=10, limit=1e9, name="run", cond=True, **args):
    """A node ``L`` that runs a loop; all at once if ``iterations`` is None."""
    args = args or {"x": 1.0, "y": 0.5}
    outputs = {"x": f"{name}[0]", "y": f"{name}[1]", "xs": f"{name}[2]", "ks": f"{name}[3]"}
    if body == RANDOM:
        outputs = {"x": f"{name}[0]", "xs": f"{name}[1]"}
    if iterations is not None:
        outputs |= {"iteration": f"{name}_iteration", "finished": f"{name}_finished"}
    parameters = [
        Parameter(id="body", value={"onnx": body}),
        Parameter(id="factor", value=1.25),
        Parameter(id="limit", value=limit),
        Parameter(id=name, function="onnx::Loop", args={"M": trip_count, "cond": cond, **args, "body": "body"}),
    ]
    ports = [OutputPort(id=port, value=value) for port, value in outputs.items()]
    return Node(id="L", metadata=steps_of(iterations), parameters=parameters, output_ports=ports)


def graph(*nodes, edges=(), conditions=None, until=None):
    termination = {"environment_state_update": until} if until is not None else None
    conditions = ConditionSet(node_specific=conditions or {}, termination=termination)
    return Graph(id="g", nodes=list(nodes), edges=[edge(e) for e in edges], conditions=conditions)


FINISHED = Condition("LoopFinished", dependency="L")


def evaluated(source, times=1):
    with contextlib.redirect_stdout(io.StringIO()):
        engine = EvaluableGraph(source)
        for _ in range(times):
            engine.evaluate()
    return engine


def outputs_of(engine, node="L"):
    return {name: port.curr_value for name, port in engine.enodes[node].evaluable_outputs.items()}


@pytest.mark.parametrize("engine", ["interpret", "numpy"])
@pytest.mark.parametrize("trip_count", [0, 1, 7, 10, 200])
@pytest.mark.parametrize("iterations", [1, 3, 10, 500])
def test_stepped_equals_atomic(iterations, trip_count, engine):
    with mdf_loop.options(engine=engine):
        atomic = outputs_of(evaluated(graph(loop_node(None, trip_count=trip_count, limit=1e99))))
        run = evaluated(graph(loop_node(iterations, trip_count=trip_count, limit=1e99), until=FINISHED))
        stepped = outputs_of(run)
    assert_holds(stepped, atomic)
    assert (stepped["iteration"], stepped["finished"]) == (trip_count, True)
    assert len(run.order_of_execution) == max(-(-trip_count // iterations), 1)


def test_a_condition_of_the_body_ends_a_stepped_loop():
    atomic = outputs_of(evaluated(graph(loop_node(None, limit=20.0))))
    stepped = outputs_of(evaluated(graph(loop_node(2, limit=20.0), until=FINISHED)))
    assert_holds(stepped, atomic)
    assert stepped["iteration"] == len(atomic["xs"]) == 10 or stepped["iteration"] < 10


@pytest.mark.parametrize("iterations", [1, 4, 50])
def test_random_numbers_are_those_of_the_loop_that_runs_at_once(iterations):
    with mdf_loop.options(seed=11):
        atomic = outputs_of(evaluated(graph(loop_node(None, RANDOM, 50, x="[0.0]"))))
        stepped = outputs_of(evaluated(graph(loop_node(iterations, RANDOM, 50, x="[0.0]"), until=FINISHED)))
    assert_holds(stepped, atomic)


def test_what_a_stepped_loop_publishes_is_what_the_loop_gives_if_it_ends_there():
    for executions in (1, 2, 3):
        until = Condition("AfterNPasses", n=executions)
        stepped = outputs_of(evaluated(graph(loop_node(3), until=until)))
        assert_holds(stepped, outputs_of(evaluated(graph(loop_node(None, trip_count=3 * executions)))))
        assert (stepped["iteration"], stepped["finished"]) == (3 * executions, False)
        assert type(stepped["iteration"]) is int
        assert type(stepped["finished"]) is bool


def test_a_finished_loop_stays_as_it_is():
    run = evaluated(graph(loop_node(4), until=Condition("AfterNPasses", n=9)))
    assert len(run.order_of_execution) == 9
    assert_holds(outputs_of(run), outputs_of(evaluated(graph(loop_node(None)))))


def test_evaluating_a_graph_again_starts_afresh():
    source = graph(loop_node(3), until=Condition("AfterNLoopIterations", dependency="L", n=5))
    once, twice = evaluated(source), evaluated(source, times=2)
    assert_holds(outputs_of(twice), outputs_of(once))
    assert outputs_of(once)["iteration"] == 6
    assert len(twice.order_of_execution) == 2 * len(once.order_of_execution) == 4


def test_a_new_run_takes_new_inputs():
    model = Model(id="m", graphs=[graph(loop_node(3, x="start", y=0.5), until=FINISHED)])
    model.graphs[0].nodes[0].input_ports.append(InputPort(id="start", default_value=1.0))
    default, other = mdf_loop.run(model), mdf_loop.run(model, start=10.0)
    assert other["x"] == default["x"] + 9.0


@pytest.mark.parametrize("times", [1, 2])
def test_another_node_watches_the_iterations(times):
    watcher = Node(id="W", input_ports=[InputPort(id="x"), InputPort(id="k")])
    watcher.parameters += [Parameter(id="largest", value="max(largest, x)"), Parameter(id="runs", value="runs + 1")]
    watcher.output_ports += [
        OutputPort(id="largest", value="largest"),
        OutputPort(id="at", value="k"),
        OutputPort(id="runs", value="runs"),
    ]
    every = Condition("EveryNLoopIterations", dependency="L", n=4)
    source = graph(loop_node(2), watcher, edges=["L.x -> W.x", "L.iteration -> W.k"], conditions={"W": every}, until=FINISHED)
    run = evaluated(source, times)
    order = ["L", "L", "W", "L", "L", "W", "L"]  # after 4 and 8 of 10 iterations
    assert run.order_of_execution == order * times
    assert outputs_of(run, "W")["at"] == 8


def test_every_n_counts_from_when_its_node_ran_like_every_n_calls():
    every = Condition("EveryNLoopIterations", dependency="L", n=4)
    source = graph(loop_node(3, trip_count=18), counter("W", "x"), edges=["L.x -> W.x"], conditions={"W": every}, until=FINISHED)
    assert evaluated(source).order_of_execution == ["L", "L", "W", "L", "L", "W", "L", "L"]


@pytest.mark.parametrize("other", [Condition("AtPass", n=0), Condition("AtPass", n=2)])
def test_every_n_counts_from_when_its_node_ran_whatever_let_it_run(other):
    either = Condition("Any", dependencies=[other, Condition("EveryNLoopIterations", dependency="L", n=4)])
    source = graph(loop_node(1), counter("W", "x"), edges=["L.x -> W.x"], conditions={"W": either}, until=FINISHED)
    ran = [k for k, name in enumerate(n for n in evaluated(source).order_of_execution) if name == "W"]
    first = other.kwargs["n"] + 1
    assert [at - k for k, at in enumerate(ran)] == [first, first + 4, *([first + 8] if first + 8 <= 10 else [])]


def test_conditions_stand_inside_others():
    late = Condition(
        "All", dependencies=[Condition("AfterNLoopIterations", dependency="L", n=4), Condition("Not", condition=FINISHED)]
    )
    source = graph(loop_node(2), counter("W", "x"), edges=["L.x -> W.x"], conditions={"W": late}, until=FINISHED)
    assert evaluated(source).order_of_execution == ["L", "L", "W", "L", "W", "L", "W", "L"]


def test_another_node_stops_the_loop_through_its_condition():
    judge = Node(id="J", input_ports=[InputPort(id="x")], output_ports=[OutputPort(id="go", value="x < 3")])
    loop = loop_node(1, trip_count="", cond="go", limit=1e12)
    loop.input_ports.append(InputPort(id="go", default_value=True))
    stepped = outputs_of(evaluated(graph(loop, judge, edges=["L.x -> J.x", "J.go -> L.go"], until=FINISHED)))
    assert stepped["finished"] is True
    assert stepped["x"] >= 3 > stepped["xs"][-2]


def test_a_loop_without_an_end_is_stopped_by_the_graph():
    loop = loop_node(5, trip_count="", cond="", limit=1e12)
    stepped = outputs_of(evaluated(graph(loop, until=Condition("AfterNLoopIterations", dependency="L", n=12))))
    assert (stepped["iteration"], stepped["finished"]) == (15, False)


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_files_name_the_conditions(suffix, tmp_path):
    every = Condition("EveryNLoopIterations", dependency="L", n=4)
    source = graph(loop_node(2), counter("W", "x"), edges=["L.x -> W.x"], conditions={"W": every}, until=FINISHED)
    path = tmp_path / f"stepped.{suffix}"
    getattr(Model(id="m", graphs=[source]), f"to_{suffix}_file")(str(path))
    run = evaluated(load_mdf(str(path)).graphs[0])
    assert run.order_of_execution == ["L", "L", "W", "L", "L", "W", "L"]
    outputs = mdf_loop.run(path)
    assert (outputs["iteration"], outputs["finished"], outputs["n_W"]) == (10, True, 2)


def test_the_mark_may_stand_at_the_loop_itself_and_the_loop_may_be_a_function():
    node = loop_node(None)
    loop = node.parameters.pop()
    node.functions.append(Function(id="run", function="onnx::Loop", args=loop.args, metadata=steps_of(4)))
    node.output_ports.append(OutputPort(id="iteration", value="run_iteration"))
    stepped = outputs_of(evaluated(graph(node, until=Condition("AfterNPasses", n=2))))
    assert stepped["iteration"] == 8
    assert len(stepped["xs"]) == 8


def test_a_python_body_can_be_stepped():
    def body(i, go, x):
        return go, x + i, x

    def source(iterations):
        node = loop_node(iterations, trip_count=9, x=1.0)
        node.parameters[-1].args["body"] = body
        node.output_ports = [port for port in node.output_ports if port.id not in ("y", "ks", "xs")]
        node.output_ports.append(OutputPort(id="xs", value="run[1]"))
        return graph(node, until=FINISHED if iterations else None)

    atomic, stepped = (outputs_of(evaluated(source(iterations))) for iterations in (None, 2))
    assert_holds(stepped, atomic)
    assert stepped["iteration"] == 9


def test_what_is_published_can_be_changed_without_changing_the_loop():
    add = "b (int64 i, bool go, double[2] x) => (bool go, double[2] x_out) { x_out = Add (x, x) }"
    node = loop_node(1, add, 5, x="start")
    node.parameters.append(Parameter(id="start", value=np.array([1.0, 2.0])))
    node.output_ports = [OutputPort(id="x", value="run")]
    seen = []
    with contextlib.redirect_stdout(io.StringIO()):
        engine = EvaluableGraph(graph(node, until=Condition("AfterNPasses", n=3)))
        run, evaluate = engine.enodes["L"].evaluable_parameters["run"], engine.enodes["L"].evaluate

        def evaluate_and_spoil(**how):
            evaluate(**how)
            seen.append(run.curr_value.tolist())
            run.curr_value[:] = -1.0

        engine.enodes["L"].evaluate = evaluate_and_spoil
        engine.evaluate()
    assert seen == [[2.0, 4.0], [4.0, 8.0], [8.0, 16.0]]


def test_two_graphs_do_not_share_a_loop():
    source = graph(loop_node(3), until=Condition("AfterNPasses", n=2))
    with contextlib.redirect_stdout(io.StringIO()):
        one, other = EvaluableGraph(source), EvaluableGraph(source)
        one.evaluate()
        other.evaluate()
    assert outputs_of(one)["iteration"] == outputs_of(other)["iteration"] == 6


def test_the_iteration_limit_and_errors_are_those_of_the_loop():
    with mdf_loop.options(max_iterations=7), pytest.raises(IterationLimit) as error:
        evaluated(graph(loop_node(2), until=FINISHED))
    assert error.value.iteration == 7
    broken = loop_node(2, DOUBLING.replace("Mul (y, factor)", "Gather (factor, i)"))
    broken.parameters[1].value = np.arange(5.0)
    with pytest.raises(IterationError, match="iteration 5 of") as error:
        evaluated(graph(broken, until=FINISHED))
    assert error.value.iteration == 5
    assert len(error.value.partial[2]) == 5


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"loop": 3}, "g/L: metadata loop must be {iterations_per_execution: <whole number>}; got 3"),
        (
            {"loop": {"iterations": 3}},
            "g/L: metadata loop must be {iterations_per_execution: <whole number>}; got {'iterations': 3}",
        ),
        (steps_of(0), "metadata loop: iterations_per_execution must be a whole number from 1 on; got 0"),
        (steps_of(2.5), "metadata loop: iterations_per_execution must be a whole number from 1 on; got 2.5"),
        (steps_of(True), "metadata loop: iterations_per_execution must be a whole number from 1 on; got True"),
    ],
)
def test_metadata_that_say_something_else_are_refused(metadata, message):
    node = loop_node(None)
    node.metadata = metadata
    with pytest.raises(MalformedBody, match=re.escape(message.removeprefix("g/"))):
        evaluated(graph(node))


@pytest.mark.parametrize("metadata", [{"loop": "of the heart"}, steps_of(2)])
def test_metadata_of_a_node_without_a_loop_are_its_own_business(metadata):
    node = counter("A")
    node.metadata = metadata
    assert outputs_of(evaluated(graph(node)), "A") == {"n_A": 1}


def test_a_node_has_one_stepped_loop_and_names_must_not_clash():
    node = loop_node(2)
    node.parameters.append(Parameter(id="run_iteration", value=1))
    with pytest.raises(MalformedBody, match="L: 'run_iteration' is what the stepped loop 'run' publishes; call the other thing"):
        evaluated(graph(node))
    node = loop_node(2)
    node.parameters.append(Parameter(id="other", function="onnx::Loop", args=node.parameters[-1].args))
    with pytest.raises(MalformedBody, match="L: loops 'run' and 'other' are both stepped; a node has one stepped loop"):
        evaluated(graph(node))


def test_conditions_are_real_conditions_found_by_name():
    for kind in (LoopFinished, AfterNLoopIterations, EveryNLoopIterations):
        assert getattr(graph_scheduler.condition, kind.__name__) is kind
        assert issubclass(kind, graph_scheduler.condition.Condition)
    mdf_loop.unregister()
    try:
        assert not hasattr(graph_scheduler.condition, "LoopFinished")
    finally:
        mdf_loop.register()
    assert graph_scheduler.condition.LoopFinished is LoopFinished


@pytest.mark.parametrize("dependency", ["A", "Z"])
def test_conditions_want_a_stepped_loop(dependency):
    source = graph(loop_node(2), counter("A"), until=Condition("LoopFinished", dependency=dependency))
    with pytest.raises(ArgumentError) as error:
        evaluated(source)
    assert str(error.value) == (
        f"LoopFinished depends on '{dependency}', which is not a node with a stepped loop: an onnx::Loop in a graph that MDF's "
        "engine evaluates, with metadata {loop: {iterations_per_execution: <n>}}"
    )


def test_conditions_want_whole_numbers():
    with pytest.raises(KindError, match=re.escape("AfterNLoopIterations: n must be a whole number; got 2.5")):
        AfterNLoopIterations("L", 2.5)
    with pytest.raises(ArgumentError, match="EveryNLoopIterations: n must be at least 1; got 0"):
        EveryNLoopIterations("L", 0)


def test_a_stepped_loop_inside_a_body_runs_in_mdf_s_engine():
    inner = graph(loop_node(3, x="start", y=0.5), until=FINISHED)
    inner.nodes[0].input_ports.append(InputPort(id="start"))
    inner.metadata = {"inputs": ["i", "go", "start"], "outputs": ["go", "x"]}
    steps = mdf_loop.loop(3, True, 1.0, body=inner)
    inner.nodes[0].metadata = None
    inner.conditions = None
    inner.nodes[0].output_ports = [port for port in inner.nodes[0].output_ports if port.id == "x"]
    assert steps == mdf_loop.loop(3, True, 1.0, body=inner)
