"""Sweeps of scheduled models as one program: the first passes and the loop behind them, with what is swept open."""

import warnings

import numpy as np
import pytest
from modeci_mdf.mdf import Parameter
from scheduled_generated import generated_graph
from scheduled_models import PUBLISHED, graph, node

import mdf_loop
from mdf_loop.errors import LoopError, LoopWarning
from mdf_loop.settings.engines import available_engines
from mdf_loop.sweeps import side_by_side, task

NOISE = "a * (0.125 + numpy.random.normal(0.0, 1.0))"
pytest.importorskip("xarray")

ENGINES = [engine for engine in ("numpy", "jit") if engine in available_engines()]
MODELS = {**{name: made[0] for name, made in PUBLISHED.items()}, **{k: lambda k=k: generated_graph(k) for k in range(12)}}
MODELS["noise"] = lambda: graph(
    node("n", [Parameter(id="a", value=0.5), Parameter(id="x", default_initial_value=1.0, time_derivative=NOISE)], level="x")
)
FACTORS = [0.5, 0.75, 1.0, 1.25, 2.0]
STEPS = {"steps": 7, "time_increment": 0.125}


@pytest.fixture(autouse=True)
def together(monkeypatch):
    """What was run as one program, however few runs there are."""
    found, original = [], task.run_together
    monkeypatch.setattr(side_by_side, "FEW", 2)
    monkeypatch.setattr(task, "run_together", lambda *args: found.append(original(*args)) or found[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopWarning)
        yield found


def grids(model):
    """Each input that is a number, at some values of its type."""
    for name, port in model.inputs.items():
        if type(port.default) in (int, float):
            yield {name: [type(port.default)(port.default * factor) for factor in FACTORS]}


def assert_the_runs(model, over, seed, how):
    swept = mdf_loop.sweep(model, over, seed=seed, **how)
    ((name, values),) = over.items()
    for p, value in enumerate(values):
        try:
            alone = model(**{name: value}, seed=np.random.SeedSequence(seed, spawn_key=(p, 0)), **how)
        except LoopError:
            assert any(f"point {p} " in error for error in swept.attrs["errors"])
            continue
        for output, expected in alone.items():
            if np.asarray(expected).dtype.kind != "O":
                np.testing.assert_array_equal(swept[output].values[p], expected, err_msg=f"{over} {output}")


@pytest.mark.parametrize("collect", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", MODELS)
def test_points_have_the_values_that_they_have_alone(name, engine, collect):
    with mdf_loop.options(engine=engine):
        model = mdf_loop.prepare(MODELS[name]())
        for over in [*grids(model)][:2]:
            assert_the_runs(model, over, 3, {**STEPS, "collect": collect})


@pytest.mark.parametrize(("name", "engine"), [("FitzHugh-Nagumo", "jit"), ("integrate and fire", "numpy"), ("noise", "jit")])
def test_they_are_one_program(name, engine, together):
    if engine not in ENGINES:
        pytest.skip("llvmlite is not installed")
    with mdf_loop.options(engine=engine):
        model = mdf_loop.prepare(MODELS[name]())
        mdf_loop.sweep(model, next(grids(model)), **STEPS)
    assert len(together) == 1
