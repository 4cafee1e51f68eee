"""Whole numbers, polynomials and sums."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_loops.keeping import R, exported, f32, repeated


@exported(f32(12), f32(200))
def horner(coefficients, x):
    """A polynomial at 200 points."""
    return lax.scan(lambda y, c: (y * x + c, None), jnp.zeros_like(x), coefficients)[0]


@exported(R.integers(0, 256, 200).astype(np.int32))
def hash_of_a_text(codes):
    """A rolling hash of 200 characters, in int32 that stays below 2**31."""

    def step(h, c):
        h = (h * 31 + c) % 65521
        return h, h

    last, hashes = lax.scan(step, jnp.int32(7), codes)
    return last, hashes


@exported(np.arange(1, 33, dtype=np.int32))
def collatz(n):
    """A batched loop inside: how many steps each of 32 numbers takes."""

    def one(n):
        def step(s):
            return jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1

        return lax.while_loop(lambda s: s[0] > 1, step, (n, jnp.int32(0)))[1]

    return jax.vmap(one)(n)


@exported(f32(64))
def prefix_sums(x):
    """Hillis and Steele: neighbours twice as far away each time."""

    def step(k, state):
        x, far = state
        index = jnp.arange(64, dtype=jnp.int32) - far
        return jnp.where(index >= 0, x + jnp.take(x, jnp.maximum(index, 0)), x), far * 2

    return lax.fori_loop(0, 6, step, (x, jnp.int32(1)))[0]


@exported(f32(50), f32(50), np.float32(0.1))
def scan_over_pairs(x, y, rate):
    """A delta rule: an expectation follows what is seen, trial by trial."""

    def step(state, pair):
        w, b = state
        cue, reward = pair
        error = reward - (w * cue + b)
        return (w + rate * error * cue, b + rate * error), error

    return lax.scan(step, (jnp.float32(0), jnp.float32(0)), (x, y))


@exported(np.float32(0.37))
def logistic_nested(x):
    """A loop in a loop, numbers alone."""

    def outer(k, x):
        rate = jnp.float32(3.5) + 0.01 * jnp.asarray(k, jnp.float32)
        return repeated(30, lambda _, y: rate * y * (1 - y), x)

    return repeated(8, outer, x)
