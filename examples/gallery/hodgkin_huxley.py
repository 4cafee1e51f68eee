"""
Hodgkin and Huxley's axon
=========================

Ten thousand steps of four differential equations, read from YAML: spikes, and how their rate grows with the current.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
print(MODEL.read_text())

# %%
run = mdf_loop.run(MODEL)
milliseconds = np.arange(1, 10001) * 0.01

fig, (top, bottom) = plt.subplots(2, 1, figsize=(8, 4.5), sharex=True)
top.plot(milliseconds, run["voltage"])
top.set(ylabel="voltage (mV)")
bottom.plot(milliseconds, run["sodium_gate"], label="sodium channels open")
bottom.plot(milliseconds, run["potassium_gate"], label="potassium channels open")
bottom.set(xlabel="time (ms)")
bottom.legend()
fig.tight_layout()


# %%
def spikes(voltage):
    """How often the voltage rises above 0."""
    return int(np.sum((voltage[1:] > 0) & (voltage[:-1] <= 0)))


currents = np.array([0.0, 2.0, 5.0, 7.0, 10.0, 15.0, 20.0])
counts = [spikes(mdf_loop.run(MODEL, current=current)["voltage"]) for current in currents]
fig, ax = plt.subplots(figsize=(5, 3))
ax.plot(currents, np.array(counts) * 10, "o-")
ax.set(xlabel="current (µA/cm²)", ylabel="spikes a second")

# %%
assert counts[0] == 0
assert spikes(run["voltage"]) >= 6
assert counts == sorted(counts)
