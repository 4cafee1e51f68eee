"""MDF graphs that say element types: read as the ONNX graphs they are."""

import re

import numpy as np
import onnx
import onnx.parser
import pytest
from modeci_mdf.mdf import Edge, Graph, InputPort, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop import if_, loop, scan
from mdf_loop.checks.model_file import check
from mdf_loop.errors import ArgumentError, KindError, MalformedBody, UnsupportedOp
from mdf_loop.readers import read


def operator(id, op, args, inputs=(), outputs=("y",), **parameters):
    """A node with one ONNX operator; ``parameters`` are constants, attributes and bodies."""
    values = [Parameter(id=key, value=value) for key, value in parameters.items()]
    function = Parameter(id=id, function=f"onnx::{op}", args=args)
    ports = [OutputPort(id=port, value=id if len(outputs) == 1 else f"{id}[{k}]") for k, port in enumerate(outputs)]
    return Node(id=id, input_ports=[InputPort(id=name) for name in inputs], parameters=[*values, function], output_ports=ports)


def graph(*nodes, inputs=("i", "go", "x"), outputs=("go", "y"), types=None, **metadata):
    """A body; ports of one id are joined."""
    sources = {port.id: node.id for node in nodes for port in node.output_ports}
    edges = [
        Edge(id=f"{node.id}.{port.id}", sender=sources[port.id], sender_port=port.id, receiver=node.id, receiver_port=port.id)
        for node in nodes
        for port in node.input_ports
        if port.id in sources
    ]
    said = {"inputs": list(inputs), "outputs": list(outputs), "types": types or {}, **metadata}
    return Graph(id="b", nodes=list(nodes), edges=edges, metadata=said)


def one(op, args, **parameters):
    """A body with a single operator that reads ``x``."""
    return graph(operator("n", op, args, ["x"], **parameters))


def test_floats_are_float32_and_ask_for_it():
    body = one("Mul", {"A": "x", "B": "B"}, B=0.5)
    for x in (np.float32([4]), np.float64([4]), [4.0], 4):
        result = loop(2, True, x, body=body)
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, np.ravel(x) / 4 if np.ndim(x) else 1)


def test_numbers_take_the_type_of_what_they_meet():
    assert (
        loop(
            3,
            True,
            np.float64(1),
            body=graph(
                operator("cast", "Cast", {"input": "i"}, ["i"], ["f"], to=11),
                operator("scale", "Mul", {"A": "f", "B": "B"}, ["f"], ["s"], B=[0.1]),
                operator("add", "Add", {"A": "x", "B": "s"}, ["x", "s"]),
            ),
        ).dtype
        == np.float64
    )
    assert loop(3, True, 1, body=one("Add", {"A": "x", "B": "B"}, B=2)).dtype == np.int64


def test_a_fraction_for_an_integer_is_an_error():
    with pytest.raises(KindError, match="value 'x' must be int64; got float64"):
        loop(3, True, 1.5, body=one("Add", {"A": "x", "B": "B"}, B=2))
    with pytest.raises(MalformedBody, match=r"b/n/B: 'n\.B' cannot be read: 0\.5 must be int64"):
        loop(3, True, 1, body=graph(operator("n", "Add", {"A": "i", "B": "B"}, ["i"], B=0.5)))


def test_declared_types_are_kept():
    body = graph(operator("n", "Add", {"A": "x", "B": "x"}, ["x"]), types={"x": "double[2,n]", "y": "double", "i": "int64"})
    assert str(read(body)).startswith("b (int64 i, bool go, float64[2,n] x) => (go, y)")
    assert loop(1, True, np.float32([[1, 2]] * 2), body=body).dtype == np.float64


def test_sequences_can_be_declared():
    node = operator("n", "SequenceInsert", {"input_sequence": "x", "tensor": "i"}, ["x", "i"])
    assert loop(2, True, [], body=graph(node, types={"x": "seq(int64)"})) == [0, 1]


@pytest.mark.parametrize("text", ["", "float[", "floating", "seq(float", "float)", 3, None, "float[2][3]"])
def test_a_type_that_is_none(text):
    with pytest.raises(MalformedBody, match=r"metadata types: 'x' must be a type such as"):
        read(graph(operator("n", "Neg", {"X": "x"}, ["x"]), types={"x": text}))


def test_inputs_may_be_omitted_and_named_in_any_order():
    assert loop(1, True, 3.0, body=one("Clip", {"max": "max", "input": "x"}, max=2.0)) == 2
    assert loop(1, True, 3.0, body=one("Clip", {"input": "x", "min": "", "max": 2.0})) == 2
    assert loop(1, True, 3.0, body=one("Clip", {"input": "x", "min": None, "max": 2.5})) == 2.5


def test_inputs_with_other_names_are_in_order():
    body = graph(operator("n", "Concat", {"inputs": "x", "arg_x": "x", "other": [9.0]}, ["x"], axis=0))
    np.testing.assert_array_equal(loop(1, True, [1.0], body=body), [1, 1, 9])


def test_attributes_have_the_types_of_onnx():
    body = graph(operator("n", "Pad", {"data": "x", "pads": [1, 0]}, ["x"], mode=b"edge"))
    np.testing.assert_array_equal(loop(1, True, [1.0, 2.0], body=body), [1, 1, 2])
    body = graph(operator("n", "ConstantOfShape", {"input": [2]}, value=[7]))
    np.testing.assert_array_equal(loop(1, True, [1, 2], body=body), [7, 7])
    body = graph(operator("n", "Transpose", {"data": "x"}, ["x"], perm=[1, 0]))
    np.testing.assert_array_equal(loop(1, True, [[1.0, 2.0]], body=body), [[1], [2]])
    assert loop(1, True, [1.0], body=graph(operator("n", "LeakyRelu", {"X": "x", "alpha": 2}, ["x"]))) == 1


@pytest.mark.parametrize(
    ("op", "attributes"), [("Transpose", {"perm": ["a"]}), ("Softmax", {"axis": 0.5}), ("Elu", {"alpha": [1, 2]})]
)
def test_an_attribute_that_is_none(op, attributes):
    (name,) = attributes
    with pytest.raises(MalformedBody, match=f"b/n: attribute {name} cannot be"):
        read(one(op, {"X": "x"} if op == "Elu" else {"data" if op == "Transpose" else "input": "x"}, **attributes))


def test_an_attribute_that_there_is_not_is_named_with_the_opset():
    with pytest.raises(MalformedBody, match="b/n: onnx::Neg has no attribute 'axis' in opset 18"):
        read(one("Neg", {"X": "x"}, axis=1))
    with pytest.raises(MalformedBody, match="has no attribute 'axes' in opset 18"):
        read(one("ReduceSum", {"data": "x"}, axes=[0]))
    assert loop(1, True, [1.0, 2.0], body=graph(operator("n", "ReduceSum", {"data": "x"}, ["x"], axes=[0]), opset=11)) == 3


def test_texts_are_strings():
    body = graph(operator("n", "Concat", {"a": "x", "b": "more"}, ["x"], more=["c", "d"], axis=0))
    assert list(loop(1, True, ["a"], body=body)) == ["a", "c", "d"]


def test_what_a_node_reads_and_does_not_have_is_an_error():
    with pytest.raises(MalformedBody, match="b/n: argument B is 'z', which is not a port or parameter of the node"):
        read(one("Add", {"A": "x", "B": "z"}))
    with pytest.raises(MalformedBody, match=r"b/n: argument B is 'x \+ 1', which is not a port"):
        read(one("Add", {"A": "x", "B": "x + 1"}))


def test_only_operators_can_say_types():
    node = operator("n", "Neg", {"X": "x"}, ["x"])
    for change in (
        {"parameters": [*node.parameters, Parameter(id="p", value="x + 1")]},
        {"parameters": [*node.parameters, Parameter(id="p", function="linear", args={})]},
        {"parameters": [*node.parameters, Parameter(id="p", default_initial_value=1, value=2)]},
        {"output_ports": [OutputPort(id="y", value="n + 1")]},
    ):
        changed = Node(
            **{
                "id": "n",
                "input_ports": node.input_ports,
                "parameters": node.parameters,
                "output_ports": node.output_ports,
                **change,
            }
        )
        with pytest.raises(MalformedBody, match="b/n: a graph with metadata types has one onnx:: function in each node"):
            read(graph(changed))


def test_an_operator_that_there_is_not():
    with pytest.raises(UnsupportedOp, match="b/n: there is no operator Nothing in opset 18"):
        read(one("Nothing", {"X": "x"}))


def test_edges_join_each_port_to_one_value():
    body = graph(operator("m", "Neg", {"X": "x"}, ["x"], ["z"]), operator("n", "Neg", {"X": "z"}, ["z"]))
    body.edges[0].parameters = {"weight": 2}
    with pytest.raises(MalformedBody, match="has one edge without weights for each input port"):
        read(body)


def test_ports_of_one_id_are_distinguished():
    first, second = operator("m", "Neg", {"X": "x"}, ["x"]), operator("n", "Exp", {"input": "x"}, ["x"])
    assert loop(1, True, 0.0, body=graph(first, second, outputs=("go", "n.y"))) == 1
    assert loop(1, True, 2.0, body=graph(first, second, outputs=("go", "m.y"))) == -2


def test_a_default_value_is_a_constant():
    node = operator("n", "Add", {"A": "x", "B": "step"}, ["x", "step"])
    node.input_ports[1].default_value = 2
    assert loop(3, True, 1, body=graph(node)) == 7


def test_a_condition_may_be_missing():
    body = graph(operator("n", "Neg", {"X": "x"}, ["x"]), outputs=("go", "y"))
    assert loop(3, True, 1.0, body=body) == -1


def test_captures_have_the_type_that_is_asked_for():
    body = graph(operator("n", "Mul", {"A": "x", "B": "w"}, ["x", "w"]), types={"x": "float"})
    assert loop(2, True, 1, body=body, w=np.float64(3)).dtype == np.float32
    with pytest.raises(ArgumentError, match="'w'"):
        loop(2, True, 1, body=body)


INNER = {"onnx": "inner (int64 j, bool on, float a) => (bool on, float b) { s = Add (a, x) b = Mul (s, k) }"}


def test_bodies_inside_capture_ports_and_parameters():
    node = operator("n", "Loop", {"M": 2, "cond": True, "v": "x"}, ["x"], body=INNER, k=0.5)
    result = loop(1, True, 4.0, body=graph(node))
    assert result == 4.0
    assert result.dtype == np.float32


def test_a_captured_value_may_have_the_name_of_one_inside():
    first = operator("m", "Exp", {"input": "x"}, ["x"], ["b"])
    node = operator("n", "Loop", {"M": 1, "cond": "", "v": "x"}, ["x", "k"], body=INNER)
    node.input_ports[1].id = "k"
    body = graph(first, node)
    body.edges.append(Edge(id="e", sender="m", sender_port="b", receiver="n", receiver_port="k"))
    np.testing.assert_allclose(loop(1, True, 1.0, body=body), 2 * np.exp(1), rtol=1e-6)


def test_scans_and_branches():
    step = graph(operator("n", "Add", {"A": "h", "B": "part"}, ["h", "part"]), inputs=("h", "part"), outputs=("y", "y"))
    total, sums = scan(0.0, [1.0, 2.0, 3.0], body=step, num_scan_inputs=1)
    assert total == 6
    np.testing.assert_array_equal(sums, [1, 3, 6])
    branch = graph(operator("n", "Neg", {"X": "x"}, ["x"]), inputs=(), outputs=("y",))
    assert if_(True, then_branch=branch, else_branch=branch, x=2.0) == -2
    outer = graph(
        operator(
            "half",
            "Scan",
            {"h": "x", "xs": "xs"},
            ["x"],
            ["total", "y"],
            body={"graph_s": step},
            num_scan_inputs=1,
            xs=[1.0, 1.0],
        ),
        outputs=("go", "total", "y"),
    )
    total, sums = loop(2, True, 0.0, body=outer)
    assert total == 4
    np.testing.assert_array_equal(sums, [[1, 2], [3, 4]])


def test_a_body_that_is_missing_says_so():
    with pytest.raises(MalformedBody, match="b/n: body is missing"):
        read(graph(operator("n", "Loop", {"M": 2, "cond": True, "v": "x"}, ["x"])))


def test_a_constant_of_another_shape_than_declared_has_its_place(tmp_path):
    """In a model that was converted and changed by hand."""
    text = '<ir_version: 8, opset_import: ["" : 18]> g (float x) => (float y) <float two = {2.0}> { y = Mul (x, two) }'
    path = tmp_path / "m.yaml"
    mdf_loop.convert(onnx.parser.parse_model(text)).to_yaml_file(str(path))
    path.write_text(path.read_text().replace("value: 2.0", "value: [1.0, 2.0]"))
    said = "g/Mul/two: 'Mul.two' cannot be read: its shape is [2], and the metadata types declare float32[]"
    with pytest.raises(MalformedBody, match=re.escape(said)):
        mdf_loop.run(path, x=1.0)
    (found,) = check(path)
    assert found.message == said
    assert "value: [1.0" in path.read_text().splitlines()[found.line]


def test_nodes_before_those_they_read_draw_in_the_order_in_which_mdf_runs_them():
    text = "g (double[3] x) => (double[3] y, double[3] z) {\n a = RandomNormalLike (x)\n y = RandomNormalLike (a)\n"
    written = mdf_loop.convert(
        onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]>\n{text} z = RandomNormalLike (x)\n}}')
    )
    a, y, z = written.graphs[0].nodes
    found = []
    for nodes in ([y, a, z], [a, z, y], [a, y, z]):
        written.graphs[0].nodes = nodes
        found.append([value.tolist() for value in mdf_loop.run(written, seed=1, x=np.zeros(3)).values()])
    assert found[0] == found[1] != found[2]
