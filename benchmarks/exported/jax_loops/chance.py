"""What ends when chance says so; the random numbers are given."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_loops.keeping import R, exported, f32


@exported(f32(300, 4))
def race(noise):
    """Four accumulators run until one is at the end, or time is over: which, and when."""
    drift = jnp.asarray(np.array([1, 0.8, 0.6, 0.5], np.float32))

    def step(state):
        n, x = state
        return n + 1, jnp.maximum(x + 0.01 * drift + 0.1 * noise[n], jnp.float32(0))

    n, x = lax.while_loop(lambda s: (s[0] < 300) & (s[1].max() < 1.5), step, (jnp.int32(0), jnp.zeros(4, jnp.float32)))
    return jnp.argmax(x).astype(jnp.int32), n


@exported(R.random((300, 2)), np.array([50, 20, 1], np.int32))
def gillespie(u, start):
    """Reactions one by one: molecules change into others and back, until none is left or time is over."""
    change = jnp.asarray(np.array([[-1, 1, 0], [1, -1, 0], [0, -1, 1]], np.int32))

    def step(state):
        n, t, x = state
        rates = jnp.stack([1.0 * x[0], 0.5 * x[1], 0.3 * x[1]]).astype(jnp.float64)
        total = rates.sum() + 1e-12
        which = jnp.argmax(jnp.cumsum(rates) > u[n, 1] * total)
        return n + 1, t - jnp.log(u[n, 0]) / total, x + change[which]

    return lax.while_loop(lambda s: (s[0] < 300) & (s[1] < 2), step, (jnp.int32(0), jnp.float64(0), start))
