"""Signatures of MDF graphs that are bodies, and what is refused."""

import json
import re

import numpy as np
import pytest
from mdf_bodies import edge, graph, node, onnx_body, stepping
from modeci_mdf.mdf import (
    Function,
    Graph,
    InputPort,
    OutputPort,
    Parameter,
    ParameterCondition,
)

import mdf_loop
from mdf_loop.errors import ArgumentError, IterationError, LoopError, MalformedBody, UnsupportedOp
from mdf_loop.execute.interpret import InterpretedBody
from mdf_loop.options import start_run
from mdf_loop.readers import read as read_mdf_graph
from mdf_loop.readers.onnx.loop_records import loop_record


def plain(*ids, outputs=None, **more):
    return graph(node("A", ids, outputs or {"y": "x * 2"}), inputs=None, **more)


def test_signatures_with_one_reading_are_inferred():
    assert mdf_loop.loop(3, True, 1.0, body=plain("x")) == 8.0
    np.testing.assert_array_equal(mdf_loop.scan([1.0, 2.0], body=plain("x"), num_scan_inputs=1), [2, 4])
    assert mdf_loop.if_(False, then_branch=plain("x"), else_branch=plain("x", outputs={"z": "x * 3"}), x=2.0) == 6.0
    body = plain("x", outputs={"y": "x * 2", "z": "x"})
    body.metadata = {"outputs": ["z", "y"]}
    assert mdf_loop.if_(True, then_branch=body, else_branch=body, x=2.0) == (2.0, 4.0)


def test_other_signatures_have_to_be_written_and_the_error_shows_how():
    with pytest.raises(MalformedBody) as caught:
        mdf_loop.loop(3, True, 1.0, body=plain("x", "w", outputs={"y": "x * w", "go": "x < 3"}))
    text = str(caught.value)
    assert "(1 carried): inputs are the iteration number, the condition, the carried values" in text
    assert "metadata: {inputs: [iteration, condition, x, w], outputs: [y, go]}" in text
    with pytest.raises(MalformedBody, match=re.escape("metadata: {inputs: [x, w], outputs: ['a b']}")):
        mdf_loop.scan(1.0, [1.0], body=plain("x", "w", outputs={"a b": "x * w"}), num_scan_inputs=1)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"outputs": ["go", "z"]}, "output 'z' is neither an output port nor an input; there are ports A.y, B.y, t"),
        ({"outputs": ["go", "y"]}, "output 'y' may be A.y or B.y; say which"),
        ({"inputs": ["i", "go", "u"]}, "input 'u' is port B.u, which an edge feeds already"),
        ({"inputs": ["i", "go", "i"]}, "names a port twice"),
        ({"inputs": "x"}, "must be a list of port names"),
        ({"opset": "18"}, "opset must be a whole number"),
    ],
)
def test_signatures_that_do_not_fit_are_refused(metadata, message):
    body = graph(
        node("A", ["x"], {"y": "x"}), node("B", ["u"], {"y": "u", "t": "u"}), edges=["A.y -> B.u"], outputs=["go", "B.y"]
    )
    body.metadata |= metadata
    with pytest.raises(MalformedBody, match=re.escape(message)):
        read_mdf_graph(body, 1)


@pytest.mark.parametrize("key", ["inputs", "outputs"])
@pytest.mark.parametrize("names", ["x", [{"x": None}], [1], {"x": 1}])
@pytest.mark.parametrize("call", [mdf_loop.run, mdf_loop.to_onnx, lambda path: mdf_loop.prepare(path).inputs])
def test_files_whose_signature_lists_no_names_are_refused(key, names, call, tmp_path):
    path = tmp_path / "m.json"
    said = {"inputs": [], "outputs": [], "types": {"x": "float"}, key: names}
    path.write_text(json.dumps({"m": {"graphs": {"g": {"metadata": said}}}}))
    with pytest.raises(MalformedBody, match=f"metadata {key}"):
        call(path)


def test_a_port_may_be_named_with_its_node():
    body = graph(
        node("A", ["x"], {"y": "x + 1"}),
        node("B", ["x"], {"y": "x * 2"}),
        inputs=["i", "go", "A.x", "B.x"],
        outputs=["go", "A.y", "B.y"],
    )
    assert mdf_loop.loop(3, True, 0.0, 1.0, body=body) == (3.0, 8.0)


def test_the_number_of_carried_values_has_to_fit():
    with pytest.raises(ArgumentError, match="carries x; each needs one initial value, in this order, and 2 are given"):
        mdf_loop.loop(3, True, 0.0, 1.0, body=stepping(y="x"))


def test_names_are_harmless():
    strange = "__import__('os').system('exit 1')"
    body = Graph(
        id='"; DROP',
        nodes=[node(strange, [strange, "a.b"], {"x.11": strange, "ö 2": "a.b"}, [Parameter(id="lambda: 0", value=2)])],
        metadata={"inputs": ["i", "go", strange, "a.b"], "outputs": ["go", "x.11", "ö 2"]},
    )
    assert mdf_loop.loop(3, True, 1.0, 2.0, body=body) == (1.0, 2.0)


def test_ids_that_look_alike_stay_apart():
    body = graph(
        node("A.b", ["x"], {"y": "c"}, [Parameter(id="c", value="c + 1")]),
        node("A", ["x"], {"b.c": "n", "t": "n"}, [Parameter(id="b.c", value=3), Parameter(id="n", value="n + 2")]),
        outputs=["go", "y", "t"],
    )
    assert [v.tolist() for v in mdf_loop.loop(3, True, 1.0, body=body)] == [3, [2, 4, 6]]


def test_no_iteration_gives_what_the_port_declares():
    port = OutputPort(id="t", value="x", shape=(3,), type="int64")
    body = graph(node("A", ["x"], {"y": "x"}), outputs=["go", "y", "t"])
    body.nodes[0].output_ports.append(port)
    _, t = mdf_loop.loop(0, True, [1, 2, 3], body=body)
    assert (t.shape, t.dtype) == ((0, 3), np.int64)


# errors

BROKEN = {
    "unknown function": (
        stepping(functions=[Function(id="f", function="lineer", args={})]),
        UnsupportedOp,
        "g/A/f: there is no function 'lineer'",
    ),
    "unknown operator": (onnx_body("Foo", {}), UnsupportedOp, "g/A/f: there is no operator Foo in opset 18"),
    "missing input": (
        onnx_body("Add", {"A": "x"}),
        MalformedBody,
        "g/A/f: onnx::Add takes A, B; there is no argument or value B",
    ),
    "missing argument": (
        stepping(functions=[Function(id="f", function="linear", args={"variable0": "x"})]),
        MalformedBody,
        "there is no value 'slope'",
    ),
    "syntax": (stepping(y="x +* 2"), MalformedBody, "g/A/y: expression 'x +* 2', column 4"),
    "attribute of a value": (stepping(y="x.sum()"), MalformedBody, "g/A/y: expression 'x.sum()', column 1"),
    "unknown name": (stepping(y="x + q"), MalformedBody, "g/A/y: expression 'x + q', column 5: there is no value 'q' here"),
    "a parameter that reads a function": (
        stepping([Parameter(id="p", value="f * 2")], [Function(id="f", value="x")], y="p"),
        MalformedBody,
        "there is no value 'f'",
    ),
    "functions in a cycle": (
        stepping(functions=[Function(id="a", value="b"), Function(id="b", value="a")]),
        MalformedBody,
        "functions a, b read each other",
    ),
    "an empty function": (stepping(functions=[Function(id="a")]), MalformedBody, "neither function nor value"),
    "an edge from nowhere": (
        graph(node("A", ["x"], {"y": "x"}), edges=["B.y -> A.x"]),
        MalformedBody,
        "names node 'B', which is not there",
    ),
    "an edge to no port": (
        graph(node("A", ["x"], {"y": "x"}), node("B", ["x"]), edges=["A.y -> B.u"]),
        MalformedBody,
        "names input port 'u' of node 'B', which has 'x'",
    ),
    "a cycle": (
        graph(node("A", ["u"], {"y": "u"}), node("B", ["v"], {"z": "v"}), edges=["A.y -> B.v", "B.z -> A.u"]),
        MalformedBody,
        "wait for each other in a cycle",
    ),
    "twins": (graph(node("A", ["x"], {"y": "x"}), node("A")), MalformedBody, "two nodes are called 'A'"),
    "an output without a value": (graph(node("A", ["x"], {"y": None})), MalformedBody, "the output port has no value"),
    "a reduction": (
        graph(node("A", ["x"], {"a": "x"}), node("B", [InputPort(id="u", reduce="max")], {"y": "u"}), edges=["A.a -> B.u"]),
        MalformedBody,
        "reduce must be one of overwrite, add, multiply; got 'max'",
    ),
    "a weight": (
        graph(node("A", ["x"], {"a": "x"}), node("B", ["u"], {"y": "u"}), edges=[edge("A.a -> B.u", weight="2")]),
        MalformedBody,
        "must be a number or an array; got '2'",
    ),
    "a default value": (
        graph(node("A", ["x", InputPort(id="u", default_value="x")], {"y": "u"})),
        MalformedBody,
        "default_value 'x' is not a number",
    ),
    "no body": (stepping([Parameter(id="f", function="onnx::Loop", args={"M": 1})], y="f"), MalformedBody, "body is missing"),
    "an attribute": (
        onnx_body("LeakyRelu", {"X": "x", "alpha": [1, 2]}),
        MalformedBody,
        "attribute alpha of onnx::LeakyRelu cannot be",
    ),
    "ragged": (
        stepping([Parameter(id="p", value=[[1], [1, 2]])], y="p"),
        MalformedBody,
        "a list is ragged: its rows do not have the same length",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_graphs_are_refused_by_name(name):
    body, kind, message = BROKEN[name]
    with pytest.raises(kind, match=re.escape(message)):
        read_mdf_graph(body, 1)


def test_a_parameter_may_read_one_that_stands_behind_it():
    body = stepping([Parameter(id="p", value="q * 2"), Parameter(id="q", value=3)], y="p")
    assert "q" not in read_mdf_graph(body, 1).captures


def test_a_name_that_mdf_knows_only_later_is_explained():
    body = stepping([Parameter(id="p", value="q * 2 + r"), Parameter(id="q", value="p")], y="p")
    with pytest.raises(MalformedBody) as caught:
        read_mdf_graph(body, 1)
    assert "'q' cannot read 'p', unless it is stateful" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    "source", [{"a": 1, "b": 2}, {"a": 1}, {}, {"graph_x": {"node": {}}}, {"graph_x": {"nodes": {"A": {"input_ports": 3}}}}]
)
def test_dicts_that_are_no_graph_are_refused(source):
    with pytest.raises(MalformedBody):
        read_mdf_graph(source, 1)


HOSTILE = (
    "__import__('os').system('true')",
    "().__class__.__bases__",
    "(lambda: x)()",
    "[x for y in z]",
    "x.tofile('f')",
    "open('f')",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_reaches_mdfs_engine_that_is_not_on_the_list(text):
    derived = Parameter(id="n", default_initial_value=2, time_derivative="x")
    for place in ("value", "default_initial_value"):
        body = stepping([derived, Parameter(id="p", **{place: text})], y="x")
        with pytest.raises(LoopError, match="expression"):
            read_mdf_graph(body, 1)
    for body in (
        stepping([derived], y=text),
        stepping([Parameter(id="n", default_initial_value=2, time_derivative=text)]),
        stepping([derived], [Function(id="f", function="linear", args={"variable0": text})]),
        stepping(
            [
                Parameter(
                    id="n",
                    default_initial_value=2,
                    time_derivative="x",
                    conditions=[ParameterCondition(id="c", test=text, value=1)],
                )
            ]
        ),
    ):
        with pytest.raises(LoopError, match="expression"):
            read_mdf_graph(body, 1)
    with pytest.raises(LoopError, match="default_value"):
        read_mdf_graph(graph(node("A", ["x", InputPort(id="u", default_value=text)], {"y": "u"}, [derived])), 1)


def test_errors_while_a_body_runs_name_the_port():
    with pytest.raises(IterationError, match=re.escape("iteration 1 of Loop: divide 'A.y' failed on (int, int)")):
        mdf_loop.loop(3, True, 1.0, body=stepping([Parameter(id="n", value="n + 1")], y="1 / (n - 2)"))


def test_a_cycle_without_a_beginning_is_refused_before_mdfs_engine_hangs():
    derived = Parameter(id="n", default_initial_value=2, time_derivative="1")
    free = [InputPort(id="u", default_value=0)]
    body = graph(
        node("A", ["x"], {"y": "x + n"}, [derived]),
        node("B", free, {"b": "u"}),
        node("C", ["v"], {"c": "v"}),
        edges=["B.b -> C.v", "C.c -> B.u"],
    )
    with pytest.raises(MalformedBody, match="a cycle that has no beginning"):
        read_mdf_graph(body, 1)


def test_a_body_as_a_branch_runs_with_its_states_as_they_start():
    body = read_mdf_graph(
        graph(node("A", ["x"], {"y": "x + n"}, [Parameter(id="n", value="n + 1")]), inputs=[], outputs=["y"]), 0, "branch"
    )
    execute = InterpretedBody(body)
    assert [execute((), [np.array(2.0)], start_run())[0] for _ in range(2)] == [3.0, 3.0]


def test_hidden_state_is_shown():
    body = read_mdf_graph(stepping([Parameter(id="n", value="n + 1", default_initial_value=4)], y="x + n"), 1)
    assert "  state A.n = 4, then A.n~2\n" in str(body)
    assert [(s.input, s.output, s.initial) for s in body.state] == [("A.n", "A.n~2", 4)]
    assert loop_record(body, 1).all_carried == {"x": "A.y", "A.n": "A.n~2"}
