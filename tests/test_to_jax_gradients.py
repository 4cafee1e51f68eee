"""Gradients by JAX are those of differences: of every primitive that has one, and of models."""

import numpy as np
import pytest

import mdf_loop
from mdf_loop.backends.jax.jnp_templates import TEMPLATES
from mdf_loop.step.primitives import PRIMITIVES

jax = pytest.importorskip("jax", reason='jax is not installed: pip install "mdf-loop[jax]"')
jnp = jax.numpy

from jax.test_util import check_grads  # noqa: E402

AT = {
    "acosh": (1.5, 2.7),
    "acos": (0.3, -0.6),
    "asin": (0.3, -0.6),
    "atanh": (0.3, -0.6),
    "pow": (1.3, 0.7),
    "floordiv": (1.3, 0.7),
}
"""Where a primitive is defined, if that is not at 1.3 and 0.4."""

WITHOUT = {
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne", "signbit", "isfinite", "isinf", "isnan"), "a truth value"),
    **dict.fromkeys(("and_", "or_", "xor", "not_", "shl", "shr", "gcd", "lcm"), "of whole numbers"),
    **dict.fromkeys(("floor", "ceil", "rint", "trunc", "round", "whole", "sign", "floordiv"), "constant but for jumps"),
    **dict.fromkeys(("nextafter", "ldexp"), "of the digits of a number"),
}
"""Primitives that have no gradient, and why."""


@pytest.fixture(autouse=True)
def _in_64_bits():
    jax.config.update("jax_enable_x64", True)


def test_every_primitive_has_a_template():
    assert {name.removeprefix("math.").removeprefix("python.") for name in PRIMITIVES} <= {*TEMPLATES}


@pytest.mark.parametrize("name", sorted(name for name in TEMPLATES if name not in WITHOUT))
def test_a_primitive_has_the_gradient_of_differences(name):
    template, at = TEMPLATES[name], AT.get(name, (1.3, 0.4))
    count = _arguments(name)
    check_grads(template, [jnp.asarray(x) for x in at[:count]], order=1, modes=["fwd", "rev"], rtol=1e-5, atol=1e-6)


def _arguments(name):
    row = PRIMITIVES.get(name) or PRIMITIVES[f"math.{name}"]
    if row.ufunc is not None:
        return row.ufunc.nin
    return 2 if name in ("quotient", "fmod", "remainder") else 1


MODELS = {
    "leaky_accumulator.yaml": "leak",
    "newton.yaml": "a",
    "gallery/fitting.yaml": "rate",
    "gallery/fitzhugh_nagumo.yaml": "epsilon",
}
"""A parameter of each."""


@pytest.mark.parametrize("path", MODELS)
def test_a_model_has_the_gradient_of_differences(path):
    model, name = mdf_loop.prepare(f"examples/{path}"), MODELS[path]
    f = mdf_loop.to_jax(model, max_steps=1000)
    at = np.asarray(model.inputs[name].default, float)

    def total(x):
        return sum(jnp.sum(value) for key, value in f(**{name: x}).items() if value.dtype == np.float64)

    check_grads(total, (jnp.asarray(at),), order=1, modes=["rev"], rtol=1e-4, atol=1e-4, eps=1e-5)


def test_the_weights_of_an_exported_network_have_gradients():
    f = mdf_loop.to_jax("examples/gallery/rnn.onnx", outputs=["prediction"])
    x = jnp.asarray(np.sin(np.arange(10.0))[:, None, None], np.float32)
    gradient = jax.grad(lambda x: f(x=x)["prediction"].sum())(x)
    step = np.zeros(x.shape, np.float32)
    step[3] = 1e-2
    want = (f(x=x + step)["prediction"].sum() - f(x=x - step)["prediction"].sum()) / 2e-2
    np.testing.assert_allclose(gradient[3, 0, 0], want, rtol=2e-2)
