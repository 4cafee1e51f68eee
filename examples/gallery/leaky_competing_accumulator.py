"""
Leaky competing accumulators
============================

Two alternatives gather evidence and inhibit each other: the mean of 500 trials, and the trials that each of them wins.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
print(MODEL.read_text())

# %%
activity = mdf_loop.run(MODEL, start=np.zeros((500, 2)), seed=3)["activity"]  # iterations, trials, alternatives
seconds = np.arange(1, len(activity) + 1) * 0.01
first_wins = activity[-1, :, 0] > activity[-1, :, 1]

fig, axes = plt.subplots(1, 2, figsize=(8, 3.5), sharey=True)
for ax, chosen, title in zip(axes, (slice(None), first_wins), ("all trials", "the first wins"), strict=True):
    for k, name in enumerate(("stronger evidence", "weaker evidence")):
        mean, spread = activity[:, chosen, k].mean(axis=1), activity[:, chosen, k].std(axis=1)
        ax.plot(seconds, mean, label=name)
        ax.fill_between(seconds, mean - spread, mean + spread, alpha=0.2)
    ax.set(xlabel="time (s)", title=title)
axes[0].set_ylabel("activity")
axes[0].legend()
fig.tight_layout()

# %%
# More often than not the stronger evidence wins, and activity never falls below zero.
assert activity.shape == (400, 500, 2)
assert activity.min() >= 0
assert 0.55 < first_wins.mean() < 0.95
