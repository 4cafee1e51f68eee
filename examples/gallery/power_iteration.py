"""
Power iteration with a second node that ends it
===============================================

A stepped loop runs a few iterations each time its node runs. A second node checks the loop every ten iterations, and ends it.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
run = mdf_loop.run(MODEL)
for name, value in run.items():
    print(f"{name}: {np.round(value, 6)}")

# %%
# The same iteration in numpy: the error of the largest eigenvalue shrinks by a constant factor.
matrix = np.array(mdf_loop.load(MODEL).graphs[0].get_node("power").get_parameter("matrix").value)
values = np.linalg.eigvalsh(matrix)
largest = values[np.argmax(np.abs(values))]
vector, errors = np.ones(len(matrix)), []
for _ in range(40):
    vector = matrix @ vector
    errors.append(abs(np.abs(vector).max() - abs(largest)) + 1e-17)
    vector /= np.abs(vector).max()

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.semilogy(np.arange(1, 41), errors, "o-")
ax.set(xlabel="iteration", ylabel="error of the eigenvalue")

# %%
assert np.isclose(abs(float(run["eigenvalue"])), abs(largest), rtol=1e-4)
assert int(run["looks"]) >= 1
