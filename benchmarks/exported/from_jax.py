"""Loops written in JAX, exported by jax2onnx.

python benchmarks/exported/from_jax.py             all of them, into this folder
python benchmarks/exported/from_jax.py kalman      those whose name contains one of these

A loop is a function of arrays and a function that makes its inputs; the decorator keeps both in LOOPS.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

sys.path.insert(0, str(Path(__file__).parent))

jax.config.update("jax_enable_x64", True)


class Exported(NamedTuple):
    """One loop: the function, and its inputs."""

    function: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]

    def results(self) -> tuple[np.ndarray, ...]:
        """What JAX itself gives, compiled."""
        return tuple(map(np.asarray, jax.tree.leaves(jax.jit(self.function)(*self.inputs))))


LOOPS: dict[str, Exported] = {}

R = np.random.default_rng(7)


def f32(*shape: int) -> np.ndarray:
    """Normally distributed numbers."""
    return R.standard_normal(shape).astype(np.float32)


def exported(*inputs: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Keep a function and its inputs under its name."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        LOOPS[f"jax_{function.__name__}"] = Exported(function, tuple(map(np.asarray, inputs)))
        return function

    return keep


def repeated(count: int, step: Callable[[Any], Any], state: Any) -> Any:
    """A ``fori_loop`` whose body may use arrays from outside, which jax2onnx cannot export of a ``fori_loop``."""
    return lax.while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, step(s[0], s[1])), (jnp.int32(0), state))[1]


# Filters and probabilities

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


# Equations


@exported(np.abs(f32(16)) + 1)
def newton(a):
    """Square roots: until they move no more."""

    def moves(state):
        return (state[1] > 1e-5) & (state[2] < 50)

    def step(state):
        x, _, n = state
        new = 0.5 * (x + a / x)
        return new, jnp.abs(new - x).max(), n + 1

    return lax.while_loop(moves, step, (a, jnp.float32(1), jnp.int32(0)))


@exported(np.float64(2.0), np.float64(0.0), np.float64(3.0))
def bisection(target, low, high):
    """x * exp(x) = target, in float64."""

    def step(state):
        low, high, n = state
        middle = (low + high) / 2
        above = middle * jnp.exp(middle) > target
        return jnp.where(above, low, middle), jnp.where(above, middle, high), n + 1

    return lax.while_loop(lambda s: s[1] - s[0] > 1e-12, step, (low, high, jnp.int64(0)))


SYMMETRIC = (lambda m: (m @ m.T / 48 + np.eye(48)).astype(np.float32))(R.standard_normal((48, 48)))


@exported(f32(48))
def conjugate_gradient(b):
    """Until the residual is small."""
    A = jnp.asarray(SYMMETRIC)

    def goes_on(state):
        return (state[3] > 1e-6) & (state[4] < 60)

    def step(state):
        x, r, p, rr, n = state
        Ap = A @ p
        alpha = rr / (p @ Ap)
        x, r = x + alpha * p, r - alpha * Ap
        new = r @ r
        return x, r, r + (new / rr) * p, new, n + 1

    x, _, _, rr, n = lax.while_loop(goes_on, step, (jnp.zeros_like(b), b, b, b @ b, jnp.int32(0)))
    return x, rr, n


@exported(np.abs(f32(64)))
def power_iteration(x):
    """The largest eigenvalue of a matrix of 64 x 64."""
    A = jnp.asarray(np.pad(SYMMETRIC, (0, 16), constant_values=0.01))

    def step(_, state):
        x, _ = state
        y = A @ x
        norm = jnp.sqrt((y * y).sum())
        return y / norm, norm

    return repeated(40, step, (x, jnp.float32(0)))


LINKS = (lambda m: (m / m.sum(0)).astype(np.float32))((R.random((40, 40)) < 0.15) + 1e-3)


@exported(np.full(40, 1 / 40, np.float32))
def pagerank(rank):
    """Until the ranks stand still."""
    M = jnp.asarray(LINKS)

    def step(state):
        rank, _ = state
        new = 0.85 * (M @ rank) + 0.15 / 40
        return new, jnp.abs(new - rank).sum()

    return lax.while_loop(lambda s: s[1] > 1e-6, step, (rank, jnp.float32(1)))


@exported(np.abs(f32(32, 32)))
def sinkhorn(cost):
    """Optimal transport: rows and columns in turn, in logarithms."""

    def logsumexp(x, axis):
        top = x.max(axis, keepdims=True)
        return top + jnp.log(jnp.exp(x - top).sum(axis, keepdims=True))

    def step(_, K):
        K = K - logsumexp(K, 1)
        return K - logsumexp(K, 0)

    return jnp.exp(lax.fori_loop(0, 20, step, -5 * cost))


IMAGES, CLASSES = f32(24, 8), R.integers(0, 3, 24)


@exported(0.3 * f32(8, 12), 0.3 * f32(12, 3))
def adam(W, V):
    """A small network learns by Adam."""
    X, Y = jnp.asarray(IMAGES), jnp.asarray(np.eye(3, dtype=np.float32)[CLASSES])

    def gradient(weights):
        W, V = weights
        hidden = jnp.tanh(X @ W)
        scores = hidden @ V
        chance = jnp.exp(scores - scores.max(1, keepdims=True))
        wrong = (chance / chance.sum(1, keepdims=True) - Y) / 24
        back = (wrong @ V.T) * (1 - hidden * hidden)
        return X.T @ back, hidden.T @ wrong

    def step(k, state):
        weights, m, v = state
        g = gradient(weights)
        t = jnp.asarray(k + 1, jnp.float32)
        m = tuple(0.9 * a + 0.1 * b for a, b in zip(m, g, strict=True))
        v = tuple(0.99 * a + 0.01 * b * b for a, b in zip(v, g, strict=True))
        scale = 0.02 * jnp.sqrt(1 - jnp.power(jnp.float32(0.99), t)) / (1 - jnp.power(jnp.float32(0.9), t))
        weights = tuple(w - scale * a / (jnp.sqrt(b) + 1e-6) for w, a, b in zip(weights, m, v, strict=True))
        return weights, m, v

    zeros = (jnp.zeros_like(W), jnp.zeros_like(V))
    return repeated(50, step, ((W, V), zeros, zeros))[0]


# Differential equations and neurons


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


# Grids and tables


@exported((R.random((24, 24)) < 0.35).astype(np.int32))
def game_of_life(board):
    """Conway's, on a torus of 24 x 24, twenty generations."""

    def step(_, b):
        rows = b + jnp.roll(b, 1, 0) + jnp.roll(b, -1, 0)
        around = rows + jnp.roll(rows, 1, 1) + jnp.roll(rows, -1, 1) - b
        return ((around == 3) | ((b == 1) & (around == 2))).astype(jnp.int32)

    return lax.fori_loop(0, 20, step, board)


@exported(np.eye(1, 65, 32, dtype=np.int32)[0])
def rule_110(cells):
    """A cellular automaton in one dimension, every generation kept."""
    rule = jnp.asarray(np.array([0, 1, 1, 1, 0, 1, 1, 0], np.int32))

    def step(c, _):
        new = jnp.take(rule, 4 * jnp.roll(c, 1) + 2 * c + jnp.roll(c, -1))
        return new, new

    return lax.scan(step, cells, None, length=40)[1]


@exported(*(x.astype(np.float32) for x in np.meshgrid(np.linspace(-2, 0.5, 32), np.linspace(-1.1, 1.1, 32))))
def mandelbrot(x, y):
    """How long 32 x 32 points stay."""

    def step(_, state):
        a, b, n = state
        inside = a * a + b * b <= 4
        a, b = jnp.where(inside, a * a - b * b + x, a), jnp.where(inside, 2 * a * b + y, b)
        return a, b, n + inside.astype(jnp.int32)

    return repeated(50, step, (jnp.zeros_like(x), jnp.zeros_like(x), jnp.zeros(x.shape, jnp.int32)))[2]


@exported(f32(20, 3), f32(24, 3))
def dynamic_time_warping(a, b):
    """A table of 20 x 24, a row from the row above, in two loops."""

    def row(above, x):
        cost = jnp.sqrt(((x[None, :] - b) ** 2).sum(1))

        def cell(left, given):
            up, corner, c = given
            new = c + jnp.minimum(jnp.minimum(left, up), corner)
            return new, new

        corner = jnp.concatenate([above[:1], above[1:-1]])
        _, new = lax.scan(cell, jnp.float32(1e9), (above[1:], corner, cost))
        return jnp.concatenate([jnp.full(1, 1e9, jnp.float32), new]), new[-1]

    first = jnp.concatenate([jnp.zeros(1, jnp.float32), jnp.full(24, 1e9, jnp.float32)])
    last, ends = lax.scan(row, first, a)
    return last[-1], ends


@exported(R.integers(1, 20, 30).astype(np.int32), R.integers(1, 100, 30).astype(np.int32))
def knapsack(weights, values):
    """The best value for each weight to 100: a table by index."""
    room = jnp.arange(101, dtype=jnp.int32)

    def step(best, item):
        weight, value = item
        with_it = jnp.take(best, jnp.maximum(room - weight, 0)) + value
        return jnp.where(room >= weight, jnp.maximum(best, with_it), best), None

    return lax.scan(step, jnp.zeros(101, jnp.int32), (weights, values))[0]


@exported(np.minimum(np.abs(f32(24, 24)) * 10, 20))
def floyd_warshall(distance):
    """All shortest paths between 24 points."""

    def step(k, d):
        row, column = lax.dynamic_slice(d, (k, 0), (1, 24)), lax.dynamic_slice(d, (0, k), (24, 1))
        return jnp.minimum(d, column + row)

    return lax.fori_loop(0, 24, step, distance)


# Numbers


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


# Networks

LSTM_W, LSTM_U = 0.2 * f32(16, 128), 0.2 * f32(32, 128)


@exported(f32(25, 8, 16))
def lstm_batch_8(x):
    """An LSTM's cell by hand, 32 units."""

    def step(state, x):
        h, c = state
        gates = x @ jnp.asarray(LSTM_W) + h @ jnp.asarray(LSTM_U)
        i, f, g, o = (gates[:, 32 * k : 32 * k + 32] for k in range(4))
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((8, 32), jnp.float32)
    return lax.scan(step, (zero, zero), x)[1]


RNN_W, RNN_U = 0.2 * f32(2, 6, 24), 0.2 * f32(2, 24, 24)


@exported(f32(40, 1, 6))
def rnn_both_ways(x):
    """Two scans, one from the end, side by side."""

    def one(k):
        W, U = jnp.asarray(RNN_W[k]), jnp.asarray(RNN_U[k])

        def step(h, x):
            h = jnp.tanh(x @ W + h @ U)
            return h, h

        path = lax.scan(step, jnp.zeros((1, 24), jnp.float32), x[::-1] if k else x)[1]
        return path[::-1] if k else path

    return jnp.concatenate([one(0), one(1)], axis=-1)


DDIM_W, DDIM_V, DDIM_T = 0.3 * f32(16, 48), 0.3 * f32(48, 16), f32(30, 48)


@exported(f32(4, 16))
def ddim(x):
    """A diffusion model's sampler: 30 steps of a network that is told the time."""
    alphas = jnp.asarray(np.cumprod(np.linspace(0.995, 0.9, 31)).astype(np.float32))

    def step(k, x):
        t = 29 - k
        now, then = alphas[t + 1], alphas[t]
        noise = jax.nn.silu(x @ jnp.asarray(DDIM_W) + jnp.asarray(DDIM_T)[t]) @ jnp.asarray(DDIM_V)
        clean = (x - jnp.sqrt(1 - now) * noise) / jnp.sqrt(now)
        return jnp.sqrt(then) * clean + jnp.sqrt(1 - then) * noise

    return repeated(30, step, x)


def main(names: list[str]) -> None:
    """Export all loops, or those that are named."""
    import jax2onnx
    from saving import save

    for name, loop in LOOPS.items():
        if names and not any(part in name for part in names):
            continue
        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in loop.inputs]
        double = any(x.dtype == np.float64 for x in loop.inputs)
        model = jax2onnx.to_onnx(loop.function, shapes, model_name=name, opset=21, enable_double_precision=double)
        save(name, model, loop.inputs, loop.results())


if __name__ == "__main__":
    main(sys.argv[1:])
