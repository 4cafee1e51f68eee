"""Sweeps of bodies of expressions: random numbers of Python's kind have no type of their own, in many runs as in one."""

import numpy as np
import pytest
from engines import ENGINES
from modeci_mdf.mdf import Graph, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.settings.engines import can_compile, settled_engine
from mdf_loop.sweeps import machine_runs

pytestmark = pytest.mark.filterwarnings("ignore::mdf_loop.errors.LoopWarning")  # most expressions do not read all that is swept

F = np.float32
START = {"x0": 0.25, "y0": 0.0}
BODIES = {
    "a walk that ends": (
        {"carried": {"x": "x + drift * dt + sigma * sqrt(dt) * noise()", "y": "y + dt"}, "while": "abs(x) < 1"},
        {**START, "dt": 0.05, "sigma": 1.0},
    ),
    "a root by a power": (
        {"carried": {"x": "x + drift * dt + dt**0.5 * noise()", "y": "y + dt"}},
        {**START, "dt": 0.05},
    ),
    "float32 stays what it is": (
        {"carried": {"x": "x + drift * noise()", "y": "2 * noise() - 1"}, "collected": {"z": "x + noise() / 3"}},
        {**START, "x0": F(0.25)},
    ),
    "float32 and float64": (
        {"carried": {"x": "x + noise()", "y": "y + x * noise()"}, "let": {"n": "noise()"}, "collected": {"z": "(n + 1) * x + n"}},
        {**START, "y0": F(0.5)},
    ),
    "whole numbers": (
        {"carried": {"x": "x + 1", "y": "y + x * uniform()"}, "collected": {"z": "x"}, "while": "y < 9"},
        {**START, "x0": 2},
    ),
    "functions of numbers": (
        {"carried": {"x": "max(0, x + noise())", "y": "where(noise() > 0, y + 1, y - noise())"}},
        START,
    ),
    "numbers that are compared": (
        {"carried": {"x": "x + (1 if noise() > 0 and noise() < 1 else -1)", "y": "y"}, "while": "x < 3 or noise() > 1"},
        START,
    ),
    "numbers that go round": (
        {"carried": {"x": "noise() + x / 2", "y": "noise()"}, "collected": {"z": "y / 2 + drift"}},
        START,
    ),
    "numbers divided by numbers": ({"carried": {"x": "x + noise() / (2 + noise())", "y": "1 / noise()"}}, START),
    "as many as an array has": (
        {"carried": {"x": "x + drift * noise(x)", "y": "y + sum(x) * 0"}, "collected": {"z": "x[0] * uniform(x)"}},
        {**START, "x0": np.array([0.0, 0.1, 0.2], F)},
    ),
    "arrays of one kind": (
        {"carried": {"x": "x + drift * noise(x)", "y": "y + x[0]"}, "collected": {"z": "x[1] * noise(x)"}},
        {**START, "x0": np.array([0.0, 0.1, 0.2])},
    ),
    "several distributions": ({"carried": {"x": "x + noise() * uniform()", "y": "y"}}, START),
    "a function that differs in the last place": ({"carried": {"x": "tanh(x + noise())", "y": "y"}}, START),
}


def of_mdf(*expressions):
    """An MDF graph as a body, which draws as MDF's expressions do."""
    parameters = [{"id": f"p{k}", "value": text} for k, text in enumerate(expressions)]
    node = {
        "input_ports": {"x": {}, "y": {}, "drift": {}},
        "parameters": {each["id"]: {"value": each["value"]} for each in parameters},
        "output_ports": {"x_out": {"value": "p0"}, "y_out": {"value": "p1"}},
    }
    inputs = ["i", "go", "x", "y", "drift"]
    return {"graph_b": {"nodes": {"n": node}, "metadata": {"inputs": inputs[:4], "outputs": ["go", "x_out", "y_out"]}}}


RANDOM = {
    "normal": "numpy.random.normal(0, 1)",
    "moved by what is swept": "numpy.random.normal(drift, 2)",
    "scaled by what is swept": "numpy.random.normal(0, drift * drift + x * x)",
    "an array": "numpy.sum(numpy.random.normal(0.5, 0.25, 3) * 0)",
    "an array scaled": "numpy.random.normal(drift, 0.5, 3)[1]",
    "uniform": "numpy.random.uniform(-1, drift)",
    "one that is wrong": "numpy.random.normal(0, drift)",
}


def graph_of(body, values, count):
    parameters = [Parameter(id=name, value=value) for name, value in {"drift": 0.5, "m": 30, "body": body, **values}.items()]
    args = {"M": "m", "cond": True, "x": "x0", "y": "y0", "body": "body"}
    parameters.append(Parameter(id="run", function="onnx::Loop", args=args))
    outputs = [OutputPort(id=f"o{k}", value=f"run[{k}]") for k in range(count)]
    return Graph(id="g", nodes=[Node(id="n", parameters=parameters, output_ports=outputs)])


def assert_is_the_loop_of_runs(graph, over, trials, engine):
    """The sweep, and whether it is what each run gives alone, to the last bit."""
    with mdf_loop.options(engine=engine):
        s = mdf_loop.sweep(graph, over, trials=trials, seed=3)
    (name, points), compared = next(iter(over.items())), 0
    with mdf_loop.options(engine=s.attrs["engine"]):
        for p, value in enumerate(points):
            for k in range(trials):
                try:
                    r = mdf_loop.run(graph, seed=np.random.SeedSequence(3, spawn_key=(p, k)), **{name: value})
                except mdf_loop.LoopError:
                    assert np.isnan(s.isel({name: p, "trial": k}).o0.values).all()
                    continue
                for key, expected in r.items():
                    found = s.isel({name: p, "trial": k})[key].values
                    found = found[: len(expected)] if np.ndim(expected) else found
                    np.testing.assert_array_equal(found, expected)
                    assert found.dtype == np.asarray(expected).dtype or s[key].dtype == np.float64
                    compared += 1
    return s, compared


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", BODIES)
def test_equations_give_each_run_what_it_gives_alone(name, engine, monkeypatch):
    monkeypatch.setattr(machine_runs, "WORTH", 1)
    body, values = BODIES[name]
    graph = graph_of(body, values, len(body["carried"]) + len(body.get("collected", ())))
    _, compared = assert_is_the_loop_of_runs(graph, {"drift": [0.5, -0.25, 1.5]}, 5, engine)
    assert compared == 15 * len(graph.nodes[0].output_ports)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("start", [0.0, F(0.5)])
@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_of_mdfs_expressions(name, start, engine, monkeypatch):
    monkeypatch.setattr(machine_runs, "WORTH", 1)
    graph = graph_of(of_mdf(f"x + {RANDOM[name]}", "y * 0.5 + p0"), {"x0": start, "y0": start}, 2)
    over = {"drift": [0.5, 0.75, -0.5 if name == "one that is wrong" else 2.0]}
    _, compared = assert_is_the_loop_of_runs(graph, over, 4, engine)
    assert compared == (16 if name == "one that is wrong" else 24)


NUMBERS = ("x", "y", "drift", "noise()", "2", "0.5", "k")


def expression(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(NUMBERS)
    a, b = expression(rng, depth - 1), expression(rng, depth - 1)
    kind = rng.integers(7)
    if kind == 0:
        return f"where({a} < {b}, {a}, {b})"
    if kind == 1:
        return f"max({a}, {b})"
    if kind == 2:
        return f"-abs({a})"
    return f"({a} {rng.choice(['+', '-', '*', '*'])} {b})"


@pytest.mark.skipif(not can_compile(), reason="runs are one call of machine code, which needs llvmlite")
@pytest.mark.parametrize("seed", range(60))
def test_generated_equations(seed):
    rng = np.random.default_rng(seed)
    body = {
        "carried": {"x": f"x * 0.5 + {expression(rng, 2)} * 0.1", "y": expression(rng, 3)},
        "collected": {"z": expression(rng, 3)},
        "while": f"{expression(rng, 1)} < 4",
    }
    kinds = [np.float64, F, np.float16, np.int64]
    values = {"x0": rng.choice(kinds)(1), "y0": rng.choice(kinds)(2), "k": rng.choice(kinds)(3), "m": 6}
    over = {"drift": [rng.choice([0.5, F(0.25)])] * 2}
    assert_is_the_loop_of_runs(graph_of(body, values, 3), over, 3, "jit")


def test_threads_give_the_same_numbers():
    """Chunks of several threads share what was made of the loop, and nothing of what they draw."""
    body, values = BODIES["a walk that ends"]
    graph, over = graph_of(body, values, 2), {"drift": np.linspace(0, 1, 8)}
    with mdf_loop.options(engine=settled_engine(compiles=True)):
        alone = mdf_loop.sweep(graph, over, trials=20, seed=1)
        for _ in range(5):
            assert mdf_loop.sweep(graph, over, trials=20, seed=1, workers=4, chunk=8).equals(alone)
