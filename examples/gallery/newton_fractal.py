"""
Newton's fractal
================

The root that Newton's method finds depends on its start in a complicated way. This script runs forty steps for ninety thousand
complex numbers at once.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
real, imaginary = np.meshgrid(np.linspace(-1.5, 1.5, 300), np.linspace(-1.5, 1.5, 300))
run = mdf_loop.run(MODEL, real=real, imaginary=imaginary)
found = run["real_root"] + 1j * run["imaginary_root"]
roots = np.exp(2j * np.pi * np.arange(3) / 3)
nearest = np.argmin(np.abs(found[..., None] - roots), axis=-1)

fig, ax = plt.subplots(figsize=(5, 5), layout="constrained")
ax.imshow(nearest, extent=(-1.5, 1.5, -1.5, 1.5), origin="lower", cmap="viridis")
ax.plot(roots.real, roots.imag, "w*", markersize=12)
ax.set(xlabel="real part", ylabel="imaginary part", title="to which root of $z^3 = 1$")

# %%
# Nearly all points have converged, a third of them to each root.
assert np.mean(np.abs(found**3 - 1) < 1e-6) > 0.97
assert np.allclose(np.bincount(nearest.ravel()) / nearest.size, 1 / 3, atol=0.06)
