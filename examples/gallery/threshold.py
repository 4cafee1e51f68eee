"""
A scheduled model that stops at a threshold
===========================================

Conditions of graph-scheduler decide when nodes run and when a trial ends. Here it ends when a parameter reaches a threshold.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
# One evaluation runs passes until the threshold is reached. With ``steps=1`` it becomes one loop with this condition.
level = float(mdf_loop.run(MODEL, steps=1)["level"])
print(f"the trial ends at {level:.3f}")


# %%
def trial(threshold):
    """The level after each pass, in plain Python."""
    level, found = 0.0, []
    while level < threshold:
        level = 0.95 * level + 0.3 + 0.2 * np.sin((len(found) + 1) / 4)
        found.append(level)
    return found


expected = trial(4.0)
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(np.arange(1, len(expected) + 1), expected, "o-", label="in plain Python")
ax.plot(len(expected), level, "r*", markersize=14, label="end of the model")
ax.axhline(4.0, linestyle="--", color="gray")
ax.set(xlabel="pass", ylabel="level")
ax.legend()

# %%
assert np.isclose(level, expected[-1])
assert level >= 4.0
