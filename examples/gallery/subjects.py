"""
A learning rate for each subject: NUTS
======================================

Twelve subjects choose between two options and learn. NumPyro's sampler NUTS uses the gradient of the model to find a learning
rate and a temperature for each subject and for the group. ArviZ plots the result. This page also needs
``pip install -e ".[jax]" numpyro "arviz<1"``.
"""

from pathlib import Path

import arviz
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
# The data: 120 simulated choices of each subject, with known parameters.
subjects, trials, rng = 12, 120, np.random.default_rng(3)
true_rate = 1 / (1 + np.exp(-rng.normal(-0.8, 0.8, subjects)))
true_temperature = np.exp(rng.normal(-1.2, 0.3, subjects))
value, one = np.zeros((subjects, 2)), np.arange(subjects)
choices, rewards = np.zeros((subjects, trials), int), np.zeros((subjects, trials))
for k in range(trials):
    p = 1 / (1 + np.exp((value[:, 0] - value[:, 1]) / true_temperature))
    choices[:, k] = rng.random(subjects) < p
    rewards[:, k] = rng.random(subjects) < np.where(choices[:, k] == 1, 0.7, 0.3)
    value[one, choices[:, k]] += true_rate * (rewards[:, k] - value[one, choices[:, k]])

# %%
# The model of one subject is a JAX function. ``jax.vmap`` makes a function of all subjects.
jax.config.update("jax_enable_x64", True)
learner = mdf_loop.to_jax(MODEL)


@jax.vmap
def surprise(rate, temperature, choices, rewards):
    """The negative log likelihood of a subject's choices."""
    return learner(rate=rate, temperature=temperature, choices=choices, rewards=rewards)["surprise"]


def group(choices, rewards):
    """Parameters of the group, and how much each subject differs from it."""
    found = {}
    for name, middle, link in (("rate", 0.0, jax.nn.sigmoid), ("temperature", -1.0, jnp.exp)):
        mean = numpyro.sample(f"{name}_mean", dist.Normal(middle, 1.0))
        spread = numpyro.sample(f"{name}_spread", dist.HalfNormal(0.5))
        apart = numpyro.sample(f"{name}_apart", dist.Normal(0, 1).expand([subjects]))
        found[name] = numpyro.deterministic(name, link(mean + spread * apart))
    numpyro.factor("choices", -surprise(found["rate"], found["temperature"], choices, rewards).sum())


# %%
# Two chains, each with 150 steps of warm-up and 200 samples.
kernel = numpyro.infer.NUTS(group, max_tree_depth=5)
mcmc = numpyro.infer.MCMC(kernel, num_warmup=150, num_samples=200, num_chains=2, chain_method="vectorized", progress_bar=False)
mcmc.run(jax.random.key(1), jnp.asarray(choices), jnp.asarray(rewards))
posterior = arviz.from_numpyro(mcmc)
table = arviz.summary(posterior, var_names=["rate_mean", "rate_spread", "temperature_mean", "temperature_spread"])
print(table[["mean", "sd", "ess_bulk", "r_hat"]])

# %%
# The rates of all subjects with intervals of 94 %. Stars are the true rates.
(ax,) = arviz.plot_forest(posterior, var_names=["rate"], combined=True, figsize=(7, 4), textsize=10)
ax.plot(true_rate, ax.get_yticks()[::-1], "*", color="C3", markersize=10)
ax.set(title="learning rates", xlabel="rate")
ax.figure.tight_layout()

low, high = np.moveaxis(arviz.hdi(posterior, var_names=["rate"]).rate.values, -1, 0)
assert ((low < true_rate) & (true_rate < high)).sum() >= 9
