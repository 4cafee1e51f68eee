"""
Training a recurrent network with gradients
===========================================

This recurrent network learns to predict the next value of a sequence. JAX differentiates the model, and optax fits all of its
304 weights. This page also needs ``pip install -e ".[jax]" optax``.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
# MDF models compute in float64. The model is a function of its inputs and parameters, by name:
jax.config.update("jax_enable_x64", True)
network = mdf_loop.to_jax(MODEL)

size, rng = 16, np.random.default_rng(0)
weights = {
    "w_in": rng.normal(size=(size, 1)),
    "w_rec": rng.normal(size=(size, size)) / np.sqrt(size),
    "w_out": rng.normal(size=(1, size)) / size,
    "bias": np.zeros(size),
}
weights = {name: jnp.asarray(value) for name, value in weights.items()}

# %%
# A sequence with two frequencies. The network predicts the next value in each step.
time = np.arange(120)
sequence = jnp.asarray(np.sin(0.2 * time) * np.cos(0.05 * time))[:, None]


def loss(weights):
    """The mean squared error of all predictions."""
    predictions = network(x=sequence[:-1], h0=jnp.zeros(size), **weights)["prediction"]
    return jnp.mean((predictions - sequence[1:]) ** 2)


# %%
# Adam, as for any JAX function.
optimiser = optax.adam(1e-2)
state = optimiser.init(weights)


@jax.jit
def step(weights, state):
    """One step down the gradient."""
    value, gradient = jax.value_and_grad(loss)(weights)
    updates, state = optimiser.update(gradient, state)
    return optax.apply_updates(weights, updates), state, value


losses = []
for _ in range(400):
    weights, state, value = step(weights, state)
    losses.append(float(value))

# %%
# The weights are inputs of the model, so :func:`mdf_loop.run` takes them as well.
fitted = mdf_loop.run(MODEL, x=np.asarray(sequence[:-1]), h0=np.zeros(size), **{n: np.asarray(w) for n, w in weights.items()})
fig, (top, bottom) = plt.subplots(2, 1, figsize=(8, 5), layout="constrained")
top.semilogy(losses)
top.set(xlabel="step", ylabel="mean squared error")
bottom.plot(sequence[1:, 0], "--", color="gray", label="the next value")
bottom.plot(fitted["prediction"][:, 0], label="predicted")
bottom.legend()

assert losses[-1] < losses[0] / 20
