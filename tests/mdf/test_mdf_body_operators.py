"""ONNX operators, loops and branches inside MDF graphs that are bodies."""

import json

import numpy as np
import pytest
import yaml
from mdf_bodies import assert_as_mdf, graph, node, onnx_body, stepping
from modeci_mdf.mdf import (
    Function,
    Graph,
    InputPort,
    Parameter,
)

import mdf_loop
from mdf_loop.errors import MissingCapture
from mdf_loop.readers import read as read_mdf_graph

ONNX = {
    "Relu": (onnx_body("Relu", {"X": "x - 1"}), [[0.5, 2.0, -3.0]]),
    "Add": (onnx_body("Add", {"A": "x", "B": 0.5}), [[0.5, 2.0, -3.0]]),
    "MatMul": (onnx_body("MatMul", {"A": "x", "B": "w"}, Parameter(id="w", value=[[0.5, 0.1], [-0.2, 0.3]])), [[[1.0, 2.0]]]),
    "inputs among the node's values": (
        onnx_body("MatMul", {"A": "x"}, Parameter(id="B", value=[[0.5, 0.1], [-0.2, 0.3]])),
        [[[1.0, 2.0]]],
    ),
    "an attribute": (onnx_body("LeakyRelu", {"X": "x", "alpha": 0.25}), [[1.0, -2.0]]),
    "an attribute among the node's values": (
        onnx_body("LeakyRelu", {"X": "x"}, Parameter(id="alpha", value=0.25)),
        [[1.0, -2.0]],
    ),
    "Concat in order": (
        onnx_body(
            "Concat",
            {"inputs": "[x, w]", "axis": 0},
            ports=("x", InputPort(id="w", default_value=[5.0])),
            outputs={"y": "f[1:]", "t": "f"},
        ),
        [[1.0, 2.0]],
    ),
    "Softmax": (onnx_body("Softmax", {"input": "x", "axis": -1}), [[1.0, -2.0, 0.5]]),
    "Gemm": (
        onnx_body(
            "Gemm",
            {"A": "x", "B": "w", "C": "b", "alpha": 0.5, "transB": 1},
            Parameter(id="w", value=[[0.5, 0.1], [0.2, 0.3]]),
            Parameter(id="b", value=[1.0, 2.0]),
        ),
        [[[1.0, 2.0]]],
    ),
    "Clip with numbers": (onnx_body("Clip", {"input": "x * 3.0", "min": -1.0, "max": 2.5}), [[1.0, -2.0, 0.5]]),
    "the first of several outputs": (onnx_body("Dropout", {"data": "x"}, outputs={"y": "f[0] * 0.5"}), [[1.0, -2.0]]),
    "Reshape": (onnx_body("Reshape", {"data": "x", "shape": [1, -1]}, outputs={"y": "x", "t": "f"}), [[1.0, -2.0]]),
    "TopK": (onnx_body("TopK", {"X": "x", "K": [2]}, outputs={"y": "x * 0.5", "t": "f[0]", "u": "f[1]"}), [[1.0, -2.0, 4.0]]),
}


@pytest.mark.parametrize("name", ONNX)
def test_onnx_functions_are_operators(name):
    body, carried = ONNX[name]
    read = assert_as_mdf(body, 3, carried, tolerance=1e-6)  # MDF computes these in float32
    assert any(n.domain == "" for n in read.nodes)


def test_onnx_functions_keep_types_where_mdf_makes_float32_of_them():
    for dtype in (np.float32, np.float64):
        assert mdf_loop.loop(2, True, np.array([1, 2], dtype), body=onnx_body("Add", {"A": "x", "B": 0.5})).dtype == dtype


def test_a_parameter_may_be_an_onnx_function():
    body = stepping([Parameter(id="f", function="onnx::Sigmoid", args={"X": "x"})], y="f")
    assert_as_mdf(body, 3, [[1.0, -2.0]], tolerance=1e-6)


def test_mdfs_own_text_of_an_onnx_function():
    body = stepping([Parameter(id="f", function="onnx_ops.relu(X)", args={"X": "x"})], y="f")
    assert_as_mdf(body, 3, [[1.0, -2.0]], tolerance=1e-6)


def test_outputs_nothing_reads_are_left_out():
    (dropout,) = [
        n for n in read_mdf_graph(onnx_body("Dropout", {"data": "x"}, outputs={"y": "f"}), 1).nodes if n.op == "Dropout"
    ]
    assert len(dropout.outputs) == 1


def test_split_gives_as_many_outputs_as_are_read():
    body = onnx_body("Split", {"input": "x", "axis": 0}, outputs={"y": "x", "t": "f[0]", "u": "f[1]"})
    _, t, u = mdf_loop.loop(1, True, np.arange(4.0), body=body)
    np.testing.assert_array_equal([t[0], u[0]], [[0, 1], [2, 3]])


def test_the_opset_of_the_metadata_counts():
    body = onnx_body("ReduceSum", {"data": "x", "axes": [0], "keepdims": 0}, outputs={"y": "x", "t": "f"})
    for opset in (11, 13, 18):
        body.metadata["opset"] = opset
        assert mdf_loop.loop(1, True, np.arange(4.0), body=body)[1] == 6.0


def test_texts_as_attributes():
    body = onnx_body("Einsum", {"Inputs": "[x, x]", "equation": "i,j->ij"}, outputs={"y": "x", "t": "f"})
    np.testing.assert_array_equal(mdf_loop.loop(1, True, np.arange(2.0), body=body)[1], [[[0, 0], [0, 1]]])


def test_onnx_constants_are_values():
    body = onnx_body("Constant", {"value": [1.0, 2.0]}, outputs={"y": "x + numpy.sum(f)"})
    assert mdf_loop.loop(1, True, 1.0, body=body) == 4.0


# loops in bodies

INNER = """inner (int64 i, bool c, float s) => (bool c_out, float s_out, float t) {
    c_out = Identity (c) s_out = Add (s, step) t = Mul (s, late)
}"""


def test_a_loop_in_a_body_gets_the_nodes_values():
    run = Parameter(id="run", function="onnx::Loop", args={"M": "n", "cond": True, "v_initial": "x", "body": "body"})
    body = graph(
        node(
            "A",
            ["x", "n"],
            {"y": "run[0]", "t": "run[1]"},
            [
                Parameter(id="body", value={"onnx": INNER}),
                Parameter(id="step", value=0.5),
                run,
                Parameter(id="late", value="x * 2"),
            ],
        ),
        inputs=["i", "go", "x", "n"],
        outputs=["go", "y", "n", "t"],
    )
    y, n, t = mdf_loop.loop(3, True, 1.0, 3, body=body)
    assert (y, n, y.dtype) == (5.5, 3, np.float32)  # the inner body asks for float
    np.testing.assert_array_equal(t, [[2, 3, 4], [12.5, 15, 17.5], [32, 36, 40]])


def counting_inside():
    inner = Graph(
        id="inside",
        nodes=[node("B", ["s", "k"], {"s_out": "s + k + n", "on": "n < 2"}, [Parameter(id="n", value="n + 1")])],
        metadata={"inputs": ["i", "c", "s"], "outputs": ["on", "s_out"]},
    )
    run = Parameter(id="run", function="onnx::Loop", args={"M": 5, "cond": True, "v_initial": "x", "body": "body"})
    parameters = [Parameter(id="body", value={"graph_inside": inner}), Parameter(id="k", value=0.5), run]
    return graph(node("A", ["x"], {"y": "run"}, parameters))


def test_an_mdf_body_in_an_mdf_body_starts_afresh_each_time():
    assert mdf_loop.loop(2, True, 1.0, body=counting_inside()) == 1 + 2 * (0.5 + 1 + 0.5 + 2)


@pytest.mark.parametrize("form", ["to_dict", "graph_", "json", "yaml", "contents"])
def test_every_form_of_a_graph_is_read(form):
    body = counting_inside()
    contents = json.loads(json.dumps(body.to_dict()))
    forms = {
        "to_dict": contents,
        "graph_": {"graph_g": body},
        "json": {"graph_g": contents["g"]},
        "yaml": {"graph_g": yaml.safe_load(body.to_yaml())["g"]},
        "contents": contents["g"],
    }
    assert mdf_loop.loop(2, True, 1.0, body=forms[form]) == 9.0
    assert contents == json.loads(json.dumps(body.to_dict())), "reading a dict must not change it"


def branching(condition="x > 3"):
    parameters = [
        Parameter(id="then_branch", value={"onnx": "t () => (y) { y = Mul (x, far) }"}),
        Parameter(id="else_branch", value={"graph_e": Graph(id="e", nodes=[node("E", ["x"], {"out": "x + 1"})])}),
        Parameter(id="f", function="onnx::If", args={"cond": condition}),
    ]
    return graph(node("A", ["x"], {"y": "f + 1"}, parameters))


def test_an_if_captures_through_the_graph_around_it():
    assert read_mdf_graph(branching(), 1).captures == ("far",)
    assert mdf_loop.loop(4, True, 1.0, body=branching(), far=10) == 511.0
    with pytest.raises(MissingCapture, match="reads 'far' from outside"):
        mdf_loop.loop(4, True, 1.0, body=branching())


def test_a_scan_in_a_body():
    inner = {"onnx": "b (float s, float p) => (float s_out, float q) { s_out = Add (s, p) q = Mul (s, p) }"}
    args = {"start": 0, "parts": "x", "body": "body", "num_scan_inputs": 1}
    parameters = [Parameter(id="body", value=inner), Parameter(id="f", function="onnx::Scan", args=args)]
    body = graph(node("A", ["x"], {"y": "f[1] + f[0]"}, parameters))
    np.testing.assert_array_equal(mdf_loop.loop(1, True, [1.0, 2.0, 3.0], body=body), [6, 8, 15])


def test_an_inner_body_may_read_an_input_that_no_port_takes():
    inner = {"onnx": "b (int64 j, bool c, float s) => (bool c, float s_out) { k = Cast <to = 1> (i) s_out = Add (s, k) }"}
    run = Parameter(id="run", function="onnx::Loop", args={"M": 2, "cond": True, "v": "x", "body": inner})
    assert mdf_loop.loop(4, True, 0.0, body=graph(node("A", ["x"], {"y": "run"}, [run]))) == 12.0


def test_inner_names_do_not_get_in_the_way():
    inner = {"onnx": 'b (int64 i, bool c, float s) => (bool c_out, float "A.w") { c_out = Identity (c) "A.w" = Add (s, w) }'}
    parameters = [
        Parameter(id="w", value="x * 2"),
        Parameter(id="run", function="onnx::Loop", args={"M": 2, "cond": True, "v": "x", "body": inner}),
    ]
    assert mdf_loop.loop(1, True, 1.0, body=graph(node("A", ["x"], {"y": "run"}, parameters))) == 5.0


@pytest.mark.parametrize("engine", ["interpret", "numpy", "auto"])
@pytest.mark.parametrize("shown", ["p", "f"])
def test_whole_numbers_that_leave_64_bits_are_collected_as_they_are_carried(engine, shown):
    said = [Parameter(id="p", value="p * (-1000)", default_initial_value=1)]
    one = node("A", ["x"], {"y": shown, "s": shown}, said, [Function(id="f", function="onnx::Neg", args={"X": "p"})])
    body = graph(one, outputs=("go", "y", "s"))
    with mdf_loop.options(engine=engine):
        last, rows = mdf_loop.loop(12, True, 1, body=body)
    start = int(rows[0])
    assert abs(start) in (1, 1000)
    assert rows.tolist() == [start * (-1000) ** k for k in range(12)]
    assert int(last) == rows[-1]
