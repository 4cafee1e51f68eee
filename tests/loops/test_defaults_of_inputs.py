"""Inputs with defaults in bodies, what is no input at all, and inputs called like anything."""

import contextlib

import numpy as np
import onnx
import pytest
from engines import ENGINES
from given_values import with_defaults
from modeci_mdf.mdf import Graph, InputPort, Node, OutputPort, Parameter
from onnx import TensorProto, helper, numpy_helper, parser

import mdf_loop
from mdf_loop import backend, options
from mdf_loop.errors import MalformedBody
from mdf_loop.ir import Body
from mdf_loop.ir.well_formed import check_body
from mdf_loop.models.verifying import verify

F = np.float32


@pytest.mark.parametrize("version", [3, 8])
@pytest.mark.parametrize("op", ["Loop", "Scan", "If", "SequenceMap"])
@pytest.mark.parametrize("engine", ENGINES)
def test_initializers_of_a_body_that_are_inputs_too_are_constants(op, version, engine):
    """As onnxruntime has it; files of ONNX's first versions list all initializers among the inputs."""
    given, body = {
        "Loop": (["n", "t", "z"], body_of(["i", "c", "w", "s"], ["c", "s2"], "s")),
        "Scan": (["z", "xs"], body_of(["w", "s", "x"], ["s2"], "s")),
        "If": (["t"], body_of(["w"], ["s2"], "z")),
        "SequenceMap": (["zs"], body_of(["s", "w"], ["s2"], "s")),
    }[op]
    attrs = {"then_branch": body, "else_branch": body} if op == "If" else {"body": body}
    attrs |= {"num_scan_inputs": 1} if op == "Scan" else {}
    nodes = [
        helper.make_node("Constant", [], ["n"], value_int=3),
        helper.make_node("Constant", [], ["t"], value=numpy_helper.from_array(np.array(True))),
        helper.make_node("Constant", [], ["xs"], value_floats=[0.0, 1.0, 2.0]),
        helper.make_node("SequenceConstruct", ["z"], ["zs"]),
        helper.make_node(op, given, ["r"], **attrs),
        *([helper.make_node("SequenceAt", ["r", "first"], ["y"]), helper.make_node("Constant", [], ["first"], value_int=0)]),
    ]
    nodes = [nodes[-1], *nodes[:-1]] if op == "SequenceMap" else nodes[:-2]
    outputs = [helper.make_tensor_value_info("y" if op == "SequenceMap" else "r", TensorProto.FLOAT, [])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("z", TensorProto.FLOAT, [])], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=version)
    with options(engine=engine):
        assert backend.run_model(model, {"z": F(1)})[0] == {"Loop": 7, "Scan": 7, "If": 3, "SequenceMap": 3}[op]
        assert (
            mdf_loop.run(mdf_loop.convert(model), z=1.0)[outputs[0].name] == {"Loop": 7, "Scan": 7, "If": 3, "SequenceMap": 3}[op]
        )


def body_of(inputs, outputs, read):
    """A body that adds ``w``, which is 2, to what it reads."""
    kinds = {"i": TensorProto.INT64, "c": TensorProto.BOOL}
    return helper.make_graph(
        [helper.make_node("Add", [read, "w"], ["s2"])],
        "b",
        [helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), []) for name in inputs],
        [helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), []) for name in outputs],
        [numpy_helper.from_array(F(2), "w")],
    )


def test_what_is_carried_wins_over_a_default_of_the_body():
    body = parser.parse_graph("b (int64 i, bool c, float s) => (bool c, float s2) { s2 = Add (s, s) }")
    body.initializer.append(numpy_helper.from_array(F(9), "s"))
    for engine in ENGINES:
        with options(engine=engine):
            assert mdf_loop.loop(3, True, 1.0, body=body) == 8


@pytest.mark.parametrize("engine", ENGINES)
def test_an_input_of_a_body_with_a_default_may_be_given_by_name(engine):
    loop, scan = (
        "(int64 i, bool c, float s, float w = {2}) => (bool c, float t)",
        "(float s, float x, float w = {2}) => (float t)",
    )
    loop, scan = (f"b {text} {{ t = Add (s, w) }}" for text in (loop, scan))
    then, other = (f"t (float w = {{{k}}}) => (float t) {{ t = Add (s, w) }}" for k in (2, 3))
    with options(engine=engine):
        compiled = mdf_loop.compile(loop)
        for given, added in (({}, 2), ({"w": 5.0}, 5), ({}, 2)):
            assert mdf_loop.loop(3, True, 1.0, body=loop, **given) == compiled(3, True, 1.0, **given) == 1 + 3 * added
            assert mdf_loop.scan(1.0, [0.0, 1.0], body=scan, num_scan_inputs=1, **given) == 1 + 2 * added
            assert mdf_loop.if_(True, then_branch=then, else_branch=other, s=1.0, **given) == 1 + added
            assert mdf_loop.if_(False, then_branch=then, else_branch=other, s=1.0, **given) == 1 + given.get("w", 3)
            values = {**given, "body": {"onnx": loop}, "m": 3}
            parameters = [Parameter(id=name, value=value) for name, value in values.items()]
            parameters.append(Parameter(id="run", function="onnx::Loop", args={"M": "m", "cond": True, "v": 1.0, "body": "body"}))
            node = Node(id="n", parameters=parameters, output_ports=[OutputPort(id="y", value="run")])
            graph = Graph(id="g", nodes=[node])
            assert mdf_loop.run(graph)["y"] == mdf_loop.run(graph, steps=2)["y"] == 1 + 3 * added
            assert mdf_loop.run(mdf_loop.to_onnx(graph))["y"] == 1 + 3 * added
            assert mdf_loop.run(graph, w=7.0)["y"] == 22


@pytest.mark.parametrize("version", [3, 8])
def test_verify_gives_onnxruntime_what_has_a_default(version, tmp_path):
    pytest.importorskip("onnxruntime")
    plain = parser.parse_model(f'<ir_version: {version}, opset_import: ["": 17]> g (float x) => (float y) {{ y = Add (x, x) }}')
    onnx.save(with_defaults(plain, {"x": F(5)}), tmp_path / "m.onnx")
    report = verify(tmp_path / "m.onnx", {"x": 3.0})
    assert report.reference["y"] == 6
    assert not report.disagreements
    assert report.findings["y", "onnxruntime"] == "same"


def test_a_shape_that_a_default_decides_is_not_declared():
    plain = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (float[n] x, int64[2] s) => (float y) { y = Reshape (x, s) }'
    )
    plain.graph.output[0].type.tensor_type.ClearField("shape")
    written = mdf_loop.to_onnx(mdf_loop.convert(with_defaults(plain, {"s": np.array([2, 3])})))
    assert not any(dim.HasField("dim_value") for dim in written.graph.output[0].type.tensor_type.shape.dim)
    assert mdf_loop.run(written, x=np.arange(6), s=[3, 2])["y"].shape == (3, 2)


def test_no_constant_of_a_body_is_an_input():
    with pytest.raises(MalformedBody, match="is an input and a constant"):
        check_body(Body("b", ("x",), ("x",), constants={"x": F(1)}))
    with pytest.raises(MalformedBody, match="has a default, but is not an input"):
        check_body(Body("b", ("x",), ("x",), defaults={"w": F(1)}))
    assert check_body(Body("b", ("x",), ("x",), defaults={"x": F(1)})).constants == {}
    assert "default x" in str(Body("b", ("x",), ("x",), defaults={"x": F(1)}))


# Names


@pytest.mark.parametrize(
    "name", ["self", "model", "source", "show_steps", "every", "collect", "seed", "steps", "trials", "record"]
)
def test_an_input_may_have_any_name(name):
    plain = parser.parse_model('<ir_version: 8, opset_import: ["": 18]> g (float x) => (float y) { y = Add (x, x) }')
    plain.graph.input[0].name = name
    plain.graph.node[0].input[:] = [name, name]
    for model in (plain, with_defaults(plain, {name: F(5)})):
        for source in (model, mdf_loop.convert(model), mdf_loop.to_onnx(mdf_loop.convert(model))):
            prepared = mdf_loop.prepare(source)
            for value in (1, 3.0):
                feed = {name: value}
                assert mdf_loop.run(source, **feed)["y"] == prepared(**feed)["y"] == 2 * value
                assert mdf_loop.sweep(source, {name: [value, 7.0]})["y"].values.tolist() == [2 * value, 14]
                assert prepared.explain(**feed).startswith(("no Loop or Scan ran", "the whole model was one program"))


@pytest.mark.parametrize("name", ["self", "args", "body_of", "named"])
def test_a_captured_value_may_have_any_name(name):
    text = f"b (int64 i, bool c, double x) => (bool c, double y) {{ y = Add (x, {name}) }}"
    feed = {name: 2.0}
    assert mdf_loop.loop(3, True, 1.0, body=text, **feed) == mdf_loop.compile(text)(3, True, 1.0, **feed) == 7


@pytest.mark.parametrize("name", ["fill", "chunk", "checkpoint", "workers", "outputs", "steps"])
def test_a_sweep_refuses_what_may_be_meant_as_an_input(name):
    plain = parser.parse_model('<ir_version: 8, opset_import: ["": 18]> g (float x) => (float y) { y = Add (x, x) }')
    plain.graph.input[0].name = name
    plain.graph.node[0].input[:] = [name, name]
    for source in (plain, mdf_loop.convert(plain)):
        with pytest.raises(mdf_loop.LoopError, match=f"{name} is an argument of sweep; give the input of that name in over="):
            mdf_loop.sweep(source, **{name: 3.0})
        assert mdf_loop.sweep(source, {name: [3.0]})["y"].values.tolist() == [6]


@pytest.mark.parametrize("attribute", ["value", "value_ints", "sparse_value", "other"])
@pytest.mark.parametrize("domain", ["", "ai.onnx.ml", "somebody.elses"])
@pytest.mark.parametrize("several", [False, True])
def test_a_constant_that_holds_a_graph_is_a_malformed_body(attribute, domain, several):
    inner = helper.make_graph([helper.make_node("Neg", ["x"], ["q"], domain=domain)], "in", [], [])
    constant = helper.make_node("Constant", [], ["c"])
    constant.attribute.append(helper.make_attribute(attribute, [inner] if several else inner))
    ports = [[helper.make_tensor_value_info(name, 1, [2])] for name in "xy"]
    graph = helper.make_graph([constant, helper.make_node("Add", ["x", "c"], ["y"])], "g", *ports)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(domain or "mine", 1)])
    for read in (
        backend.prepare,
        mdf_loop.prepare,
        mdf_loop.convert,
        lambda model: mdf_loop.if_(True, then_branch=model, else_branch=model),
    ):
        with pytest.raises(MalformedBody, match="Constant"):
            read(model)


@pytest.mark.parametrize("default", [[[1.0, 2.0]], np.array([[1.0, 2.0]])], ids=["list", "array"])
def test_what_an_input_says_of_its_default_changes_no_model(default):
    node = Node(id="n", input_ports=[InputPort(id="x")], parameters=[Parameter(id="p", value=default)])
    node.output_ports.append(OutputPort(id="y", value="numpy.multiply(x, p)"))
    model = mdf_loop.prepare(Graph(id="g", nodes=[node]))
    said = model.inputs["p"].default
    with contextlib.suppress(ValueError):  # an array cannot be written into
        said[0][0] = 7.0
    assert mdf_loop.run(model, x=1.0)["y"].tolist() == [[1.0, 2.0]]
