"""
FitzHugh and Nagumo's neuron in the phase plane
===============================================

With enough current the neuron follows a limit cycle. With too little current it comes to rest.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
currents = (0.0, 0.5)
runs = [mdf_loop.run(MODEL, current=current) for current in currents]
v = np.linspace(-2.2, 2.2, 200)

fig, axes = plt.subplots(1, 2, figsize=(8, 3.8), sharey=True, layout="constrained")
for ax, current, run in zip(axes, currents, runs, strict=True):
    ax.plot(v, v - v**3 / 3 + current, "--", label="voltage constant")
    ax.plot(v, (v + 0.7) / 0.8, "--", label="recovery constant")
    ax.plot(run["voltage"], run["recovery"], label="trajectory")
    ax.set(xlabel="voltage", title=f"current {current}", ylim=(-1.2, 2.2))
axes[0].set_ylabel("recovery")
axes[0].legend(fontsize=8)

# %%
# The voltage over time.
fig, ax = plt.subplots(figsize=(8, 2.8), layout="constrained")
for current, run in zip(currents, runs, strict=True):
    ax.plot(np.arange(1, 4001) * 0.05, run["voltage"], label=f"current {current}")
ax.set(xlabel="time", ylabel="voltage")
fig.legend(loc="outside upper center", ncols=2)

# %%
at_rest, spiking = (run["voltage"][-2000:] for run in runs)
assert np.ptp(at_rest) < 0.01
assert np.ptp(spiking) > 3
