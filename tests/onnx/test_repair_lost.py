"""Imported models in which something is lost, and bodies in other places."""

import json
import re

import numpy as np
import onnx
import pytest
import yaml
from bodies import MODELS
from imported import X, body_in, expected, one_loop, read_plain, write_imported, write_signed
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.mdf import Graph, InputPort, Model, Node, OutputPort, Parameter
from onnx import numpy_helper

import mdf_loop
from mdf_loop.errors import ArgumentError, MalformedBody
from tests.onnx.test_repair import IF, PASSED_ON, VECTOR

# What is lost


def weights_of(name):
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(MODELS / f"{name}.onnx").graph.initializer}


@pytest.mark.parametrize("name", ["while_ts", "cond_dyn"])
def test_weights_that_were_lost_are_asked_for_by_name(name, tmp_path):
    path = write_signed(name, tmp_path / "model.json")
    with pytest.raises(ArgumentError) as caught:
        mdf_loop.run(path, x=X)
    message = str(caught.value)
    for weight in onnx.load(MODELS / f"{name}.onnx").graph.initializer:
        assert weight.name.replace(".", "_") in message.partition("missing:")[2]
    assert "Constant nodes" in message
    assert "run the .onnx file itself" in message
    assert any("model.json" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("name", ["while_ts", "cond_dyn"])
def test_weights_that_were_lost_can_be_given(name, tmp_path):
    results = mdf_loop.run(write_signed(name, tmp_path / "model.json"), x=X, **weights_of(name))
    for result, wanted in zip(results.values(), expected(name, x=X), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6)
        assert result.dtype == wanted.dtype


def test_the_engine_itself_does_not_take_zeros_for_what_is_missing(tmp_path, capsys):
    model = mdf_loop.load(write_signed("for_ts", tmp_path / "model.json"))
    with pytest.raises(MalformedBody, match="nothing gives a value to 'n'"):
        EvaluableGraph(model.graphs[0]).evaluate(initializer={"x": X})
    evaluable = EvaluableGraph(model.graphs[0])
    evaluable.evaluate(initializer={"x": X, "n": 4})
    np.testing.assert_array_equal(evaluable.enodes["Loop"].get_output("x_4"), expected("for_ts", x=X, n=4)[0])


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_what_the_message_says_can_be_written_into_the_file(suffix, tmp_path):
    source = """same (float[3] x, float[3] y, int64 n) => (float[3] "x.4", float[3] "y.4") {
      [true] go = Constant <value = bool {1}> ()
      ["/loop"] "x.4", "y.4" = Loop (n, go, x, y) <body: graph = b (int64 i, bool c, float[3] "a.1", float[3] "b.1")
          => (bool c, float[3] "/a", float[3] "/b") {
        ["/add"] "/a" = Add ("a.1", "b.1")
        ["/sub"] "/b" = Sub ("a.1", "b.1")
      }>
    }"""
    path = write_imported(source, tmp_path / f"model{suffix}")
    with pytest.raises(MalformedBody) as caught:
        mdf_loop.load(path)
    assert "inputs: [iteration, condition, a.1, b.1], outputs: [condition, _a, _b]" in str(caught.value)
    metadata = re.findall(r"metadata: (\{.*?\})", str(caught.value))
    content = read_plain(path)
    body_in(content, "/loop")["metadata"] = yaml.safe_load(metadata[0])
    path.write_text(json.dumps(content) if suffix == ".json" else yaml.safe_dump(content, sort_keys=False))
    inputs = {"x": VECTOR, "y": VECTOR[::-1].copy(), "n": 3}
    results = mdf_loop.run(path, **inputs)
    for result, wanted in zip(results.values(), expected(source, **inputs), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6)
        assert result.dtype == wanted.dtype


def test_an_initializer_is_not_taken_for_the_iteration_number(tmp_path):
    source = one_loop("""b (int64 i, bool c, float[2,3] a) => (bool c, float[2,3] a2) <int64 column = {1}> {
        [gather] picked = Gather <axis = 1> (a, column)
        [unsqueeze_axes] axes = Constant <value = int64[1] {1}> ()
        [unsqueeze] wide = Unsqueeze (picked, axes)
        [add] a2 = Add (a, wide)
      }""")
    path = write_signed(source, tmp_path / "model.json")
    with pytest.raises(ArgumentError, match="missing: column"):
        mdf_loop.run(path, x=X, n=3)
    np.testing.assert_allclose(mdf_loop.run(path, x=X, n=3, column=1)["y"], expected(source, x=X, n=3)[0], rtol=1e-6)


def test_a_constant_as_an_output_is_lost(tmp_path):
    source = """k (bool p) => (float y) {
      [choose] y = If (p) <
        then_branch: graph = t () => (float one) { [one] one = Constant <value = float {1}> () },
        else_branch: graph = e () => (float two) { [two] two = Constant <value = float {2}> () }>
    }"""
    with pytest.raises(MalformedBody, match=r"mdf_loop\.convert\(.* What is wrong here: "):
        mdf_loop.load(write_imported(source, tmp_path / "model.json"))


def test_nodes_without_a_name_were_written_over_each_other(tmp_path):
    source = one_loop("""b (int64 i, bool c, float[2,3] a) => (bool c2, float[2,3] a2) {
        c2 = Identity (c)
        a2 = Add (a, a)
      }""")
    with pytest.raises(MalformedBody, match=r"or without one\. Convert .* output 'c2' is neither an output port nor an input"):
        mdf_loop.load(write_signed(source, tmp_path / "model.json"))


def test_nodes_of_one_name_were_written_over_each_other(tmp_path):
    source = one_loop("""b (int64 i, bool c, float[2,3] a) => (bool c, float[2,3] a2) {
        [n] e = Exp (a)
        [m] s = Sin (e)
        [n] a2 = Cos (s)
      }""")
    with pytest.raises(MalformedBody, match=r"several nodes of one name .* has 'a2'"):
        mdf_loop.load(write_imported(source, tmp_path / "model.json"))


def test_a_node_called_like_the_constant_it_reads(tmp_path):
    source = one_loop("""b (int64 i, bool c, float[2,3] a) => (bool c, float[2,3] a2) {
        [two] two = Constant <value = float {2}> ()
        [B] a2 = Mul (a, two)
      }""")
    with pytest.raises(MalformedBody, match="b/B: argument B is 'B', which is not a port or parameter of the node"):
        mdf_loop.load(write_signed(source, tmp_path / "model.json"))


# What MDF runs itself


def test_results_of_a_function_that_mdf_runs_are_distinguished(tmp_path):
    source = "t (float[5] x, int64[1] k) => (float[2] v, int64[2] i) { [topk] v, i = TopK (x, k) }"
    inputs = {"x": np.float32([1, 5, 2, 9, 3]), "k": np.int64([2])}
    results = mdf_loop.run(write_signed(source, tmp_path / "model.json"), **inputs)
    for name, wanted in zip(("v", "i"), expected(source, **inputs), strict=True):
        np.testing.assert_array_equal(results[name], wanted)


def test_a_function_with_any_number_of_results(tmp_path):
    source = "s (float[6] x) => (float[3] a, float[3] b) { [parts] a, b = Split <num_outputs = 2> (x) }"
    results = mdf_loop.run(write_signed(source, tmp_path / "model.json"), x=np.arange(6, dtype=np.float32))
    np.testing.assert_array_equal(results["b"], [3, 4, 5])


def test_an_input_that_several_nodes_read_is_one_input(tmp_path):
    source = "s (float[3] x, float[3] y) => (float[3] a, float[3] b) { [add] a = Add (x, y) [sub] b = Sub (x, y) }"
    path = write_signed(source, tmp_path / "model.json")
    results = mdf_loop.run(path, x=VECTOR, y=2 * VECTOR)
    np.testing.assert_array_equal(results["a"], 3 * VECTOR)
    np.testing.assert_array_equal(results["b"], -VECTOR)
    with pytest.raises(ArgumentError, match="unknown: z"):
        mdf_loop.run(path, z=1)


def test_values_that_have_the_name_of_an_operators_input(tmp_path):
    source = """t (float[3] A, float[3] B, int64 n) => (float[3] y) {
      [true] go = Constant <value = bool {1}> ()
      [three] three = Constant <value = float {3}> ()
      [sub1] s1 = Sub (B, A)
      [sub2] s2 = Sub (B, three)
      [mul] v = Mul (s1, s2)
      [loop] y = Loop (n, go, v) <body: graph = b (int64 i, bool c, float[3] a) => (bool c, float[3] a2) {
        [sub3] q = Sub (B, a)
        [sub4] a2 = Sub (q, A)
      }>
    }"""
    inputs = {"A": VECTOR, "B": np.float32([5, 7, 9]), "n": 3}
    (result,) = mdf_loop.run(write_signed(source, tmp_path / "model.json"), **inputs).values()
    np.testing.assert_allclose(result, expected(source, **inputs)[0], rtol=1e-6)


# Bodies in other places


def handmade(body):
    """A model that people wrote, with the body of an imported one."""
    node = Node(
        id="solver", input_ports=[InputPort(id="start", default_value=X.tolist())], output_ports=[OutputPort(id="o", value="run")]
    )
    run = Parameter(id="run", function="onnx::Loop", args={"M": 3, "cond": True, "x": "start", "body": "steps"})
    node.parameters += [Parameter(id="steps", value=body), Parameter(id="w", value=[1.0, 2.0, 3.0]), run]
    return Model(id="m", graphs=[Graph(id="g", nodes=[node])])


def test_an_imported_body_in_a_model_that_people_wrote(tmp_path):
    source = one_loop("""b (int64 i, bool c, float[2,3] a) => (bool c, float[2,3] a2) {
        [constant] w = Constant <value = float[3] {1, 2, 3}> ()
        [mul] a2 = Mul (a, w)
      }""")
    body = body_in(read_plain(write_signed(source, tmp_path / "loop.json")), "loop")
    given = {"graph_b": {**body, "nodes": {"mul": {**body["nodes"]["mul"], "parameters": {}}}}}
    function = {"function": "onnx::Mul", "args": {"A": "a", "B": "w"}}
    given["graph_b"]["nodes"]["mul"]["parameters"] = {"mul": function}
    given["graph_b"]["nodes"]["mul"]["input_ports"] = {"a": {"shape": [2, 3]}, "w": {"shape": [3]}}
    handmade(given).to_yaml_file(str(tmp_path / "model.yaml"))
    result = mdf_loop.run(tmp_path / "model.yaml")["o"]
    np.testing.assert_allclose(result, expected(source, x=X, n=3)[0], rtol=1e-6)


def test_a_body_that_says_half_of_its_signature_is_left_to_its_reader(tmp_path):
    path = write_signed(PASSED_ON, tmp_path / "model.json")
    content = read_plain(path)
    body_in(content, "loop")["metadata"] = {"outputs": ["a2"]}
    path.write_text(json.dumps(content))
    with pytest.raises(MalformedBody, match="has to say its inputs"):
        mdf_loop.load(path)


def test_the_opset_that_a_model_says_is_taken(tmp_path):
    path = write_imported(IF, tmp_path / "model.json")
    content = read_plain(path)
    content["ONNX Model"]["onnx_opset_version"] = "21"
    path.write_text(json.dumps(content))
    assert mdf_loop.load(path).graphs[0].metadata["opset"] == 21
