"""Weights of every element type, in every form of a file: convert, save, load, run and to_onnx keep each of their bits."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mdf_loop
from mdf_loop import backend
from mdf_loop.types.elements import DTYPES, kind_of
from mdf_loop.writers.onnx_graph import write_tensor

FORMS = ("model", "json", "yaml", "npz of json", "npz of yaml", "onnx", "external data")
PLACES = ("weight", "shared weight", "default", "attribute", "body")
TYPES = {TensorProto.DataType.Name(code).lower(): dtype for code, dtype in DTYPES.items()}


def samples(dtype):
    """Numbers of a type: the largest and smallest ones, and those that are no numbers."""
    kind = kind_of(dtype)
    if kind == "string":
        return np.array([["plain", "", "x[0]"], ["é\n\x07", '"quoted"', "1"]], object)
    if kind == "bool":
        return np.array([[True, False, True], [False, False, True]])
    if kind == "integer":
        limits = ml_dtypes.iinfo(dtype)
        return np.array([[int(limits.max), int(limits.min), 1], [0, 1, int(limits.max)]], object).astype(dtype)
    if kind == "complex":
        return np.array([[1 + 2j, -0.5j, np.inf], [0, np.nan, 1e30 + 1e-30j]], dtype)
    limits = ml_dtypes.finfo(dtype)
    one = np.array([[limits.max, limits.min, limits.smallest_subnormal], [1, limits.tiny, 0.5]], dtype)
    odd = np.array([[np.nan, np.inf, -np.inf], [-0.0, 2, 4]]).astype(dtype)
    return np.concatenate([one, odd])


def identity(weight, place):
    """A model that gives a weight back, twice where it is shared."""
    kind = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(weight.dtype), weight.shape)
    if weight.dtype == object:
        kind = helper.make_tensor_type_proto(TensorProto.STRING, weight.shape)
    open_kind = onnx.TypeProto()
    open_kind.CopyFrom(kind)
    for dim in open_kind.tensor_type.shape.dim:
        dim.dim_param = f"n{len(dim.dim_param)}"
    tensor = write_tensor(weight, "w")
    node = helper.make_node("Identity", ["w"], ["y"])
    graph = helper.make_graph([node], "g", [], [helper.make_value_info("y", kind)], [tensor])
    if place == "shared weight":
        graph.node.append(helper.make_node("Identity", ["w"], ["z"]))
        graph.output.append(helper.make_value_info("z", kind))
    if place == "default":
        graph.input.append(helper.make_value_info("w", open_kind))
    if place == "attribute":
        del graph.initializer[:]
        graph.node[0].CopyFrom(helper.make_node("Given", [], ["y"], domain="tests.weights", value=tensor))
    if place == "body":
        branch = onnx.GraphProto()
        branch.CopyFrom(graph)
        branch.name = "branch"
        yes = helper.make_node("Constant", [], ["yes"], value=helper.make_tensor("", TensorProto.BOOL, [], [True]))
        choice = helper.make_node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)
        graph = helper.make_graph([yes, choice], "g", [], [helper.make_value_info("y", kind)])
    imports = [helper.make_opsetid("", onnx.defs.onnx_opset_version()), helper.make_opsetid("tests.weights", 1)]
    return helper.make_model(graph, opset_imports=imports if place == "attribute" else imports[:1], ir_version=onnx.IR_VERSION)


@mdf_loop.kernel("Given", domain="tests.weights")
def given(*, value):
    """The attribute itself."""
    return value


def through(model, form, folder):
    """A model as it is after it was in a file."""
    if form == "model":
        return mdf_loop.convert(model)
    if form in ("onnx", "external data"):
        how = {"save_as_external_data": True, "size_threshold": 0, "location": "w.bin"} if form == "external data" else {}
        onnx.save(model, folder / "m.onnx", **how)
        return mdf_loop.load(folder / "m.onnx")
    path = folder / f"m.{form.rpartition(' ')[2]}"
    mdf_loop.convert(model, path, inline=0 if form.startswith("npz") else 10**6)
    return mdf_loop.load(path)


def assert_same_bits(actual, expected):
    """The same type, shape and numbers, signs of zeros too; nan is nan."""
    actual = np.asarray(actual)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if kind_of(expected.dtype) == "float":
        actual, expected = actual.astype(np.float64), expected.astype(np.float64)
        assert np.array_equal(np.signbit(actual[actual == 0]), np.signbit(expected[expected == 0]))
    assert np.array_equal(actual, expected, equal_nan=expected.dtype.kind in "fc")


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("form", FORMS)
def test_weights_of_every_type_survive_every_form_of_a_file(name, form, tmp_path):
    for shape in ("whole", "one", "scalar", "empty"):
        full = samples(TYPES[name])
        weight = {"whole": full, "one": full[:1, :1], "scalar": full[0, 0:1].reshape(()), "empty": full[:0]}[shape]
        for place in PLACES if shape == "whole" else PLACES[:1]:
            folder = tmp_path / f"{shape} {place}"
            folder.mkdir()
            model = identity(weight, place)
            if form == FORMS[0]:
                assert_same_bits(backend.run_model(model, [])[0], weight)
            read = through(model, form, folder)
            for result in mdf_loop.run(read).values():
                assert_same_bits(result, weight)
            if place == "attribute" or name.startswith("float6"):
                continue  # ONNX's checker knows no such operator; no Identity of float6
            for result in backend.run_model(mdf_loop.to_onnx(read), []):
                assert_same_bits(result, weight)


@pytest.mark.parametrize("numbers", [[2**64], [-1, 2**64 - 1], [300], [-1], [1.5], ["1"]])
def test_number_that_does_not_fit_its_type_is_refused(numbers, tmp_path):
    path = tmp_path / "m.json"
    mdf_loop.convert(identity(np.array([7], np.uint8), "weight"), path)
    path.write_text(path.read_text().replace("7", str(numbers)[1:-1].replace("'", '"')))
    with pytest.raises(mdf_loop.LoopError):
        mdf_loop.run(path)
