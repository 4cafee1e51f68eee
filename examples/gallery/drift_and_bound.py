"""
A fit and a posterior
=====================

From 500 decisions of a diffusion model, this script estimates drift and bound, with standard errors, in one call. Then it
computes a posterior from 4,000 simulated experiments.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing
NAMES, OUTPUTS = ["drift", "bound"], ["reaction_time", "evidence"]

# %%
# The data: 500 simulated decisions with known parameters.
truth = {"drift": 1.2, "bound": 1.3}
observed = mdf_loop.run(MODEL, trials=500, seed=1, **truth)
data = {name: observed[name] for name in OUTPUTS}

# %%
# The estimates are the parameters for which the distribution of simulated outputs is closest to that of the observed ones.
over = {"drift": (0.2, 3.0), "bound": (0.5, 2.0)}
found = mdf_loop.fit(MODEL, data, over, trials=300, seed=4)
print(found)
for name, value in truth.items():
    assert abs(found[name] - value) < 4 * found.errors[name]

found.plot("reaction_time")

# %%
# A simulator is a function of an array of parameters: here 4,000 rows from a uniform prior, with 50 decisions each. The rows
# closest to the data are a sample from an approximate posterior. ``f.torch`` and ``f.dict`` are the same function for sbi and
# BayesFlow, which need fewer simulations for a better posterior.
summary = {"reaction_time": [0.1, 0.5, 0.9], "evidence": "mean"}
f = mdf_loop.simulator(MODEL, NAMES, OUTPUTS, trials=50, reduce=summary, seed=7)
low, high = np.array([*over.values()]).T
theta = np.random.default_rng(2).uniform(low, high, (4000, 2))
x = f(theta)

times = observed["reaction_time"]
target = np.array([*np.quantile(times, [0.1, 0.5, 0.9]), observed["evidence"].mean()])
distances = (((x - target) / x.std(axis=0)) ** 2).sum(axis=1)
kept = theta[np.argsort(distances)[:100]]

fig, ax = plt.subplots()
ax.plot(*theta[::10].T, ".", color="0.85", markersize=3, label="prior")
ax.plot(*kept.T, ".", markersize=5, label="posterior")
ax.errorbar(
    found["drift"], found["bound"], found.errors["bound"], found.errors["drift"], "ko", capsize=3, label="fit, standard errors"
)
ax.plot(truth["drift"], truth["bound"], "r*", markersize=12, label="true")
ax.set_xlabel("drift")
ax.set_ylabel("bound")
ax.legend()
assert (np.abs(kept.mean(axis=0) - [*truth.values()]) < 3 * kept.std(axis=0)).all()
