"""ONNX models that go through every form and come back: dictionaries, names, versions, omitted inputs."""

import warnings

import numpy as np
import onnx
import pytest
from converting import by_engine, by_onnxruntime
from onnx import TensorProto, helper, numpy_helper, parser

import mdf_loop
from mdf_loop import backend
from mdf_loop.errors import LoopWarning
from mdf_loop.ir import ValueType
from mdf_loop.readers.mdf.written_values import read_type_text, write_type_text
from tests.loops.test_models_of_others import FORMS, HEADER, X, model_of, results, value

# Dictionaries


def dictionary(key, kind=TensorProto.FLOAT):
    said = onnx.TypeProto()
    said.map_type.key_type = key
    said.map_type.value_type.tensor_type.elem_type = kind
    return said


MAPS = {
    "DictVectorizer": (dictionary(TensorProto.STRING), {"b": 2.0}, value("y", shape=(1, 2)), {"string_vocabulary": ["a", "b"]}),
    "CastMap": (dictionary(TensorProto.INT64), {1: 2.0, 0: 1.0}, value("y", shape=(1, 2)), {"cast_to": "TO_FLOAT"}),
}


@pytest.mark.parametrize("op", MAPS)
def test_dictionaries_go_in_through_every_form(op, tmp_path):
    kind, given, output, attributes = MAPS[op]
    node = helper.make_node(op, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    made = model_of([node], (), [("", 18), ("ai.onnx.ml", 1)], [helper.make_value_info("x", kind)], [output], 8)
    expected = results(made, given)[0]
    for suffix in ("json", "yaml"):
        path = tmp_path / f"m.{suffix}"
        mdf_loop.convert(made, path)
        np.testing.assert_array_equal(mdf_loop.run(path, x=given)["y"], expected)
        back = mdf_loop.to_onnx(path)
        assert back.graph.input[0].type == kind


@pytest.mark.parametrize("key", [TensorProto.INT64, TensorProto.STRING])
def test_dictionaries_come_out_through_every_form(key, tmp_path):
    kind = onnx.TypeProto()
    kind.sequence_type.elem_type.CopyFrom(dictionary(key))
    labels = {"classlabels_int64s": [3, 4]} if key == TensorProto.INT64 else {"classlabels_strings": ["no", "yes"]}
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **labels)
    imports, output = [("", 18), ("ai.onnx.ml", 1)], helper.make_value_info("y", kind)
    made = model_of([node], (), imports, [value("x", shape=(None, 2))], [output], 8)
    rows = np.array([[0.25, 0.75], [1, 0]], np.float32)
    expected = results(made, rows)
    mdf_loop.convert(made, tmp_path / "m.yaml")
    back = mdf_loop.to_onnx(tmp_path / "m.yaml")
    assert back.graph.output[0].type == kind
    assert mdf_loop.run(tmp_path / "m.yaml", x=rows)["y"] == expected[0]


@pytest.mark.parametrize("text", ["map(int64,float)", "seq(map(string,float[2,n]))", "map(float)", "map(float[2,3])"])
def test_types_of_dictionaries_are_texts_and_back(text):
    assert write_type_text(read_type_text(text)) == text
    assert read_type_text("map(int64, float)") == ValueType(
        kind="map", element=ValueType(np.dtype("float32")), key=np.dtype("int64")
    )


# What comes back


@pytest.mark.parametrize("ir_version", [3, 4, 7, 8, 10])
@pytest.mark.parametrize("imports", [{"": 8}, {"": 8, "ai.onnx.ml": 1}, {"ai.onnx.ml": 1}], ids=str)
def test_versions_come_back(ir_version, imports, tmp_path):
    op, domain = ("Normalizer", "ai.onnx.ml") if "" not in imports else ("Add", "")
    node = helper.make_node(op, ["x"] if domain else ["x", "k"], ["y"], domain=domain)
    constant = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.ones(2, np.float32)))
    nodes = [node] if domain else [constant, node]
    made = model_of(nodes, (), imports.items(), [value("x", shape=(1, 2))], [value("y", shape=(1, 2))], ir_version)
    made.doc_string, made.graph.doc_string = "what it is", "and its graph"
    mdf_loop.convert(made, tmp_path / "m.yaml")
    for converted in (mdf_loop.convert(made), tmp_path / "m.yaml"):
        back = mdf_loop.to_onnx(converted)
        assert (back.ir_version, {entry.domain: entry.version for entry in back.opset_import}) == (ir_version, imports)
        assert (back.doc_string, back.graph.doc_string, back.graph.name) == ("what it is", "and its graph", "g")
        x = np.array([[1, 3]], np.float32)
        np.testing.assert_array_equal(by_onnxruntime(back, {"x": x})["y"], backend.run_model(made, [x])[0])


def test_names_come_back_and_each_node_has_one_of_its_own():
    text = """g (float[2] "x.1") => (float[2] "y/2") {
        a = Abs ("x.1") b = Abs (a) [Abs_2] c = Abs (b) ["a b"] d = Abs (c)
        yes = Constant <value = bool {1}> ()
        "y/2" = If (yes) <then_branch = t () => (float[2] p) { p = Abs (d) },
                          else_branch = e () => (float[2] q) { [Abs_2] q = Abs (d) }>
    }"""
    made = parser.parse_model(HEADER + text)
    made.graph.name = "a graph.1"
    back = mdf_loop.to_onnx(mdf_loop.convert(made))
    names = [node.name for node in back.graph.node]
    assert len(set(names)) == len(names)
    assert {"Abs_2", "a b"} <= set(names)
    assert back.graph.name == "a graph.1"
    assert [v.name for v in (*back.graph.input, *back.graph.output)] == ["x.1", "y/2"]
    np.testing.assert_array_equal(by_onnxruntime(back, {"x.1": X})["y/2"], np.abs(X))


@pytest.mark.parametrize(
    ("op", "inputs", "outputs"),
    [
        ("Clip", ["x", "", ""], ["y"]),
        ("Clip", ["x", ""], ["y"]),
        ("Clip", ["x"], ["y"]),
        ("Clip", ["x", "", "k"], ["y"]),
        ("Pad", ["x", "p", ""], ["y"]),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_omitted_inputs_at_the_end_come_back(op, inputs, outputs, form, tmp_path):
    constants = [numpy_helper.from_array(np.float32(1), "k"), numpy_helper.from_array(np.array([0, 0]), "p")]
    made = model_of([helper.make_node(op, inputs, outputs)])
    made.graph.initializer.extend(tensor for tensor in constants if tensor.name in inputs)
    mdf_loop.convert(made, tmp_path / "m.yaml", body=form)
    back = mdf_loop.to_onnx(tmp_path / "m.yaml")
    assert list(back.graph.node[0].input) == inputs
    np.testing.assert_array_equal(results(made, X)[0], by_onnxruntime(back, {"x": X})["y"])


@pytest.mark.parametrize("given", [["n", ""], ["", "go"], ["n", "go"]])
@pytest.mark.parametrize("form", FORMS)
def test_a_loop_that_carries_nothing_comes_back(given, form):
    text = """g (int64 n, bool go) => (int64[k] rows) {
        rows = Loop (n, go) <body = b (int64 i, bool c) => (bool d, int64 r) { r = Neg (i) two = Constant <value = int64 {2}> ()
            d = Less (i, two) }>
    }"""
    made = parser.parse_model(HEADER + text)
    made.graph.node[0].input[:] = given
    back = mdf_loop.to_onnx(mdf_loop.convert(made, body=form))
    assert list(back.graph.node[0].input) == given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopWarning)
        expected = backend.run_model(made, [np.int64(3), np.bool_(True)])[0]
        np.testing.assert_array_equal(backend.run_model(back, [np.int64(3), np.bool_(True)])[0], expected)


# Inputs that may be left out


DEFAULTS = {
    "empty": np.zeros((0, 2), np.float32),
    "texts": np.array([["a", "b"], ["c", "d"]], object),
    "one text": np.array([["a"]], object),
    "complex": np.array([[1 + 2j, 3]], np.complex64),
    "large": np.array([2**64 - 1, 0], np.uint64),
    "half": np.ones((1, 2), np.float16),
}


@pytest.mark.parametrize("name", DEFAULTS)
@pytest.mark.parametrize("is_read", [True, False], ids=["read", "not read"])
@pytest.mark.parametrize("form", ["model", "json", "yaml", "npz"])
def test_inputs_with_an_initializer_may_be_left_out(name, is_read, form, tmp_path):
    default = DEFAULTS[name]
    code = TensorProto.STRING if default.dtype == object else helper.np_dtype_to_tensor_dtype(default.dtype)
    inputs = [value("x"), value("w", code, [f"n{k}" for k in range(default.ndim)])]
    outputs = [value("y", code if is_read else TensorProto.FLOAT, None)]
    made = model_of([helper.make_node("Identity", ["w" if is_read else "x"], ["y"])], inputs=inputs, outputs=outputs)
    made.graph.initializer.append(numpy_helper.from_array(default, "w"))
    expected = default if is_read else X
    converted = mdf_loop.convert(made)
    if form != "model":
        path = tmp_path / f"m.{'json' if form == 'npz' else form}"
        mdf_loop.convert(made, path, inline=0 if form == "npz" else 1024)
        converted = mdf_loop.load(path)
    np.testing.assert_array_equal(mdf_loop.run(converted, x=X)["y"], expected, strict=True)
    np.testing.assert_array_equal(by_engine(converted, {"x": X})[0], expected, strict=True)
    back = mdf_loop.to_onnx(converted)
    np.testing.assert_array_equal(backend.run_model(back, {"x": X})[0], expected, strict=True)
    other = np.concatenate([default, default])
    for result in (mdf_loop.run(converted, x=X, w=other)["y"], backend.run_model(back, {"x": X, "w": other})[0]):
        np.testing.assert_array_equal(result, other if is_read else X, strict=True)
