"""Filters and probabilities."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_loops.keeping import R, exported, f32

ROTATION = np.array([[1, 0.1, 0, 0], [-0.1, 0.99, 0, 0], [0, 0, 1, 0.1], [0, 0, -0.1, 0.99]], np.float32)


@exported(f32(100, 2))
def kalman(seen):
    """Four states, two observations: the inverse of a 2 x 2 matrix is written out."""
    A, C = jnp.asarray(ROTATION), jnp.asarray(np.eye(4, dtype=np.float32)[[0, 2]])
    Q, N = 0.01 * jnp.eye(4, dtype=jnp.float32), 0.5 * jnp.eye(2, dtype=jnp.float32)

    def step(state, z):
        x, P = state
        x, P = A @ x, A @ P @ A.T + Q
        S = C @ P @ C.T + N
        det = S[0, 0] * S[1, 1] - S[0, 1] * S[1, 0]
        inverse = jnp.stack([jnp.stack([S[1, 1], -S[0, 1]]), jnp.stack([-S[1, 0], S[0, 0]])]) / det
        K = P @ C.T @ inverse
        x = x + K @ (z - C @ x)
        return (x, P - K @ C @ P), x

    (_, P), path = lax.scan(step, (jnp.zeros(4, jnp.float32), jnp.eye(4, dtype=jnp.float32)), seen)
    return path, P


LARGE_A = (np.linalg.qr(R.standard_normal((24, 24)))[0] * 0.98).astype(np.float32)
LARGE_C = f32(6, 24)


@exported(f32(40, 6))
def kalman_large(seen):
    """24 states; six observations are taken in one after the other, in a loop inside."""
    A, C = jnp.asarray(LARGE_A), jnp.asarray(LARGE_C)

    def observed(state, row):
        x, P = state
        c, z = row
        Pc = P @ c
        gain = Pc / (c @ Pc + 0.5)
        return (x + gain * (z - c @ x), P - gain[:, None] * Pc[None, :]), jnp.float32(0)

    def step(state, z):
        x, P = state
        x, P = A @ x, A @ P @ A.T + 0.01 * jnp.eye(24, dtype=jnp.float32)
        (x, P), _ = lax.scan(observed, (x, P), (C, z))
        return (x, P), x

    (_, P), path = lax.scan(step, (jnp.zeros(24, jnp.float32), jnp.eye(24, dtype=jnp.float32)), seen)
    return path, jnp.diagonal(P)


TRANSITION = np.log(R.dirichlet(np.ones(6), 6)).astype(np.float32)


@exported(f32(80, 6))
def hidden_markov(likelihood):
    """The forward algorithm, in logarithms."""
    T = jnp.asarray(TRANSITION)

    def step(a, row):
        both = a[:, None] + T
        top = both.max(0)
        a = top + jnp.log(jnp.exp(both - top[None, :]).sum(0)) + row
        return a, a

    return lax.scan(step, jnp.zeros(6, jnp.float32), likelihood)


@exported(f32(400, 4))
def biquad(signal):
    """An IIR filter of second order, four channels."""

    def step(past, x):
        x1, x2, y1, y2 = past
        y = 0.2 * x + 0.4 * x1 + 0.2 * x2 + 0.4 * y1 - 0.2 * y2
        return (x, x1, y, y1), y

    zero = jnp.zeros(4, jnp.float32)
    return lax.scan(step, (zero, zero, zero, zero), signal)[1]
