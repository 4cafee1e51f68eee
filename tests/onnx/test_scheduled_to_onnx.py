"""Scheduled MDF models as ONNX models: one Loop that onnxruntime runs as MDF's engine runs the model."""

import numpy as np
import onnx
import pytest
from commands import run_main
from converting import by_onnxruntime
from modeci_mdf.mdf import Condition, Edge, Graph, InputPort, Node, OutputPort, Parameter
from scheduled_models import PUBLISHED, by_mdf, counter, graph, node

import mdf_loop
from mdf_loop.backend import prepare
from mdf_loop.errors import ArgumentError, NotLowered, UnsupportedOp
from tests.scheduled.test_scheduled_operators import MODELS

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # generated graphs grow


def assert_close(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(np.asarray(actual[name], np.float64), np.asarray(value, np.float64), rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("steps", [1, 2, 60])
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_example_gives_in_onnxruntime_what_mdf_gives(name, steps):
    make, increment = PUBLISHED[name]
    model = mdf_loop.to_onnx(make(), steps=steps, time_increment=increment)
    onnx.checker.check_model(model, full_check=True)
    assert_close(by_onnxruntime(model, {}), by_mdf(make(), steps, increment))


@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("name", MODELS)
def test_operators_and_loops_in_nodes_are_written(name, steps):
    model = mdf_loop.to_onnx(MODELS[name](), steps=steps)
    onnx.checker.check_model(model, full_check=True)
    found, expected = by_onnxruntime(model, {}), by_mdf(MODELS[name](), steps)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert np.shape(found[key]) == np.shape(value)
        np.testing.assert_allclose(np.asarray(found[key], np.float64), np.asarray(value, np.float64), rtol=1e-6)


def test_an_operator_that_has_changed_since_is_refused_by_name():
    largest = Parameter(id="f", function="onnx::ReduceMax", args={"data": "v", "axes": [0]})
    model = graph(
        node("A", [Parameter(id="s", value="s + 1"), Parameter(id="v", value="numpy.array([1.0, 2.0]) * s"), largest], y="f")
    )
    with pytest.raises(UnsupportedOp, match="ReduceMax of opset 15 is not that of opset 18"):
        mdf_loop.to_onnx(model, steps=3)


@pytest.mark.parametrize("steps", [1, 3, 30])
@pytest.mark.parametrize(
    "function", [{"value": "numpy.random.normal(0, 1)"}, {"function": "onnx::RandomNormal", "args": {"shape": (2,)}}]
)
def test_each_run_draws_the_random_numbers_of_all_passes(function, steps):
    model = graph(node("A", [Parameter(id="x", **function)], y="x"))
    written = prepare(mdf_loop.to_onnx(model, steps=steps))
    drawn = []
    for seed in (1, 2):
        with mdf_loop.options(seed=seed):
            drawn.append(np.asarray(mdf_loop.run(model, steps=steps)["y"]))
            np.testing.assert_array_equal(written.run([])[0], drawn[-1])
    assert not np.array_equal(*drawn)


def test_a_model_without_outputs_is_refused():
    source = node("A", [Parameter(id="x", value=1.0)], y="x")
    receiver = Node(id="B", input_ports=[InputPort(id="in_y")])
    edges = [Edge(id="e", sender="A", sender_port="y", receiver="B", receiver_port="in_y")]
    with pytest.raises(UnsupportedOp, match=r"^a model without outputs has no ONNX model$"):
        mdf_loop.to_onnx(Graph(id="g", nodes=[source, receiver], edges=edges), steps=3)


def test_model_with_conditions_is_evaluated_once_if_nothing_is_said():
    make, _ = PUBLISHED["ABCD conditions"]
    assert_close(by_onnxruntime(mdf_loop.to_onnx(make()), {}), by_mdf(make(), 1, None))


def test_what_a_loop_cannot_say_is_refused_by_name():
    never = graph(counter("A", "x", a="x"), until=Condition("TimeInterval", repeat=3))
    with pytest.raises(NotLowered, match="TimeInterval"):
        mdf_loop.to_onnx(never, steps=3)


def test_inputs_and_steps_exclude_each_other():
    with pytest.raises(ArgumentError, match="leave out inputs="):
        mdf_loop.to_onnx("examples/oscillator.yaml", steps=3, inputs=["level"])
    with pytest.raises(ArgumentError, match="time_increment without steps"):
        mdf_loop.to_onnx("examples/oscillator.yaml", time_increment=0.1)


@pytest.mark.parametrize(("value", "start", "steps"), [("x**2", 3.0, 8), ("x*3", 1, 50), ("x**2", 2.0, 15)])
def test_whole_numbers_that_leave_64_bits_are_refused(value, start, steps):
    parameter = Parameter(id="x", value=value, default_initial_value=start)
    model = Graph(id="g", nodes=[Node(id="n", parameters=[parameter], output_ports=[OutputPort(id="o", value="x")])])
    with pytest.raises(UnsupportedOp, match=r"output 'o' is .+ after these steps, and -?[0-9]+ with the 64 bits"):
        mdf_loop.to_onnx(model, steps=steps)


@pytest.mark.parametrize("text", ["s ** -1", "s ** -2 + s", "1 / s"])
def test_whole_numbers_of_a_node_that_waits_stay_python_s(text):
    waits = node("A", [Parameter(id="s", value="s + 1", default_initial_value=2), Parameter(id="d", value=text)], y="d")
    conditions = {"A": Condition("EveryNPasses", n=3, time_scale="TimeScale.ENVIRONMENT_STATE_UPDATE")}
    model = graph(waits, conditions=conditions, until=Condition("AfterNPasses", n=12))
    assert_close(mdf_loop.run(mdf_loop.to_onnx(model, steps=2)), by_mdf(model, 2))


def test_command_takes_steps(tmp_path):
    target = tmp_path / "oscillator.onnx"
    assert run_main("convert", "examples/oscillator.yaml", target, "--steps", "100", "--time-increment", "0.01") == 0
    expected = mdf_loop.run("examples/oscillator.yaml", steps=100, time_increment=0.01)
    assert_close(by_onnxruntime(onnx.load(target), {}), expected)


SPECIAL = [0.25, -0.25, 0.0, -0.0, 1.0, -1.0, 2.5, -7.0, 1e300, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("text", ["x // y", "x % y", "1 / (x // y)", "1 / (x % y)"])
def test_floats_divided_and_rounded_down_are_those_of_numpy_to_the_sign_of_a_zero(text, steps):
    x, y = (values.reshape(-1).tolist() for values in np.meshgrid(SPECIAL, SPECIAL))
    said = [Parameter(id="x", value=x), Parameter(id="y", value=y), Parameter(id="d", value=text)]
    said += [Parameter(id="n", value="n + 1", default_initial_value=0)]
    model = Graph(id="g", nodes=[Node(id="n", parameters=said, output_ports=[OutputPort(id="o", value="d")])])
    found, want = by_onnxruntime(mdf_loop.to_onnx(model, steps=steps), {})["o"], by_mdf(model, steps, None)["o"]
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.where(np.isnan(found), found, want)))


ENDS = np.array([-(2**63), 2**63 - 1, 2**53 + 1, 7, -7])


@pytest.mark.parametrize("start", [ENDS, np.array([3, 5, -7])], ids=["ends", "small"])
@pytest.mark.parametrize(
    "text",
    [
        *("numpy.square(a)", "a * a + 1", "a ** 3", "-a", "numpy.abs(a)", "numpy.sign(a) * a", "numpy.prod(a) + a"),
        *("a // 3", "a // -3", "a % 3", "a % -5", "numpy.floor_divide(a, 5)", "numpy.cumsum(a)", "numpy.clip(a, -5, 2**62)"),
        *("a << 3", "a >> 2", "a >> 63", "a >> 70", "numpy.dot(a, a) + a", "numpy.minimum(a, 3 * a)"),
    ],
)
def test_whole_numbers_of_arrays_wrap_around_as_in_numpy(text, start):
    for steps in (1, 4):
        model = graph(node("A", [Parameter(id="a", value=text, default_initial_value=start)], y="a"))
        written = mdf_loop.run(mdf_loop.to_onnx(model, steps=steps))
        np.testing.assert_array_equal(written["y"], by_mdf(model, steps)["y"])


@pytest.mark.parametrize("text", ["numpy.round(a, -1)", "numpy.round(a * 3.3, -1)", "numpy.round(a / 7, 1)", "numpy.round(a, 2)"])
def test_digits_in_front_of_the_point_are_rounded(text):
    model = graph(node("A", [Parameter(id="a", value=text, default_initial_value=np.array([15, 25, 1234567, -35]))], y="a"))
    np.testing.assert_array_equal(mdf_loop.run(mdf_loop.to_onnx(model, steps=1))["y"], by_mdf(model, 1)["y"])


@pytest.mark.parametrize("value", [[0.5], [0.0], [[0.5]], 0.5])
@pytest.mark.parametrize(
    "text", ["a + 1 if c > 0.25 else a", "a * (not c)", "c and a", "c or a", "a + bool(c)", "(a if c else -a) + 1"]
)
def test_an_array_of_one_element_is_one_truth_value(text, value):
    parameters = [Parameter(id="c", value=value), Parameter(id="a", value=text, default_initial_value=2.0)]
    model = graph(node("A", parameters, y="a"))
    written, expected = mdf_loop.run(mdf_loop.to_onnx(model, steps=3))["y"], by_mdf(model, 3)["y"]
    assert np.shape(written) == np.shape(expected)
    np.testing.assert_array_equal(written, expected)
