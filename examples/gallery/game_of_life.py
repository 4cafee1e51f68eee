"""
Conway's Game of Life
=====================

This model is a cellular automaton in two equations.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
cells = np.random.default_rng(5).integers(0, 2, (60, 60))
run = mdf_loop.run(MODEL, cells=cells, generations=200)

fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for ax, picture, title in zip(axes, (cells, run["history"][19], run["last"]), ("start", "20 steps", "200 steps"), strict=True):
    ax.imshow(picture, cmap="Greys")
    ax.set(title=title, xticks=[], yticks=[])

# %%
fig, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
ax.plot(np.arange(1, 201), run["alive"])
ax.set(xlabel="step", ylabel="cells alive")

# %%
# A glider moves by one cell in four steps. On a torus of 10 x 10 cells it is back at its start after 40 steps.
glider = np.zeros((10, 10), int)
glider[[0, 1, 2, 2, 2], [1, 2, 0, 1, 2]] = 1
history = mdf_loop.run(MODEL, cells=glider, generations=40)["history"]
assert np.array_equal(history[3], np.roll(glider, (1, 1), axis=(0, 1)))
assert np.array_equal(history[-1], glider)
assert set(history.sum(axis=(1, 2)).tolist()) == {5}
