"""The same body by every reader, and reading it once."""

import copy
import os
import pathlib

import numpy as np
import onnx
import pytest
from bodies import RUNNING_SUM, counting_to, graph, model
from onnx import helper, parser
from onnxscript import BOOL, FLOAT, INT64, script
from onnxscript import opset18 as op
from onnxscript.values import Opset

import mdf_loop
from mdf_loop import loop, readers
from mdf_loop.calls import prepared
from mdf_loop.errors import KindError, LoopWarning, MalformedBody
from mdf_loop.ir import Body
from mdf_loop.readers import read
from mdf_loop.readers.onnx import graph as graph_reader
from mdf_loop.types.elements import DTYPES

NODES = "{ c_out = Identity (c) y = Add (x, x) s = Neg (x) }"
TEXT = f"doubling (int64 i, bool c, float[N] x) => (bool c_out, float[N] y, float[N] s) {NODES}"
HEADER = '<ir_version: 10, opset_import: ["": 18]>'
FUNCTION = f'<opset_import: ["": 18], domain: "d"> doubling (i, c, x) => (c_out, y, s) {NODES}'


def doubling_function(i, cond, x):
    return cond, x + x, -x


@script(default_opset=op)
def typed_doubling(i: INT64, c: BOOL, x: FLOAT["N"]):  # noqa: F821
    return op.Identity(c), op.Add(x, x), op.Neg(x)


@script(default_opset=op)
def untyped_doubling(i, c, x):
    return op.Identity(c), op.Add(x, x), op.Neg(x)


@script(Opset("this", 1), default_opset=op)
def twice(x):
    return op.Add(x, x)


@script(default_opset=op)
def calling_twice(i: INT64, c: BOOL, x: FLOAT):
    return op.Identity(c), twice(x)


def mdf_graph():
    """The body as an MDF graph that says its signature."""
    return {
        "metadata": {"inputs": ["i", "c", "x"], "outputs": ["c_out", "y", "s"]},
        "nodes": {
            "keep": {"input_ports": {"c": {}}, "output_ports": {"c_out": {"value": "c"}}},
            "double": {"input_ports": {"x": {}}, "output_ports": {"y": {"value": "x + x"}, "s": {"value": "-x"}}},
        },
    }


@pytest.fixture
def path(tmp_path):
    """The body as a file."""
    file = tmp_path / "doubling.onnx"
    onnx.save(model(TEXT), file)
    return file


def forms(path):
    """Every form a body can have, by name."""
    return {
        "GraphProto": graph(TEXT),
        "ModelProto": model(TEXT),
        "FunctionProto": parser.parse_function(FUNCTION),
        "text of a graph": TEXT,
        "text of a model": HEADER + TEXT,
        "text over several lines": TEXT.replace("{", "{\n").replace(")", ")\n"),
        "path": path,
        "path as text": os.fspath(path),
        "dict of text": {"onnx": TEXT},
        "dict of text with an opset": {"onnx": TEXT, "opset": 18},
        "dict of the text of a model": {"onnx": HEADER + TEXT},
        "dict of a file": {"onnx_file": os.fspath(path)},
        "typed onnxscript function": typed_doubling,
        "untyped onnxscript function": untyped_doubling,
        "callable": doubling_function,
        "Body": read(TEXT),
        "dict of an MDF graph": {"graph_doubling": mdf_graph()},
    }


@pytest.mark.parametrize("form", forms(pathlib.Path("none.onnx")))
def test_every_form_of_a_body_gives_the_same(form, path):
    body = forms(path)[form]
    for _ in range(2):
        y, s = loop(3, True, np.array([1, 2], np.float32), body=body)
        np.testing.assert_array_equal(y, np.array([8, 16], np.float32), strict=True)
        np.testing.assert_array_equal(s, -np.array([[1, 2], [2, 4], [4, 8]], np.float32), strict=True)


@pytest.mark.parametrize(
    "form", ["GraphProto", "ModelProto", "FunctionProto", "text of a model", "path", "dict of text", "dict of a file"]
)
def test_readers_of_one_graph_make_one_record(form, path):
    body, expected = read(forms(path)[form]), read(TEXT)
    assert body.nodes == expected.nodes
    assert (body.inputs, body.outputs, body.captures) == (expected.inputs, expected.outputs, expected.captures)


def test_signature_goes_by_order_and_names_are_kept():
    body = read(TEXT)
    assert (body.name, body.inputs, body.outputs) == ("doubling", ("i", "c", "x"), ("c_out", "y", "s"))
    assert str(body.type_of("x")) == "float32[N]"


def test_constants_and_initializers_are_set_aside_and_captures_found():
    nodes = "one = Constant <value_float = 1.0> () y = Add (x, k) t = Add (y, one) z = Add (t, w)"
    body = read(f"b (float x) => (float z) <float k = {{1}}> {{ {nodes} }}")
    assert (set(body.constants), body.captures, [n.op for n in body.nodes]) == ({"k", "one"}, ("w",), ["Add", "Add", "Add"])


def test_printed_body_shows_what_was_read():
    assert str(read(RUNNING_SUM)) == (
        "running_sum (int64[] i, bool[] c, float32[N] x) => (c_out, x_out, s) {\n"
        "  captures step\n"
        "  c_out = Identity (c)\n"
        "  x_out = Add (x, step)\n"
        "  s = Identity (x_out)\n"
        "}"
    )


@pytest.mark.parametrize(
    ("opset", "node"), [(12, "s = Unsqueeze <axes = [0]> (x)"), (13, "a = Constant <value_ints = [0]> () s = Unsqueeze (x, a)")]
)
def test_opset_of_a_text_may_be_said_beside_it(opset, node):
    text = f"b (int64 i, bool c, float[N] x) => (bool c, float[N] x, s) {{ {node} }}"
    assert loop(1, True, [1.0], body={"onnx": text, "opset": opset})[1].shape == (1, 1, 1)


def test_opset_that_the_source_states_itself_is_not_said_again(path):
    for body in ({"onnx": HEADER + TEXT, "opset": 18}, {"onnx_file": path, "opset": 18}):
        with pytest.raises(MalformedBody, match='states its own opset; leave out "opset": 18'):
            read(body)


@pytest.mark.parametrize("opset", [0, -1, "18", 1.5, True])
def test_opset_must_be_a_whole_number(opset):
    with pytest.raises(KindError) as info:
        read({"onnx": TEXT, "opset": opset})
    assert str(info.value) == f"the opset of a body must be a whole number from 1 on; got {opset!r}"


def test_other_keys_beside_a_text_are_refused():
    with pytest.raises(MalformedBody) as info:
        read({"onnx": TEXT, "opsets": 18, "name": "b"})
    assert str(info.value) == 'a body {"onnx": ...} may also say "opset"; unknown: name, opsets'


def test_ai_onnx_is_onnxs_own_domain():
    source = model(TEXT)
    source.opset_import[0].domain = "ai.onnx"
    source.graph.node[1].domain = "ai.onnx"
    assert [n.domain for n in read(source).nodes] == ["", "", ""]


def test_sparse_initializers_are_filled_up():
    body = graph("b (int64 i, bool c) => (bool c, k) { }")
    values = helper.make_tensor("k", onnx.TensorProto.FLOAT, [2], [1.5, 2.5])
    indices = helper.make_tensor("k_indices", onnx.TensorProto.INT64, [2], [1, 5])
    body.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    assert loop(1, True, body=body).tolist() == [[[0, 1.5, 0], [0, 0, 2.5]]]


@pytest.mark.parametrize("function", [typed_doubling, untyped_doubling], ids=["typed", "untyped"])
def test_onnxscript_function_is_read_and_not_called(function, monkeypatch):
    monkeypatch.setattr(type(function), "__call__", lambda *_: pytest.fail("the function was called"))
    assert loop(1, True, np.float32([1]), body=function)[0].tolist() == [2]


def test_onnxscript_functions_that_call_others_are_inlined():
    assert loop(3, True, 1.0, body=calling_twice) == 8


# Reading once


@pytest.fixture
def reads(monkeypatch):
    """What was read, call by call; nothing is known from before."""
    seen = []
    prepared._cache.clear()

    def counting(source, *rest):
        seen.append(source)
        return readers.read(source, *rest)

    monkeypatch.setattr(prepared, "read", counting)
    yield seen
    prepared._cache.clear()


READ_FORMS = [name for name in forms(pathlib.Path("none.onnx")) if name not in ("callable",)]


@pytest.mark.parametrize("form", READ_FORMS)
def test_second_call_does_not_read_again(form, path, reads):
    body = forms(path)[form]
    for _ in range(3):
        loop(2, True, np.float32([1]), body=body)
    assert len(reads) == 1


@pytest.mark.parametrize(
    "form", ["GraphProto", "ModelProto", "FunctionProto", "dict of text", "dict of an MDF graph", "dict of a file"]
)
def test_copy_of_a_body_is_not_read_again(form, path, reads):
    body = forms(path)[form]
    for _ in range(3):
        loop(2, True, np.float32([1]), body=copy.deepcopy(body))
    assert len(reads) == 1


def test_nothing_is_compiled_twice_either(reads, monkeypatch):
    made = []
    original = prepared.NumpyLoop
    monkeypatch.setattr(prepared, "NumpyLoop", lambda record: made.append(record) or original(record))
    for n in (2, 3, 4):
        loop(n, True, 0, body=counting_to(3))
    assert len(made) == 1


def test_changed_content_is_read_again(reads):
    body = graph(TEXT)
    assert loop(1, True, np.float32([3]), body=body)[0].tolist() == [6]
    body.node[1].op_type = "Mul"
    assert loop(1, True, np.float32([3]), body=body)[0].tolist() == [9]
    assert len(reads) == 2


def test_changed_dict_is_read_again(reads):
    body = {"onnx": TEXT}
    loop(1, True, np.float32([3]), body=body)
    body["onnx"] = TEXT.replace("Add", "Mul")
    assert loop(1, True, np.float32([3]), body=body)[0].tolist() == [9]


def test_changed_file_is_read_again(path, reads):
    for body in (path, {"onnx_file": os.fspath(path)}):
        onnx.save(model(TEXT), path)
        assert loop(1, True, np.float32([3]), body=body)[0].tolist() == [6]
        onnx.save(model(TEXT.replace("Add", "Mul")), path)
        os.utime(path, ns=(1, 1 + len(reads)))  # also where the clock is coarse
        assert loop(1, True, np.float32([3]), body=body)[0].tolist() == [9]


def test_changed_python_function_is_called_as_it_is_now():
    factor = 2

    def body(i, cond, x):
        return cond, x * factor

    assert loop(1, True, 3, body=body) == 6
    factor = 5
    assert loop(1, True, 3, body=body) == 15


def test_two_python_functions_of_one_name_are_two_bodies():
    bodies = [lambda i, cond, x, k=k: (cond, x + k) for k in (1, 2)]
    assert [loop(1, True, 0, body=body).tolist() for body in bodies] == [1, 2]


def test_cache_forgets_the_oldest(reads):
    for k in range(300):
        loop(1, True, 0.0, body=f"b (int64 i, bool c, float x) => (bool c, float x, float k) <float k = {{{k}}}> {{ }}")
    assert len(prepared._cache._entries) <= prepared._cache.most
    assert len(reads) == 300


def test_reader_returns_a_body_for_every_form(path):
    for name, body in forms(path).items():
        if name != "callable":
            assert isinstance(read(body, 1), Body), name


def test_mdf_loop_reads_nothing_when_it_is_imported():
    assert mdf_loop.loop is loop


@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 1, 2)])
@pytest.mark.parametrize("dtype", sorted({*graph_reader._PLAIN.values(), DTYPES[16], DTYPES[22]}, key=str), ids=str)
def test_tensor_is_read_as_onnx_reads_it(dtype, shape):
    values = np.random.default_rng(5).integers(0, 2, shape).astype(dtype)
    tensor = onnx.numpy_helper.from_array(values)
    read, expected = graph_reader.read_tensor(tensor), onnx.numpy_helper.to_array(tensor)
    assert tensor.HasField("raw_data")
    assert (read.dtype, read.shape) == (expected.dtype, expected.shape) == (dtype, shape)
    assert read.tobytes() == expected.tobytes() == values.tobytes()


@pytest.mark.parametrize("dims", [[2], [4], [-1, -3], [3, 0]])
def test_tensor_with_other_dimensions_than_data_is_refused(dims):
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=dims, raw_data=np.ones(3, np.float32).tobytes())
    with pytest.raises(MalformedBody, match="tensor 'w' cannot be read"):
        graph_reader.read_tensor(tensor, ("g",))


def test_domain_that_is_not_imported_is_warned_of_once_wherever_it_is_used():
    inner = graph("inner () => (y) { y = my.ops.Neg (a) z = my.ops.Neg (a) }")
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    outer = helper.make_graph([node], "outer", [helper.make_tensor_value_info("c", 9, [])], [onnx.ValueInfoProto(name="y")])
    with pytest.warns(LoopWarning, match="uses Neg of domain 'my.ops'") as warned:
        body = graph_reader.read_graph(outer, {"": 18})
    assert len(warned) == 1
    assert body.opsets == body.nodes[0].bodies[0][1].opsets == {"": 18, "my.ops": 1}
