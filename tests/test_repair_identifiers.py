"""Ids that are no Python names: renamed in the same way wherever they stand, and never taken for code."""

import numpy as np
import onnx
import pytest
from imported import X, expected, one_loop, write_signed
from modeci_mdf.interfaces.onnx.importer import id_to_port
from modeci_mdf.mdf import (
    Condition,
    ConditionSet,
    Edge,
    Function,
    Graph,
    InputPort,
    Model,
    Node,
    OutputPort,
    Parameter,
    ParameterCondition,
)
from onnx import helper

import mdf_loop
from mdf_loop.convert.identifiers import is_name
from mdf_loop.convert.imported_models import repaired

CODE = "__import__('os').system('false')"

NAMES = [
    "x.3",
    "/A/Add",
    "10",
    "lambda",
    "None",
    "a b",
    '"quoted"',
    "it's",
    "größe",
    "ﬁ",
    "名",
    "\n",
    "💡",
    "x-1",
    CODE,
    "a::b",
    "..",
    "_",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_a_model_runs_whatever_its_values_and_nodes_are_called(name, suffix, tmp_path):
    model = renamed_model(name)
    path = write_signed(model, tmp_path / f"model{suffix}")
    loaded = mdf_loop.load(path)
    ((_, body),) = loaded.graphs[0].nodes[1].get_parameter("body").value.items()
    ids = [
        *(node.id for node in loaded.graphs[0].nodes),
        *body["nodes"],
        *body["metadata"]["inputs"],
        *body["metadata"]["outputs"],
    ]
    ids += [port.id for node in loaded.graphs[0].nodes for port in (*node.input_ports, *node.output_ports)]
    assert all(map(is_name, ids))
    (result,) = mdf_loop.run(path, **{id_to_port(f"{name}start"): X, "n": 3}).values()
    np.testing.assert_allclose(result, expected(model, **{f"{name}start": X, "n": 3})[0], rtol=1e-6)


def renamed_model(name):
    """A loop between other nodes, everything in it called after a name."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 20]>\n'
        + one_loop("""b (int64 i, bool c, float[2,3] a) => (bool c2, float[2,3] a2) {
            [cast] f = Cast <to = 1> (i)
            [add] s = Add (a, f)
            [scale] a2 = Mul (s, start)
            [id] c2 = Identity (c)
        }""")
        .replace("(n, go, x)", "(n, go, e)")
        .replace("[loop]", "[first] e = Exp (start)\n[loop]")
        .replace("float[2,3] x", "float[2,3] start")
    )
    rename_graph(model.graph, name)
    onnx.checker.check_model(model)
    return model


def rename_graph(graph, name):
    def new(old):
        return old if old in ("n", "") else f"{name}{old}"

    for value in (*graph.input, *graph.output):
        value.name = new(value.name)
    for node in graph.node:
        node.name = new(node.name)
        node.input[:] = [new(old) for old in node.input]
        node.output[:] = [new(old) for old in node.output]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                rename_graph(attribute.g, name)


def test_names_stay_different(tmp_path):
    source = """d (float[3] "x.1", float[3] "x-1", float[3] x_1) => (float[3] y) {
      ["/sub"] s = Sub ("x.1", "x-1")
      ["_sub"] t = Sub (x_1, "x-1")
      ["sub"] y = Mul (s, t)
    }"""
    model = mdf_loop.load(write_signed(source, tmp_path / "model.json"))
    assert [node.id for node in model.graphs[0].nodes] == ["sub_2", "_sub", "sub"]
    assert [port.id for port in model.graphs[0].nodes[0].input_ports] == ["x_1_2", "x_1_3"]
    inputs = {"x.1": np.float32([1, 2, 3]), "x-1": np.float32([4, 4, 4]), "x_1": np.float32([5, 7, 9])}
    np.testing.assert_array_equal(mdf_loop.run(model, **inputs)["y"], expected(source, **inputs)[0])


def test_the_original_ids_are_kept(tmp_path):
    model = mdf_loop.load(write_signed("for_ts", tmp_path / "model.json"))
    (node,) = model.graphs[0].nodes
    assert (node.id, node.metadata["original_id"]) == ("Loop", "/Loop")
    assert node.get_parameter("Loop").metadata["original_id"] == "/Loop"
    assert node.output_ports[0].metadata["original_id"] == "x.4"


def test_inputs_can_be_given_by_their_original_names(tmp_path):
    source = """d (float[3] "x.1") => (float[3] y) { [exp] y = Exp ("x.1") }"""
    path = write_signed(source, tmp_path / "model.json")
    for name in ("x_1", "x.1", "exp.x_1"):
        np.testing.assert_allclose(mdf_loop.run(path, **{name: [0.0, 0.0, 0.0]})["y"], [1, 1, 1])


def written_by_hand():
    """A model whose ids are no names, in every place an id can stand."""
    source = Node(id="so.urce", output_ports=[OutputPort(id="out.1", value="le.vel")])
    source.parameters.append(Parameter(id="le.vel", value=1.5))
    reader = Node(id="read er", input_ports=[InputPort(id="in-1")])
    reader.parameters += [
        Parameter(id="k.0", value=2),
        Parameter(id="sum", value="in-1 * k.0 + 1"),
        Parameter(id="list", function="linear", args={"variable0": "in-1", "slope": "k.0", "intercept": 0}),
        Parameter(id="grown up", default_initial_value=0, value="grown up + k.0"),
        Parameter(id="chosen", value=0, conditions=[ParameterCondition(id="c", test="k.0 > 1", value="k.0")]),
    ]
    reader.functions.append(Function(id="f.1", value="in-1 + 10"))
    reader.output_ports += [
        OutputPort(id=f"o.{k}", value=text) for k, text in enumerate(["sum", "list", "grown up", "chosen", "f.1", "f.1 - in-1"])
    ]
    edge = Edge(id="e", sender="so.urce", sender_port="out.1", receiver="read er", receiver_port="in-1")
    conditions = ConditionSet(node_specific={"read er": Condition(type="EveryNCalls", dependencies="so.urce", n=1)})
    return Model(id="m", graphs=[Graph(id="g", nodes=[source, reader], edges=[edge], conditions=conditions)])


def test_expressions_conditions_and_edges_follow(tmp_path):
    for suffix in ("json", "yaml"):
        path = tmp_path / f"model.{suffix}"
        getattr(written_by_hand(), f"to_{suffix}_file")(str(path))
        results = mdf_loop.run(path)
        assert [float(value) for value in results.values()] == [4.0, 3.0, 2.0, 2.0, 11.5, 10.0]
        assert list(results) == ["o_0", "o_1", "o_2", "o_3", "o_4", "o_5"]


def test_an_expression_that_can_be_read_is_left_alone():
    node = Node(id="n", input_ports=[InputPort(id="x", default_value=5), InputPort(id="x-1", default_value=100)])
    node.parameters += [Parameter(id="one.step", value="1"), Parameter(id="p", value="x + x - 1"), Parameter(id="q", value="x-1")]
    node.output_ports += [OutputPort(id="p", value="p"), OutputPort(id="q", value="q")]
    results = mdf_loop.run(repaired(Model(id="m", graphs=[Graph(id="g", nodes=[node])]), "m"))
    assert results == {"p": 9, "q": 100}


def test_nothing_in_a_name_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "open('marker', 'w').close()"
    inputs = [helper.make_tensor_value_info(name, 1, [2])]
    outputs = [helper.make_tensor_value_info("y", 1, [2])]
    graph = helper.make_graph([helper.make_node("Neg", [name], ["y"], name=f"{name}#")], name, inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    path = write_signed(model, tmp_path / "model.json")
    np.testing.assert_array_equal(mdf_loop.run(path, **{name: [1.0, 2.0]})["y"], [-1, -2])
    assert not (tmp_path / "marker").exists()
