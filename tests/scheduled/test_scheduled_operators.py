"""Scheduled models with operators of ONNX, loops, branches and random numbers in their nodes: as MDF's engine runs them."""

import modeci_mdf.functions.onnx as onnx_functions
import numpy as np
import pytest
from engines import ENGINES
from modeci_mdf.mdf import Condition, Function, Graph, Node, OutputPort, Parameter
from scheduled_models import assert_same, by_mdf, counter, edge, graph, node

import mdf_loop
from mdf_loop.convert.scheduled.loops import execute, lower
from mdf_loop.convert.scheduled.nodes import ONNX_OF_MDF
from mdf_loop.errors import NotLowered

GROWS = Parameter(id="s", value="s + 0.37", default_initial_value=0.5)
GROWING = Parameter(id="v", value="numpy.array([0.3, -0.7]) * s")
WEIGHTS = Parameter(id="w", value=[[1.5, 2.5], [-1.0, 0.3]])

ADDS = (
    "b (int64 i, bool c, double x) => (bool c_out, double y, double k) { c_out = Identity (c) y = Add (x, h) k = Identity (y) }"
)
TWICE = "b (int64 i, bool c, float x) => (bool c_out, float y) { c_out = Identity (c) y = Add (x, x) }"
SUMS = "b (double a, double x) => (double y, double k) { y = Add (a, x) k = Identity (y) }"


def value(name, what):
    return Parameter(id=name, value=what)


def in_node(function, args, *parameters, as_parameter=True, **outputs):
    """A node whose stateful parameter goes into a function of ONNX."""
    made = {"id": "f", "function": f"onnx::{function}", "args": args}
    if as_parameter:
        return graph(node("A", [GROWS, *parameters, Parameter(**made)], **outputs))
    return graph(node("A", [GROWS, *parameters], [], [Function(**made)], **outputs))


def loop(as_parameter=True):
    args = {"M": 3, "cond": True, "x": "s", "body": "body"}
    return in_node("Loop", args, value("h", 0.5), value("body", {"onnx": ADDS}), as_parameter=as_parameter, y="f[0]", z="f[1]")


def branch():
    bodies = {"t": "t () => (double q) { q = Add (s, s) }", "e": "e () => (double q) { q = Neg (s) }"}
    parameters = [value(name, {"onnx": text}) for name, text in bodies.items()]
    args = {"cond": "is_large", "then_branch": "t", "else_branch": "e"}
    return in_node("If", args, *parameters, value("is_large", "s > 1.5"), y="f")


def followed():
    """A loop in a node that runs now and then, and a node that reads it."""
    model = loop()
    model.nodes[0].id = "B"
    model.nodes.append(counter("C"))
    return graph(*model.nodes, conditions={"B": Condition(type="EveryNCalls", kwargs={"dependency": "C", "n": 2})})


def joined():
    """A node that joins what two ports bring, which it names in a list."""
    function = Function(id="f", function="onnx::Concat", args={"inputs": "['u', 'v']", "axis": 0})
    sending = node("A", [GROWS, GROWING], [], y="v", z="v * 2")
    return graph(sending, node("B", [], ["u", "v"], [function], j="f"), edges=["A.y -> B.u", "A.z -> B.v"])


MODELS = {
    "Relu": lambda: in_node("Relu", {"X": "v"}, GROWING, y="f"),
    "Add": lambda: in_node("Add", {"A": "v", "B": "w"}, GROWING, WEIGHTS, y="f", z="f * 2"),
    "Div": lambda: in_node("Div", {"A": "v", "B": "w"}, GROWING, WEIGHTS, as_parameter=False, y="f"),
    "MatMul": lambda: in_node("MatMul", {"A": "w", "B": "v"}, GROWING, WEIGHTS, y="f"),
    "Concat": joined,
    "Reshape": lambda: in_node(
        "Reshape", {"data": "w", "shape": "to"}, WEIGHTS, value("to", [[4, 1]]), as_parameter=False, y="f"
    ),
    "a number": lambda: in_node("Neg", {"X": "s"}, y="f"),
    "Clip": lambda: in_node(
        "Clip", {"input": "v", "min": "lo", "max": "hi"}, GROWING, value("lo", -0.5), value("hi", 0.25), y="f"
    ),
    "Loop": loop,
    "Loop as a function": lambda: loop(as_parameter=False),
    "Loop of 32 bits": lambda: in_node(
        "Loop", {"M": 3, "cond": True, "x": "s", "body": "body"}, value("body", {"onnx": TWICE}), y="f", z="f * 2.0"
    ),
    "Scan": lambda: in_node(
        "Scan",
        {"a": "s", "x": "xs", "body": "body", "num_scan_inputs": 1},
        value("xs", [1.0, 2.0, 3.0]),
        value("body", {"onnx": SUMS}),
        y="f[0]",
        z="f[1]",
    ),
    "If": branch,
    "now and then": followed,
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_operators_in_nodes_become_part_of_the_loop(name, steps):
    expected = by_mdf(MODELS[name](), steps)
    lowered = lower(MODELS[name](), steps)
    assert lowered.loop is not None or steps == 1
    for engine in ENGINES:
        with mdf_loop.options(engine=engine):
            assert_same(execute(lowered), expected)


def test_operators_are_those_of_the_version_that_mdf_runs():
    assert onnx_functions.onnx_opset_version == ONNX_OF_MDF


def test_functions_such_as_tanh_differ_in_the_last_places_of_32_bits_at_most():
    def make():
        return in_node("Tanh", {"input": "v"}, GROWING, y="f")

    found, expected = execute(lower(make(), 6))["y"], by_mdf(make(), 6)["y"]
    assert (np.abs(found - expected) <= 3 * np.spacing(np.abs(expected).astype(np.float32))).all()
    assert found.dtype == expected.dtype


ON_EVALUATIONS = (
    "AfterNEnvironmentStateUpdates",
    "AfterEnvironmentStateUpdate",
    "AtEnvironmentStateUpdate",
    "BeforeEnvironmentStateUpdate",
)


@pytest.mark.parametrize("kind", ON_EVALUATIONS)
@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("steps", [1, 2, 6])
def test_conditions_may_count_evaluations(kind, n, steps):
    def make():
        said = {"A": Condition(type="Always"), "B": Condition(type=kind, kwargs={"n": n})}
        end = Condition(type="AfterNPasses", kwargs={"n": 2})
        return graph(counter("A", y="count * 2.0"), counter("B", "x"), edges=["A.y -> B.x"], conditions=said, until=end)

    assert_same(execute(lower(make(), steps)), by_mdf(make(), steps))


@pytest.mark.parametrize("weight", [[1.0, 2.0], [[1.0], [2.0]], [3]], ids=str)
@pytest.mark.parametrize("sent", ["numpy.exp([count * 0.1, 2.0])", "numpy.array([count, 1])"])
def test_weights_may_be_lists(weight, sent):
    def make():
        return graph(counter("A", y=sent), node("B", [], ["x"], z="x + 1.0"), edges=[edge("A.y -> B.x", weight)])

    assert lower(make(), 5).loop is not None
    for steps in (1, 5):
        found, expected = execute(lower(make(), steps)), by_mdf(make(), steps)
        np.testing.assert_allclose(found["z"], expected["z"], rtol=1e-15)


def drawing(function, args):
    parameters = [value("w", [1.0, 2.0]), value("q", [0.5] * 40), Parameter(id="n", value="n + 1")]
    return graph(node("A", parameters, [], [Function(id="f", function=f"onnx::{function}", args=args)], y="f", count="n"))


RANDOM = {
    "RandomNormal": {"shape": [2], "mean": 1.0},
    "RandomNormalLike": {"input": "w", "scale": 2.0},
    "RandomUniform": {"shape": [3], "low": -1.0},
    "RandomUniformLike": {"input": "w"},
    "Bernoulli": {"input": "q"},
}


@pytest.mark.parametrize("function", RANDOM)
def test_random_operators_draw_from_the_stream_of_the_run(function):
    model, found = drawing(function, RANDOM[function]), []
    assert lower(model, 5).loop is not None
    for engine in ENGINES:
        with mdf_loop.options(engine=engine):
            found += [mdf_loop.run(model, steps=5, seed=seed, collect=True)["y"] for seed in (1, 1, 2)]
    for k, rows in enumerate(found):
        np.testing.assert_array_equal(rows, found[k % 3])
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()
    assert (found[0][1:] != found[0][0]).any(), "each step draws its own"
    once = [mdf_loop.run(model, seed=seed)["y"] for seed in (1, 1, 2)]  # in MDF's engine
    np.testing.assert_array_equal(once[0], once[1])
    assert (once[0] != once[2]).any()


def test_random_operators_of_models_that_are_evaluated_once_are_swept_by_their_seeds():
    pytest.importorskip("xarray")
    ports = [OutputPort(id="y", value="f")]
    function = Function(id="f", function="onnx::RandomNormal", args={"shape": [2]})
    model = mdf_loop.prepare(
        Graph(id="g", nodes=[Node(id="A", parameters=[value("w", 1.0)], functions=[function], output_ports=ports)])
    )
    s = mdf_loop.sweep(model, {"w": [1.0, 2.0]}, trials=2, seed=3)
    alone = [[model(seed=np.random.SeedSequence(3, spawn_key=(p, t)))["y"] for t in (0, 1)] for p in (0, 1)]
    np.testing.assert_array_equal(s.y, alone)
    assert len(np.unique(s.y)) == 8


def test_a_graph_of_onnx_stays_what_it_is(tmp_path):
    import onnx.parser

    text = '<ir_version: 10, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
    with pytest.raises(NotLowered, match="an ONNX graph, which computes in the types that it says"):
        lower(mdf_loop.convert(onnx.parser.parse_model(text)), 3)
