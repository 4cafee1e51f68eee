"""Models as MDF's ONNX importer writes them: loaded, mended, run in MDF's engine and compared with onnxruntime."""

import copy
import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from bodies import MODELS
from imported import X, body_in, expected, one_loop, only_graph, onnx_model, read_plain, write_imported
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.interfaces.onnx import onnx_to_mdf
from modeci_mdf.mdf import Graph, InputPort, Model, Node, OutputPort, Parameter
from onnx import numpy_helper

import mdf_loop
from mdf_loop.convert import signature
from mdf_loop.convert.mend import mend
from mdf_loop.errors import ArgumentError, MalformedBody, UnsupportedOp

VECTOR = np.float32([1, 2, 3])

ABC = """abc (float[2,3] input, int64 count) => (float[2,3] "y.1") {
  ["/A/Constant"] one = Constant <value = float {1}> ()
  ["/A/Add"] "/A/Add_output_0" = Add (input, one)
  ["/B/Constant"] go = Constant <value = bool {1}> ()
  ["/B/Loop"] "x.3" = Loop (count, go, "/A/Add_output_0") <body: graph = sub (int64 "i.1", bool cond, float[2,3] "x.11")
      => (bool "/B/Identity_output_0", float[2,3] "/B/Div_output_0") {
    ["/B/ten"] ten = Constant <value = float {10}> ()
    ["/B/Div"] "/B/Div_output_0" = Div ("x.11", ten)
    ["/B/Identity"] "/B/Identity_output_0" = Identity (go)
  }>
  ["/C/Constant"] hundred = Constant <value = float {100}> ()
  ["/C/Mul"] "y.1" = Mul ("x.3", hundred)
}"""
"""What the example of MDF's own documentation exports to."""

TWO_CARRIED = """two (float[2,3] x, int64 n, int64[4] k) => (float[2,3] x_end, int64[4] k_end, float[N] sums) {
  [true] go = Constant <value = bool {1}> ()
  [loop] x_end, k_end, sums = Loop (n, go, x, k) <body: graph = b (int64 i, bool c, float[2,3] a, int64[4] m)
      => (bool c2, float[2,3] a2, int64[4] m2, float s) {
    [half] half = Constant <value = float {0.5}> ()
    [mul] a2 = Mul (a, half)
    [add] m2 = Add (m, i)
    [last] last = Constant <value = int64 {7}> ()
    [less] c2 = Less (i, last)
    [sum] s = ReduceSum <keepdims = 0> (a2)
  }>
}"""

WHILE = """w (float[3] x) => (float[3] y) {
  [true] go = Constant <value = bool {1}> ()
  [most] most = Constant <value = int64 {9223372036854775807}> ()
  [loop] y = Loop (most, go, x) <body: graph = b (int64 i, bool c, float[3] a) => (bool c2, float[3] a2) {
    [two] two = Constant <value = float {2}> ()
    [mul] a2 = Mul (a, two)
    [limit] limit = Constant <value = float {100}> ()
    [sum] s = ReduceSum <keepdims = 0> (a2)
    [less] c2 = Less (s, limit)
  }>
}"""

PASSED_ON = one_loop("""b (int64 i, bool c, float[2,3] a) => (bool c, float[2,3] a2) {
    [two] two = Constant <value = float {2}> ()
    [mul] a2 = Mul (a, two)
  }""")

SCAN = """s (float[3] h, float[5,2] xs, float[2,3] w) => (float[3] h_end, int64[5] best) {
  [scan] h_end, best = Scan <num_scan_inputs = 1, body: graph = b (float[3] h1, float[2] part) => (float[3] h2, int64 k) {
    [matmul] xw = MatMul (part, w)
    [add] sum = Add (xw, h1)
    [tanh] h2 = Tanh (sum)
    [argmax] k = ArgMax <keepdims = 0, axis = 0> (h2)
  }> (h, xs)
}"""

IF = """f (float[2,3] x) => (float[2,3] y) {
  [zero] zero = Constant <value = float {0}> ()
  [sum] s = ReduceSum <keepdims = 0> (x)
  [greater] positive = Greater (s, zero)
  [choose] y = If (positive) <
    then_branch: graph = t () => (float[2,3] yt) { [neg] yt = Neg (x) },
    else_branch: graph = e () => (float[2,3] ye) { [two] two = Constant <value = float {2}> () [mul] ye = Mul (x, two) }>
}"""

IF_IN_LOOP = one_loop("""b (int64 i, bool c, float[2,3] a) => (bool c2, float[2,3] a2) {
    [id] c2 = Identity (go)
    [two] two = Constant <value = int64 {2}> ()
    [mod] r = Mod (i, two)
    [zero] zero = Constant <value = int64 {0}> ()
    [equal] even = Equal (r, zero)
    [choose] a2 = If (even) <
      then_branch: graph = t () => (float[2,3] yt) { [neg] yt = Neg (a) },
      else_branch: graph = e () => (float[2,3] ye) { [h] h = Constant <value = float {2}> () [mul] ye = Mul (a, h) }>
  }""")

LOOP_IN_IF = """f (float[3] x, int64 n, bool p) => (float[3] y) {
  [choose] y = If (p) <
    then_branch: graph = t () => (float[3] yt) {
      [true] go = Constant <value = bool {1}> ()
      [loop] yt = Loop (n, go, x) <body: graph = b (int64 i, bool c, float[3] a) => (bool c2, float[3] a2) {
        [id] c2 = Identity (c)
        [sin] a2 = Sin (a)
      }>
    },
    else_branch: graph = e () => (float[3] ye) { [h] h = Constant <value = float {2}> () [mul] ye = Mul (x, h) }>
}"""

CAPTURES = """c (float[3] x, int64 n) => (float[3] y) {
  [true] go = Constant <value = bool {1}> ()
  [exp] e = Exp (x)
  [loop] y = Loop (n, go, x) <body: graph = b (int64 i, bool c, float[3] a) => (bool c2, float[3] a2) {
    [id] c2 = Identity (c)
    [sin] sn = Sin (a)
    [three] three = Constant <value = int64 {3}> ()
    [inner] a2 = Loop (three, c2, sn) <body: graph = d (int64 j, bool cj, float[3] q) => (bool cj2, float[3] q2) {
      [idj] cj2 = Identity (cj)
      [cast] jf = Cast <to = 1> (j)
      [mul] m = Mul (sn, jf)
      [add1] p = Add (m, e)
      [add] q2 = Add (q, p)
    }>
  }>
}"""
"""An inner loop that captures a value of the body around it, and one of the model."""

DOUBLE = """d (double[3] x, int64 n) => (double[3] y) {
  [true] go = Constant <value = bool {1}> ()
  [loop] y = Loop (n, go, x) <body: graph = b (int64 i, bool c, double[3] a) => (bool c2, double[3] a2) {
    [id] c2 = Identity (go)
    [cast] f = Cast <to = 11> (i)
    [tenth] tenth = Constant <value = double {0.1}> ()
    [mul] m = Mul (f, tenth)
    [add] a2 = Add (a, m)
  }>
}"""

NO_ITERATION = """z (float[3] x, float[5,2] table, int64 n) => (float[3] y, float[N,2] rows) {
  [true] go = Constant <value = bool {1}> ()
  [loop] y, rows = Loop (n, go, x) <body: graph = b (int64 i, bool c, float[3] a) => (bool c2, float[3] a2, float[2] row) {
    [id] c2 = Identity (c)
    [gather] row = Gather <axis = 0> (table, i)
    [mean] m = ReduceMean <keepdims = 1> (row)
    [add] a2 = Add (a, m)
  }>
}"""

MANY_OPERATORS = """m (float[2,4] x, int64 n) => (float[2,4] y, int64[N,2,2] places) {
  [true] go = Constant <value = bool {1}> ()
  [loop] y, places = Loop (n, go, x) <body: graph = b (int64 i, bool c, float[2,4] a) => (bool c2, float[2,4] a2, int64[2,2] k) {
    [id] c2 = Identity (go)
    [sizes] sizes = Constant <value = int64[2] {1,3}> ()
    [parts] p, q = Split <axis = 1> (a, sizes)
    [concat] joined = Concat <axis = 1> (q, p)
    [low] low = Constant <value = float {-0.5}> ()
    [clip] clipped = Clip (joined, low)
    [weights] weights = Constant <value = float[4] {1, 1.5, 2, 2.5}> ()
    [mul] a2 = Mul (clipped, weights)
    [two] two = Constant <value = int64[1] {2}> ()
    [topk] v, k = TopK (a2, two)
    [sumv] sv = ReduceSum <keepdims = 0> (v)
    [limit] limit = Constant <value = float {1000}> ()
    [less] unused = Less (sv, limit)
  }>
}""".replace("[id] c2 = Identity (go)\n", "").replace("[less] unused", "[less] c2")
"""Operators with several outputs, any number of inputs, omitted inputs and lists of constants."""

NAMES_DECIDE = """n (float[3] x, float[3] y, int64 n) => (float[3] "y.9", float[3] "x.9") {
  [true] go = Constant <value = bool {1}> ()
  [loop] "y.9", "x.9" = Loop (n, go, y, x) <body: graph = b (int64 i, bool c, float[3] "y.5", float[3] "x.5")
      => (bool c, float[3] y2, float[3] x2) {
    [sub] y2 = Sub ("y.5", "x.5")
    [exp] x2 = Exp ("x.5")
  }>
}"""

MODELS_OF = {
    "abc": (ABC, {"input": X, "count": 3}),
    "for_ts": ("for_ts", {"x": X, "n": 4}),
    "nested_ts": ("nested_ts", {"x": X, "n": 4}),
    "two_carried": (TWO_CARRIED, {"x": X, "n": 10, "k": np.arange(4)}),
    "while": (WHILE, {"x": VECTOR}),
    "passed_on": (PASSED_ON, {"x": X, "n": 3}),
    "scan": (SCAN, {"h": np.zeros(3, np.float32), "xs": np.linspace(0, 1, 10, dtype=np.float32).reshape(5, 2), "w": X}),
    "if": (IF, {"x": X}),
    "if_in_loop": (IF_IN_LOOP, {"x": X, "n": 5}),
    "loop_in_if": (LOOP_IN_IF, {"x": VECTOR, "n": 3, "p": True}),
    "other_branch": (LOOP_IN_IF, {"x": VECTOR, "n": 3, "p": False}),
    "captures": (CAPTURES, {"x": VECTOR, "n": 2}),
    "double": (DOUBLE, {"x": np.float64([1, 2, 3]), "n": 4}),
    "no_iteration": (NO_ITERATION, {"x": VECTOR, "table": np.ones((5, 2), np.float32), "n": 0}),
    "many_operators": (MANY_OPERATORS, {"x": np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4), "n": 3}),
}


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
@pytest.mark.parametrize("name", MODELS_OF)
def test_imported_model_gives_what_onnxruntime_gives(name, suffix, tmp_path):
    source, inputs = MODELS_OF[name]
    results = mdf_loop.run(write_imported(source, tmp_path / f"model{suffix}"), **inputs)
    for result, wanted in zip(results.values(), expected(source, **inputs), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=1e-6)
        assert result.shape == wanted.shape
        if name != "abc":  # its last operator is run by MDF, which gives float64
            assert result.dtype == wanted.dtype


def test_a_float32_model_computes_in_float32_whatever_comes_in(tmp_path):
    path = write_imported("for_ts", tmp_path / "model.json")
    for x in (X, X.astype(np.float64), X.tolist()):
        (result,) = mdf_loop.run(path, x=x, n=3).values()
        assert result.dtype == np.float32


def test_the_body_says_its_signature_in_its_metadata(tmp_path):
    model = mdf_loop.load(write_imported("for_ts", tmp_path / "model.json"))
    ((_, body),) = model.graphs[0].nodes[0].get_parameter("body").value.items()
    assert body["metadata"] == {
        "inputs": ["i_1", "condition", "x_11"],
        "outputs": ["_Identity_output_0", "_Add_output_0"],
        "opset": 18,
        "types": {
            "i_1": "int64",
            "condition": "bool",
            "_Identity_output_0": "bool",
            "x_11": "float32",
            "_Add_output_0": "float32",
        },
    }


def test_operators_of_an_old_opset_keep_their_attributes(tmp_path):
    source = """old (float[2,3] x, int64 n) => (float[2,3] y, float[N,2] r) {
      [true] go = Constant <value = bool {1}> ()
      [loop] y, r = Loop (n, go, x) <body: graph = b (int64 i, bool c, float[2,3] a) => (bool c, float[2,3] a2, float[2] r1) {
        [two] two = Constant <value = float {2}> ()
        [mul] a2 = Mul (a, two)
        [sum] r1 = ReduceSum <axes = [1], keepdims = 0> (a2)
      }>
    }"""
    header = '<ir_version: 7, opset_import: ["": 11]>\n'
    results = mdf_loop.run(write_imported(source, tmp_path / "m.json", header), x=X, n=3)
    for result, wanted in zip(results.values(), expected(source, header, x=X, n=3), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6)


def test_symbolic_dimensions(tmp_path):
    source = """dims (float[N,3] x, int64 n) => (float[N,3] y) {
      [true] go = Constant <value = bool {1}> ()
      [exp] e = Exp (x)
      [loop] y = Loop (n, go, e) <body: graph = b (int64 i, bool c, float[N,3] a) => (bool c, float[N,3] a2) {
        [two] two = Constant <value = float {2}> ()
        [mul] r = Mul (a, two)
        [relu] a2 = Relu (r)
      }>
    }"""
    for suffix in (".json", ".yaml"):
        path = write_imported(source, tmp_path / f"dims{suffix}")
        (result,) = mdf_loop.run(path, x=X, n=2).values()
        np.testing.assert_allclose(result, expected(source, x=X, n=2)[0], rtol=1e-6)
        port = mdf_loop.load(path).graphs[0].nodes[0].input_ports[0]
        assert port.shape == ()
        assert port.metadata["original_shape"] == ["N", 3]


def test_a_model_in_memory_is_mended_and_can_be_written(tmp_path):
    given = onnx_to_mdf(onnx_model("nested_ts"))
    before = given.to_json()
    mended = mend(given, "in memory")
    assert given.to_json() == before
    for suffix, write in ((".json", mended.to_json_file), (".yaml", mended.to_yaml_file)):
        write(str(tmp_path / f"mended{suffix}"))
        np.testing.assert_array_equal(
            mdf_loop.run(tmp_path / f"mended{suffix}", x=X, n=4)["acc_12"], expected("nested_ts", x=X, n=4)[0]
        )


@pytest.mark.parametrize("name", MODELS_OF)
def test_mending_twice_changes_nothing(name, tmp_path):
    once = mdf_loop.load(write_imported(MODELS_OF[name][0], tmp_path / "model.yaml"))
    assert mend(once, "again").to_dict() == once.to_dict()
    once.to_json_file(str(tmp_path / "mended.json"))
    assert json.dumps(mdf_loop.load(tmp_path / "mended.json").to_dict()) == json.dumps(once.to_dict())


@pytest.mark.parametrize("name", ["accumulate", "drift_diffusion", "leaky_accumulator", "newton", "newton_mdf", "rnn"])
@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_model_that_people_wrote_comes_back_equal(name, suffix):
    path = Path(__file__).parent.parent / "examples" / f"{name}.{suffix}"
    assert mdf_loop.load(path).to_dict() == Model.from_file(str(path)).to_dict()


def test_ids_of_nodes_and_output_ports_may_be_anything_where_people_wrote_them():
    node = Node(
        id="my node 1", parameters=[Parameter(id="a", value=[1.0, 2.0])], output_ports=[OutputPort(id="the output", value="a-1")]
    )
    node.input_ports.append(InputPort(id="x"))
    model = Model(id="m", graphs=[Graph(id="g", nodes=[node])])
    assert mend(model, "m").to_dict() == model.to_dict()


def test_a_function_may_be_called_like_its_node():
    node = Node(
        id="relu", input_ports=[InputPort(id="x", shape=(2,), type="float")], output_ports=[OutputPort(id="y", value="relu")]
    )
    node.parameters.append(Parameter(id="relu", function="onnx::Relu", args={"X": "x"}))
    model = Model(id="m", graphs=[Graph(id="g", nodes=[node])])
    assert mend(model, "m").to_dict() == model.to_dict()
    np.testing.assert_array_equal(mdf_loop.run(mend(model, "m"))["y"], [0, 0])


def test_the_older_ways_to_write_bodies_and_shapes(tmp_path):
    content = read_plain(write_imported(ABC, tmp_path / "abc.json"))
    wanted = mdf_loop.run(tmp_path / "abc.json", input=X, count=3)["y_1"]
    body = only_graph(content)["nodes"]["/B/Loop"]["parameters"]["body"]["value"]
    graph = {key: value for key, value in body["graph_sub"].items() if key != "id"}
    for k, form in enumerate(({"sub": graph}, {"graph_sub": {"sub": graph}})):
        older = copy.deepcopy(content)
        only_graph(older)["nodes"]["/B/Loop"]["parameters"]["body"]["value"] = copy.deepcopy(form)
        older = _with_older_shapes(older)
        (tmp_path / f"{k}.yaml").write_text(yaml.safe_dump(older, sort_keys=False))
        np.testing.assert_array_equal(mdf_loop.run(tmp_path / f"{k}.yaml", input=X, count=3)["y_1"], wanted)


def _with_older_shapes(content):
    if isinstance(content, dict):
        return {
            key: str(tuple(value)) if key == "shape" and value is not None else _with_older_shapes(value)
            for key, value in content.items()
            if key != "type"
        }
    return content


# What is lost


def weights_of(name):
    return {t.name.replace(".", "_"): numpy_helper.to_array(t) for t in onnx.load(MODELS / f"{name}.onnx").graph.initializer}


@pytest.mark.parametrize("name", ["while_ts", "cond_dyn"])
def test_weights_that_were_lost_are_asked_for_by_name(name, tmp_path):
    path = write_imported(name, tmp_path / "model.json")
    with pytest.raises(MalformedBody) as caught:
        mdf_loop.run(path, x=X)
    message = str(caught.value)
    for weight in onnx.load(MODELS / f"{name}.onnx").graph.initializer:
        assert weight.name in message
    assert "'x'" not in message
    assert "Constant nodes" in message
    assert "run the .onnx file itself" in message
    assert any("model.json" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("name", ["while_ts", "cond_dyn"])
def test_weights_that_were_lost_can_be_given(name, tmp_path):
    results = mdf_loop.run(write_imported(name, tmp_path / "model.json"), x=X, **weights_of(name))
    for result, wanted in zip(results.values(), expected(name, x=X), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6)
        assert result.dtype == wanted.dtype


def test_a_missing_input_names_the_nodes_that_read_it(tmp_path):
    path = write_imported("while_ts", tmp_path / "model.json")
    with pytest.raises(
        MalformedBody, match=re.escape("'x', read by ReduceSum and Loop, 'lin_weight' (lin.weight in the ONNX model)")
    ):
        mdf_loop.run(path)


def test_the_engine_itself_does_not_take_zeros_for_what_is_missing(tmp_path, capsys):
    model = mdf_loop.load(write_imported("for_ts", tmp_path / "model.json"))
    with pytest.raises(MalformedBody, match="nothing gives a value to 'n'"):
        EvaluableGraph(model.graphs[0]).evaluate(initializer={"x": X})
    evaluable = EvaluableGraph(model.graphs[0])
    evaluable.evaluate(initializer={"x": X, "n": 4})
    np.testing.assert_array_equal(evaluable.enodes["Loop"].get_output("x_4"), expected("for_ts", x=X, n=4)[0])


def test_a_signature_with_several_readings_is_an_error_that_shows_them(tmp_path):
    with pytest.raises(MalformedBody) as caught:
        mdf_loop.load(write_imported("scan_dyn", tmp_path / "model.json"))
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'model.json'}/main_graph/node_scan__1/body: ")
    assert "there is more than one reading" in message
    assert "outputs: [add_scan_combine_graph_0, mul_scan_combine_graph_0]" in message
    assert "outputs: [mul_scan_combine_graph_0, add_scan_combine_graph_0]" in message
    assert "Nothing gives a value to 'val_0'" in message


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
    metadata = re.findall(r"metadata: (\{.*?\}\})", str(caught.value))
    content = read_plain(path)
    body_in(content, "/loop")["metadata"] = yaml.safe_load(metadata[0])
    path.write_text(json.dumps(content) if suffix == ".json" else yaml.safe_dump(content, sort_keys=False))
    inputs = {"x": VECTOR, "y": VECTOR[::-1].copy(), "n": 3}
    results = mdf_loop.run(path, **inputs)
    for result, wanted in zip(results.values(), expected(source, **inputs), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6)
        assert result.dtype == wanted.dtype


def test_names_of_one_variable_decide_between_inputs(tmp_path):
    with pytest.raises(MalformedBody) as caught:  # of the outputs they say nothing
        mdf_loop.load(write_imported(NAMES_DECIDE, tmp_path / "model.json"))
    assert str(caught.value).count("inputs: [iteration, condition, y.5, x.5]") == 2


def test_an_initializer_is_not_taken_for_the_iteration_number(tmp_path):
    source = one_loop("""b (int64 i, bool c, float[2,3] a) => (bool c, float[2,3] a2) <int64 column = {1}> {
        [gather] picked = Gather <axis = 1> (a, column)
        [unsqueeze_axes] axes = Constant <value = int64[1] {1}> ()
        [unsqueeze] wide = Unsqueeze (picked, axes)
        [add] a2 = Add (a, wide)
      }""")
    path = write_imported(source, tmp_path / "model.json")
    with pytest.raises(MalformedBody, match="nothing gives a value to 'column', read by loop"):
        mdf_loop.run(path, x=X, n=3)
    np.testing.assert_allclose(mdf_loop.run(path, x=X, n=3, column=1)["y"], expected(source, x=X, n=3)[0], rtol=1e-6)


def test_a_constant_as_an_output_is_lost(tmp_path):
    source = """k (bool p) => (float y) {
      [choose] y = If (p) <
        then_branch: graph = t () => (float one) { [one] one = Constant <value = float {1}> () },
        else_branch: graph = e () => (float two) { [two] two = Constant <value = float {2}> () }>
    }"""
    with pytest.raises(MalformedBody, match=r"no reading fits what the node gives it .* gives nothing"):
        mdf_loop.load(write_imported(source, tmp_path / "model.json"))


def test_nodes_without_a_name_were_written_over_each_other(tmp_path):
    source = one_loop("""b (int64 i, bool c, float[2,3] a) => (bool c2, float[2,3] a2) {
        c2 = Identity (c)
        a2 = Add (a, a)
      }""")
    with pytest.raises(MalformedBody, match=r"loop/body: a node has no name: .* Name the nodes before onnx_to_mdf"):
        mdf_loop.load(write_imported(source, tmp_path / "model.json"))


def test_nodes_of_one_name_were_written_over_each_other(tmp_path):
    source = one_loop("""b (int64 i, bool c, float[2,3] a) => (bool c, float[2,3] a2) {
        [n] e = Exp (a)
        [m] s = Sin (e)
        [n] a2 = Cos (s)
      }""")
    with pytest.raises(MalformedBody, match="has 'a2'; where two ONNX nodes have one name"):
        mdf_loop.load(write_imported(source, tmp_path / "model.json"))


def test_a_node_called_like_the_constant_it_reads(tmp_path):
    source = one_loop("""b (int64 i, bool c, float[2,3] a) => (bool c, float[2,3] a2) {
        [two] two = Constant <value = float {2}> ()
        [B] a2 = Mul (a, two)
      }""")
    with pytest.raises(MalformedBody, match="B: is called like a constant that it reads"):
        mdf_loop.load(write_imported(source, tmp_path / "model.json"))


# What MDF runs itself


def test_results_of_a_function_that_mdf_runs_are_told_apart(tmp_path):
    source = "t (float[5] x, int64[1] k) => (float[2] v, int64[2] i) { [topk] v, i = TopK (x, k) }"
    inputs = {"x": np.float32([1, 5, 2, 9, 3]), "k": np.int64([2])}
    results = mdf_loop.run(write_imported(source, tmp_path / "model.json"), **inputs)
    for name, wanted in zip(("v", "i"), expected(source, **inputs), strict=True):
        np.testing.assert_array_equal(results[name], wanted)


def test_a_function_that_mdf_runs_with_too_few_outputs_is_refused(tmp_path):
    source = "s (float[6] x) => (float[3] a, float[3] b) { [parts] a, b = Split <num_outputs = 2> (x) }"
    with pytest.raises(UnsupportedOp, match="s/parts: MDF's engine runs onnx::Split with a single output"):
        mdf_loop.load(write_imported(source, tmp_path / "model.json"))


def test_one_port_of_a_loop_with_several_results_gives_the_first(tmp_path):
    path = write_imported(TWO_CARRIED, tmp_path / "model.json")
    mdf_loop.load(path).to_json_file(str(path))
    content = read_plain(path)
    only_graph(content)["nodes"]["loop"]["output_ports"] = {"x_end": {"value": "loop"}}
    path.write_text(json.dumps(content))
    results = mdf_loop.run(path, x=X, n=10, k=np.arange(4))
    assert list(results) == ["x_end"]
    np.testing.assert_allclose(results["x_end"], expected(TWO_CARRIED, x=X, n=10, k=np.arange(4))[0], rtol=1e-6)


def test_an_input_that_several_nodes_read_is_one_input(tmp_path):
    source = "s (float[3] x, float[3] y) => (float[3] a, float[3] b) { [add] a = Add (x, y) [sub] b = Sub (x, y) }"
    path = write_imported(source, tmp_path / "model.json")
    results = mdf_loop.run(path, x=VECTOR, y=2 * VECTOR)
    np.testing.assert_array_equal(results["a"], 3 * VECTOR)
    np.testing.assert_array_equal(results["b"], -VECTOR)
    with pytest.raises(ArgumentError, match="called 'z'"):
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
    (result,) = mdf_loop.run(write_imported(source, tmp_path / "model.json"), **inputs).values()
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
    body = body_in(read_plain(write_imported(source, tmp_path / "loop.json")), "loop")
    given = {"graph_b": {**body, "nodes": {"mul": {**body["nodes"]["mul"], "parameters": {}}}}}
    function = {"function": "onnx::Mul", "args": {"A": "a", "B": "w"}}
    given["graph_b"]["nodes"]["mul"]["parameters"] = {"mul": function}
    given["graph_b"]["nodes"]["mul"]["input_ports"] = {"a": {"shape": [2, 3]}, "w": {"shape": [3]}}
    handmade(given).to_yaml_file(str(tmp_path / "model.yaml"))
    result = mdf_loop.run(tmp_path / "model.yaml")["o"]
    np.testing.assert_allclose(result, expected(source, x=X, n=3)[0], rtol=1e-6)


def test_a_body_that_says_half_of_its_signature_is_left_to_its_reader(tmp_path):
    path = write_imported(PASSED_ON, tmp_path / "model.json")
    content = read_plain(path)
    body_in(content, "loop")["metadata"] = {"outputs": ["a2"]}
    path.write_text(json.dumps(content))
    loaded = mdf_loop.load(path)
    with pytest.raises(MalformedBody, match="has to say its inputs"):
        mdf_loop.run(loaded, x=X, n=2)


def test_the_opset_that_a_model_says_is_taken(tmp_path):
    path = write_imported(PASSED_ON, tmp_path / "model.json")
    content = read_plain(path)
    content["ONNX Model"]["onnx_opset_version"] = "21"
    path.write_text(json.dumps(content))
    ((_, body),) = mdf_loop.load(path).graphs[0].nodes[0].get_parameter("body").value.items()
    assert body["metadata"]["opset"] == 21


def test_bodies_with_too_many_readings_to_look_at_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(signature, "MOST_STEPS", 3)
    with pytest.raises(MalformedBody, match=r"too many ways to read it .*\{inputs: \[iteration, condition, carried_1\]"):
        mdf_loop.load(write_imported("for_ts", tmp_path / "model.json"))
