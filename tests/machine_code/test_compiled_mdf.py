"""MDF's own ways as machine code: random numbers in expressions, Python's floats that may become whole numbers, neurons."""

import numpy as np
import pytest
from modeci_mdf.mdf import Graph, Model, Node, OutputPort, Parameter

pytest.importorskip("llvmlite")

from engines import ENGINES
from scheduled_models import assert_same, composite

import mdf_loop
from mdf_loop.errors import IterationError
from mdf_loop.execute.numpy_engine import watched_loops
from mdf_loop.execute.programs import watched_programs
from mdf_loop.ops.registry import lookup


def model(value, start=0.25):
    """One stateful parameter, and an output that shows it."""
    graph = Graph(id="g")
    graph.nodes.append(
        Node(
            id="a",
            parameters=[Parameter(id="x", value=value, default_initial_value=start)],
            output_ports=[OutputPort(id="o", value="x")],
        )
    )
    return mdf_loop.prepare(Model(id="m", graphs=[graph]))


def found(made, engine, **named):
    """The last value, and whether the last loop was machine code alone."""
    with mdf_loop.options(engine=engine), watched_programs() as programs:
        value = made(seed=3, **named)["o"]
    return value, bool(programs) and all(p.latest is not None and p.latest.is_alone for p in programs)


ALONE = {
    "noise": "x + 0.1 * numpy.random.normal(0, 1)",
    "scaled noise": "0.9 * x + numpy.random.normal(0.5, 2.0)",
    "uniform": "x + numpy.random.uniform(-1, 2)",
    "others": "x * 0.5 + numpy.random.rand() * numpy.random.randn()",
    "no noise": "x * 0.9 + 0.37",
    "a choice squared": "numpy.where(x > 1, 0.5 * x, x) ** 2 * 0.3 + 0.6",
    "the root of a choice": "numpy.where(x > 1, 0.5 * x, x) ** 0.5 + 0.3",
    "one by a choice": "numpy.where(x > 1, 0.5 * x, x) ** -1 * 0.7",
    "an array": "x + 0.1 * numpy.random.normal(0, 1, 3)",
}


@pytest.mark.parametrize("name", ALONE)
def test_expressions_compile(name):
    made = model(ALONE[name], [0.25, 0.5, 1.5] if name == "an array" else 0.25)
    wanted, _ = found(made, "interpret", steps=500)
    for engine in ("numpy", "jit"):
        value, is_alone = found(made, engine, steps=500)
        assert type(value) is type(wanted)
        np.testing.assert_array_equal(value, wanted)
        assert is_alone == (engine == "jit")


@pytest.mark.parametrize("value", ["x + 0.25", "x * 0.5", "x + numpy.random.normal(0, 0)", "(x + 0.5) % 3"])
def test_floats_that_become_whole_numbers_are_left_to_others(value):
    made = model(value)
    for steps in (3, 4, 400, 2000):
        wanted, actual = (found(made, engine, steps=steps)[0] for engine in ("interpret", "jit"))
        assert (type(actual), actual) == (type(wanted), wanted)


EQUATIONS = ["x: x + 0.1 * noise()", "x: 0.5 * x + uniform()", "x: x + sqrt(0.01) * noise() + 0.01 * 0.8"]


@pytest.mark.parametrize("start", [0.5, np.array([0.25, 0.5]), 4], ids=["a number", "an array", "a whole number"])
@pytest.mark.parametrize("body", EQUATIONS)
def test_equations_with_noise_compile(body, start):
    planned, values = mdf_loop.compile(body), {}
    for engine in ("interpret", "numpy", "jit"):
        with mdf_loop.options(engine=engine, seed=5):
            values[engine] = planned(5000, True, start)
    assert "was one program in machine code" in planned.explain()  # a whole number is a float in later iterations
    np.testing.assert_array_equal(values["jit"], values["interpret"])
    np.testing.assert_array_equal(values["numpy"], values["interpret"])


def test_as_many_random_numbers_as_an_array_has():
    planned, values = mdf_loop.compile("x: 0.9 * x + noise(x)"), {}
    for engine in ("interpret", "numpy", "jit"):
        with mdf_loop.options(engine=engine, seed=5):
            values[engine] = planned(300, True, np.zeros((2, 3)))
    assert "was one program in machine code" in planned.explain()
    np.testing.assert_array_equal(values["jit"], values["interpret"])
    np.testing.assert_array_equal(values["numpy"], values["interpret"])


@pytest.mark.parametrize(
    ("op", "given", "same"),
    [
        ("normal", (0, 1), {"mean": 0.0, "scale": 1.0, "shape": ()}),
        ("normal", (0.5, 2, (2, 3)), {"mean": 0.5, "scale": 2.0, "shape": (2, 3)}),
        ("normal", (0, -1.0), None),
        ("normal", (0, -0.0), None),
        ("normal", (np.zeros(2), 1), {"mean": 0.0, "scale": 1.0, "shape": (2,)}),
        ("normal", (np.arange(2.0), 1), None),
        ("normal", (np.zeros(0), 1), None),
        ("normal", (0, np.ones(2)), None),
        ("normal", (0, np.inf), None),
        ("uniform", (-1, 2, 4), {"low": -1.0, "high": 2.0, "shape": (4,)}),
        ("uniform", (0, 1, 1 << 40), None),
        ("uniform", (0, 1, (2, -1)), None),
        ("rand", (), {"shape": ()}),
        ("randn", (2, 2), {"shape": (2, 2)}),
        ("randn", (2.5,), None),
    ],
)
def test_which_operator_draws_the_same_numbers(op, given, same):
    found = lookup(f"numpy.random.{op}", 1, "mdf").facts.draws(*given)
    assert (None if found is None else {k: v for k, v in found[1].items() if k != "dtype"}) == same


def test_a_neuron_of_mdfs_own_examples_is_machine_code():
    made = mdf_loop.prepare("examples/gallery/hodgkin_huxley.yaml")
    values = {}
    for engine in ("interpret", "jit"):
        with mdf_loop.options(engine=engine), watched_programs() as programs:
            values[engine] = made(steps=300, time_increment=1e-5, i_offset=[0.5], m=[0.0], h=[0.0], n=[0.0])
    assert [p.latest.is_alone for p in programs] == [True]
    for name, value in values["interpret"].items():
        np.testing.assert_allclose(values["jit"][name], value, rtol=1e-9)


def test_what_is_of_another_type_in_the_first_passes_alone_is_machine_code_in_blocks():
    model = mdf_loop.prepare(composite())
    with mdf_loop.options(engine="interpret"):
        expected = model(steps=1500)
    with mdf_loop.options(engine="jit", timeout=600.0), watched_loops() as loops:  # whose clock is looked at between blocks
        assert_same(model(steps=1500), expected)
    (loop,) = loops
    assert all(part.latest.size for part in loop.latest.stepped.values())


@pytest.mark.parametrize("power", ["x0 ** (-1)", "numpy.clip(x0, -2, 5) ** (-2)", "numpy.abs(x0) ** (x0 - 3)"])
@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit"])
def test_negative_powers_of_numpys_whole_numbers_are_refused(power, engine):
    """Python's own become floats, numpy's are an error: machine code knows no error, so it leaves them to the kernel."""
    text = f"""
    g:
        metadata: {{inputs: [i, go, x0], outputs: [go, y0]}}
        nodes:
            A:
                input_ports: {{x0: {{}}}}
                parameters: {{p0: {{value: "{power}"}}}}
                output_ports: {{y0: {{value: p0}}}}
    """
    with mdf_loop.options(engine=engine), pytest.raises(IterationError, match="negative integer powers"):
        mdf_loop.loop(3, True, 2, body=Graph.from_yaml(text))


REDUCTIONS = ["sum", "prod", "mean", "median", "min", "max", "amin", "amax", "ptp", "all", "any", "nansum", "nanmean", "nanmin"]
REDUCTIONS += ["nanmax", "std", "var", "argmax", "argmin", "cumsum", "cumprod"]


@pytest.mark.parametrize("given", ["axis=-1", "axis=0", "axis=-1, keepdims=True", "keepdims=True", "axis=None", "axis=1"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_single_numbers_have_an_axis_that_numpy_reduces(name, given):
    text = f"""
g:
    metadata: {{inputs: [i, go, x], outputs: [go, y, r]}}
    nodes:
        A:
            input_ports: {{i: {{}}, x: {{}}}}
            parameters: {{q: {{value: i * 0.5}}, y0: {{value: x}}, r0: {{value: 'numpy.{name}(q, {given})'}}}}
            output_ports: {{y: {{value: y0}}, r: {{value: r0}}}}
"""
    found = []
    for engine in ("interpret", "numpy", "jit"):
        with mdf_loop.options(engine=engine):
            try:
                rows = mdf_loop.loop(100, True, 1.0, body=Graph.from_yaml(text))[1]
                found.append((rows.dtype, rows.shape, rows.tolist()))
            except mdf_loop.LoopError as error:
                found.append(type(error))
    assert found[0] == found[1] == found[2]


BANDIT = """
let p: softmax(beta * q)
let a: where(uniform() < p[0], 0, 1)
let r: where(uniform() < probs[a], 1.0, 0.0) + table[a, 1] * 0
q: q + alpha * (r - q) * (arange(2) == a)
collect choices: a
collect rewards: r
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_an_array_is_indexed_by_a_choice(engine):
    values = {"q": np.zeros(2), "beta": 3.0, "alpha": 0.2, "probs": np.array([0.8, 0.3]), "table": np.arange(6.0).reshape(2, 3)}
    found = {}
    for how in ("interpret", engine):
        with mdf_loop.options(engine=how, seed=3):
            body = mdf_loop.compile(BANDIT)
            found[how] = body(200, True, **values)
    assert repr(found[engine]) == repr(found["interpret"])
    assert {*found["interpret"][1].tolist()} == {0, 1}
    assert "not machine code" not in body.explain() or engine != "jit"
