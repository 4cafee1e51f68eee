"""Gradients of models by JAX are those of differences in float64: examples, and loops that PyTorch and JAX exported."""

import contextlib
import sys
from pathlib import Path

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import ArgumentError

jax = pytest.importorskip("jax", reason='jax is not installed: pip install -e ".[jax]"')
jnp = jax.numpy

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from exported import FOLDER, models  # noqa: E402
from jax_laws import in_float64  # noqa: E402

STEPS = {"oscillator.yaml": {"steps": 12, "time_increment": 0.05, "collect": True}}
"""How examples are evaluated, where that is not once."""

ROWS = {"gallery/lorenz.yaml": 100, "gallery/bifurcation.yaml": 12}
"""Rows of chaotic models up to which a difference says something."""

OUTPUTS = {"newton.yaml": ["root"], "newton_mdf.yaml": ["root"]}
"""Outputs that are looked at, where others are as long as values say."""

ENDS = {"tolerance": 1e-12}

FIXED = {
    "newton.yaml": ENDS,
    "newton_mdf.yaml": ENDS,
    "gallery/fitting.yaml": {"rewards": np.array([1.0, 0.0, 1.0, 1.0]), "choices": np.array([1, 0, 0, 1])},
}
"""Inputs that are no parameters, or, as a tolerance that a difference makes negative, let no loop end."""

EXAMPLES = [
    "drift_diffusion.yaml",
    "leaky_accumulator.yaml",
    "newton.yaml",
    "newton_mdf.yaml",
    "oscillator.yaml",
    "power_iteration.yaml",
    "gallery/bifurcation.yaml",
    "gallery/drift_and_bound.yaml",
    "gallery/drift_diffusion.yaml",
    "gallery/fitting.yaml",
    "gallery/fitzhugh_nagumo.yaml",
    "gallery/hodgkin_huxley.yaml",
    "gallery/leaky_competing_accumulator.yaml",
    "gallery/lorenz.yaml",
    "gallery/power_iteration.yaml",
    "gallery/predator_and_prey.yaml",
    "gallery/rnn.yaml",
    "gallery/rnn_weights.yaml",
    "gallery/subjects.yaml",
]

WITHOUT = {
    "accumulate.yaml": "it computes in float32, in which a difference says little",
    "rnn.yaml": "it computes in float32, in which a difference says little",
    "gallery/game_of_life.yaml": "its cells are whole numbers",
    "gallery/greedy_decoding.yaml": "its tokens are whole numbers, and its score is that of the tokens",
    "gallery/newton_fractal.yaml": "it says to which root a point goes, which is constant but for jumps",
    "gallery/posterior.yaml": "it says when and at which bound a random walk ends",
    "gallery/sliders.yaml": "it ends with its first spike, whose iteration jumps",
    "gallery/spikes.yaml": "its spikes are jumps of the voltage",
    "gallery/threshold.yaml": "its only input decides when it ends",
}
"""Examples that have no gradient, or none that differences find, and why."""


def test_every_example_is_in_one_list():
    names = {str(path.relative_to("examples")) for path in Path("examples").rglob("*.yaml")}
    assert names == {*EXAMPLES, *WITHOUT}
    assert not {*EXAMPLES} & {*WITHOUT}


pytestmark = pytest.mark.usefixtures("in_64_bits", "compiled_quickly")


def assert_gradient(total, given, rtol=1e-5):
    """The derivative in a direction is that of a difference."""
    rng = np.random.default_rng(5)
    ways = {name: rng.uniform(0.5, 1.5, np.shape(x)) * np.maximum(np.abs(x), 0.1) for name, x in given.items()}
    both, h = jax.jit(jax.value_and_grad(total)), 1e-6
    ends = [both({name: jnp.asarray(x + sign * h * ways[name]) for name, x in given.items()})[0] for sign in (1, -1)]
    gradient = both({name: jnp.asarray(x) for name, x in given.items()})[1]
    found = sum(np.sum(gradient[name] * ways[name]) for name in given)
    assert np.isfinite(found)
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / (2 * h), rtol=rtol, atol=1e-6)
    assert found != 0


def weighted(outputs, rows=None):
    """One number of all fractions that a function gives."""
    parts = [x[:rows].ravel() if x.ndim else x.ravel() for x in outputs.values() if x.dtype == np.float64]
    return sum(jnp.sum(x * (1 + jnp.arange(x.size) % 3)) for x in parts) / 100


@pytest.mark.parametrize("path", EXAMPLES)
def test_an_example(path):
    model, fixed = mdf_loop.prepare(f"examples/{path}"), FIXED.get(path, {})
    f = mdf_loop.to_jax(model, max_steps=5000, outputs=OUTPUTS.get(path), **STEPS.get(path, {}))
    floats = {name: np.asarray(port.default, float) for name, port in model.inputs.items() if _is_float(port.default)}
    given = {name: x for name, x in floats.items() if name not in {*fixed, "noise"}}
    with contextlib.suppress(ArgumentError):  # it wants a key
        f(**given, **fixed)
    noise = {"noise": _noise(f)} if f.draws else {}
    assert_gradient(lambda x: weighted(f(**x, **fixed, **noise), ROWS.get(path)), given)


def _is_float(value):
    return isinstance(value, float | list) and np.asarray(value).dtype == np.float64


def _noise(f):
    rng = np.random.default_rng(2)
    return {name: rng.standard_normal(draw.shape) for name, draw in f.draws.items()}


EXPORTED = [
    "jax_biquad",
    "jax_conjugate_gradient",
    "jax_ddim",
    "jax_hidden_markov",
    "jax_horner",
    "jax_kalman",
    "jax_kalman_large",
    "jax_kuramoto",
    "jax_leaky_competing_accumulator",
    "jax_lorenz",
    "jax_newton",
    "jax_lstm_batch_8",
    "jax_pagerank",
    "jax_power_iteration",
    "jax_prefix_sums",
    "jax_rnn_both_ways",
    "jax_sinkhorn",
]


@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_loop(name):
    work = next(work for work in models(FOLDER, [name]) if work.name == name)
    f = mdf_loop.to_jax(in_float64(work.model), max_steps=64)
    given = {key: x.astype(np.float64) for key, x in work.inputs.items() if x.dtype == np.float32}
    fixed = {key: x for key, x in work.inputs.items() if x.dtype != np.float32}
    assert_gradient(lambda x: weighted(f(**x, **fixed)), given, rtol=1e-4)
