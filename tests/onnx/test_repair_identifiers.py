"""Ids that are no Python names, in models that MDF's importer wrote and in those of people: never taken for code."""

import unicodedata

import numpy as np
import onnx
import pytest
from imported import X, expected, one_loop, write_signed
from modeci_mdf.interfaces.onnx.importer import id_to_port
from modeci_mdf.mdf import Graph, InputPort, Model, Node, OutputPort, Parameter
from onnx import helper

import mdf_loop
from mdf_loop.errors import LoopError

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
    start = unicodedata.normalize("NFKC", id_to_port(f"{name}start"))  # as Python reads the name of an argument
    (result,) = mdf_loop.run(path, **{start: X, "n": 3}).values()
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


def test_values_of_like_names_stay_apart(tmp_path):
    source = """d (float[3] "x.1", float[3] "x-1", float[3] x_1) => (float[3] y) {
      ["/sub"] s = Sub ("x.1", "x-1")
      ["_sub"] t = Sub (x_1, "x-1")
      ["sub"] y = Mul (s, t)
    }"""
    path = write_signed(source, tmp_path / "model.json")
    inputs = {"x.1": np.float32([1, 2, 3]), "x-1": np.float32([4, 4, 4]), "x_1": np.float32([5, 7, 9])}
    np.testing.assert_array_equal(mdf_loop.run(path, **inputs)["y"], expected(source, **inputs)[0])


def written_by_hand(text):
    """A model with an input port that no expression can read by its id, and a parameter that an id alone names."""
    node = Node(id="so.urce", input_ports=[InputPort(id="in-1", default_value=5)])
    node.parameters += [Parameter(id="le.vel", value="in-1"), Parameter(id="p", value=text)]
    node.output_ports += [OutputPort(id="o.1", value="le.vel"), OutputPort(id="o.2", value="p")]
    return Model(id="m", graphs=[Graph(id="g", nodes=[node])])


def test_a_text_that_is_an_id_is_read_whatever_it_is_called():
    assert mdf_loop.run(written_by_hand("in-1")) == {"o.1": 5, "o.2": 5}


@pytest.mark.parametrize("text", ["2 * in-1", "le.vel + 1", "in-1 le.vel"])
def test_an_expression_that_cannot_read_an_id_tells_what_to_do(text):
    with pytest.raises(LoopError, match=r"is not a name that an expression can read: rename it, such as (in_1|le_vel)"):
        mdf_loop.run(written_by_hand(text))


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
