"""Networks over sequences, and a sampler."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_loops.keeping import R, exported, f32, repeated

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
    """A diffusion model's sampler: 30 steps of a network that gets the time."""
    alphas = jnp.asarray(np.cumprod(np.linspace(0.995, 0.9, 31)).astype(np.float32))

    def step(k, x):
        t = 29 - k
        now, then = alphas[t + 1], alphas[t]
        noise = jax.nn.silu(x @ jnp.asarray(DDIM_W) + jnp.asarray(DDIM_T)[t]) @ jnp.asarray(DDIM_V)
        clean = (x - jnp.sqrt(1 - now) * noise) / jnp.sqrt(now)
        return jnp.sqrt(then) * clean + jnp.sqrt(1 - then) * noise

    return repeated(30, step, x)


@exported(R.integers(-100, 100, (20, 8)).astype(np.int8), R.integers(-5, 6, (8, 8)).astype(np.int8))
def quantized_recurrence(x, W):
    """A recurrent layer in bytes: products of whole numbers, a shift, and what is too large cut off."""

    def step(h, v):
        sums = h.astype(jnp.int32) @ W.astype(jnp.int32)
        h = jnp.clip((sums >> 3) + v.astype(jnp.int32), -128, 127).astype(jnp.int8)
        return h, sums

    return lax.scan(step, jnp.zeros(8, jnp.int8), x)


@exported(f32(20, 6), R.integers(1, 6, 5).astype(np.int32))
def connectionist_temporal_classification(scores, labels):
    """How likely five labels are in twenty frames, whatever frames they take; in logarithms."""
    chances = jax.nn.log_softmax(scores, axis=1)
    path = jnp.zeros(11, jnp.int32).at[1::2].set(labels)
    may_skip = (path != 0) & (path != jnp.concatenate([jnp.full(2, -1, jnp.int32), path[:-2]]))
    never = jnp.float32(-1e9)
    first = jnp.full(11, never).at[0].set(chances[0, 0]).at[1].set(chances[0, path[1]])

    def step(a, frame):
        one = jnp.concatenate([never[None], a[:-1]])
        two = jnp.where(may_skip, jnp.concatenate([never[None], never[None], a[:-2]]), never)
        return jnp.logaddexp(jnp.logaddexp(a, one), two) + frame[path], None

    a, _ = lax.scan(step, first, chances[1:])
    return -jnp.logaddexp(a[-1], a[-2])
