"""What other runtimes run, runs; and what is converted comes back as it was."""

import random
import warnings

import numpy as np
import onnx
import pytest
from converting import by_engine
from onnx import TensorProto, helper, numpy_helper, parser

import mdf_loop
from mdf_loop import backend
from mdf_loop.errors import KindError, LoopWarning, MalformedBody, UnsupportedOp
from mdf_loop.readers.onnx.opsets import newest

HEADER = '<ir_version: 10, opset_import: ["": 20]> '
FORMS = ("mdf", "onnx")
X = np.array([-1.5, 2.0], np.float32)


def value(name, kind=TensorProto.FLOAT, shape=(2,)):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, functions=(), imports=(("", 20), ("local", 1)), inputs=None, outputs=None, ir_version=10):
    """A model of some nodes that makes y of x."""
    graph = helper.make_graph(list(nodes), "g", inputs or [value("x")], outputs or [value("y", shape=None)])
    opsets = [helper.make_opsetid(*entry) for entry in imports]
    return helper.make_model(graph, functions=list(functions), opset_imports=opsets, ir_version=ir_version)


def results(model, *inputs):
    """The outputs of a model by the backend, and by both forms of its converted model, there and back."""
    expected = backend.run_model(model, list(inputs))
    named = dict(zip([i.name for i in model.graph.input], inputs, strict=False))
    for form in FORMS:
        converted = mdf_loop.convert(model, body=form)
        ran = list(mdf_loop.run(converted, **named).values())
        again = backend.run_model(mdf_loop.to_onnx(converted), list(inputs))
        for result, back, wanted in zip(ran, again, expected, strict=True):
            np.testing.assert_equal(result, wanted)
            np.testing.assert_equal(back, wanted)
    return expected


# The order of nodes


NESTED = """main (int64 n, float[2] x) => (float[2] y, float[k,2] rows) <float[2] w = {1, 2}> {
    a = Abs (x) b = Add (a, w) yes = Constant <value = bool {1}> ()
    c, rows = Loop (n, yes, b) <body = step (int64 i, bool go, float[2] v) => (bool on, float[2] u, float[2] r) {
        on = Identity (go) s = Mul (v, a) t = Add (s, w) u = Tanh (t)
        r = If (go) <then_branch = t () => (float[2] p) { p2 = Neg (u) p = Add (p2, b) },
                     else_branch = e () => (float[2] q) { q = Identity (u) }>
    }>
    d = Neg (c) y = Sub (d, x)
}"""


def shuffled(graph, rng):
    """Bring the nodes of a graph, and of the graphs in it, into another order."""
    nodes = list(graph.node)
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                shuffled(attribute.g, rng)
    rng.shuffle(nodes)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


@pytest.mark.parametrize("seed", range(5))
def test_nodes_in_any_order_give_the_same(seed):
    model = parser.parse_model(HEADER + NESTED)
    expected = backend.run_model(model, [np.int64(3), X])
    shuffled(model.graph, random.Random(seed))
    for result, wanted in zip(results(model, np.int64(3), X), expected, strict=True):
        np.testing.assert_array_equal(result, wanted, strict=True)


def test_nodes_that_stand_in_order_stay_where_they_are():
    text = "g (float[2] x) => (float[2] y) { [late] u = RandomNormal <shape = [2]> () [first] t = Abs (x) y = Add (t, u) }"
    body = mdf_loop.readers.read(HEADER + text)
    assert [node.name for node in body.nodes][:2] == ["late", "first"]


def in_body(nodes):
    return f"""g (float[2] x) => (float[2] y) {{
        three = Constant <value = int64 {{3}}> ()
        [run] y = Loop (three, , x) <body = b (int64 i, bool c, float[2] v) => (bool c, float[2] w) {{ {nodes} }}>
    }}"""


CYCLES = {
    "g": "g (float[2] x) => (float[2] y) { [one] y = Add (x, z) [two] z = Neg (y) }",
    "g/run/body": in_body("[one] w = Add (v, z) [two] z = Neg (w)"),
}


@pytest.mark.parametrize("place", CYCLES)
def test_a_cycle_is_refused_with_the_names_of_its_nodes(place):
    with pytest.raises(MalformedBody, match=f"^{place}: nodes two -> one -> two make a cycle") as caught:
        backend.prepare(parser.parse_model(HEADER + CYCLES[place]))
    assert caught.value.path == tuple(place.split("/"))


def test_nodes_of_functions_in_any_order():
    nodes = [helper.make_node("Neg", ["t"], ["b"]), helper.make_node("Abs", ["a"], ["t"])]
    function = helper.make_function("local", "f", ["a"], ["b"], nodes, [helper.make_opsetid("", 20)])
    model = model_of([helper.make_node("f", ["x"], ["y"], domain="local")], [function])
    np.testing.assert_array_equal(results(model, X)[0], -np.abs(X))
    function.node[1].input[0] = "b"
    with pytest.raises(MalformedBody, match="g/f: nodes Abs -> Neg -> Abs make a cycle"):
        backend.prepare(model_of([helper.make_node("f", ["x"], ["y"], domain="local")], [function]))


# Versions


def test_a_domain_without_an_import_gets_the_newest_known_version():
    node = helper.make_node("Normalizer", ["x"], ["y"], domain="ai.onnx.ml", norm="L1")
    for way in (backend.prepare, mdf_loop.convert):
        with pytest.warns(LoopWarning, match="uses Normalizer of domain 'ai.onnx.ml' but does not import that domain; version 5"):
            way(model_of([node]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(
            results(model_of([node], inputs=[value("x", shape=(1, 2))]), X.reshape(1, 2))[0], [[-0.42857143, 0.5714286]]
        )
    with pytest.warns(LoopWarning, match=f"uses Abs of domain 'ai.onnx' .* version {onnx.defs.onnx_opset_version()} is taken"):
        rep = backend.prepare(model_of([helper.make_node("Abs", ["x"], ["y"])], imports=[("ai.onnx.ml", 3)]))
    np.testing.assert_array_equal(rep.run([X])[0], np.abs(X))


def test_a_domain_without_an_import_in_a_body_and_of_ones_own_kernel():
    @mdf_loop.kernel("Thrice", domain="tests.thrice", since=4)
    def thrice(x):
        return x + x + x

    assert newest("tests.thrice") == 4
    with pytest.warns(LoopWarning, match="uses Thrice of domain 'tests.thrice' .* version 4 is taken"):
        rep = backend.prepare(parser.parse_model(HEADER + in_body("w = tests.thrice.Thrice (v)")))
    np.testing.assert_array_equal(rep.run([X])[0], 27 * X)


@pytest.mark.parametrize("domain", ["com.microsoft", "ai.onnx.contrib", "no.such"])
def test_an_operator_of_another_domain_is_named_with_the_way_to_add_it(domain):
    for imports in ([("", 20), (domain, 1)], [("", 20)]):
        model = model_of([helper.make_node("Gelu", ["x"], ["y"], domain=domain)], imports=imports)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LoopWarning)
            with pytest.raises(UnsupportedOp) as caught:
                backend.prepare(model)
        assert f"{domain}::Gelu" in str(caught.value)
        assert f'@mdf_loop.kernel("Gelu", domain="{domain}")' in str(caught.value)


@pytest.mark.parametrize("domain", ["mdf", "mdf.engine", "record", "openvino", "python"])
def test_domains_of_our_own_are_no_operators_of_a_model(domain):
    model = model_of([helper.make_node("Graph", ["x"], ["y"], domain=domain)], imports=[("", 20), (domain, 1)])
    for way in (backend.prepare, mdf_loop.convert):
        with pytest.raises(UnsupportedOp, match=f"{domain}::Graph is not an operator of a model"):
            way(model)


@pytest.mark.parametrize("version", [-1, 2**31, 2**62])
def test_versions_that_no_domain_has_are_refused(version):
    with pytest.raises(MalformedBody, match=f"'ai.onnx' is imported in version {version}"):
        backend.prepare(model_of([helper.make_node("Abs", ["x"], ["y"])], imports=[("", version)]))
    body = {"onnx": "b (int64 i, bool c, float x) => (bool c, float x) { }", "opset": abs(version) << 40}
    with pytest.raises(KindError, match="opset of a body"):
        mdf_loop.loop(1, True, 1.0, body=body)


def function(name, nodes, opset, inputs=("a",), outputs=("b",), **more):
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, list(inputs), list(outputs), nodes, imports, **more)


def call(name, before, after, **more):
    return helper.make_node(name, [before], [after], domain="local", **more)


MATRIX = np.arange(12, dtype=np.float32).reshape(2, 3, 2)


def softmax_model(versions, around):
    """Softmax, which meant another thing before 13, in functions of some versions, each called by the one before."""
    functions = []
    for k, version in enumerate(versions):
        inner = [call(f"f{k + 1}", "t", "b")] if k + 1 < len(versions) else [helper.make_node("Identity", ["t"], ["b"])]
        functions.append(function(f"f{k}", [*inner, helper.make_node("Softmax", ["a"], ["t"], axis=1)], version))
    inputs, outputs = [value("x", shape=(2, 3, 2))], [value("y", shape=(2, 3, 2))]
    return model_of([call("f0", "x", "y")], functions, [("", around), ("local", 1)], inputs, outputs)


def softmax(x, version):
    flat = x.reshape(2, 6) if version < 13 else np.swapaxes(x, 1, 2)
    powers = np.exp(flat - flat.max(-1, keepdims=True))
    found = powers / powers.sum(-1, keepdims=True)
    return found.reshape(2, 3, 2) if version < 13 else np.swapaxes(found, 1, 2)


@pytest.mark.parametrize("versions", [(11,), (13,), (11, 13), (13, 11, 12), (20, 11)], ids=str)
@pytest.mark.parametrize("around", [11, 13, 20])
def test_functions_have_the_versions_that_they_import(versions, around):
    expected = MATRIX
    for version in versions:
        expected = softmax(expected, version)
    model = softmax_model(versions, around)
    np.testing.assert_allclose(backend.run_model(model, [MATRIX])[0], expected, rtol=1e-5)
    converted = mdf_loop.convert(model)
    np.testing.assert_allclose(mdf_loop.run(converted, x=MATRIX)["y"], expected, rtol=1e-5)
    np.testing.assert_allclose(by_engine(converted, {"x": MATRIX})[0], expected, rtol=1e-5)
    if any((version < 13) != (around < 13) for version in versions):
        with pytest.raises(UnsupportedOp, match=r"Softmax of version .* of 'ai.onnx' is not what it is in version"):
            mdf_loop.to_onnx(converted)
    else:
        written = mdf_loop.to_onnx(converted)
        assert {entry.domain: entry.version for entry in written.opset_import}[""] == around
        np.testing.assert_allclose(backend.run_model(written, [MATRIX])[0], expected, rtol=1e-5)


def test_a_function_of_another_version_in_a_body():
    body = helper.make_graph(
        [helper.make_node("Softmax", ["v"], ["w"], axis=1)],
        "body",
        [value("i", TensorProto.INT64, ()), value("c", TensorProto.BOOL, ()), value("v", shape=(2, 3, 2))],
        [value("c", TensorProto.BOOL, ()), value("w", shape=(2, 3, 2))],
    )
    run = helper.make_node("Loop", ["two", "", "a"], ["b"], body=body)
    two = helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.array(2)))
    made = model_of([call("f", "x", "y")], [function("f", [run, two], 11)], inputs=[value("x", shape=(2, 3, 2))])
    expected = softmax(softmax(MATRIX, 11), 11)
    np.testing.assert_allclose(backend.run_model(made, [MATRIX])[0], expected, rtol=1e-5)
    np.testing.assert_allclose(mdf_loop.run(mdf_loop.convert(made), x=MATRIX)["y"], expected, rtol=1e-5)
    with pytest.raises(UnsupportedOp, match="Softmax of version 11"):
        mdf_loop.convert(made, body="onnx")


CALLS = """<ir_version: 9, opset_import: ["": 20, "local": 1]>
g (float[2] x) => (float[2] y) {
    three = Constant <value = int64 {3}> ()
    y = Loop (three, , x) <body = b (int64 i, bool c, float[2] v) => (bool c, float[2] w) {
        a = local.outer (v) b = local.inner (a) w = local.inner <rate = 0.25> (b) }>
}
<opset_import: ["": 20, "local": 1], domain: "local"> outer (x) => (y) { y = local.inner (x) }
<opset_import: ["": 20], domain: "local"> inner <rate: float = 0.75> (x) => (y) {
    zero = Constant <value_float = 0.0> () s = ReduceSum <keepdims = 0> (x) positive = Greater (s, zero)
    y = If (positive) <then_branch = t () => (p) { p = LeakyRelu <alpha: float = @rate> (x) },
                       else_branch = e () => (q) { k = Constant <value_float: float = @rate> () q = Mul (x, k) }>
}"""


@pytest.mark.parametrize("x", [X, -X])
def test_attributes_that_calls_leave_out_have_the_defaults_of_the_function(x):
    def inner(x, rate=0.75):
        return np.where(x < 0, x * rate, x) if x.sum() > 0 else x * rate

    expected = x
    for _ in range(3):
        expected = inner(inner(inner(expected)), 0.25)
    np.testing.assert_allclose(results(parser.parse_model(CALLS), x)[0], expected, rtol=1e-6)


PASSED_ON = """<ir_version: 9, opset_import: ["": 20, "local": 1]>
g (float[2] x) => (float[2] y, float[2] z) { y = local.first (x) z = local.first <a = 0.5> (x) }
<opset_import: ["": 20, "local": 1], domain: "local"> unused <a> (x) => (y) { y = local.first <a: float = @a> (x) }
<opset_import: ["": 20, "local": 1], domain: "local"> first <a> (x) => (y) { y = local.second <b: float = @a> (x) }
<opset_import: ["": 20, "local": 1], domain: "local"> second <b: float = 0.25> (x) => (y) {
    s = local.third <c: float = @b> (x) t = Elu <alpha: float = @b> (x) y = Add (s, t) }
<opset_import: ["": 20], domain: "local"> third <c: float = 0.75> (x) => (y) { y = LeakyRelu <alpha: float = @c> (x) }
"""


def test_an_attribute_that_a_function_passes_on_without_having_it_has_the_default_of_the_inner_function():
    for found, a in zip(results(parser.parse_model(PASSED_ON), X), (0.25, 0.5), strict=True):
        np.testing.assert_allclose(found, np.where(X < 0, a * X + a * np.expm1(X), 2 * X), rtol=1e-6)


def test_overloads_of_a_function_are_distinguished():
    functions = [
        function("f", [helper.make_node("Neg", ["a"], ["b"])], 13, overload="one"),
        function("f", [helper.make_node("Abs", ["a"], ["b"])], 20, overload="two"),
    ]
    model = model_of([call("f", "x", "t", overload="one"), call("f", "t", "y", overload="two")], functions)
    np.testing.assert_array_equal(results(model, X)[0], np.abs(X))


def test_attributes_of_functions_reach_nodes_of_other_versions():
    node = helper.make_node("LeakyRelu", ["a"], ["b"])
    node.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT).ref_attr_name = "slope"
    model = model_of([call("f", "x", "y", slope=0.5)], [function("f", [node], 15, attributes=["slope"])])
    np.testing.assert_array_equal(results(model, X)[0], [-0.75, 2])


def test_functions_that_call_themselves_are_refused():
    made = model_of([call("f", "x", "y")], [function("f", [call("f", "a", "b")], 20)])
    with pytest.raises(MalformedBody, match=r"a function of the model calls itself: .*f -> .*f"):
        backend.prepare(made)


# Control flow that does not fit its bodies


def broken(change):
    made = parser.parse_model(HEADER + NESTED)
    change(next(node for node in made.graph.node if node.op_type == "Loop"))
    return made


def clear_inputs(node):
    del node.input[:]


CHANGES = {
    "no inputs": (clear_inputs, "0 carried values given, so the body must have 2 inputs"),
    "an output too many": (lambda node: node.output.append("more"), "names 3 outputs, its body gives 2"),
    "an input too many": (lambda node: node.input.append("x"), "2 carried values given, so the body must have 4 inputs"),
    "a number for the body": (
        lambda node: node.attribute[0].CopyFrom(helper.make_attribute("body", 3)),
        r"attribute 'body' must be a graph; got a whole number \(3\)",
    ),
    "two bodies": (lambda node: node.attribute.append(node.attribute[0]), "two attributes are called 'body'"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_loop_that_does_not_fit_its_body_is_a_clear_error(name):
    change, message = CHANGES[name]
    with pytest.raises(mdf_loop.LoopError, match=message):
        backend.prepare(broken(change))


SCANS = {
    "num_scan_inputs = [1]": "attribute 'num_scan_inputs' must be a whole number; got a list of 1, first a whole number",
    'num_scan_inputs = "1"': "attribute 'num_scan_inputs' must be a whole number; got a text",
    "num_scan_inputs = 0": "with num_scan_inputs=0",
    "num_scan_inputs = 9": "with num_scan_inputs=9",
    "num_scan_inputs = 1, scan_input_axes = 1": "attribute 'scan_input_axes' must be a list, each of it a whole number",
    "num_scan_inputs = 1, scan_input_axes = [1, 1]": "scan_input_axes has 2 entries for 1 value",
    "num_scan_inputs = 1, scan_input_directions = [7]": "must be 0 .forward. or 1",
    "scan_input_axes = [1]": "has no attribute num_scan_inputs",
}


@pytest.mark.parametrize("attributes", SCANS)
def test_a_scan_with_odd_attributes_is_a_clear_error(attributes):
    text = f"g (float[2] x) => (float[2] y) {{ y = Scan <{attributes}, body = b (float s) => (float t) {{ t = Neg (s) }}> (x) }}"
    with pytest.raises(mdf_loop.LoopError, match=SCANS[attributes]):
        backend.prepare(parser.parse_model(HEADER + text))


@pytest.mark.parametrize("inputs", [[""], [], ["c", "c"]])
def test_an_if_without_its_condition_does_not_take_another_value_for_it(inputs):
    branch = [
        helper.make_graph([helper.make_node("Identity", ["flag"], ["r"])], "b", [], [value("r", TensorProto.BOOL, ())])
        for _ in range(2)
    ]
    node = helper.make_node("If", inputs, ["y"], then_branch=branch[0], else_branch=branch[1])
    inputs_of = [value("c", TensorProto.BOOL, ()), value("flag", TensorProto.BOOL, ())]
    with pytest.raises(MalformedBody, match="has one input, the condition cond"):
        backend.prepare(model_of([node], inputs=inputs_of, outputs=[value("y", TensorProto.BOOL, ())]))


def test_whole_numbers_will_do_for_attributes_that_are_floats():
    made = model_of([helper.make_node("LeakyRelu", ["x"], ["y"], alpha=2)])
    np.testing.assert_array_equal(results(made, X)[0], [-3, 2])
    assert mdf_loop.to_onnx(mdf_loop.convert(made)).graph.node[0].attribute[0].f == 2


SPARSE = {
    "index outside, two axes": ([3, 3], [[0, 5]], "of shape .* has values outside of it"),
    "index below, one axis": ([10], [-1], "of shape .* has values outside of it"),
    "index outside, one axis": ([10], [10], "of shape .* has values outside of it"),
    "a negative dimension": ([-1], [0], "must have dimensions from 0 on"),
    "too many indices": ([10], [0, 1], "of . dimensions has values of shape"),
    "too many axes": ([10], [[0, 0]], "of . dimensions has values of shape"),
}


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_weights_that_do_not_fit_are_clear_errors(name):
    dims, indices, message = SPARSE[name]
    made = model_of([helper.make_node("Identity", ["k"], ["y"])])
    one = made.graph.sparse_initializer.add(dims=dims)
    one.values.CopyFrom(numpy_helper.from_array(np.ones(1), "k"))
    one.indices.CopyFrom(numpy_helper.from_array(np.array(indices, np.int64), "i"))
    with pytest.raises(MalformedBody, match=f"sparse tensor 'k' {message}"):
        backend.prepare(made)


def test_graphs_and_types_that_are_nested_without_end_are_clear_errors():
    graph = inner = onnx.GraphProto(name="g")
    for _ in range(400):
        node = inner.node.add(op_type="If", input=["c"], output=["x"])
        inner = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
    deep = onnx.GraphProto(name="g")
    element = deep.input.add(name="x").type
    for _ in range(400):
        element = element.sequence_type.elem_type
    element.tensor_type.elem_type = 1
    for made in (graph, deep):
        with pytest.raises(MalformedBody, match="nested more than 50 deep"):
            mdf_loop.if_(True, then_branch=made, else_branch=made)
