"""
Hodgkin and Huxley's neuron
===========================

This is MDF's own model, unchanged: time derivatives of a voltage and three gates, with a pulse generator as a second node. The
script plots its spikes, and their number for different currents.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
# Run ten thousand steps of 0.01 ms. ``steps=`` makes the model one loop, ``record=`` records values that are not outputs.
model = mdf_loop.prepare(MODEL)
run = model(i_offset=[0.5], steps=10_000, time_increment=1e-5, record=["pop0.v", "pop0.iNa", "pop0.iK"])
milliseconds = np.arange(10_000) * 0.01

fig, (top, bottom) = plt.subplots(2, 1, figsize=(8, 4.5), sharex=True, layout="constrained")
top.plot(milliseconds, run.recorded["pop0.v"] * 1000)
top.set(ylabel="voltage (mV)")
bottom.plot(milliseconds, run.recorded["pop0.iNa"], label="sodium")
bottom.plot(milliseconds, run.recorded["pop0.iK"], label="potassium")
bottom.set(xlabel="time (ms)", ylabel="current (nA)")
fig.legend(loc="outside lower center", ncols=2)

# %%
# The voltage and one of its gates in the phase plane.
gates = model(i_offset=[0.5], steps=3000, time_increment=1e-5, record=["pop0.v", "pop0.n"])
ax = gates.plot("pop0.v", "pop0.n")


# %%
# A sweep over currents, with the voltage of every step.
floats = {"m": [0.0], "h": [0.0], "n": [0.0]}  # in the file the gates start with integers
currents = [0.0, 0.1, 0.2, 0.4, 0.8]
sweep = mdf_loop.sweep(model, {"i_offset": currents}, steps=5000, time_increment=1e-5, collect=True, outputs=["v"], **floats)
voltage = sweep.v.values.reshape(len(currents), -1)
spikes = ((voltage[:, 1:] > 0) & (voltage[:, :-1] <= 0)).sum(axis=1)

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(currents, spikes * 20, "o-")
ax.set(xlabel="current (nA)", ylabel="spikes a second")

# %%
assert spikes[0] == 0
assert spikes[-1] >= 4
assert spikes.tolist() == sorted(spikes.tolist())
