"""``prepare`` and ``Results``: a model made ready once gives what ``run`` and MDF's engine give, each time it is called."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from modeci_mdf.mdf import Condition, ConditionSet, Edge, Graph, InputPort, Model, Node, OutputPort, Parameter, ParameterCondition
from scheduled_models import assert_same

import mdf_loop
from mdf_loop.errors import ArgumentError, IterationError, IterationLimit, LoopTimeout, MalformedBody
from mdf_loop.integrations.engine_runs import run_in_mdf
from mdf_loop.integrations.input_places import with_inputs
from mdf_loop.models import opening
from mdf_loop.models.verifying import verify
from mdf_loop.options import random_stream
from mdf_loop.settings.random_streams import RandomStream

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.yaml"))
DIFFUSION = ROOT / "examples" / "drift_diffusion.yaml"


def in_engine(graph, seed=3, **inputs):
    """What MDF's engine gives."""
    with random_stream(RandomStream(seed)):
        return run_in_mdf(with_inputs(graph, inputs))


def node_of(values, outputs, ports=(), functions=()):
    """A node whose parameters are evaluated as they stand."""
    return Node(
        id="n",
        input_ports=[InputPort(**port) for port in ports],
        parameters=[Parameter(id=key, value=value) for key, value in values.items()],
        functions=list(functions),
        output_ports=[OutputPort(id=f"o{k}", value=text) for k, text in enumerate(outputs)],
    )


PLAIN = {
    "literals": node_of({"a": 1, "b": 2.0, "c": [1, 2.5], "d": True, "e": "3"}, ["a", "b", "c", "d", "e", "4", "2.0"]),
    "whole floats": node_of({"a": "2.5 * 2", "b": "a / 2", "c": "numpy.array([2.0])"}, ["a", "b", "c", "a * b"]),
    "chains": node_of({"a": [1.0, 2.0], "b": "a * 2", "c": "b[1] + len(a)"}, ["c", "b[0]", "a"]),
    "ports": node_of({"k": "x + y"}, ["k"], [{"id": "x", "default_value": 3}, {"id": "y", "shape": (2,), "type": "float"}]),
    "unset ports": node_of({}, ["x", "y"], [{"id": "x"}, {"id": "y", "shape": (3,)}]),
    "state": node_of({"a": "a + 1", "b": "a * 2"}, ["a", "b"]),
    "time": Node(
        id="n",
        parameters=[Parameter(id="a", default_initial_value=1, time_derivative="2"), Parameter(id="b", value="a / 2")],
        output_ports=[OutputPort(id="o", value="a"), OutputPort(id="half", value="b")],
    ),
    "parameter conditions": Node(
        id="n",
        parameters=[
            Parameter(id="a", value=3),
            Parameter(id="b", default_initial_value=1.0, conditions=[ParameterCondition(id="c", test="a > 2", value=5)]),
        ],
        output_ports=[OutputPort(id="o", value="b")],
    ),
    "noise": node_of({"a": "numpy.random.normal(0, 1, 3)", "b": "a + numpy.random.normal(2, 3)"}, ["a", "b"]),
    "a number that decides": Node(
        id="n",
        parameters=[
            Parameter(id="x", value=[[1.0, 2.0], [3.0, 4.0]]),
            Parameter(id="axis", value=1),
            Parameter(id="f", function="onnx::Gather", args={"data": "x", "indices": [0], "axis": "axis"}),
        ],
        output_ports=[OutputPort(id="o", value="f")],
    ),
    "standard function": Node(
        id="n",
        parameters=[
            Parameter(id="s", value=[1.0, 3.0]),
            Parameter(id="f", function="linear", args={"variable0": "s", "slope": 2, "intercept": "1"}),
        ],
        output_ports=[OutputPort(id="o", value="f")],
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_operators_evaluate_is_what_mdfs_engine_gives(name):
    graph = Graph(id="g", nodes=[PLAIN[name]])
    model = mdf_loop.prepare(graph)
    assert model.once is not None, model.left_to_mdf
    for _ in range(2):
        assert_same(model(seed=3), in_engine(graph))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_give_what_mdfs_engine_gives(path):
    model = mdf_loop.prepare(path)
    expected = in_engine(mdf_loop.load(path).graphs[0])
    with mdf_loop.options(engine="numpy"):  # tanh of machine code, which other tests may have kept, has other last bits
        for _ in range(3):
            assert_same(model(seed=3), expected)


def test_values_that_are_given_arrive_as_in_mdfs_engine():
    graph = mdf_loop.load(DIFFUSION).graphs[0]
    model = mdf_loop.prepare(graph)
    for inputs in ({"drift": 3}, {"noise": np.float32(0.5)}, {"decision.bound": 0.5, "start": [0.1]}, {"max_steps": np.int64(4)}):
        assert_same(model(seed=3, **inputs), in_engine(graph, **inputs))


def test_edges_weights_and_the_order_of_nodes():
    receiver = node_of({}, ["x + 1"], [{"id": "x"}])
    sender = Node(id="s", parameters=[Parameter(id="p", value=[1.0, 2.0])], output_ports=[OutputPort(id="o", value="p")])
    edge = Edge(id="e", sender="s", sender_port="o", receiver="n", receiver_port="x", parameters={"weight": [2, 0.5]})
    graph = Graph(id="g", nodes=[receiver, sender], edges=[edge])
    model = mdf_loop.prepare(graph)
    assert model.once is not None
    assert_same(model(), in_engine(graph))


def conditions():
    return ConditionSet(node_specific={"n": Condition(type="AfterPass", n=1)}, termination={})


LEFT = {
    "conditions": Graph(id="g", nodes=[node_of({"a": 1}, ["a"])], conditions=conditions()),
    "two edges": Graph(
        id="g",
        nodes=[
            node_of({}, ["x"], [{"id": "x"}]),
            *(Node(id=k, parameters=[Parameter(id="p", value=2)], output_ports=[OutputPort(id="o", value="p")]) for k in "ab"),
        ],
        edges=[Edge(id=k, sender=k, sender_port="o", receiver="n", receiver_port="x") for k in "ab"],
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_has_more_to_it_is_left_to_mdfs_engine(name):
    model = mdf_loop.prepare(LEFT[name])
    assert model.once is None
    assert model.left_to_mdf
    assert_same(model(), in_engine(LEFT[name]))


def test_mdfs_engine_neither_counts_passes_nor_words_errors(monkeypatch):
    """One evaluation with conditions is the loop of its passes, and what fails is named by who ran it."""
    expected = in_engine(LEFT["conditions"])
    monkeypatch.setattr("modeci_mdf.execution_engine.EvaluableGraph", None)
    found = mdf_loop.run(LEFT["conditions"])
    assert_same(found, expected)
    assert (found.iterations, found.stop) == (3, "condition")
    with pytest.raises(IterationError, match=r"divide 'n\.a' failed on \(int, int\): .*division by zero") as caught:
        mdf_loop.run(Graph(id="g", nodes=[node_of({"a": "1 / 0"}, ["a"])]))
    assert caught.value.__notes__ == ["in MDF parameter or function 'a'", "in MDF node 'n'"]


def test_run_and_prepare_share_one_cache_by_content(monkeypatch):
    made = []
    opening._kept.clear()
    monkeypatch.setattr(opening, "_of_mdf", lambda *args, original=opening._of_mdf: made.append(args) or original(*args))
    mdf_loop.run(DIFFUSION, max_steps=1)
    mdf_loop.prepare(DIFFUSION)
    mdf_loop.run(str(DIFFUSION), max_steps=1)
    assert len(made) == 1
    mdf_loop.run(mdf_loop.load(DIFFUSION), max_steps=1)
    mdf_loop.prepare(mdf_loop.load(DIFFUSION))
    assert len(made) == 2


def test_a_file_that_has_changed_is_read_again_and_so_is_one_that_it_names(tmp_path):
    body = "<ir_version: 10, opset_import: ['': 18]> b (int64 i, bool c, double x) => (bool c, double y) { y = Add (x, x) }"
    onnx.save(onnx.parser.parse_model(body.replace("'", '"')), tmp_path / "body.onnx")
    path = tmp_path / "m.yaml"
    text = """
m: {graphs: {g: {nodes: {n: {
  parameters:
    {body: {value: {onnx_file: body.onnx}}, run: {function: "onnx::Loop", args: {M: 3, cond: true, x: START, body: body}}},
  output_ports: {out: {value: run}}}}}}}
"""
    path.write_text(text.replace("START", "1.0"))
    assert mdf_loop.run(path)["out"] == 8
    path.write_text(text.replace("START", "10.0"))
    assert mdf_loop.run(path)["out"] == 80
    onnx.save(onnx.parser.parse_model(body.replace("'", '"').replace("Add (x, x)", "Identity (x)")), tmp_path / "body.onnx")
    assert mdf_loop.run(path)["out"] == 10


def test_a_model_that_is_changed_does_not_change_what_was_prepared():
    graph = Graph(id="g", nodes=[node_of({"a": [1.0, 2.0]}, ["a"])])
    model = mdf_loop.prepare(graph)
    graph.nodes[0].parameters[0].value = [5.0]
    assert model()["o0"].tolist() == [1, 2]
    assert mdf_loop.run(graph)["o0"].tolist() == [5]


def test_results_share_no_memory_with_the_model_or_with_each_other():
    model = mdf_loop.prepare(Graph(id="g", nodes=[node_of({"a": [1.0, 2.0], "b": "a"}, ["a", "b", "a"])]))
    first = model()
    for value in first.values():
        value[...] = -1
    assert all(value.tolist() == [1, 2] for value in model().values())


def test_inputs_and_outputs_say_what_there_is():
    model = mdf_loop.prepare(DIFFUSION)
    assert list(model.inputs) == ["drift", "noise", "bound", "start", "non_decision_time", "dt", "max_steps", "body"]
    assert model.inputs["drift"].default == 0.8
    assert model.inputs["drift"].place == "node decision, input port drift"
    assert str(model.inputs["max_steps"].type) == "int64[]"
    assert list(model.outputs) == ["evidence", "reaction_time", "path"]
    assert "drift" in repr(model)
    assert "bound: float64[] = 1.0" in repr(model.inputs)


def test_inputs_of_an_onnx_model():
    head = '<ir_version: 8, opset_import: ["": 18]>'
    text = f"{head} g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {{1, 2}}> {{ y = Mul (x, w) }}"
    model = mdf_loop.prepare(onnx.parser.parse_model(text))
    assert str(model.inputs["x"].type) == "float32[2]"
    assert model.inputs["x"].default is None
    assert model.inputs["w"].default.tolist() == [1, 2]
    assert model(x=[1, 1])["y"].tolist() == [1, 2]


@pytest.mark.parametrize(
    "names", [[], ["x"], ["A.x"], ["B.x"], ["A.x", "B.x"], ["A.x", "B.x", "C.z"], ["z"], ["C.z", "x"]], ids=str
)
def test_what_is_given_by_node_and_port_is_not_drawn_as_well(names, tmp_path):
    def required(name, port):
        ports = [InputPort(id=port, shape=(2,), type="float", metadata={"required": True})]
        return Node(id=name, input_ports=ports, output_ports=[OutputPort(id=f"of_{name}", value=f"{port} * 2.0")])

    source = Graph(id="g", nodes=[required("A", "x"), required("B", "x"), required("C", "z")])
    given = {name: np.full(2, float(k)) for k, name in enumerate(names)}
    assert mdf_loop.prepare(source).explain(**given) == "no Loop or Scan ran"
    path = tmp_path / "model.yaml"
    Model(id="m", graphs=[source]).to_yaml_file(str(path))
    report = verify(path, given)
    assert report.disagreements == []
    assert {name: value.tolist() for name, value in report.inputs.items() if name in given} == {
        name: value.tolist() for name, value in given.items()
    }


def test_explain_tells_of_the_loops():
    assert "drift_step = Mul (drift, dt)" in mdf_loop.prepare(DIFFUSION).explain()
    assert mdf_loop.prepare(Graph(id="g", nodes=[node_of({"a": 1}, ["a"])])).explain() == "no Loop or Scan ran"


def test_a_pickled_model_gives_the_same_in_another_process(tmp_path):
    model = mdf_loop.prepare(DIFFUSION)
    expected = model(seed=5)
    copy = pickle.loads(pickle.dumps(model))
    assert_same(copy(seed=5), expected)
    (tmp_path / "model").write_bytes(pickle.dumps(model))
    code = "import pickle, sys; m = pickle.load(open(sys.argv[1], 'rb')); print(m(seed=5)['reaction_time'].tobytes().hex())"
    printed = subprocess.run([sys.executable, "-c", code, tmp_path / "model"], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == expected["reaction_time"].tobytes().hex()


# Results


def test_results_are_a_dict_and_say_what_else_is_known():
    r = mdf_loop.run(DIFFUSION, drift=0.8, seed=7)
    assert isinstance(r, dict)
    assert r.iterations == len(r["path"])
    assert (r.stop, r.seed, dict(r.inputs)) == ("condition", 7, {"drift": 0.8})
    assert mdf_loop.run(DIFFUSION, seed=7, max_steps=5).stop == "trip count"
    assert mdf_loop.run(DIFFUSION, seed=7, max_steps=5).iterations == 5


def test_a_seed_is_drawn_where_none_was_given_and_repeats_the_run():
    r = mdf_loop.run(DIFFUSION)
    assert isinstance(r.seed, int)
    assert_same(mdf_loop.run(DIFFUSION, seed=r.seed), r)
    assert mdf_loop.run(DIFFUSION).seed != r.seed


def test_a_seed_sequence_is_a_seed():
    found = [mdf_loop.run(DIFFUSION, seed=np.random.SeedSequence(4, spawn_key=(1, k)))["reaction_time"] for k in (0, 0, 1)]
    assert found[0] == found[1] != found[2]
    with mdf_loop.options(seed=np.random.SeedSequence(4, spawn_key=(1, 0))):
        assert mdf_loop.run(DIFFUSION)["reaction_time"] == found[0]


@pytest.mark.parametrize(
    ("chosen", "kind", "stop"),
    [({"max_iterations": 9}, IterationLimit, "max_iterations"), ({"timeout": 1e-6}, LoopTimeout, "timeout")],
)
def test_what_ends_a_run_early_is_said_and_keeps_its_results(chosen, kind, stop):
    with mdf_loop.options(**chosen), pytest.raises(kind) as info:
        mdf_loop.run(DIFFUSION, seed=7, bound=100.0)
    assert info.value.results.stop == stop
    assert info.value.results.seed == 7
    if stop == "max_iterations":
        assert info.value.results.iterations == 9
        assert len(info.value.results["path"]) == 9


def test_a_failing_loop_says_where_it_stands():
    text = "b (int64 i, bool c, double x) => (bool c, double y, double s) { y = Gather (w, i) s = Identity (x) }"
    node = node_of({"w": [1.0, 2.0], "body": {"onnx": text}}, ["run[0]", "run[1]"])
    node.parameters.append(Parameter(id="run", function="onnx::Loop", args={"M": 5, "cond": True, "x": 0.0, "body": "body"}))
    with pytest.raises(IterationError) as info:
        mdf_loop.run(Graph(id="g", nodes=[node]))
    assert info.value.iteration == 2
    assert info.value.outputs["o1"].tolist() == [0, 1]
    assert info.value.__notes__ == ["in MDF parameter or function 'run' (onnx::Loop)", "in MDF node 'n'"]


def test_iterations_of_several_loops_are_distinguished():
    def loop(name, m):
        return Parameter(id=name, function="onnx::Loop", args={"M": m, "cond": True, "x": 0.0, "body": "body"})

    node = node_of({"body": {"onnx": "b (int64 i, bool c, double x) => (bool c, double x) {}"}}, ["p", "q"])
    node.parameters += [loop("p", 2), loop("q", 3)]
    r = mdf_loop.run(Graph(id="g", nodes=[node]))
    assert r.iterations == {"n.p": 2, "n.q": 3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"collect": True}, "collect without steps"),
        ({"every": 2}, "every without record"),
        ({"record": 3}, "record must be a list of names"),
        ({"record": ["x"], "every": 0}, "every must be a whole number from 1 on"),
        ({"bund": 3}, "did you mean 'bound'"),
    ],
)
def test_what_makes_no_sense_is_said(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        mdf_loop.run(DIFFUSION, **arguments)


def test_a_port_called_like_an_argument_is_given_with_its_node():
    graph = Graph(id="g", nodes=[node_of({"trials": 3, "record": 1}, ["trials + record"])])
    assert mdf_loop.run(graph, **{"n.trials": 5, "n.record": 2})["o0"] == 7


def test_a_model_with_two_graphs_asks_for_one():
    with pytest.raises(ArgumentError, match="run one of them"):
        mdf_loop.prepare(Model(id="m", graphs=[Graph(id="a"), Graph(id="b")]))


def test_texts_that_are_not_on_the_list_are_refused_when_the_model_runs():
    graph = Graph(id="g", nodes=[node_of({"a": "__import__('os').getcwd()"}, ["a"])])
    with pytest.raises(MalformedBody, match="trusted"):
        mdf_loop.prepare(graph)()
