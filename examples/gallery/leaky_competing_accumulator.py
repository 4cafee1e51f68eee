"""
Leaky competing accumulators
============================

Two alternatives accumulate evidence and inhibit each other. This script plots the mean of 300 trials, and the mean of the
trials that the first alternative wins.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
# The mean of the trials, and one standard deviation around it.
run = mdf_loop.run(MODEL, trials=300, seed=3)
times = run.about.dt * np.arange(1, 401)
first_wins = run["last"][:, 0] > run["last"][:, 1]

fig, axes = plt.subplots(1, 2, figsize=(8, 3.5), sharey=True, layout="constrained")
run.plot("activity", ax=axes[0])
axes[0].set(title="all trials", ylabel="activity")
for k in range(2):
    axes[1].plot(times, run["activity"][first_wins, :, k].mean(axis=0), label=f"activity[{k}]")
axes[1].set(title="the first wins", xlabel="time")

# %%
# The alternative with stronger evidence wins most trials, and activity never becomes negative.
assert run["activity"].shape == (300, 400, 2)
assert run["activity"].min() >= 0
assert 0.55 < first_wins.mean() < 0.95
