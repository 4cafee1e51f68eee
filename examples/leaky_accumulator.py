"""Leaky competing accumulators: a loop that collects trajectories, with an input from another node.

The model is in leaky_accumulator.yaml and, the same, in leaky_accumulator.json.
"""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")


def reference():
    """The outputs of the model, computed with numpy alone."""
    stimulus = np.array([1.0, 0.8, 0.6])
    leak, inhibition, threshold, dt, max_steps = 0.2, 0.4, 0.9, 0.01, 1000
    x, trajectories = np.zeros(3), []
    while len(trajectories) < max_steps:
        x = np.maximum(x + dt * (stimulus - leak * x - inhibition * (x.sum() - x)), 0)
        trajectories.append(x)
        if x.max() >= threshold:
            break
    return {"activity": x, "trajectories": np.array(trajectories)}


outputs = mdf_loop.run(MODEL)
activity, trajectories = outputs["activity"], outputs["trajectories"]
print(f"{len(trajectories)} steps, activity {np.round(activity, 3)}")

assert trajectories.shape[1] == 3
assert np.array_equal(trajectories[-1], activity)
assert np.allclose(trajectories, reference()["trajectories"])
assert np.argmax(activity) == 0  # the strongest input wins ...
assert activity.max() >= 0.9 > trajectories[:-1].max()  # ... when it reaches the threshold
