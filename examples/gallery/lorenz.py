"""
Lorenz's attractor
==================

Two forecasts start almost at the same point. Their distance grows exponentially.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
run = mdf_loop.run(MODEL)
seconds = np.arange(1, 8001) * 0.005

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.plot(run["x"][:, 0], run["z"][:, 0], linewidth=0.5)
left.set(xlabel="x", ylabel="z")
distance = np.sqrt(sum((run[name][:, 0] - run[name][:, 1]) ** 2 for name in "xyz"))
right.semilogy(seconds, distance)
right.set(xlabel="time", ylabel="distance of the two forecasts")

# %%
# The logarithm of the distance grows by about 0.9 per unit of time. This is the Lyapunov exponent.
is_small = distance < 1
grown = np.polyfit(seconds[is_small & (seconds < 12)], np.log(distance[is_small & (seconds < 12)]), 1)[0]
assert 0.5 < grown < 1.3
assert distance[-2000:].max() > 10
