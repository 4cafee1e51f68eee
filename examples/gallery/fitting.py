"""
Recovering parameters from data
===============================

A learner chooses between two options. From its choices alone its learning rate and its temperature are found again: the
likelihood of 40 x 40 candidates is computed in one run.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
print(MODEL.read_text())

# %%
# The data: 2000 trials of a learner whose parameters we know.
TRUE_RATE, TRUE_TEMPERATURE = 0.2, 0.25
rng = np.random.default_rng(8)
value, choices, rewards = np.zeros(2), [], []
for _ in range(2000):
    choice = int(rng.random() < 1 / (1 + np.exp((value[1] - value[0]) / TRUE_TEMPERATURE)))
    reward = float(rng.random() < (0.4, 0.7)[choice])
    value[1 - choice] += TRUE_RATE * (reward - value[1 - choice])
    choices.append(choice)
    rewards.append(reward)

# %%
# The model over all candidates: numpy's broadcasting makes a table of them.
rates, temperatures = np.linspace(0.02, 0.6, 40)[:, None], np.linspace(0.1, 0.6, 40)[None, :]
nothing = np.zeros((40, 40))
given = {"choices": np.array(choices), "rewards": np.array(rewards)}
surprise = mdf_loop.run(MODEL, rate=rates, temperature=temperatures, nothing=nothing, **given)["surprise"]
best = np.unravel_index(np.argmin(surprise), surprise.shape)
rate, temperature = float(rates[best[0], 0]), float(temperatures[0, best[1]])

fig, ax = plt.subplots(figsize=(5.5, 4))
image = ax.pcolormesh(temperatures[0], rates[:, 0], np.minimum(surprise - surprise.min(), 60), shading="nearest")
ax.plot(temperature, rate, "w*", markersize=14, label="found")
ax.plot(TRUE_TEMPERATURE, TRUE_RATE, "rx", markersize=10, label="true")
ax.set(xlabel="temperature", ylabel="learning rate")
ax.legend()
fig.colorbar(image, label="negative log likelihood above the best")

# %%
print(f"found rate {rate:.3f} and temperature {temperature:.3f}")
assert abs(rate - TRUE_RATE) < 0.08
assert abs(temperature - TRUE_TEMPERATURE) < 0.08
