"""The largest eigenvalue of a matrix: a stepped loop, and a second node that ends the run.

The model is in power_iteration.yaml and, the same, in power_iteration.json.  The loop runs five iterations each time its
node runs. graph-scheduler runs the second node after every ten iterations, and ends when the estimate no longer changes.
"""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
MATRIX = np.array([[2.0, 1.0, 0.5], [1.0, 3.0, 1.0], [0.5, 1.0, 4.0]])


def reference():
    """The outputs of the model, computed with numpy alone."""
    v, last, change, looks, iterations = np.array([1.0, 0.0, 0.0]), 0.0, 1.0, 0, 0
    while change >= 1e-9:
        for _ in range(10):
            w = MATRIX @ v
            size = np.abs(w).max()
            v = w / size
        iterations, looks = iterations + 10, looks + 1
        change, last = abs(size - last), size
    return {"eigenvalue": size, "eigenvector": v, "iterations": iterations, "looks": looks}


outputs = mdf_loop.run(MODEL)
print(f"eigenvalue {outputs['eigenvalue']:.9f} after {outputs['iterations']} of 1000 iterations, {outputs['looks']} looks")

assert abs(outputs["eigenvalue"] - np.linalg.eigvalsh(MATRIX).max()) < 1e-8
assert outputs["iterations"] == 10 * outputs["looks"] < 1000
