"""Drift diffusion: noisy evidence until it reaches a bound, and the effect of a stronger drift on decisions.

The model is in drift_diffusion.yaml and, the same, in drift_diffusion.json.
"""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
SEED = 7


def reference(drift=0.8, seed=SEED):
    """The outputs of the model, computed in plain Python with the same random numbers."""
    noise, bound, dt, max_steps = 1.0, 1.0, 0.001, 5000
    rng = np.random.default_rng(seed)
    x, t, path = 0.0, 0.3, []
    while len(path) < max_steps:
        x += drift * dt + noise * np.sqrt(dt) * rng.standard_normal()
        t += dt
        path.append(x)
        if abs(x) >= bound:
            break
    return {"evidence": x, "reaction_time": t, "path": np.array(path)}


def trial(seed, **inputs):
    """One trial: every seed is another one, and the same seed the same one again."""
    with mdf_loop.options(seed=seed):
        return mdf_loop.run(MODEL, **inputs)


outputs = trial(SEED)
print(f"reaction time {float(outputs['reaction_time']):.3f} s, evidence {float(outputs['evidence']):+.3f}")
assert np.allclose(outputs["path"], reference()["path"])
assert abs(outputs["evidence"]) >= 1 > np.abs(outputs["path"][:-1]).max()
assert np.array_equal(trial(SEED)["path"], outputs["path"])
assert not np.array_equal(trial(SEED + 1)["path"], outputs["path"])

# Strong drift: most decisions are for the upper bound, and they are fast.
strong = [trial(seed, drift=4.0) for seed in range(10)]
weak = [trial(seed, drift=0.2) for seed in range(10)]
assert sum(t["evidence"] > 0 for t in strong) >= 9
assert np.mean([t["reaction_time"] for t in strong]) < np.mean([t["reaction_time"] for t in weak])
