"""Whatever stands in a protobuf: the ways into the library give a result or a LoopError, and nothing else."""

import random
import traceback
import warnings

import numpy as np
import onnx
import pytest
from mutations import mutated
from onnx import TensorProto, helper, numpy_helper, parser

import mdf_loop
from mdf_loop import backend

TEXTS = {
    "loop": """main (int64 n, bool go, float[2] x, float w) => (float[2] last, float[k,2] rows) {
        [run] last, rows = Loop (n, go, x) <body = inner (int64 i, bool c, float[2] v) => (bool d, float[2] u, float[2] r) {
            d = Identity (c) [add] u = Add (v, w) r = Neg (u) }>
    }""",
    "scan": """main (float[2] x, float[3,2] rows) => (float[2] last, float[3,2] sums) {
        last, sums = Scan <num_scan_inputs = 1, scan_input_axes = [0], scan_input_directions = [1], scan_output_axes = [0],
            body = inner (float[2] s, float[2] r) => (float[2] t, float[2] u) { t = Add (s, r) u = Identity (t) }> (x, rows)
    }""",
    "if": """main (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = a () => (float[2] p) { p = Neg (x) },
                    else_branch = b () => (float[2] q) { two = Constant <value = float {2.0}> () q = Mul (x, two) }>
    }""",
    "weights": """main (float[2] x, float[2] b) => (float[1,2] y, int64[2] z) <float[2,2] w = {1, 2, 3, 4}, float[2] b = {1, 1}> {
        t = MatMul (x, w) y = Gemm <alpha = 0.5, transB = 0> (x2, w, b) axes = Constant <value_ints = [0]> ()
        x2 = Unsqueeze (t, axes) s = Shape (x2) z = Cast <to = 7> (s)
    }""",
    "sequences": """main (seq(float[2]) xs, float[2] x) => (seq(float[2]) ys, float[k] y) {
        ys = SequenceMap <body = inner (float[2] v) => (float[2] u) { u = Add (v, x) }> (xs)
        y = ConcatFromSequence <axis = 0> (ys)
    }""",
}
INPUTS = {
    "loop": [np.int64(3), np.bool_(True), np.ones(2, np.float32), np.float32(2)],
    "scan": [np.ones(2, np.float32), np.ones((3, 2), np.float32)],
    "if": [np.bool_(True), np.ones(2, np.float32)],
    "weights": [np.ones(2, np.float32)],
    "sequences": [[np.ones(2, np.float32)] * 2, np.ones(2, np.float32)],
    "function": [np.ones(2, np.float32)],
    "sparse": [np.ones((3, 3), np.float64)],
    "maps": [{"a": 1.0, "b": 2.0}],
}


def function_model():
    """A function of another version that calls one, under two overloads."""
    inner = helper.make_function(
        "local", "g", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 13)], overload="one"
    )
    call = helper.make_node("g", ["a"], ["t"], domain="local", overload="one")
    outer = helper.make_function(
        *("local", "f", ["a"], ["b"], [helper.make_node("LeakyRelu", ["t"], ["b"]), call]),
        [helper.make_opsetid("", 15), helper.make_opsetid("local", 1)],
        ["alpha"],
    )
    reference = outer.node[0].attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT)
    reference.ref_attr_name = "alpha"
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("f", ["x"], ["y"], domain="local", alpha=0.5)], "g", [x], [y])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, functions=[outer, inner], opset_imports=imports, ir_version=10)


def sparse_model():
    """A sparse initializer."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.DOUBLE, [3, 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "k"], ["y"])], "g", [x], [y])
    one = graph.sparse_initializer.add(dims=[3, 3])
    one.values.CopyFrom(numpy_helper.from_array(np.ones(2), "k"))
    one.indices.CopyFrom(numpy_helper.from_array(np.array([[0, 1], [2, 2]], np.int64), "i"))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def map_model():
    """A dictionary as input."""
    kind = onnx.TypeProto()
    kind.map_type.key_type = TensorProto.STRING
    kind.map_type.value_type.tensor_type.elem_type = TensorProto.FLOAT
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])
    graph = helper.make_graph(
        [node], "g", [helper.make_value_info("x", kind)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 2])]
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def models():
    """The models that are changed, by name."""
    read = {name: parser.parse_model('<ir_version: 10, opset_import: ["": 21]> ' + text) for name, text in TEXTS.items()}
    return {**read, "function": function_model(), "sparse": sparse_model(), "maps": map_model()}


def bodies(graph):
    """A graph and the graphs in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from bodies(attribute.g)


def ways(model, inputs):
    """Every way into the library for a protobuf."""
    inner = list(bodies(model.graph))[-1]
    named = dict(zip([value.name for value in model.graph.input], inputs, strict=False))
    yield "prepare and run", lambda: backend.run_model(model, inputs)
    yield "run", lambda: mdf_loop.run(model, **named)
    for form in ("mdf", "onnx"):
        yield f"to_onnx of convert, {form}", lambda form=form: mdf_loop.to_onnx(mdf_loop.convert(model, body=form))
        yield f"run of convert, {form}", lambda form=form: mdf_loop.run(mdf_loop.convert(model, body=form), **named)
    yield "loop", lambda: mdf_loop.loop(2, True, inputs[-1], body=inner, x=inputs[-1], w=np.float32(1))
    yield "scan", lambda: mdf_loop.scan(inputs[-1], body=inner, num_scan_inputs=1)
    yield "if_", lambda: mdf_loop.if_(True, then_branch=inner, else_branch=inner, x=inputs[-1])
    yield "compile", lambda: mdf_loop.compile(inner)(2, True, inputs[-1])
    for function in model.functions:
        yield "function as body", lambda function=function: mdf_loop.loop(2, True, inputs[-1], body=function)


def told_otherwise(calls):
    """What ended in another exception than a LoopError that says something, with the place."""
    for name, call in calls:
        try:
            with warnings.catch_warnings(), mdf_loop.options(max_iterations=50):
                warnings.simplefilter("ignore")
                call()
        except Exception as error:
            if not isinstance(error, mdf_loop.LoopError) or not str(error).strip():
                place = [frame for frame in traceback.extract_tb(error.__traceback__) if "mdf_loop" in frame.filename][-1:]
                yield f"{name}: {type(error).__name__}: {error} at {place}"


@pytest.mark.parametrize("name", INPUTS)
def test_unchanged_models_run_in_every_way(name):
    model = models()[name]
    expected = backend.run_model(model, INPUTS[name])
    named = dict(zip([value.name for value in model.graph.input], INPUTS[name], strict=False))
    for form in ("mdf", "onnx"):
        converted = mdf_loop.convert(model, body=form)
        for results in (mdf_loop.run(converted, **named).values(), backend.run_model(mdf_loop.to_onnx(converted), INPUTS[name])):
            for result, wanted in zip(results, expected, strict=True):
                np.testing.assert_equal(result, wanted)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", INPUTS)
def test_changed_fields_are_results_or_loop_errors(name, seed):
    rng, found = random.Random(f"{name} {seed}"), []
    original = models()[name]
    for _ in range(8):
        changed = mutated(original, rng, rng.randint(1, 3))
        found += told_otherwise(ways(changed, INPUTS[name]))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", INPUTS)
def test_truncated_files_are_results_or_loop_errors(name, tmp_path):
    whole = models()[name].SerializeToString()
    path = tmp_path / "cut.onnx"
    files = (backend.prepare, mdf_loop.convert, mdf_loop.load, lambda file: mdf_loop.loop(1, True, 1.0, body=file))
    for length in range(0, len(whole), max(len(whole) // 40, 1)):
        path.write_bytes(whole[:length])
        found = list(told_otherwise((f"way {k}", lambda way=way: way(path)) for k, way in enumerate(files)))
        assert not found, "\n".join(found)


WRONG = (None, 5, 1.5, b"bytes", [], {}, object(), onnx.NodeProto(), onnx.TypeProto(), np.ones(2), {1: 2}, ["a", None])


@pytest.mark.parametrize("value", WRONG, ids=lambda value: f"{type(value).__name__} {value}"[:20].strip())
def test_arguments_of_wrong_types_are_loop_errors(value):
    from mdf_loop import openvino

    body = "b (int64 i, bool c, float x) => (bool c, float y) { y = Neg (x) }"
    adding = "b (float s, float x) => (float t, float x) { t = Add (s, x) }"
    nothing = {"then_branch": "t () => (x) { }", "else_branch": "e () => (x) { }"}
    rep = backend.prepare(models()["if"])
    calls = [
        lambda: mdf_loop.loop(1, True, 1.0, body=value),
        lambda: mdf_loop.loop(value, True, 1.0, body=body),
        lambda: mdf_loop.loop(1, value, 1.0, body=body),
        lambda: mdf_loop.loop(1, True, value, body=body),
        lambda: mdf_loop.scan(1.0, body=value, num_scan_inputs=1),
        lambda: mdf_loop.scan(1.0, [1.0], body=adding, num_scan_inputs=value),
        lambda: mdf_loop.scan([1.0], body="b (float x) => (float x) { }", num_scan_inputs=1, scan_input_axes=value),
        lambda: mdf_loop.if_(value, **nothing, x=1.0),
        lambda: mdf_loop.if_(True, then_branch=value, else_branch=value),
        lambda: mdf_loop.compile(value),
        lambda: mdf_loop.compile(body, num_scan_inputs=value),
        lambda: backend.prepare(value),
        lambda: backend.run_model(value, []),
        lambda: backend.run_node(value, []),
        lambda: backend.supports_device(value),
        lambda: rep.run(value),
        lambda: rep.run([value, value]),
        lambda: rep.run({"c": value, "x": value}),
        lambda: mdf_loop.convert(value),
        lambda: mdf_loop.to_onnx(value),
        lambda: openvino.prepare(value),
        lambda: openvino.prepare("nowhere.xml", value),
    ]
    found = list(told_otherwise((f"call {k}", call) for k, call in enumerate(calls)))
    assert not found, "\n".join(found)
