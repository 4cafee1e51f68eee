"""What has a name in MDF keeps it in ONNX: ports with defaults are inputs with initializers, parameters are initializers."""

import re

import numpy as np
import onnx
import onnxruntime
import pytest
from converting import model_of
from modeci_mdf.mdf import Edge, Graph, InputPort, Model, Node, OutputPort, Parameter, ParameterCondition

import mdf_loop
from mdf_loop.errors import LoopWarning
from tests.equations.test_expression import VALUES
from tests.onnx.test_to_onnx import NOT_IN_ONNX, TEXTS

LAST = {**NOT_IN_ONNX, "numpy.eye(k)": "", "numpy.diag(x)": ""}


def node(name, ports=(), parameters=(), **outputs):
    """A node of ports with defaults, parameters and outputs."""
    return Node(
        id=name,
        input_ports=[InputPort(id=id, default_value=value) for id, value in dict(ports).items()],
        parameters=[Parameter(id=id, value=value) for id, value in dict(parameters).items()],
        output_ports=[OutputPort(id=id, value=value) for id, value in outputs.items()],
    )


def chained():
    nodes = [
        node("a", {"x": 1.0}, y="x + 1"),
        node("b", {"z": 2.0}, w="z * 0"),
        Node(
            id="c",
            input_ports=[InputPort(id="x"), InputPort(id="z", default_value=5.0)],
            output_ports=[OutputPort(id="o", value="x * z")],
        ),
    ]
    edges = [Edge(id="e", sender="a", sender_port="y", receiver="c", receiver_port="x")]
    return Model(id="m", graphs=[Graph(id="g", nodes=nodes, edges=edges)])


def declared():
    ports = [InputPort(id="x", default_value=1, type="float"), InputPort(id="v", default_value=[1, 2], type="float", shape=(2,))]
    outputs = [OutputPort(id="y", value="x * 3"), OutputPort(id="q", value="numpy.sum(v)")]
    return model_of(Node(id="a", input_ports=ports, output_ports=outputs))


def conditional():
    high = ParameterCondition(id="high", test="x > limit", value="x * 10")
    made = node("a", {"x": 0.3}, {"limit": 0.5}, y="v")
    made.parameters.append(Parameter(id="v", value="x", conditions=[high]))
    return model_of(made)


def with_function():
    made = node("a", {"x": 0.3}, {"gain": 2.0}, y="f")
    args = {"variable0": "x", "gain": "gain", "bias": 1, "offset": 0}
    made.parameters.append(Parameter(id="f", function="logistic", args=args))
    return model_of(made)


def stateful():
    made = node("a", {"x": 0.3}, {"rate": 2.0}, y="s")
    made.parameters.append(Parameter(id="s", value="s + rate * x", default_initial_value=1.0))
    return model_of(made)


BUILT = {
    "twins": (
        lambda: model_of(node("a", {"x": 1.0}, {"g": 2.0}, u="x*g"), node("b", {"x": 3.0}, {"g": 4.0}, v="x*g+1")),
        ["a.x", "b.x"],
    ),
    "called as an output": (lambda: model_of(node("a", {"x": 1.5}, y="x * 2", x="x + 1")), ["a.x"]),
    "called as a node": (lambda: model_of(node("a", {"a": 1.5}, {"b": 2}, y="a * b")), ["a"]),
    "names": (
        lambda: model_of(node("a", {"model": 2.0, "é": 3.0, "x_2": 4, "_": 1.0}, y="model + é * x_2 - _")),
        ["model", "é", "x_2", "_"],
    ),
    "constants": (
        lambda: model_of(node("a", {"tau": 1.5, "pi": 2.0, "e": 3.0, "i": 4}, y="tau * 2 + pi + e * i")),
        ["tau", "pi", "e", "i"],
    ),
    "kinds": (lambda: model_of(node("a", {"p": True, "k": 3, "z": 0.5}, y="z if p else k", q="k // 2")), ["p", "k", "z"]),
    "arrays": (
        lambda: model_of(
            node("a", {"w": np.eye(2), "x": np.array([1.0, 2.0])}, {"b": [0.5, 1.0]}, y="numpy.dot(w, x)", q="numpy.sum(b)")
        ),
        ["w", "x"],
    ),
    "parameters": (lambda: model_of(node("a", {"x": 1.0}, {"dt": 0.05, "rate": 2.0, "step": "dt * rate"}, y="x + step")), ["x"]),
    "not read": (lambda: model_of(node("a", {"x": 1.0, "unread": 2.0}, y="x + 1")), ["x", "unread"]),
    "declared": (declared, ["x", "v"]),
    "chained": (chained, ["x", "b.z", "c.z"]),
    "conditional": (conditional, ["x"]),
    "a function": (with_function, ["x"]),
    "a state": (stateful, ["x"]),
    "accumulate": (lambda: mdf_loop.load("examples/accumulate.yaml"), ["x", "y"]),
    "a network": (lambda: mdf_loop.load("examples/rnn.yaml"), ["sequence"]),
    "a diffusion": (lambda: mdf_loop.load("examples/drift_diffusion.yaml"), ["drift"]),
}


def changed(value):
    """Other values of a kind and shape."""
    value = np.asarray(value)
    if value.dtype.kind == "b":
        return [~value]
    return [value + 1, value * 0] if value.dtype.kind in "iu" else [value * 1.5 + 0.1, value * 0 + 2.0]


def by_onnxruntime(written, inputs):
    """The outputs by name; what is not given has its initializer."""
    session = onnxruntime.InferenceSession(written.SerializeToString(), onnxruntime.SessionOptions())
    types = {port.name: onnx.helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type) for port in written.graph.input}
    found = session.run(None, {name: np.asarray(value).astype(types[name]) for name, value in inputs.items()})
    return dict(zip([port.name for port in session.get_outputs()], found, strict=True))


def assert_outputs(found, expected):
    """The same numbers; MDF's have no type."""
    assert list(found) == list(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(np.asarray(found[name], float), np.asarray(value, float), rtol=1e-6, atol=1e-12, err_msg=name)


def assert_law(model, read=None, engines=("interpret", "numpy", "jit"), with_onnxruntime=True):
    """Each input, changed, changes the ONNX model and the one that comes back as it changes the MDF model."""
    written = mdf_loop.to_onnx(model)
    back = mdf_loop.prepare(mdf_loop.convert(written))
    inputs = {name: port for name, port in mdf_loop.prepare(model).inputs.items() if "input port" in port.place}
    assert list(back.inputs) == [port.name for port in written.graph.input]
    for name, port in back.inputs.items():
        default = (inputs.get(name) or inputs[name.partition(".")[2]]).default
        np.testing.assert_array_equal(port.default, default)
        for value in changed(default) if read is None or name in read else ():
            given = {name: value}
            try:
                with np.errstate(all="ignore"):
                    expected = mdf_loop.run(model, **given, seed=1)
            except mdf_loop.LoopError:  # an expression of an index that is not there
                continue
            for engine in engines:
                with mdf_loop.options(engine=engine):
                    assert_outputs(mdf_loop.run(written, **given, seed=1), expected)
                    assert_outputs(back(**given, seed=1), expected)
            if with_onnxruntime:
                assert_outputs(by_onnxruntime(written, given), expected)


@pytest.mark.parametrize("name", BUILT)
def test_each_input_reaches_the_results_of_the_onnx_model(name):
    make, inputs = BUILT[name]
    assert [port.name for port in mdf_loop.to_onnx(make()).graph.input] == inputs
    assert_law(make(), with_onnxruntime=name != "a diffusion")  # which draws numbers of its own


@pytest.mark.parametrize("text", [text for text in TEXTS if text not in LAST][::3])
def test_each_input_of_an_expression_reaches_its_results(text):
    model, read = model_of(node("A", VALUES, out=text)), re.findall(r"\b[a-z]\b", text)
    assert_law(model, read, with_onnxruntime="linalg.det" not in text)  # onnxruntime has Det for float32 alone


@pytest.mark.parametrize("name", BUILT)
def test_parameters_keep_their_names_and_may_become_inputs(name):
    model = BUILT[name][0]()
    written = mdf_loop.to_onnx(model)
    back, held = mdf_loop.convert(written), {tensor.name for tensor in written.graph.initializer}
    for id, port in mdf_loop.prepare(model).inputs.items():
        if "parameter" not in port.place or isinstance(port.default, str | dict) or id == "s":
            continue
        assert id in held
        value = np.asarray(port.default) * 2 if id != "max_steps" else 7
        expected = mdf_loop.run(model, **{id: value}, seed=1)
        assert_outputs(mdf_loop.run(back, **{id: value}, seed=1), expected)
        chosen = mdf_loop.to_onnx(model, inputs=[id])
        assert id in [one.name for one in chosen.graph.input]
        assert_outputs(mdf_loop.run(chosen, **{id: value}, seed=1), expected)


def test_a_computation_of_parameters_stays_one():
    written = mdf_loop.to_onnx(BUILT["parameters"][0]())
    product = next(made for made in written.graph.node if made.op_type == "Mul")
    assert list(product.input) == ["dt", "rate"]
    assert {tensor.name for tensor in written.graph.initializer} == {"x", "dt", "rate"}


def test_a_model_comes_back_from_mdf_with_the_same_graph():
    written = mdf_loop.to_onnx("examples/drift_diffusion.yaml")
    again = mdf_loop.to_onnx(mdf_loop.convert(written))
    assert list(again.graph.input) == list(written.graph.input)
    assert list(again.graph.output) == list(written.graph.output)
    held = [sorted(tensor.SerializeToString() for tensor in model.graph.initializer) for model in (again, written)]
    assert held[0] == held[1]


def test_other_lengths_may_be_given_where_the_port_says_none():
    written = mdf_loop.to_onnx("examples/accumulate.yaml")
    for x in ([1.0, 2.0], [3.0] * 9):
        assert_outputs(mdf_loop.run(written, x=x), mdf_loop.run("examples/accumulate.yaml", x=x))
        assert_outputs(by_onnxruntime(written, {"x": x}), mdf_loop.run("examples/accumulate.yaml", x=x))


def test_what_must_be_known_while_it_is_written_stays_a_constant_with_a_warning():
    model = model_of(node("A", {"k": 2, "x": 1.0}, y="numpy.eye(k) * x"))
    with pytest.warns(
        LoopWarning, match=r"^'k' is not an input of the ONNX model, where it is always 2: .* numpy.eye has no ONNX operator$"
    ):
        written = mdf_loop.to_onnx(model)
    assert [port.name for port in written.graph.input] == ["x"]
    assert_outputs(by_onnxruntime(written, {"x": 3.0}), mdf_loop.run(model, x=3.0))


def test_lists_that_python_would_join_are_refused_as_before():
    with pytest.raises(mdf_loop.LoopError, match="works on a Python list"):
        mdf_loop.to_onnx(model_of(node("A", {"x": [1.0, 2.0]}, y="x + x")))
