"""What errors advise: each advice is followed, and then it works."""

import re
from pathlib import Path

import pytest
from modeci_mdf.mdf import Graph, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopError, LoopWarning
from mdf_loop.readers.onnx.onnx_text import hint


def raised(*args, **kwargs):
    """The error of a call to ``loop``."""
    with pytest.raises(LoopError) as info:
        mdf_loop.loop(*args, **kwargs)
    return info.value


HEAD = "b (int64 i, bool c, double x) => (bool c, double y)"

TEXTS = [
    (f"{HEAD} {{ y = x + z }}", "y = Add (x, z)"),
    (f"{HEAD} {{ w = Neg (x) y = w * x }}", "y = Mul (w, x)"),
    (f"{HEAD} {{\n  y = x ** 2\n}}", "y = Pow (x, k)"),
    (f"{HEAD} <double k = {{2}}> {{ y = 1.5 - x }}", "y = Sub (k, x)"),
    (f"{HEAD} {{ y = x < limit }}", "y = Less (x, limit)"),
    (f"{HEAD} {{ y = Add (x, 1.5) }}", "<float k = {1.5}>"),
    (f"{HEAD} {{ y = Clip (x, 0, 1) }}", "the number 0"),
    (f"{HEAD} {{ y = Gemm <alpha = 2.0> (x, x, -1e-3) }}", "<float k = {-1e-3}>"),
    (f"{HEAD} {{ y = x }}", "y = Identity (x)"),
    (HEAD.replace("double", "float64") + " { y = Neg (x) }", "calls the type float64 double"),
    (HEAD.replace("double", "float32") + " { y = Neg (x) }", "calls the type float32 float"),
    (HEAD.replace("int64 i", "int i") + " { y = Neg (x) }", "calls the type int int64"),
    (HEAD.replace("double x", "float64[3] x") + " { y = Neg (x) }", "calls the type float64 double"),
]


@pytest.mark.parametrize(("text", "told"), TEXTS, ids=[told for _, told in TEXTS])
def test_text_that_does_not_parse(text, told):
    error = raised(3, True, 1.0, body=text)
    assert told in str(error)
    assert "does not parse" in str(error)


@pytest.mark.parametrize("text", ["b (int64 i) => (double y) { y = Neg (x", "", "{", "=", "<" * 5000, "y = x + " * 2000])
def test_no_hint_is_better_than_a_wrong_one_and_none_takes_long(text):
    assert isinstance(hint(text), str)


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ("ReduceSum <axes = [0], keepdims = 0> (x)", "Since version 13 axes is an input: ReduceSum (data, axes)"),
        ("ReduceMean <axes = [0], keepdims = 0> (x)", "Since version 18 axes is an input: ReduceMean (data, axes)"),
        ("Unsqueeze <axes = [0]> (x)", "Since version 13 axes is an input: Unsqueeze (data, axes)"),
        ("Clip <min = 0.0> (x)", "Since version 11 min is an input: Clip (input, min)"),
        ("Pad <pads = [1, 1]> (x)", "Since version 11 pads is an input: Pad (data, pads)"),
    ],
)
def test_attributes_that_became_inputs(node, told):
    text = f"b (int64 i, bool c, double[n] x) => (bool c, double[n] x, y) {{ y = {node} }}"
    assert told in str(raised(3, True, [1.0, 2.0], body=text))


def test_truth_values_are_names_in_onnx_text():
    text = "b (int64 i, bool c, bool x) => (bool c, bool y) { y = And (c, true) }"
    assert "<bool true = {1}> in front of the nodes" in str(raised(3, True, False, body=text))
    text = "b (int64 i, bool c, bool x) => (bool c, bool y) <bool true = {1}> { y = And (c, true) }"
    assert mdf_loop.loop(3, True, False, body=text)


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        ("x: x + 1\nwhile: true", "; it is written True"),
        ("x: x + xi", "; noise() draws a number"),
        ("x: x / (20 * ms)", "write the number, and ms into metadata: {units: ms}"),
        ("x[i]: 1", "; an equation has a colon: x: 1, and collect all_x: x keeps those of all iterations"),
        ("x[t] = x[t - 1] * 2", "; an equation has a colon: x: x * 2"),
        ("x(t): 1", "; an equation has a colon: x: 1"),
        ("x <- x + 1\ny <- y", "; an equation has a colon: x: x + 1"),
    ],
)
def test_equations_in_other_notations_lead_to_ours(body, meant):
    assert meant in str(raised(3, True, x=1.0, body=body))


def test_an_attribute_that_never_was_one_has_no_such_advice():
    text = "b (int64 i, bool c, double[n] x) => (bool c, double[n] y) { y = Neg <axes = [0]> (x) }"
    assert "Since version" not in str(raised(3, True, [1.0, 2.0], body=text))


def test_a_condition_that_no_node_computes():
    text = "b (int64 i, bool c, double x) => (bool go, double y) { y = Neg (x) }"
    said = str(raised(3, True, 1.0, body=text))
    assert "'go' is an output of the body that no node of it computes" in said
    assert "name the input 'c' there to pass it through" in said
    assert mdf_loop.loop(3, True, 1.0, body=text.replace("bool go", "bool c")) == -1


def test_a_forgotten_condition():
    told = "the second input and the first output of a body are the condition, a bool"
    assert told in str(raised(3, True, 1.0, body="b (int64 i, double x) => (double y) { y = Neg (x) }"))
    said = str(raised(3, True, 1.0, body="b (int64 i, bool c, double x) => (double y) { y = Neg (x) }"))
    assert "(c, y) passes it through" in said
    said = str(raised(3, True, body="b (int64 i, bool c, double x) => (bool c, double y) { y = Neg (x) }"))
    assert "a call is loop(M, cond, x, body=...): is the condition or an initial value missing?" in said


def test_a_misspelt_body():
    with pytest.raises(LoopError, match="'bodi' was given: is that a misspelt 'body'"):
        mdf_loop.loop(3, True, 1.0, bodi="b (int64 i, bool c, double x) => (bool c, double y) { y = Neg (x) }")
    with pytest.raises(LoopError, match="got 'onx'; did you mean 'onnx'"):
        mdf_loop.loop(3, True, 1.0, body={"onx": "b (int64 i, bool c, double x) => (bool c, double y) { y = Neg (x) }"})


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("body: body}", "body: bodi}", "argument 'body' reads 'bodi', which the node does not have; did you mean 'body'?"),
        ("body: body}", "boddy: body}", "its argument 'boddy' is taken for a carried value; did you mean 'body'?"),
        ("onnx::Loop", "onnx::Lop", "there is no function 'onnx::Lop'; did you mean 'onnx::Loop'?"),
        ("value: run[0]", "value: runn[0]", "it reads 'runn', which the node does not have; did you mean 'run'?"),
    ],
)
def test_misspelt_names_in_a_model(tmp_path, right, wrong, told):
    path = tmp_path / "m.yaml"
    with open("examples/accumulate.yaml") as file:
        path.write_text(file.read().replace(right, wrong))
    with pytest.raises(LoopError) as caught:
        mdf_loop.run(path)
    assert told in "; ".join([str(caught.value), *caught.value.__notes__])


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"function": "linaer", "args": {"variable0": 1, "slope": 1}}, "there is no function 'linaer'; did you mean 'linear'?"),
        ({"function": "linear", "args": {"variable0": 1, "slope": 1}}, "missing: intercept"),
        ({"value": "x + rat"}, "it reads 'rat', which the node does not have; did you mean 'rate'?"),
    ],
)
def test_misspelt_names_where_steps_are_asked_for(how, told):
    """They keep the model from becoming a loop, and MDF's engine does not know what they mean."""
    parameters = [
        Parameter(id="rate", value=2.0),
        Parameter(id="x", value="x + rate", default_initial_value=0.0),
        Parameter(id="f", **how),
    ]
    node = Node(id="n", parameters=parameters, output_ports=[OutputPort(id="y", value="f")])
    with pytest.warns(LoopWarning), pytest.raises(LoopError) as caught:
        mdf_loop.run(Graph(id="g", nodes=[node]), steps=3)
    assert str(caught.value).startswith("g/n/f: ")
    assert told in str(caught.value)


MODEL = """
m:
  format: ModECI MDF v0.4
  graphs:
    g:
      nodes:
        n:
          parameters:
            delta_t: {value: 0.1}
            p: {value: [[1.0, 2.0], [3.0, 4.0]]}
            q: {value: 1.0}
            body: {value: {carried: {v: v + delta_t, t: t + sum(p) + q}}}
            run: {function: onnx::Loop, args: {M: 3, v: 0.0, t: 0.0, body: body}}
          output_ports: {o: {value: run.v}}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("v + delta_t", "p %*% v", "%*% is written @"),
        ("v + delta_t", "v %% 3", "%% is written %"),
        ("v + delta_t", "v %/% 3", "%/% is written //"),
        ("v + delta_t", "v + trial$rt", "write a column of a table as a value of its own, with a name without $"),
        ("v + delta_t", "v + NA", "'NA', which the node does not have; it is written nan"),
        ("carried: {v: v + delta_t", "derivatives: {v: 1}, carried: {", "dt, is missing: write dt: delta_t in the body"),
        ("function: onnx::Loop, ", "", "it has a body and no function; write function: onnx::Loop"),
        ("{value: 1.0}", "{value: abc}", "'abc', which the node does not have; write a number, or the name of something in the"),
        ("M: 3", "M: many", "'many', which the node does not have; write a number, or the name of something in the node"),
        ("{value: 1.0}", "{value: p %*% p}", "%*% is written @"),
        ("{value: 1.0}", "{value: NA}", "write numpy.nan"),
        ("{value: 1.0}", "{value: p.T}", "cannot be used in an expression; write numpy.transpose(p)"),
        ("{value: 1.0}", "{value: noise()}", "cannot be used in an expression; write numpy.random.normal(0, 1)"),
        ("{value: 1.0}", "{value: noise(2)}", "cannot be used in an expression; write numpy.random.normal(0, 1, 2)"),
        ("{value: 1.0}", "{value: noise(p)}", "cannot be used in an expression; write numpy.random.normal(0, 1, numpy.shape(p))"),
        ("{value: 1.0}", "{value: uniform(2)}", "cannot be used in an expression; write numpy.random.uniform(0, 1, 2)"),
        ("{value: 1.0}", "{value: random()}", "cannot be used in an expression; write numpy.random.uniform(0, 1)"),
        ("{value: 1.0}", "{value: where(e > 2, 1, 0)}", "has no 1; it has"),
        ("{value: 1.0}", "{value: where(e > 2, 1, 0)}", "; a text with commas is in quotes inside { }: 'where(e > 2, 1, 0)'"),
        (
            "run.v",
            "t + 1",
            "there is no value 't' here; the body of a loop has it inside: it is a result, write run.t",
        ),
    ],
)
def test_what_other_languages_write(tmp_path, right, wrong, told):
    path = tmp_path / "m.yaml"
    path.write_text(MODEL)
    mdf_loop.run(path)
    path.write_text(MODEL.replace(right, wrong).replace("{, t", "{t"))
    with pytest.raises(LoopError) as info:
        mdf_loop.run(path)
    assert told in str(info.value)
    assert "trusted" not in str(info.value)
    assert any(told in found.message for found in check(path))


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("'EveryNCalls(n, 2)'", "{type: EveryNCalls, kwargs: {dependency: n, n: 2}}"),
        ("EveryNCalls(dependency=n)", "{type: EveryNCalls, kwargs: {dependency: n}}"),
        ("'AtPass(2)'", "{type: AtPass, kwargs: {n: 2}}"),
        ("Always", "{type: Always, kwargs: {}}"),
        ("{type: EveryNCalls, args: {dependency: n, n: 2}}", "{type: EveryNCalls, kwargs: {dependency: n, n: 2}}"),
        ("{type: EveryNCalls, dependency: n, n: 2}", "{type: EveryNCalls, kwargs: {dependency: n, n: 2}}"),
        ("{type: EveryNCalls, dependency: n, kwargs: {n: 2}}", "{type: EveryNCalls, kwargs: {dependency: n, n: 2}}"),
    ],
)
def test_conditions_that_are_written_like_calls(tmp_path, written, told):
    path = tmp_path / "m.yaml"
    path.write_text(f"{MODEL}      conditions: {{node_specific: {{n: {written}}}}}\n")
    assert any(found.message.endswith(f"; write {told}") for found in check(path))
    path.write_text(f"{MODEL}      conditions: {{node_specific: {{n: {told}}}}}\n")
    assert not any(found.message.endswith(f"; write {told}") for found in check(path))


@pytest.mark.parametrize(
    ("let", "condition", "is_late"),
    [
        ("{bound: 2 - t}", "v < bound", True),
        ("{left: 2 - t, bound: 3 * left}", "v < bound", True),
        ("{bound: 2 * delta_t}", "v < bound", False),
        ("{slope: 2 - t}", "abs(slope) > 1", False),
        ("{bound: 2 - t}", "v < 2 - t", False),
    ],
)
def test_a_condition_with_values_of_two_times(tmp_path, let, condition, is_late):
    path = tmp_path / "m.yaml"
    path.write_text(MODEL.replace("value: {carried", f"value: {{let: {let}, while: {condition}, carried"))
    assert any("while has the carried values after the step" in found.message for found in check(path)) is is_late


@pytest.mark.parametrize("written", ["trial[3]", "trial[0] + trial[3]"])
def test_a_result_that_is_not_there_says_how_many_there_are(tmp_path, written):
    path = tmp_path / "m.yaml"
    path.write_text(Path("examples/drift_diffusion.yaml").read_text().replace("value: trial[1]", f"value: {written}"))
    with pytest.raises(LoopError, match=r"; trial has 3 results, from trial\[0\] on"):
        mdf_loop.run(path)


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("edges: {}", "edges: {e: a.out -> b.x}", "got a text; write edges: {e: {sender: a, sender_port: out, receiver"),
        ("edges: {}", "edges: [{sender: a}]", "got a list; write edges: {e: {sender: a, sender_port: out, receiver"),
        (
            "edges: {}",
            "edges: {e: {from: a, to: b}}",
            "an edge has no 'from'; it has id, metadata, parameters, receiver, receiver_port",
        ),
        (
            "edges: {}",
            "edges: {e: {sender: a.out, receiver: b}}",
            "an edge has to say its sender_port; write edges: {e: {sender: a,",
        ),
        ("edges: {}", "conditions: {a: {type: Always}}", "it has metadata, node_specific, termination; write conditions: {node_"),
        (
            "edges: {}",
            "conditions: {termination: Always}",
            "got a text; write conditions: {node_specific: {a: {type: ...}}, term",
        ),
        ("parameters", "conditions: {type: Always}, parameters", "a node has no 'conditions' (a graph has: see the indentation)"),
    ],
)
def test_edges_and_conditions_have_an_example(tmp_path, right, wrong, told):
    path = tmp_path / "m.yaml"
    plain = "m: {graphs: {g: {nodes: {a: {parameters: {x: {value: 1.0}}, output_ports: {out: {value: x}}}}, edges: {}}}}"
    path.write_text(plain)
    mdf_loop.run(path)
    path.write_text(plain.replace(right, wrong))
    with pytest.raises(LoopError, match=re.escape(told)):
        mdf_loop.run(path)
    assert any(told in found.message for found in check(path))
