"""What JAX does to functions it does to models: jit, vmap, grad, hessian and shard_map, around each other, on several devices."""

import os
import subprocess
import sys

import numpy as np
import pytest

import mdf_loop

jax = pytest.importorskip("jax", reason='jax is not installed: pip install -e ".[jax]"')
jnp = jax.numpy

SCAN = "b (int64 i, bool c, double s) => (bool c, double t) { u = Sin (s) v = Mul (w, u) t = Add (s, v) }"
EARLY = "b (int64 i, bool c, double s) => (bool d, double t) { q = Div (w, s) u = Add (s, q) t = Mul (u, h) d = Less (e, s) }"
"""The second one ends when s is no longer above e."""

GIVEN = {"scan": {"M": 5, "s": 0.7}, "early": {"cond": True, "s": 3.0, "h": 0.5, "e": 1.6}}


pytestmark = pytest.mark.usefixtures("in_64_bits", "compiled_quickly")


@pytest.fixture(params=["scan", "early"])
def function(request):
    """A loop as a function of one number."""
    f = mdf_loop.to_jax(SCAN if request.param == "scan" else EARLY, max_steps=20)
    return lambda w: f(w=w, **GIVEN[request.param])["t"]


POINTS = np.array([0.4, 1.1, 2.5])


def test_vmap_of_grad_is_the_gradient_of_each(function):
    grad = jax.grad(function)
    together = jax.jit(jax.vmap(jax.value_and_grad(function)))(POINTS)
    np.testing.assert_allclose(together[0], [function(w) for w in POINTS], rtol=1e-12)
    np.testing.assert_allclose(together[1], [grad(w) for w in POINTS], rtol=1e-12)


def test_hessians_of_many_are_differences_of_gradients(function):
    h, grad = 1e-6, jax.jit(jax.vmap(jax.grad(function)))
    found = jax.jit(jax.vmap(jax.hessian(function)))(POINTS)
    np.testing.assert_allclose(found, (grad(POINTS + h) - grad(POINTS - h)) / (2 * h), rtol=1e-5)


def test_forward_and_reverse_mode_agree(function):
    both = [jax.jit(jax.vmap(mode(function)))(POINTS) for mode in (jax.jacfwd, jax.jacrev)]
    np.testing.assert_allclose(*both, rtol=1e-12)


def test_a_gradient_goes_through_what_stands_around_it(function):
    def loss(w):
        return jnp.sum(jax.vmap(function)(jnp.exp(w)) ** 2)

    w = np.log(POINTS)
    want = [2 * function(x) * jax.grad(function)(x) * x for x in POINTS]
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(w), want, rtol=1e-12)


def test_checkpoint_and_remat_change_nothing(function):
    np.testing.assert_allclose(jax.grad(jax.checkpoint(function))(0.4), jax.grad(function)(0.4), rtol=1e-12)


ON_DEVICES = f"""
import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import mdf_loop

shard_map = getattr(jax, "shard_map", None)
if shard_map is None:  # before JAX 0.6
    from jax.experimental.shard_map import shard_map
jax.config.update("jax_enable_x64", True)
assert jax.device_count() == 4
mesh = jax.make_mesh((4,), ("runs",))
for text, given in (({SCAN!r}, {GIVEN["scan"]!r}), ({EARLY!r}, {GIVEN["early"]!r})):
    f = mdf_loop.to_jax(text, max_steps=20)
    both = jax.vmap(jax.value_and_grad(lambda w: f(w=w, **given)["t"]))
    w = jax.device_put(np.linspace(0.5, 2.0, 8), NamedSharding(mesh, P("runs")))
    spread = jax.jit(shard_map(both, mesh=mesh, in_specs=P("runs"), out_specs=P("runs")))
    found, want = spread(w), both(np.asarray(w))
    assert len(found[0].sharding.device_set) == 4
    for one, other in zip(found, want):
        np.testing.assert_allclose(one, other, rtol=1e-12)

    def mean(w):
        return jax.lax.pmean(both(w)[0].mean(), "runs")

    np.testing.assert_allclose(shard_map(mean, mesh=mesh, in_specs=P("runs"), out_specs=P())(w), want[0].mean(), rtol=1e-12)
"""


def test_runs_are_spread_over_devices():
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ON_DEVICES],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
