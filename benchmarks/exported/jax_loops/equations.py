"""Equations solved step by step, and what is fitted."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_loops.keeping import R, exported, f32, repeated


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


@exported(np.array([-1.2, 1.0]))
def limited_memory_bfgs(x):
    """Rosenbrock's valley downhill: the last four steps say where to, a line search how far; loops in a loop."""

    def height(x):
        return (1 - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2

    def gradient(x):
        return jnp.stack([-2 * (1 - x[0]) - 40 * x[0] * (x[1] - x[0] ** 2), 20 * (x[1] - x[0] ** 2)])

    def way(g, S, Y, rho):
        def back(k, state):
            q, a = state
            share = rho[3 - k] * (S[3 - k] @ q)
            return q - share * Y[3 - k], a.at[3 - k].set(share)

        q, a = repeated(4, back, (g, jnp.zeros(4)))
        size = Y[3] @ Y[3]
        first = q * jnp.where(size > 0, S[3] @ Y[3] / jnp.where(size > 0, size, 1.0), 0.05)
        return repeated(4, lambda k, r: r + S[k] * (a[k] - rho[k] * (Y[k] @ r)), first)

    def body(state):
        n, x, g, S, Y, rho = state
        r = way(g, S, Y, rho)
        far = lambda s: (height(x - s[0] * r) > height(x) - 1e-4 * s[0] * (g @ r)) & (s[1] < 20)  # noqa: E731
        length, _ = lax.while_loop(far, lambda s: (s[0] / 2, s[1] + 1), (jnp.float64(1), jnp.int32(0)))
        new = x - length * r
        s, y = new - x, gradient(new) - g
        curved = s @ y > 1e-12
        kept = [
            jnp.where(curved, jnp.concatenate([old[1:], v[None]]), old)
            for old, v in ((S, s), (Y, y), (rho, 1 / jnp.where(curved, s @ y, 1.0)))
        ]
        return n + 1, new, gradient(new), *kept

    start = (jnp.int32(0), x, gradient(x), jnp.zeros((4, 2)), jnp.zeros((4, 2)), jnp.zeros(4))
    return lax.while_loop(lambda s: (s[0] < 60) & ((s[2] ** 2).sum() > 1e-12), body, start)[:2]


@exported(np.linspace(-3, 3, 24, dtype=np.float32), np.sin(np.arange(24, dtype=np.float32)))
def kuramoto(phases, own):
    """Twenty-four oscillators that pull at each other."""

    def step(_, x):
        return x + 0.05 * (own + 2 * jnp.sin(x[None, :] - x[:, None]).mean(1))

    return repeated(60, step, phases)
