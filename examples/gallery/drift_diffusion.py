"""
Drift diffusion: how long a decision takes
==========================================

This script simulates a thousand noisy decisions and a speed-accuracy curve, and compares both with theory.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
# The model is one decision. ``trials=`` runs it a thousand times, with different noise in each trial.
model = mdf_loop.prepare(MODEL)
trials = model(trials=1000, seed=1)
times, is_upper = trials["decision_time"], trials["evidence"] > 0

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.hist([times[is_upper], times[~is_upper]], bins=40, stacked=True, label=["upper bound", "lower bound"])
ax.set(xlabel="decision time (s)", ylabel="trials", title=f"{np.mean(is_upper):.0%} correct, {np.mean(times):.2f} s on average")
ax.legend()

# %%
# A higher bound makes decisions slower and more accurate. This is a sweep over the bound, with a thousand trials at each point.
bounds = np.array([0.3, 0.5, 0.75, 1.0, 1.3, 1.6])
sweep = mdf_loop.sweep(model, {"bound": bounds}, trials=1000, seed=2)
sweep["correct"] = sweep.evidence > 0
print(sweep)

# %%
# The theory assumes continuous time. In steps, evidence overshoots the bound by 0.58 standard deviations of a step on average.
reached = bounds + 0.583 * np.sqrt(0.002)
accuracy, seconds = 1 / (1 + np.exp(-2 * 0.8 * reached)), reached / 0.8 * np.tanh(0.8 * reached)

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained")
mdf_loop.plot(sweep, "decision_time", ax=left)
mdf_loop.plot(sweep, "decision_time", "correct", ax=right, marker="o", linestyle="", label="simulated")
right.plot(seconds, accuracy, label="theory")
right.legend()

# %%
assert np.allclose(sweep.correct.mean("trial"), accuracy, atol=0.05)
assert np.allclose(sweep.decision_time.mean("trial"), seconds, rtol=0.1)
