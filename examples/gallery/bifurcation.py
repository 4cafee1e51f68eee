"""
From order to chaos: the logistic map
=====================================

The logistic map has one equation. This script iterates it 1,200 times for 2,000 rates at once.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
rates = np.linspace(2.5, 4.0, 2000)
history = mdf_loop.run(MODEL, rate=rates, start=np.full(2000, 0.4))["history"][-200:]

fig, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
ax.plot(np.broadcast_to(rates, history.shape).ravel(), history.ravel(), ",", alpha=0.3)
ax.set(xlabel="rate", ylabel="x after a thousand iterations")


# %%
# Below a rate of 3 the map settles at one value. Above it alternates between two, above 3.45 between four, and at 3.83 between
# three.
def values(rate):
    """The number of values that the map alternates between."""
    last = mdf_loop.run(MODEL, rate=np.array([rate]), start=np.array([0.4]))["history"][-24:, 0]
    return len(set(np.round(last, 4).tolist()))


assert [values(rate) for rate in (2.8, 3.2, 3.5, 3.83)] == [1, 2, 4, 3]
