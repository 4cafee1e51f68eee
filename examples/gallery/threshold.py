"""
A scheduled model that stops at a threshold
===========================================

Conditions of graph-scheduler say when nodes run and when a trial ends; with ``steps`` the whole model becomes one loop.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
print(MODEL.read_text())

# %%
# One evaluation runs until the level reaches 4; its state goes on into the next one.
levels = mdf_loop.run(MODEL, steps=12, collect=True)["level"]

fig, ax = plt.subplots(figsize=(6, 3))
ax.plot(np.arange(1, 13), levels, "o-")
ax.axhline(4.0, linestyle="--", color="gray")
ax.set(xlabel="evaluation", ylabel="level at its end")


# %%
def passes(threshold):
    """The level after each pass in plain Python, until the threshold."""
    level, found = 0.0, []
    for count in range(1, 1000):
        level = 0.95 * level + 0.3 + 0.2 * np.sin(count / 4)
        found.append(level)
        if level >= threshold:
            return found
    return found


expected = passes(4.0)
fig, ax = plt.subplots(figsize=(6, 3))
ax.plot(np.arange(1, len(expected) + 1), expected, "o-")
ax.set(xlabel="pass", ylabel="level", title="the passes of the first evaluation")

# %%
assert np.isclose(levels[0], expected[-1])
assert np.all(levels >= 4.0)
