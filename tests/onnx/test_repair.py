"""Models as MDF's ONNX importer writes them: read as the ONNX graphs that they are, and compared with onnxruntime."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from imported import X, expected, one_loop, only_graph, read_plain, write_imported, write_signed
from modeci_mdf.mdf import Graph, InputPort, Model, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.convert.loading import repaired
from mdf_loop.errors import MalformedBody

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
    results = mdf_loop.run(write_signed(source, tmp_path / f"model{suffix}"), **inputs)
    for result, wanted in zip(results.values(), expected(source, **inputs), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=1e-6)
        assert result.shape == wanted.shape
        assert result.dtype == wanted.dtype


def test_a_float32_model_computes_in_float32_whatever_comes_in(tmp_path):
    path = write_signed("for_ts", tmp_path / "model.json")
    for x in (X, X.astype(np.float64), X.tolist()):
        (result,) = mdf_loop.run(path, x=x, n=3).values()
        assert result.dtype == np.float32


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
    results = mdf_loop.run(write_signed(source, tmp_path / "m.json", header), x=X, n=3)
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
        path = write_signed(source, tmp_path / f"dims{suffix}")
        (result,) = mdf_loop.run(path, x=X, n=2).values()
        np.testing.assert_allclose(result, expected(source, x=X, n=2)[0], rtol=1e-6)
        port = mdf_loop.load(path).graphs[0].nodes[0].input_ports[0]
        assert port.shape == ()


def test_a_model_in_memory_is_repaired_and_can_be_written(tmp_path):
    given = Model.from_file(str(write_signed("nested_ts", tmp_path / "model.json")))
    before = given.to_json()
    made = repaired(given, "in memory")
    assert given.to_json() == before
    for suffix, write in ((".json", made.to_json_file), (".yaml", made.to_yaml_file)):
        write(str(tmp_path / f"repaired{suffix}"))
        np.testing.assert_array_equal(
            mdf_loop.run(tmp_path / f"repaired{suffix}", x=X, n=4)["acc.12"], expected("nested_ts", x=X, n=4)[0]
        )


@pytest.mark.parametrize("name", ["for_ts", "scan", "loop_in_if"])
def test_a_body_without_a_signature_is_refused_with_what_to_do(name, tmp_path):
    with pytest.raises(
        MalformedBody, match=r"does not write the inputs and outputs of .* mdf_loop\.convert\(\"model.onnx\", \"model.yaml\"\)"
    ):
        mdf_loop.load(write_imported(MODELS_OF[name][0], tmp_path / "model.json"))


def test_branches_with_one_output_need_no_signature(tmp_path):
    for x in (X + 2, X - 2):
        (result,) = mdf_loop.run(write_imported(IF, tmp_path / "model.json"), x=x).values()
        (wanted,) = expected(IF, x=x)
        np.testing.assert_array_equal(result, wanted)
        assert result.dtype == wanted.dtype


@pytest.mark.parametrize("name", MODELS_OF)
def test_repairing_twice_changes_nothing(name, tmp_path):
    once = mdf_loop.load(write_signed(MODELS_OF[name][0], tmp_path / "model.yaml"))
    assert repaired(once, "again").to_dict() == once.to_dict()
    once.to_json_file(str(tmp_path / "repaired.json"))
    assert json.dumps(mdf_loop.load(tmp_path / "repaired.json").to_dict()) == json.dumps(once.to_dict())


@pytest.mark.parametrize("name", ["accumulate", "drift_diffusion", "leaky_accumulator", "newton", "newton_mdf", "rnn"])
@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_model_that_people_wrote_comes_back_equal(name, suffix):
    path = Path(__file__).parents[2] / "examples" / f"{name}.{suffix}"
    assert mdf_loop.load(path).to_dict() == Model.from_file(str(path)).to_dict()


def test_ids_of_nodes_and_output_ports_may_be_anything_where_people_wrote_them():
    node = Node(
        id="my node 1", parameters=[Parameter(id="a", value=[1.0, 2.0])], output_ports=[OutputPort(id="the output", value="a-1")]
    )
    node.input_ports.append(InputPort(id="x"))
    model = Model(id="m", graphs=[Graph(id="g", nodes=[node])])
    assert repaired(model, "m").to_dict() == model.to_dict()


def test_a_function_may_be_called_like_its_node():
    node = Node(
        id="relu", input_ports=[InputPort(id="x", shape=(2,), type="float")], output_ports=[OutputPort(id="y", value="relu")]
    )
    node.parameters.append(Parameter(id="relu", function="onnx::Relu", args={"X": "x"}))
    model = Model(id="m", graphs=[Graph(id="g", nodes=[node])])
    assert repaired(model, "m").to_dict() == model.to_dict()
    np.testing.assert_array_equal(mdf_loop.run(repaired(model, "m"))["y"], [0, 0])


def test_the_older_ways_to_write_bodies_and_shapes(tmp_path):
    content = read_plain(write_signed(ABC, tmp_path / "abc.json"))
    wanted = mdf_loop.run(tmp_path / "abc.json", input=X, count=3)["y.1"]
    body = only_graph(content)["nodes"]["/B/Loop"]["parameters"]["body"]["value"]
    graph = {key: value for key, value in body["graph_sub"].items() if key != "id"}
    for k, form in enumerate(({"sub": graph}, {"graph_sub": {"sub": graph}})):
        older = copy.deepcopy(content)
        only_graph(older)["nodes"]["/B/Loop"]["parameters"]["body"]["value"] = copy.deepcopy(form)
        older = _with_older_shapes(older)
        (tmp_path / f"{k}.yaml").write_text(yaml.safe_dump(older, sort_keys=False))
        np.testing.assert_array_equal(mdf_loop.run(tmp_path / f"{k}.yaml", input=X, count=3)["y.1"], wanted)


def _with_older_shapes(content):
    if isinstance(content, dict):
        return {
            key: str(tuple(value)) if key == "shape" and value is not None else _with_older_shapes(value)
            for key, value in content.items()
            if key != "type"
        }
    return content
