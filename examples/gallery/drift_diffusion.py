"""
Drift diffusion: how long a decision takes
==========================================

A thousand noisy decisions at once. The model stops as soon as the last of them is made.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")

# %%
# The model is a file in YAML; the body of its loop is three lines.
print(MODEL.read_text())

# %%
# ``start`` says how many trials there are, ``drift`` how clear the evidence is.
trials = mdf_loop.run(MODEL, start=np.zeros(1000), seed=1)
times, is_upper = trials["decision_time"], trials["evidence"] > 0

fig, ax = plt.subplots(figsize=(7, 4))
ax.hist([times[is_upper], times[~is_upper]], bins=40, stacked=True, label=["upper bound", "lower bound"])
ax.set(xlabel="decision time (s)", ylabel="trials", title=f"{np.mean(is_upper):.0%} correct, {np.mean(times):.2f} s on average")
ax.legend()

# %%
# Clearer evidence makes decisions faster, and better.
drifts = np.array([0.2, 0.5, 1.0, 1.5, 2.0, 3.0])
runs = [mdf_loop.run(MODEL, start=np.zeros(1000), drift=drift, seed=2) for drift in drifts]
accuracy = np.array([np.mean(run["evidence"] > 0) for run in runs])
seconds = np.array([np.mean(run["decision_time"]) for run in runs])

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.5))
left.plot(drifts, accuracy, "o", label="simulated")
left.plot(drifts, 1 / (1 + np.exp(-2 * drifts)), label="theory")
left.set(xlabel="drift", ylabel="correct")
right.plot(drifts, seconds, "o", label="simulated")
right.plot(drifts, np.tanh(drifts) / drifts, label="theory")
right.set(xlabel="drift", ylabel="mean decision time (s)")
left.legend()
fig.tight_layout()

# %%
# What theory says of the process in continuous time holds up to its steps.
assert np.allclose(accuracy, 1 / (1 + np.exp(-2 * drifts)), atol=0.05)
assert np.allclose(seconds, np.tanh(drifts) / drifts, rtol=0.15)
