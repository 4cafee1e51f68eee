"""Differential equations and neurons."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_loops.keeping import exported, f32, repeated


@exported(np.array([1, 1, 1], np.float32))
def lorenz(start):
    """Runge and Kutta's fourth order, 200 steps; the path is kept."""

    def slope(u):
        x, y, z = u
        return jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    def step(u, _):
        h = 0.01
        a = slope(u)
        b = slope(u + h / 2 * a)
        c = slope(u + h / 2 * b)
        d = slope(u + h * c)
        u = u + h / 6 * (a + 2 * b + 2 * c + d)
        return u, u

    return lax.scan(step, start, None, length=200)[1]


@exported(np.array([2.0, 0.0]), np.float64(20.0))
def adaptive_ode(start, end):
    """Van der Pol's oscillator by Bogacki and Shampine's pair: steps are refused and taken again, float64."""

    def slope(u):
        return jnp.stack([u[1], 2 * (1 - u[0] * u[0]) * u[1] - u[0]])

    def step(state):
        t, u, h, n = state
        h = jnp.minimum(h, end - t)
        a = slope(u)
        b = slope(u + 0.5 * h * a)
        c = slope(u + 0.75 * h * b)
        new = u + h * (2 / 9 * a + 1 / 3 * b + 4 / 9 * c)
        error = h * (-5 / 72 * a + 1 / 12 * b + 1 / 9 * c - 1 / 8 * slope(new))
        size = jnp.sqrt((error * error).mean()) / 1e-4
        good = size <= 1
        factor = jnp.clip(0.9 * (size + 1e-12) ** (-1 / 3), 0.2, 5.0)
        return jnp.where(good, t + h, t), jnp.where(good, new, u), h * factor, n + 1

    t, u, _, n = lax.while_loop(
        lambda s: (s[0] < end) & (s[3] < 2000), step, (jnp.float64(0), start, jnp.float64(0.1), jnp.int32(0))
    )
    return t, u, n


@exported(np.float64(0.0), np.float64(0.0), np.float64(0.5))
def fitzhugh_nagumo(v, w, current):
    """Numbers alone, 2,000 steps, in float64."""

    def step(_, state):
        v, w = state
        return v + 0.05 * (v - v * v * v / 3 - w + current), w + 0.05 * 0.08 * (v + 0.7 - 0.8 * w)

    return repeated(2000, step, (v, w))


@exported(np.full(500, 10, np.float32))
def hodgkin_huxley(current):
    """One cell, 500 steps; the voltage is kept."""

    def step(state, I):
        V, m, h, n = state
        am, bm = 0.1 * (V + 40) / (1 - jnp.exp(-(V + 40.01) / 10)), 4 * jnp.exp(-(V + 65) / 18)
        ah, bh = 0.07 * jnp.exp(-(V + 65) / 20), 1 / (1 + jnp.exp(-(V + 35) / 10))
        an, bn = 0.01 * (V + 55) / (1 - jnp.exp(-(V + 55.01) / 10)), 0.125 * jnp.exp(-(V + 65) / 80)
        ions = 120 * m**3 * h * (V - 50) + 36 * n**4 * (V + 77) + 0.3 * (V + 54.4)
        dt = 0.02
        new = (
            V + dt * (I - ions),
            m + dt * (am * (1 - m) - bm * m),
            h + dt * (ah * (1 - h) - bh * h),
            n + dt * (an * (1 - n) - bn * n),
        )
        return new, new[0]

    start = tuple(map(jnp.float32, (-65.0, 0.05, 0.6, 0.32)))
    return lax.scan(step, start, current)[1]


@exported(np.abs(f32(300, 120)) * 8)
def izhikevich(current):
    """A population of 120 cells; spikes are counted."""

    def step(state, I):
        v, u = state
        fired = v >= 30
        v, u = jnp.where(fired, -65.0, v), jnp.where(fired, u + 8, u)
        v = v + 0.5 * (0.04 * v * v + 5 * v + 140 - u + I)
        return (v, u + 0.02 * (0.2 * v - u)), fired.astype(jnp.int32).sum(dtype=jnp.int32)

    start = jnp.full(120, -65, jnp.float32), jnp.full(120, -13, jnp.float32)
    (v, _), spikes = lax.scan(step, start, current)
    return v, spikes


INHIBITION = (-0.2 * (1 - np.eye(6))).astype(np.float32)


@exported(np.array([1.0, 1.1, 0.9, 1.2, 1, 1], np.float32), 0.1 * f32(500, 6))
def leaky_competing_accumulator(evidence, noise):
    """Until one of six units crosses the threshold; noise is given."""

    def step(state):
        x, n = state
        x = x + 0.02 * (evidence - 0.5 * x + jnp.asarray(INHIBITION) @ x) + noise[n]
        return jnp.maximum(x, jnp.float32(0)), n + 1

    return lax.while_loop(lambda s: (s[0].max() < 1.5) & (s[1] < 500), step, (jnp.zeros(6, jnp.float32), jnp.int32(0)))


@exported(f32(300, 64))
def drift_diffusion(noise):
    """64 trials at once, absorbed at their bounds: when, and where."""

    def step(state, row):
        x, time = state
        free = jnp.abs(x) < 1
        return (jnp.where(free, x + 0.01 * 0.8 + 0.1 * row, x), jnp.where(free, time + 0.01, time)), None

    zero = jnp.zeros(64, jnp.float32)
    return lax.scan(step, (zero, zero), noise)[0]
