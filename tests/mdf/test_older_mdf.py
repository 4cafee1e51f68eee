"""MDF 0.4.13, which PsyNeuLink asks for: its input ports have no ``default_value`` and no ``reduce``.

``.ci/run`` runs this file with both versions.
"""

import numpy as np
import onnx
import pytest
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.mdf import Condition, ConditionSet, Edge, Graph, InputPort, Model, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.cli import main
from mdf_loop.errors import LoopError
from mdf_loop.integrations.engine_runs import run_in_mdf
from mdf_loop.integrations.input_places import with_inputs
from mdf_loop.readers.mdf.input_ports import has_defaults, with_values

ENGINES = ("interpret", "numpy", "jit")

IS_OLD = pytest.mark.skipif(has_defaults(), reason="this version of MDF has default values")

LOOP = {
    "function": "onnx::Loop",
    "args": {"M": 5, "cond": True, "v": "x", "body": {"carried": {"v": "v + step"}}},
}


def model(**run):
    """Two nodes: the second adds up what the first makes of an input of the model."""
    first = Node(id="a", input_ports=[InputPort("x"), InputPort("step")], output_ports=[OutputPort("o", value="y")])
    first.parameters = [Parameter("y", **(run or {"value": "2 * x + step"}))]
    last = Node(id="b", input_ports=[InputPort("i")], output_ports=[OutputPort("total", value="s")])
    last.parameters = [Parameter("s", default_initial_value=0, value="s + i")]
    graph = Graph(id="g", nodes=[first, last])
    graph.edges.append(Edge(id="e", sender="a", sender_port="o", receiver="b", receiver_port="i"))
    return Model(id="m", graphs=[graph])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("run", [{}, LOOP], ids=["expression", "loop"])
def test_inputs_are_given(run, engine):
    with mdf_loop.options(engine=engine):
        assert mdf_loop.run(model(**run), x=3.0, step=0.5)["total"] == (5.5 if run else 6.5)


@pytest.mark.parametrize("engine", ENGINES)
def test_inputs_are_given_to_steps(engine):
    with mdf_loop.options(engine=engine):
        found = mdf_loop.run(model(), x=3.0, step=0.5, steps=4, collect=True)
    assert np.ravel(found["total"]).tolist() == [6.5, 13.0, 19.5, 26.0]


def test_inputs_are_given_in_mdfs_own_engine():
    """A condition that only MDF's scheduler knows."""
    made = model()
    made.graphs[0].conditions = ConditionSet(node_specific={"b": Condition("EveryNCalls", dependency="a", n=2)})
    assert run_in_mdf(with_inputs(made.graphs[0], {"x": 3.0, "step": 0.5}))["total"] == 6.5
    (graph,) = model().graphs
    ids = [(graph.nodes[0].id, port.id) for port in graph.nodes[0].input_ports]
    graph = with_values(graph, dict(zip(ids, (3.0, 0.5), strict=True)))
    evaluable = EvaluableGraph(graph, verbose=False)
    for total in (6.5, 13.0):
        evaluable.evaluate()
        assert evaluable.enodes["b"].evaluable_outputs["total"].curr_value == total


def test_a_sweep_gives_inputs():
    found = mdf_loop.sweep(model(), {"x": [1.0, 2.0]}, step=0.5)
    assert found["total"].values.tolist() == [2.5, 4.5]


def test_the_model_to_begin_with_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments in (["new", "first"], ["check", "first.yaml"], ["run", "first.yaml", "--set", "rate=0.7"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 0


WORDS = "takes modeci-mdf 0.4.15 or later; 0.4.13 is installed"


@IS_OLD
@pytest.mark.parametrize(("key", "value"), [("default_value", 3.0), ("reduce", "add")])
def test_a_file_with_what_it_does_not_have_is_refused_in_words(key, value, tmp_path):
    path = tmp_path / "m.yaml"
    text = "m: {graphs: {g: {nodes: {n: {input_ports: {x: {KEY: VALUE}}, output_ports: {y: {value: x}}}}}}}"
    path.write_text(text.replace("KEY", key).replace("VALUE", str(value)))
    with pytest.raises(LoopError, match=f"'{key}' of an input port {WORDS}"):
        mdf_loop.load(path)


@IS_OLD
def test_an_onnx_model_whose_input_has_a_value_is_refused_in_words():
    text = """<ir_version: 8, opset_import: ["": 18]>
    g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }"""
    with pytest.raises(LoopError, match=WORDS):
        mdf_loop.convert(onnx.parser.parse_model(text))
