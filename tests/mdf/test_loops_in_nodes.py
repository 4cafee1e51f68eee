"""Nodes that loop: in files, under the scheduler, with random numbers, and what is refused of them."""

import importlib

import numpy as np
import pytest
from bodies import COUNTER
from engines import ENGINES
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.mdf import Condition, ConditionSet, Edge, Graph, InputPort, Model, Node, OutputPort, Parameter
from modeci_mdf.utils import load_mdf
from nodes_that_loop import SWAPPING_SUM, evaluated, loop_node, outputs

import mdf_loop
from mdf_loop import options, readers
from mdf_loop.calls import prepared
from mdf_loop.errors import LoopError, MalformedBody

NOISE = "b (int64 i, bool c, float[1] x) => (bool c, float[1] y, float[1] s) { s = RandomNormal <shape = [1]> () y = Add (x, s) }"


# Files


@pytest.mark.parametrize("suffix", ["json", "yaml"])
@pytest.mark.parametrize("function", [False, True], ids=["as Parameter", "as Function"])
def test_model_still_runs_after_a_round_trip_through_a_file(suffix, function, tmp_path):
    args = {"M": 4, "cond": "", "v_initial": "x0", "h": "h0"}
    node = loop_node(SWAPPING_SUM, args, {"x0": 1.0, "h0": 1.0}, {"gain": 10}, {"x": "run[0]", "t": "run[2]"}, function)
    model = Model(id="m", graphs=[Graph(id="g", nodes=[node])])
    path = tmp_path / f"m.{suffix}"
    getattr(model, f"to_{suffix}_file")(str(path))
    loaded = load_mdf(str(path))
    again = tmp_path / f"again.{suffix}"
    getattr(loaded, f"to_{suffix}_file")(str(again))
    assert again.read_text() == path.read_text()
    for source in (model, loaded, load_mdf(str(again))):
        result = outputs(evaluated(*source.graphs[0].nodes))
        assert [np.asarray(v).tolist() for v in result.values()] == [5, [20, 30, 50, 80]]


COMPUTES = """
m:
  graphs:
    g:
      nodes:
        n:
          parameters:
            shift: {value: 0.5}
            body: {value: {carried: {x: 2 * x, k: k + 1}, collected: {path: x}, while: x < 20}}
            run: {function: "onnx::Loop", args: {M: 99, x: 1.0, k: 0, body: body}}
            steep: {function: linear, args: {variable0: shift, slope: 3.0, intercept: 0.0}}
            moved: {value: run.x + shift}
            twice: {value: 2 * moved + steep}
            top: {value: numpy.max(run.path) * run.k}
          output_ports: {twice: {value: twice}, top: {value: top}}
"""


def test_parameters_compute_with_what_loops_and_functions_give(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(COMPUTES)
    expected = {"twice": 66.5, "top": 160.0}
    for engine in ENGINES:
        with options(engine=engine):
            assert dict(mdf_loop.run(path)) == expected
    assert outputs(evaluated(*mdf_loop.load(path).graphs[0].nodes), "n") == expected
    assert {name: found.tolist() for name, found in mdf_loop.run(path, steps=2, collect=True).items()} == {
        name: [value] * 2 for name, value in expected.items()
    }
    assert mdf_loop.sweep(path, {"shift": [0.5, 1.5]}).twice.values.tolist() == [66.5, 71.5]
    assert [*map(float, mdf_loop.backend.run_model(mdf_loop.to_onnx(path), []))] == [*expected.values()]


def test_a_loop_that_reads_what_its_result_gives_is_refused(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(COMPUTES.replace("x: 2 * x", "x: 2 * x * moved"))
    with pytest.raises(LoopError, match="'moved' is None"):
        mdf_loop.run(path)


# Under the scheduler


def counting_nodes():
    """A node that counts its runs and a loop that reads the count."""
    counter = Node(
        id="counter",
        parameters=[Parameter(id="count", value="count + 1", default_initial_value=0)],
        output_ports=[OutputPort(id="count", value="count")],
    )
    looping = loop_node(COUNTER, {"M": "n", "cond": True, "v_initial": 0}, parameters={"one": 1})
    looping.input_ports.append(InputPort(id="n", type="int"))
    looping.parameters.append(Parameter(id="runs", value="runs + 1", default_initial_value=0))
    looping.output_ports.append(OutputPort(id="runs", value="runs"))
    return counter, looping, Edge(id="e", sender="counter", sender_port="count", receiver="looping", receiver_port="n")


@pytest.mark.parametrize(
    ("condition", "runs", "last"),
    [
        ({"type": "EveryNCalls", "kwargs": {"dependency": "counter", "n": 2}}, 3, 6),
        ({"type": "AfterNCalls", "kwargs": {"dependency": "counter", "n": 4}}, 3, 6),
        ({"type": "AtPass", "kwargs": {"n": 2}}, 1, 3),
        ({"type": "Always", "kwargs": {}}, 6, 6),
    ],
    ids=["EveryNCalls", "AfterNCalls", "AtPass", "Always"],
)
def test_loop_node_runs_under_scheduler_conditions_as_any_node_does(condition, runs, last):
    counter, looping, edge = counting_nodes()
    conditions = ConditionSet(
        node_specific={"counter": Condition(type="Always"), "looping": Condition(type=condition["type"], **condition["kwargs"])},
        termination={"environment_state_update": Condition(type="AfterNPasses", n=6)},
    )
    result = outputs(evaluated(counter, looping, edges=[edge], conditions=conditions))
    assert (result["runs"], result["out"]) == (runs, last)


def test_threshold_on_the_output_of_a_loop_ends_the_run():
    counter, looping, edge = counting_nodes()
    threshold = Condition(type="Threshold", dependency="looping", parameter="out", threshold=4, comparator=">=")
    conditions = ConditionSet(
        node_specific={"counter": Condition(type="Always"), "looping": Condition(type="EveryNCalls", dependency="counter", n=1)},
        termination={"environment_state_update": threshold},
    )
    result = outputs(evaluated(counter, looping, edges=[edge], conditions=conditions))
    assert (result["runs"], result["out"]) == (4, 4)


def test_loop_carries_its_result_on_from_evaluation_to_evaluation():
    node = loop_node(COUNTER, {"M": 3, "cond": True, "v_initial": "state"}, parameters={"one": 1}, outputs={"out": "state"})
    node.parameters.append(Parameter(id="state", value="run", default_initial_value=0))
    graph = EvaluableGraph(Graph(id="g", nodes=[node]))
    seen = []
    for _ in range(3):
        graph.evaluate()
        seen.append(float(outputs(graph)["out"]))
    assert seen == [3, 6, 9]


@pytest.mark.parametrize("called", ["onnx::Loop", "onnx::Scan", "onnx::If"])
def test_node_that_is_evaluated_again_does_not_read_its_body_again(called, monkeypatch):
    read = []
    prepared._cache.clear()
    monkeypatch.setattr(prepared, "read", lambda *args: read.append(args[0]) or readers.read(*args))
    same = "() => (x) { }"
    sources = {
        "onnx::Loop": (COUNTER, {"M": 2, "cond": True, "v_initial": "x"}, 1),
        "onnx::Scan": (
            "b (float s, float v) => (float t) { t = Add (s, v) }",
            {"s": 0, "v": "[x, x]", "num_scan_inputs": 1},
            2,
        ),  # once for its names
        "onnx::If": ({"then_branch": f"t {same}", "else_branch": f"e {same}"}, {"cond": True}, 2),
    }
    body, args, count = sources[called]
    node = loop_node(body, args, parameters={"one": 1} if called == "onnx::Loop" else {}, called=called)
    node.parameters.append(Parameter(id="x", value="x + 1", default_initial_value=0))
    graph = EvaluableGraph(Graph(id="g", nodes=[node]))
    for _ in range(4):
        graph.evaluate()
    assert len(read) == count


# Random numbers


def noise_graph(names=("a",)):
    nodes = []
    for name in names:
        node = loop_node(NOISE, {"M": 3, "cond": True, "v_initial": [0.0]}, outputs={"s": "run[1]"})
        node.id = name
        nodes.append(node)
    return EvaluableGraph(Graph(id="g", nodes=nodes))


def drawn(graph, name="a"):
    graph.evaluate()
    return outputs(graph, name)["s"].ravel().tolist()


def test_two_graphs_under_the_same_seed_are_equal_and_two_seeds_are_not():
    results = []
    for seed in (1, 1, 2, None):
        with options(seed=seed):
            results.append(drawn(noise_graph()))
    assert results[0] == results[1]
    assert results[0] != results[2]
    assert results[0] != results[3]


def test_successive_evaluations_of_one_graph_differ_and_repeat_with_the_seed():
    sequences = []
    for _ in range(2):
        graph = noise_graph()
        with options(seed=3):
            sequences.append([drawn(graph) for _ in range(3)])
    assert sequences[0] == sequences[1]
    assert len({tuple(values) for values in sequences[0]}) == 3


def test_nodes_of_one_graph_draw_different_numbers():
    with options(seed=3):
        graph = noise_graph(("a", "b"))
        assert drawn(graph, "a") != outputs(graph, "b")["s"].ravel().tolist()


@pytest.mark.filterwarnings("ignore:the model runs in MDF:mdf_loop.errors.LoopWarning")
@pytest.mark.parametrize("run", [mdf_loop.run, lambda graph: mdf_loop.run(graph, steps=2), mdf_loop.to_onnx])
def test_onnx_text_without_braces_around_it_is_refused_with_its_place(run):
    text = "b (int64 i, bool go, float x) => (bool go, float y) { y = Add (x, x) }"
    loop = Parameter(id="count", function="onnx::Loop", args={"M": 3, "cond": "", "v": "1.0", "body": text})
    node = Node(id="n", parameters=[loop], output_ports=[OutputPort(id="y", value="count")])
    with pytest.raises(MalformedBody, match=r'n/count.*: ONNX text is not an MDF expression; write \{onnx: "\.\.\."\}'):
        run(Graph(id="g", nodes=[node]))


@pytest.mark.parametrize("run", [mdf_loop.run, mdf_loop.to_onnx])
def test_onnx_text_as_a_parameters_value_is_refused_with_its_place(run):
    text = "b (int64 i, bool go, float x) => (bool go, float y) { y = Add (x, x) }"
    node = Node(id="n", parameters=[Parameter(id="body", value=text)], output_ports=[OutputPort(id="y", value="body")])
    with pytest.raises(MalformedBody) as error:
        run(Graph(id="g", nodes=[node]))
    assert str(error.value) == 'g/n/body: ONNX text is not an MDF expression; write {onnx: "..."} around it'


def test_nothing_of_mdf_is_replaced_twice():
    from mdf_loop.integrations.registration import CHANGES, STANDARD

    modules = [importlib.import_module(name) for name in CHANGES if name != STANDARD]  # which is changed as it is asked
    places = [(owner, name) for module in modules for owner, name, _ in CHANGES[module.__name__](module)]
    assert len(places) > 20
    assert len(set(places)) == len(places)
