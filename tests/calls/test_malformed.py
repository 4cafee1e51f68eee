"""Bodies that cannot be read or bound: the whole message, the class and the place."""

import onnx
import pytest
from bodies import graph, model, passing, raised, says
from onnx import TensorProto, helper

from mdf_loop import backend, loop
from mdf_loop.errors import LoopWarning, MalformedBody, MissingFile, UnsupportedOp

# Operators


def node_error(nodes, opset=18):
    return {"body": {"onnx": f"b (int64 i, bool c, float x) => (bool c, float y) {{ {nodes} }}", "opset": opset}}


def test_unknown_operator():
    message = (
        "there is no kernel for Frobnicate, version 18 of its domain; mdf_loop.kernel adds one, "
        "`mdf-loop ops` lists those there are"
    )
    error = says(UnsupportedOp, message, 1, True, 1.0, **node_error("[frob] y = Frobnicate (x)"))
    assert error.__notes__ == ["in node frob of 'b'"]


def test_misspelt_operator_gets_the_right_spelling():
    error = raised(UnsupportedOp, 1, True, 1.0, **node_error("y = Sigmoidd (x)"))
    assert str(error).startswith("there is no kernel for Sigmoidd, version 18 of its domain; did you mean 'Sigmoid'?; ")


def test_operator_of_a_later_opset():
    message = "CastLike exists from version 15 on, not in version 14 of its domain"
    says(UnsupportedOp, message, 1, True, 1.0, **node_error("y = CastLike (x, x)", opset=14))


def test_operator_of_another_domain_says_how_to_add_a_kernel():
    message = (
        'there is no kernel for my.ops::Twice, version 1 of its domain; @mdf_loop.kernel("Twice", domain="my.ops") above a '
        "function of its inputs adds one, `mdf-loop ops` lists those there are"
    )
    with pytest.warns(LoopWarning, match="uses Twice of domain 'my.ops' but does not import that domain; version 1 is taken"):
        says(UnsupportedOp, message, 1, True, 1.0, **node_error("y = my.ops.Twice (x)"))


def test_unknown_attribute():
    error = says(
        UnsupportedOp,
        "LeakyRelu, version 18 of its domain, has no attribute slope; it takes alpha",
        1,
        True,
        1.0,
        **node_error(f"y = LeakyRelu <slope = [{', '.join(map(str, range(500)))}]> (x)"),
    )
    assert error.__notes__ == ["in node LeakyRelu -> y of 'b'"]


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("y = Exp (x, k)", "Exp, version 18 of its domain, takes 1 input; the node has 2"),
        ("y = Add (x)", "Add, version 18 of its domain, takes 2 inputs; the node has 1"),
        ("y = Clip (x, k, k, k)", "Clip, version 18 of its domain, takes 1 to 3 inputs; the node has 4"),
    ],
)
def test_wrong_number_of_inputs(node, message):
    says(MalformedBody, message, 1, True, 1.0, **node_error(node), k=1.0)


def test_unknown_attribute_of_a_loop():
    inner = passing("float", collected=False)
    message = "Loop has no attribute speed"
    says(UnsupportedOp, message, 1, True, 1.0, **node_error(f"y = Loop <speed = 3, body = {inner}> (i, c, x)"))


# Text, protobufs and files


def test_text_that_does_not_parse_says_where():
    message = (
        "ONNX text does not parse: [ParseError at position (line: 1 column: 39)] Error context: "
        "b (int64 i, bool c) => (bool c) { y = } Expected character ( not found."
    )
    says(MalformedBody, message, 1, True, body="b (int64 i, bool c) => (bool c) { y = }")


@pytest.mark.parametrize("text", ["hello", "42", "."])
def test_string_that_is_neither_text_nor_path(text):
    message = f"{text!r} is neither ONNX text nor the path of an .onnx file, nor an equation such as x: x + 1"
    says(MalformedBody, message, 1, True, body=text)


def test_missing_file():
    error = says(MissingFile, "there is no file 'nowhere.onnx'", 1, True, body="nowhere.onnx")
    assert isinstance(error.__cause__, FileNotFoundError)


def test_file_that_is_no_model(tmp_path):
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"this is no protobuf")
    error = raised(MalformedBody, 1, True, body=path)
    assert str(error).startswith(f"{str(path)!r} is not an ONNX model: ")
    path.write_bytes(b"")
    says(MalformedBody, f"{str(path)!r} holds no graph", 1, True, body=path)


def test_tensor_whose_data_do_not_fit_its_shape():
    body = graph("b (int64 i, bool c) => (bool c, k) <float[2] k = {1, 2}> { }")
    body.initializer[0].ClearField("float_data")
    body.initializer[0].raw_data = b"12345"
    error = raised(MalformedBody, 1, True, body=body)
    assert str(error).startswith("b: tensor 'k' cannot be read: ")
    assert error.path == ("b",)


def test_attribute_that_refers_to_a_function():
    node = helper.make_node("LeakyRelu", ["x"], ["y"], name="leak")
    attribute = node.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT)
    attribute.ref_attr_name = "slope"
    body = graph("b (int64 i, bool c, float x) => (bool c, float y) { y = Neg (x) }")
    body.node[0].CopyFrom(node)
    message = "b/leak: attribute 'alpha' refers to an attribute of a function that was not inlined"
    says(MalformedBody, message, 1, True, 1.0, body=body)


def test_function_with_attributes_is_a_template_and_no_body():
    function = onnx.parser.parse_function(
        '<opset_import: ["": 18], domain: "d"> f <alpha> (i, c, x) => (c, y) { y = LeakyRelu <alpha: float = @alpha> (x) }'
    )
    says(MalformedBody, "f: a function with attributes (alpha) cannot be a body", 1, True, 1.0, body=function)


MALFORMED = {
    "b: nodes Neg -> u -> Add -> t -> Neg -> u make a cycle; from one iteration to the next only carried values lead": (
        "t = Add (x, u) u = Neg (t) y = Neg (t)"
    ),
    "b: nodes Add -> y -> Add -> y make a cycle; from one iteration to the next only carried values lead": "y = Add (x, y)",
    "b/Neg -> y: writes 'y', which is already written; each name is written once": "y = Add (x, x) y = Neg (x)",
    "b/again: writes 'x', which is already written; each name is written once": "y = Add (x, x) [again] x = Neg (y)",
    "b/Constant -> x: writes 'x', which is already written; each name is written once": (
        "x = Constant <value_float = 1.0> () y = Neg (x)"
    ),
    "b/Constant -> k: writes 'k', which is already written; each name is written once": (
        "k = Constant <value_float = 1.0> () k = Constant <value_float = 2.0> () y = Neg (k)"
    ),
    "b/Constant -> k: a Constant has exactly one value attribute, this one has 2": (
        "k = Constant <value_float = 1.0, value_int = 2> () y = Neg (x)"
    ),
    "b/Constant -> k: a Constant has no attribute 'colour'": "k = Constant <colour = 1.0> () y = Neg (x)",
    "b/in/body: nodes add -> negate -> add make a cycle; from one iteration to the next only carried values lead": (
        "[in] y = Loop <body = inner (int64 j, bool d, float v) => (bool d, float z) "
        "{ [negate] z = Neg (w) [add] w = Add (v, z) }> (i, c, x)"
    ),
}


@pytest.mark.parametrize("message", MALFORMED)
def test_graph_that_is_not_well_formed_names_node_and_value(message):
    says(MalformedBody, message, 1, True, 1.0, **node_error(MALFORMED[message]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b (int64 i, bool c, float c) => (bool c) { }", "b: two inputs are called 'c'"),
        ('b (int64 i, bool c, float "") => (bool c) { }', "b: an input has no name"),
        ('b (int64 i, bool c) => (bool c, float "") { }', "b: an output has no name"),
    ],
)
def test_signature_that_is_not_well_formed(text, message):
    says(MalformedBody, message, 1, True, body=text)


@pytest.mark.parametrize("wrong", [b"doubl\xffng", b"c_o\xfft", b"ste\xff", b"Ad\xff"])
def test_name_that_is_no_text(wrong):
    body = onnx.GraphProto()
    text = "doubling (int64 i, bool c, float x) => (bool c_out, float y) { c_out = Identity (c) y = Add (x, step) }"
    old = wrong.replace(b"\xff", {b"doubl\xffng": b"i", b"c_o\xfft": b"u", b"ste\xff": b"p", b"Ad\xff": b"d"}[wrong])
    body.ParseFromString(graph(text).SerializeToString().replace(old, wrong))
    error = raised(MalformedBody, 1, True, 1.0, body=body, step=1)
    assert str(error).endswith(f"the name {wrong!r} is not UTF-8 text")


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (helper.make_attribute("value_float", "text"), "attribute 'value_float' does not hold what its name says: "),
        (helper.make_attribute("value", 3), "attribute 'value' does not hold a tensor"),
    ],
    ids=["text for a number", "number for a tensor"],
)
def test_constant_whose_attribute_is_of_another_type(attribute, message):
    body = graph("b (int64 i, bool c) => (bool c, float k) { [one] k = Constant <value_float = 1.0> () }")
    body.node[0].attribute[0].CopyFrom(attribute)
    assert str(raised(MalformedBody, 1, True, body=body)).startswith(f"b/one: {message}")


def test_node_without_what_it_needs():
    inner = passing("float", collected=False)
    for node, message in (
        (f"y = Loop <body = {inner}> (i, c, x)", "Loop needs a graph for body"),
        ("y = Scan <num_scan_inputs = 1, body = b (float v) => (float w) { w = Neg (v) }> (x)", "Scan needs a graph for body"),
        (
            "y = If (c) <then_branch = t () => (x) { }, else_branch = e () => (x) { }>",
            "If needs a graph for then_branch and else_branch",
        ),
    ):
        body = graph(f"b (int64 i, bool c, float x) => (bool c, float y) {{ {node} }}")
        body.node[0].ClearField("attribute")
        says(MalformedBody, message, 1, True, 1.0, body=body)


def test_model_that_reads_what_nothing_provides():
    with pytest.raises(MalformedBody) as info:
        backend.prepare(model("main (float x) => (float y) { y = Add (x, k) }"))
    assert str(info.value) == "main: reads 'k', which nothing in the model provides"


def test_two_initializers_of_one_name():
    body = graph("b (int64 i, bool c) => (bool c, k) <float k = {1}> { }")
    body.initializer.append(helper.make_tensor("k", TensorProto.FLOAT, [], [2.0]))
    says(MalformedBody, "b: two initializers are called 'k'", 1, True, body=body)


@pytest.mark.parametrize("bracket", ["(", "[", "{"])
def test_text_whose_brackets_would_end_the_process_is_refused(bracket):
    with pytest.raises(MalformedBody, match="nested more than 200 deep"):
        loop(2, True, 1.0, body="b {" + bracket * 100_000)


def test_brackets_in_quoted_names_are_only_text():
    name = '"' + "{" * 300 + '"'
    body = f"b (int64 i, bool c, float x) => (bool c, float {name}) {{ {name} = Add (x, x) }}"
    assert loop(2, True, 1.0, body=body) == 4.0


def test_text_nested_deeper_than_protobuf_reads_is_refused():
    text = "b (int64 i, bool c, float x) => (bool c, float y) { y = Add (x, x) }"
    for _ in range(60):
        text = f"b (int64 i, bool c, float x) => (bool c, float y) {{ y = Loop (i, c, x) <body: graph = {text}> }}"
    with pytest.raises(MalformedBody, match="ONNX text does not parse: "):
        loop(2, True, 1.0, body=text)
