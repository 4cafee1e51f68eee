"""MDF models become ONNX models that onnxruntime runs with the same outputs."""

import numpy as np
import onnx
import pytest
from bodies import MODELS
from converting import (
    assert_close,
    assert_onnxruntime_agrees,
    assert_published,
    by_onnxruntime,
    looping,
    model_of,
    named_inputs,
)
from in_groups import each
from mdf_bodies import edge
from modeci_mdf.mdf import (
    Function,
    InputPort,
    Model,
    Node,
    OutputPort,
    Parameter,
    ParameterCondition,
)
from node_cases import node_cases
from scheduled_models import graph

import mdf_loop
from mdf_loop import backend
from mdf_loop.convert.mdf_to_onnx import inputs_of
from mdf_loop.errors import ArgumentError, KindError, UnsupportedOp
from mdf_loop.kernels import load_kernels
from tests.equations.test_expression import ARITHMETIC, FUNCTIONS, INDEXING, LOGIC, VALUES, listed
from tests.mdf.test_mdf_body import SAME_AS_MDF
from tests.onnx.test_convert import CONTROL, INPUTS

load_kernels()

NOT_IN_ONNXRUNTIME = {
    "test_range_bfloat16_type_positive_delta_expanded": "bfloat16 cannot be fed from numpy",
    "test_loop16_seq_none": "an empty optional cannot be fed by name",
    "test_if_opt": "an empty optional cannot be fed by name",
}


@pytest.mark.parametrize("name", [name for name in CONTROL if name not in NOT_IN_ONNXRUNTIME])
def test_a_case_with_bodies_runs_in_onnxruntime_after_mdf(name):
    import onnxruntime

    case = node_cases()[name]
    written = mdf_loop.to_onnx(mdf_loop.convert(case.model))
    session = onnxruntime.InferenceSession(written.SerializeToString())
    for inputs, expected in case.data_sets:
        feed = {name: v if isinstance(v, list) else np.asarray(v) for name, v in named_inputs(case.model, inputs).items()}
        assert_published(case, session.run(None, feed), expected)


@pytest.mark.parametrize("body", ["mdf", "onnx"])
@pytest.mark.parametrize("name", sorted(INPUTS))
def test_what_pytorch_exported_comes_back_through_a_file(name, body, tmp_path):
    original = onnx.load(MODELS / f"{name}.onnx")
    mdf_loop.convert(original, tmp_path / "model.yaml", body=body)
    written = mdf_loop.to_onnx(tmp_path / "model.yaml", tmp_path / "again.onnx")
    assert_close(by_onnxruntime(written, INPUTS[name]), by_onnxruntime(original, INPUTS[name]), rtol=0)
    assert onnx.load(tmp_path / "again.onnx") == written
    names = [[node.name for node in model.graph.node if node.op_type != "Constant"] for model in (original, written)]
    assert names[0] == names[1]


def test_a_weight_is_an_initializer_with_its_name():
    written = mdf_loop.to_onnx(mdf_loop.convert(MODELS / "while_ts.onnx"))
    assert {"lin.weight", "lin.bias"} <= {tensor.name for tensor in written.graph.initializer}


@pytest.mark.parametrize("name", ["accumulate", "leaky_accumulator", "newton", "newton_mdf", "rnn"])
def test_an_example_gives_the_same_in_onnxruntime(name):
    assert_onnxruntime_agrees(mdf_loop.load(f"examples/{name}.yaml"))


NOT_IN_MDF = {"numpy.inf", "- numpy.inf", "np.exp(x)"}
"""Expressions that MDF's own engine cannot evaluate."""

NOT_IN_ONNX = {
    "1j ** 2": "onnxruntime has no complex numbers",
    "(-8) ** (1 / 3)": "onnxruntime has no complex numbers",
    "10 ** 20 + 1": "ONNX has no integers without end",
    "numpy.eye(k)": "ONNX has no operator",
    "numpy.diag(x)": "ONNX has no operator",
    "numpy.interp(s, x * 0 + n, x)": "ONNX has no operator",
}

TEXTS = [text for text in listed(ARITHMETIC, LOGIC, INDEXING, FUNCTIONS) if text not in NOT_IN_MDF]


@each("text", [text for text in TEXTS if text not in NOT_IN_ONNX])
def test_an_expression_gives_what_mdf_says(text):
    if any(f"linalg.{name}" in text for name in ("inv", "det", "solve")):
        pytest.skip("not in onnxruntime: see UNSAID in test_expressions_in_onnx.py, and the determinant in test_equations.py")
    ports = [InputPort(id=name, shape=np.shape(v), type=np.asarray(v).dtype.name) for name, v in VALUES.items()]
    free = model_of(Node(id="A", input_ports=ports, output_ports=[OutputPort(id="y", value=text)]))
    assert_onnxruntime_agrees(free, **VALUES)
    for port in ports:
        port.default_value = VALUES[port.id]
    assert_onnxruntime_agrees(free)


@pytest.mark.parametrize("name", SAME_AS_MDF)
def test_a_loop_over_an_mdf_graph_gives_the_same(name):
    body = SAME_AS_MDF[name]
    assert_onnxruntime_agrees(looping(body, len(body.metadata["outputs"]) - 1))


def test_inputs_are_the_ports_that_nothing_feeds_and_parameters_are_initializers():
    weights = np.arange(6.0).reshape(2, 3) / 7
    node = Node(
        id="layer",
        input_ports=[InputPort(id="x", shape=(2,), type="float")],
        parameters=[
            Parameter(id="w", value=weights.tolist()),
            Parameter(id="h", function="onnx::MatMul", args={"A": "x", "B": "w"}),
            Parameter(id="r", function="onnx::LeakyRelu", args={"X": "h", "alpha": 0.1}),
            Parameter(id="p", function="logistic", args={"variable0": "r", "gain": 2, "bias": 1, "offset": 0}),
        ],
        output_ports=[OutputPort(id="out", value="p"), OutputPort(id="norm", value="math.sqrt(numpy.sum(r ** 2))")],
    )
    written = assert_onnxruntime_agrees(model_of(node), x=np.array([1.5, -2.0]))
    assert [value.name for value in written.graph.input] == ["x"]
    assert [value.name for value in written.graph.output] == ["out", "norm"]
    assert any(np.array_equal(onnx.numpy_helper.to_array(tensor), weights) for tensor in written.graph.initializer)


def test_a_network_of_nodes_with_weighted_edges():
    hidden = Node(
        id="hidden",
        input_ports=[InputPort(id="x", shape=(3,), reduce="add")],
        parameters=[Parameter(id="bias", value=[0.5, -0.25, 1.0])],
        functions=[
            Function(id="net", function="linear", args={"variable0": "x", "slope": 1.5, "intercept": "bias"}),
            Function(id="rate", function="logistic", args={"variable0": "net", "gain": 2, "bias": 0.1, "offset": 0}),
        ],
        output_ports=[OutputPort(id="out", value="rate"), OutputPort(id="largest", value="numpy.argmax(rate)")],
    )
    sources = [
        Node(id=id, input_ports=[InputPort(id=f"of_{id}", shape=(3,))], output_ports=[OutputPort(id="y", value=f"of_{id} - 1")])
        for id in ("a", "b")
    ]
    end = Node(
        id="end",
        input_ports=[InputPort(id="r", shape=(3,)), InputPort(id="k")],
        parameters=[
            Parameter(id="clipped", conditions=[ParameterCondition(id="low", test="r < 0.5", value=0)], value="r"),
            Parameter(id="w", value=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        ],
        functions=[Function(id="product", function="onnx::MatMul", args={"A": "r", "B": "w"})],
        output_ports=[OutputPort(id="y", value="product * k"), OutputPort(id="clipped_rate", value="clipped")],
    )
    edges = [edge("a.y -> hidden.x", weight=[1.0, 0.0, 2.0]), edge("b.y -> hidden.x", weight=-0.5)]
    edges += [edge("hidden.out -> end.r"), edge("hidden.largest -> end.k")]
    model = model_of(end, hidden, *sources, edges=edges)
    written = assert_onnxruntime_agrees(model, of_a=np.array([1.0, 2.0, 3.5]), of_b=np.array([0.0, -1.0, 2.0]))
    assert [value.name for value in written.graph.output] == ["y", "clipped_rate"]


def test_a_stateful_graph_is_its_first_evaluation():
    node = Node(
        id="A",
        input_ports=[InputPort(id="x")],
        parameters=[Parameter(id="level", value="level + x", default_initial_value=3)],
        output_ports=[OutputPort(id="y", value="level")],
    )
    assert_onnxruntime_agrees(model_of(node), x=2.5)


def test_a_state_of_a_body_is_carried():
    node = Node(
        id="A",
        input_ports=[InputPort(id="x")],
        parameters=[Parameter(id="seen", value="seen + x", default_initial_value="x")],
        output_ports=[OutputPort(id="y", value="x * 2"), OutputPort(id="sum", value="seen")],
    )
    body = model_of(node, metadata={"inputs": ["i", "go", "x"], "outputs": ["go", "y", "sum"]}).graphs[0]
    written = assert_onnxruntime_agrees(looping(body, 2))
    (loop,) = written.graph.node[:1]
    assert len(loop.input) == 2 + 3  # the carried value, the state, and whether it is the first iteration


def test_a_state_may_start_as_a_number_and_go_on_as_an_array():
    node = Node(
        id="A",
        input_ports=[InputPort(id="x")],
        parameters=[
            Parameter(id="level", value="level + numpy.tanh(x) * 0.5", default_initial_value=0),
            Parameter(id="peak", value="numpy.maximum(peak, level)", default_initial_value=-1.0),
        ],
        output_ports=[OutputPort(id="y", value="x * 2 - level"), OutputPort(id="s", value="numpy.sum(level)")],
    )
    node.output_ports.append(OutputPort(id="p", value="numpy.max(peak)"))
    body = model_of(node, metadata={"inputs": ["i", "go", "x"], "outputs": ["go", "y", "s", "p"]}).graphs[0]
    assert_onnxruntime_agrees(looping(body, 3, start=[1.0, -2.0]))


STEPS = ["x", "x + x", "x + 1", "x * 0.5", "1 - x", "x > 0", "x == False", "numpy.where(x, 2.0, 1.0)"]
"""What is carried of a truth value, or of a number, the next time: numbers, some of them."""


STARTS = [True, False, np.array([True, False]), 1, 0.5]


def assert_as_run(model, expected):
    found = mdf_loop.run(model)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
        assert (np.asarray(found[name]).dtype == bool) == (np.asarray(value).dtype == bool)


@pytest.mark.parametrize("start", STARTS, ids=str)
@pytest.mark.parametrize("text", STEPS)
def test_a_truth_value_that_becomes_a_number_is_refused_and_nothing_else(start, text):
    args = {"M": 3, "cond": True, "x": "start", "body": {"carried": {"x": text}, "collected": {"r": "x"}}}
    parameters = [Parameter(id="start", value=start), Parameter(id="run", function="onnx::Loop", args=args)]
    ports = [OutputPort(id="y", value="run.x"), OutputPort(id="rows", value="run.r")]
    made = graph(Node(id="n", parameters=parameters, output_ports=ports))
    expected = mdf_loop.run(made)
    is_bool, becomes_bool = (np.asarray(value).dtype == bool for value in (start, expected["y"]))
    if is_bool == becomes_bool:
        assert_as_run(mdf_loop.to_onnx(made), expected)
        return
    said = (
        "'x' is a truth value first and becomes a number: begin with a number" if is_bool else "element types of what is carried"
    )
    with pytest.raises(UnsupportedOp, match=said):
        mdf_loop.to_onnx(made)


@pytest.mark.parametrize("by", ["x // z", "x % z", "numpy.fmod(x, z)", "numpy.maximum(x - x // z, x % 2)", "x // 2 + x % 3"])
@pytest.mark.parametrize("zero", [0, 0.0])
def test_a_whole_number_that_becomes_a_float_is_divided_as_the_model_says_or_refused(by, zero):
    """ONNX has one type for z: as a float from the first iteration on, 1 // z would be infinite where the model says 0."""
    body = {"carried": {"x": f"numpy.minimum(x + 0.5 * z, {by})", "z": "z + 0.5"}}
    args = {"M": 2, "cond": True, "x": 5, "z": zero, "body": body}
    run = Parameter(id="run", function="onnx::Loop", args=args)
    made = graph(Node(id="n", parameters=[run], output_ports=[OutputPort(id="y", value="run.x")]))
    with np.errstate(all="ignore"):
        expected = mdf_loop.run(made)
        if type(zero) is float or "z" not in by:
            np.testing.assert_array_equal(mdf_loop.run(mdf_loop.to_onnx(made))["y"], expected["y"])
            return
    with pytest.raises(UnsupportedOp, match="begins as a whole number and becomes a float"):
        mdf_loop.to_onnx(made)


@pytest.mark.parametrize("start", STARTS, ids=str)
@pytest.mark.parametrize("text", STEPS)
def test_steps_that_begin_with_a_truth_value_give_the_same(start, text):
    state = Parameter(id="x", value=text, default_initial_value=start)
    made = graph(Node(id="n", parameters=[state], output_ports=[OutputPort(id="y", value="x")]))
    for steps in (1, 4):
        assert_as_run(mdf_loop.to_onnx(made, steps=steps), mdf_loop.run(made, steps=steps))


def test_what_is_carried_may_grow():
    node = Node(id="A", input_ports=[InputPort(id="x")], output_ports=[OutputPort(id="y", value="numpy.concatenate([x, x * 2])")])
    body = model_of(node, metadata={"inputs": ["i", "go", "x"], "outputs": ["go", "y"]}).graphs[0]
    assert_onnxruntime_agrees(looping(body, 1, start=[1.0]))


def test_an_onnx_body_keeps_its_types():
    text = "b (int64 i, bool c, float x) => (bool c, float y, float s) { y = Add (x, k)  s = Identity (y) }"
    parameters = [
        Parameter(id="k", value=0.1),
        Parameter(id="body", value={"onnx": text}),
        Parameter(id="run", function="onnx::Loop", args={"M": 3, "x": 1.5, "body": "body"}),
    ]
    ports = [OutputPort(id="y", value="run[0]"), OutputPort(id="rows", value="run[1]")]
    written = assert_onnxruntime_agrees(model_of(Node(id="n", parameters=parameters, output_ports=ports)))
    assert {value.type.tensor_type.elem_type for value in written.graph.output} == {onnx.TensorProto.FLOAT}


def test_random_numbers_become_onnxs():
    text = "numpy.random.normal(2.0, 0.5, 4) + numpy.random.uniform(0, 1)"
    model = model_of(Node(id="A", output_ports=[OutputPort(id="y", value=text)]))
    written = mdf_loop.to_onnx(model)
    assert {node.op_type for node in written.graph.node} >= {"RandomNormal", "RandomUniform"}
    drawn = by_onnxruntime(written, {})["y"]
    assert drawn.shape == (4,)
    assert len(set(drawn.tolist())) == 4


def expression(text, **parameters):
    values = [Parameter(id=name, value=value) for name, value in parameters.items()]
    return model_of(Node(id="A", parameters=values, output_ports=[OutputPort(id="y", value=text)]))


def growing():
    node = Node(id="A", input_ports=[InputPort(id="x")], output_ports=[OutputPort(id="y", value="x[None]")])
    metadata = {"inputs": ["i", "go", "x"], "outputs": ["go", "y"]}
    return looping(model_of(node, metadata=metadata).graphs[0], 1)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (
            lambda: model_of(
                Node(
                    id="A",
                    functions=[Function(id="f", function="chunk_to_string", args={"chunk": "1"})],
                    output_ports=[OutputPort(id="y", value="f")],
                )
            ),
            UnsupportedOp,
            "graph: actr.chunk_to_string is a Python function of MDF",
        ),
        (lambda: expression("numpy.gcd(a, b[0])", a=4, b=[6]), None, ""),
        (
            growing,
            UnsupportedOp,
            "graph/loop.run: 'x' starts with 1 axes and goes on with 2; what is written is for one number of axes",
        ),
        (lambda: 3, KindError, "to_onnx takes an MDF model or graph, or the path of one; got int"),
        (lambda: Model(id="m"), ArgumentError, "the model 'm' has no graph"),
    ],
)
def test_what_onnx_cannot_express_is_refused_by_name(model, error, message):
    if error is None:
        mdf_loop.to_onnx(model())  # what is known is computed at once
        return
    with pytest.raises(error) as raised:
        mdf_loop.to_onnx(model())
    assert str(raised.value) == message


def test_values_that_are_asked_for_become_inputs_and_ports_may_be_left_out():
    node = Node(
        id="A",
        input_ports=[InputPort(id="x", default_value=2.0)],
        parameters=[Parameter(id="gain", value=3.0)],
        output_ports=[OutputPort(id="y", value="gain * x + 1")],
    )
    written = mdf_loop.to_onnx(model_of(node), inputs=["A.gain"])
    assert [value.name for value in written.graph.input] == ["x", "gain"]
    assert [tensor.name for tensor in written.graph.initializer if tensor.name in ("x", "gain")] == ["x"]
    prepared = backend.prepare(written)
    assert prepared.run({"gain": np.float64(3)})[0] == 7
    with pytest.raises(ArgumentError, match="missing: gain"):
        prepared.run({})
    assert inputs_of(written) == {"x": 2.0, "gain": None}
    assert inputs_of(mdf_loop.to_onnx(model_of(node), inputs=["x", "A.gain"])) == {"x": None, "gain": None}
    assert prepared.run({"gain": np.float64(10), "x": np.float64(5)})[0] == 51
    with pytest.raises(ArgumentError, match=r"^there is no value 'gian' that could be an input; did you mean 'gain'\?$"):
        mdf_loop.to_onnx(model_of(node), inputs=["gian"])
    with pytest.raises(ArgumentError, match="inputs= is for other MDF models"):
        mdf_loop.to_onnx(mdf_loop.convert(MODELS / "for_ts.onnx"), inputs=["x"])


@pytest.mark.parametrize(("path", "how"), [("examples/newton.yaml", {}), ("examples/oscillator.yaml", {"steps": 10})])
def test_a_prepared_model_is_written_like_its_file(path, how):
    assert mdf_loop.to_onnx(mdf_loop.prepare(path), **how) == mdf_loop.to_onnx(path, **how)
