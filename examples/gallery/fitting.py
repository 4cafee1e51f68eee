"""
Recovering parameters from data
===============================

A simulated learner chooses between two options. This script estimates its learning rate and its temperature from its choices:
one sweep computes the likelihood of 20 x 20 candidates.
"""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
# The data: 1000 trials of a learner with known parameters.
TRUE_RATE, TRUE_TEMPERATURE = 0.2, 0.25
rng = np.random.default_rng(8)
value, choices, rewards = np.zeros(2), [], []
for _ in range(1000):
    choice = int(rng.random() < 1 / (1 + np.exp((value[1] - value[0]) / TRUE_TEMPERATURE)))
    reward = float(rng.random() < (0.4, 0.7)[choice])
    value[1 - choice] += TRUE_RATE * (reward - value[1 - choice])
    choices.append(choice)
    rewards.append(reward)

# %%
# A sweep over two inputs: the result is a map.
grid = {"rate": np.linspace(0.04, 0.6, 20), "temperature": np.linspace(0.1, 0.6, 20)}
sweep = mdf_loop.sweep(MODEL, grid, choices=np.array(choices), rewards=np.array(rewards), outputs=["surprise"])
best = sweep.surprise.argmin(...)
rate, temperature = float(sweep.rate[best["rate"]]), float(sweep.temperature[best["temperature"]])

sweep["negative log likelihood above the best"] = np.minimum(sweep.surprise - sweep.surprise.min(), 60)
ax = mdf_loop.plot(sweep, "negative log likelihood above the best")
ax.plot(rate, temperature, "w*", markersize=14, label="found")
ax.plot(TRUE_RATE, TRUE_TEMPERATURE, "wx", markersize=10, label="true")
ax.legend(facecolor="black", labelcolor="white")

# %%
print(f"found rate {rate:.3f} and temperature {temperature:.3f}")
assert abs(rate - TRUE_RATE) < 0.08
assert abs(temperature - TRUE_TEMPERATURE) < 0.08
