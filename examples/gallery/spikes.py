"""
Spikes: a raster and a rate
===========================

A noisy neuron fires while a current is on. The model collects a flag in each step, which is true if there is a spike. numpy and
matplotlib turn the flags into times, a raster and a rate.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
# Run two hundred trials. ``spike`` has an axis of trials and an axis of steps. A step is ``dt`` milliseconds.
dt = 0.5
run = mdf_loop.run(MODEL, trials=200, seed=5)
spikes = run["spike"]
print(spikes.shape, spikes.dtype)

# %%
# The spike times of a trial are the steps where its flag is true.
times = [dt * np.flatnonzero(trial) for trial in spikes]
print("first trial:", times[0][:6], "ms")

# %%
# The first plot is one trial, the second a raster of thirty trials (matplotlib's ``eventplot``). The rate is the mean number of
# spikes in a window of 20 ms, over all trials.
window = round(20 / dt)
rate = np.convolve(spikes.mean(axis=0), np.full(window, 1000 / dt / window), mode="same")
fig, (top, middle, bottom) = plt.subplots(3, 1, figsize=(8, 6), sharex=True, layout="constrained", height_ratios=[1, 2, 1])
steps = dt * np.arange(spikes.shape[1])
top.plot(steps, run["voltage"][0], linewidth=0.8)
top.vlines(times[0], 1.0, 1.5, color="C1")
top.set(ylabel="voltage")
middle.eventplot(times[:30], color="C1", linewidths=0.8)
middle.set(ylabel="trial")
bottom.plot(steps, rate)
bottom.axvspan(100, 400, alpha=0.15, label="current is on")
bottom.set(xlabel="time (ms)", ylabel="rate (1/s)")
bottom.legend()

# %%
# The rate grows with the current. In this sweep, the rate is the mean of the flags while the current is on.
sweep = mdf_loop.sweep(MODEL, {"current": np.linspace(0.6, 2.0, 15)}, trials=50, seed=6, outputs=["spike"])
sweep["spikes per second"] = sweep.spike[..., 200:800].mean("iteration") * 1000 / dt
mdf_loop.plot(sweep, "spikes per second")

# %%
before, during = rate[window:180].mean(), rate[240:780].mean()
print(f"{before:.1f} spikes per second before, {during:.1f} while the current is on")
assert during > 5 * before
assert (np.diff(sweep["spikes per second"].mean("trial")) > -1).all()
