"""Every loop is one node of the IR, whatever a file called it, and goes back to ONNX as what it was."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import parser

import mdf_loop
from mdf_loop.errors import ArgumentError, MalformedBody, UnsupportedOp
from mdf_loop.ir import Body, Loop, Node
from mdf_loop.ir.fresh_names import rename_captures
from mdf_loop.readers import read
from mdf_loop.readers.onnx.graph import read_model
from mdf_loop.readers.onnx.loop_records import SCAN_ATTRIBUTES, as_loop
from mdf_loop.writers.onnx_graph import as_onnx, write_model

HEAD = '<ir_version: 8, opset_import: ["": {}]> main (float[N] x, float s, int64 n) => (float t, float[N] y) {{ {} }}'
STEP = "step (float a, float e) => (float b, float c) { b = Add (a, e) c = Mul (b, s) }"
LOOP = "step (int64 i, bool go, float a) => (bool on, float b, float c) { on = Identity (go) e = Gather (x, i) "
LOOP += "b = Add (a, e) c = Mul (b, s) }"
WRITTEN = {
    "Loop": f't, y = Loop (n, "", s) <body = {LOOP}>',
    "Scan": f"t, y = Scan <num_scan_inputs = 1, body = {STEP}> (s, x)",
    "Scan with defaults said": "t, y = Scan <num_scan_inputs = 1, scan_input_axes = [0], scan_output_directions = [0], "
    f"body = {STEP}> (s, x)",
    "Scan from behind": "t, y = Scan <num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1], "
    f"scan_input_axes = [-1], scan_output_axes = [-1], body = {STEP}> (s, x)",
}


def model(form, opset=20):
    return parser.parse_model(HEAD.format(opset, WRITTEN[form]))


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute if a.name != "body"}


@pytest.mark.parametrize("form", WRITTEN)
def test_it_is_one_node_that_holds_its_record(form):
    (node,) = read_model(model(form)).nodes
    assert (node.op, node.domain, [*node.attrs]) == ("Loop", "", ["loop"])
    assert isinstance(node.loop, Loop)
    assert [key for key, _ in node.bodies] == ["body"]
    assert len(node.inputs) == node.loop.n_inputs
    assert node.called == form.split()[0]
    behind = {"Scan from behind": ", e: axis=-1 reverse=True, c: axis=-1 reverse=True"}.get(form, "")
    inputs = "n, _, s" if form == "Loop" else "s, x"
    assert str(node) == f"t, y = {form.split()[0]} <body=body {{...}}{behind}> ({inputs})"


@pytest.mark.parametrize("form", WRITTEN)
def test_it_is_written_as_what_it_was(form):
    (was,) = model(form).graph.node
    (node,) = write_model(read_model(model(form))).graph.node
    assert (node.op_type, [*node.input], [*node.output]) == (was.op_type, [*was.input], [*was.output])
    assert attributes(node) == attributes(was)


@pytest.mark.parametrize("form", WRITTEN)
@pytest.mark.parametrize("body", ["onnx", "mdf"])
def test_it_comes_back_through_mdf_as_what_it_was(form, body):
    (was,) = model(form).graph.node
    (node,) = mdf_loop.to_onnx(mdf_loop.convert(model(form), body=body)).graph.node
    assert (node.op_type, attributes(node)) == (was.op_type, attributes(was))


@pytest.mark.parametrize("form", WRITTEN)
def test_other_names_inside_leave_the_loop_what_it_is(form):
    (node,) = read_model(model(form)).nodes
    inner = rename_captures(node.loop.body, {"s": "other"})
    changed = node.with_bodies({"body": inner})
    assert "other" in changed.loop.body.captures
    assert changed.loop.body.captures != node.loop.body.captures
    again = changed.with_bodies({"body": rename_captures(inner, {"other": "s"})})
    assert again.loop == node.loop


def test_a_captured_value_that_is_carried_keeps_its_place_under_another_name():
    text = "b (int64 i, bool c, float x) => (c, k, x) { }"
    body = read(text, 1)
    node = as_loop(Node("Loop", ("n", "", "s"), ("t", "y"), {"body": body}, captures=body.captures, opset=20), "main")
    changed = node.with_bodies({"body": rename_captures(node.loop.body, {"k": "other"})})
    assert (changed.loop.carried[0].output, changed.loop.keep_going, changed.loop.collected[0].output) == ("other", "c", "x")


def test_scan_8_has_its_lengths_for_a_trip_count():
    text = "t, y = Scan <num_scan_inputs = 1, directions = [1], body = step (float a, float e) => (float b, float c) "
    text += '{ b = Add (a, e) c = Neg (b) }> ("", s, x)'
    written = parser.parse_model(HEAD.format(8, text))
    (node,) = read_model(written).nodes
    assert (node.inputs, node.loop.batched, node.loop.scanned[0].reverse) == (("", "", "s", "x"), True, True)
    (again,) = write_model(read_model(written)).graph.node
    assert ([*again.input], attributes(again)) == (["", "s", "x"], {"num_scan_inputs": 1, "directions": [1]})
    with pytest.raises(UnsupportedOp, match="is not a loop of ONNX"):
        as_onnx(replace(node, opset=20))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"unlimited": True}, "not a loop of ONNX"),
        ({"last": ("b",)}, "not a loop of ONNX"),
        ({"index": None}, "not a Loop of ONNX"),
        ({"condition": None}, "not a Loop of ONNX"),
    ],
)
def test_what_onnx_cannot_say_is_refused(change, what):
    (node,) = read_model(model("Loop")).nodes
    with pytest.raises(UnsupportedOp, match=what):
        as_onnx(replace(node, attrs={"loop": replace(node.loop, **change)}))


def body_of(inputs, outputs):
    return Body("step", inputs, outputs)


@pytest.mark.parametrize(
    ("node", "error", "what"),
    [
        (Node("Loop", ("n", "", "s"), ("t",), {"body": body_of(("i",), ("i",))}), ArgumentError, "Loop: 1 carried value given"),
        (Node("Loop", ("n",), (), {}), MalformedBody, "Loop needs a graph for body"),
        (Node("Loop", ("n",), (), {"body": body_of(("i", "c"), ("c",)), "x": 1}), UnsupportedOp, "Loop has no attribute x"),
        (Node("Loop", ("n",), ("y",), {"body": body_of(("i", "c"), ("c",))}), MalformedBody, "names 1 outputs, its body gives 0"),
        (Node("Scan", ("x",), ("y",), {"body": body_of(("e",), ("e",))}), MalformedBody, "no attribute num_scan_inputs"),
        (
            Node("Scan", ("x", "z"), ("y",), {"body": body_of(("e",), ("e",)), "num_scan_inputs": 1}),
            ArgumentError,
            "Scan has 2 inputs, its body takes 1",
        ),
    ],
)
def test_a_signature_that_does_not_fit_says_where(node, error, what):
    with pytest.raises(error, match=what) as caught:
        as_loop(replace(node, opset=20), "main")
    assert caught.value.__notes__ == [f"in node {replace(node, opset=20)} of 'main'"]


def test_the_attributes_of_a_scan_that_there_are_are_those_of_onnx():
    known = onnx.defs.get_schema("Scan", 25).attributes
    assert {"body", "num_scan_inputs", *SCAN_ATTRIBUTES} == set(known)


def test_a_loop_inside_a_traced_function_says_where_it_stands():
    @mdf_loop.body
    def outer(x):
        return mdf_loop.loop(3, True, x, body="inner (int64 j, float a) => (float d) { d = Identity (a) }")

    with pytest.raises(ArgumentError, match=r"Loop 'loop': 1 carried value given, so the body must have 3 inputs") as caught:
        mdf_loop.loop(3, True, np.float32(1), body=outer)
    assert "in node loop of 'outer'" in caught.value.__notes__


def test_a_loop_inside_an_mdf_body_says_where_it_stands():
    text = "inner (int64 j, float a) => (float d) { d = Identity (a) }"
    function = {"function": "onnx::Loop", "args": {"M": 3, "v": "x", "body": {"onnx": text}}}
    port = {"output_ports": {"y": {"value": "run[0]"}}}
    node = {"input_ports": {"x": {}}, "parameters": {"run": function}, **port}
    graph = {"graph_outer": {"metadata": {"inputs": ["i", "go", "x"], "outputs": ["go", "y"]}, "nodes": {"n": node}}}
    with pytest.raises(ArgumentError, match=r"Loop 'n.run': 1 carried value given") as caught:
        mdf_loop.loop(3, True, 1.0, body=graph)
    assert "in node n.run of 'outer'" in caught.value.__notes__


BRANCHES = {"then_branch": "t () => (y) { y = Neg (x) }", "else_branch": "e () => (y) { y = Identity (x) }"}


def onnx_if():
    keys = ", ".join(f"{key} = {text}" for key, text in BRANCHES.items())
    return read(f"main (bool c, float x) => (z) {{ z = If <{keys}> (c) }}")


def mdf_if():
    bodies = {key: {"onnx": text} for key, text in BRANCHES.items()}
    run = {"function": "onnx::If", "args": {"cond": "c", **bodies}}
    ports = {"input_ports": {"c": {}, "x": {}}, "output_ports": {"y": {"value": "run"}}}
    metadata = {"inputs": ["i", "c", "x"], "outputs": ["c", "y"]}
    return read({"graph_g": {"metadata": metadata, "nodes": {"n": {**ports, "parameters": {"run": run}}}}}, 1)


def python_if():
    @mdf_loop.body
    def chosen(i, c, x):
        return c, mdf_loop.if_(c, **BRANCHES, x=x)

    return read(chosen, 1)


def expression_if():
    return read("x: -x if x > 3 else x")


@pytest.mark.parametrize("source", [onnx_if, mdf_if, python_if, expression_if])
def test_an_if_is_one_operator_with_two_bodies(source):
    (node,) = (node for node in source().nodes if any(True for _ in node.bodies))
    assert (node.op, node.domain, node.loop, len(node.inputs)) == ("If", "", None, 1)
    assert [key for key, _ in node.bodies] == ["then_branch", "else_branch"]
    assert not any(body.inputs for _, body in node.bodies)
