"""
Differential equations
======================

This model has derivatives and a method. mdf_loop turns them into carried values. The second plot shows the order of each
method: how fast its error shrinks with the step.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import yaml

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
# Collected values have a time coordinate, because their loop reads a step ``dt``.
found = mdf_loop.run(MODEL).to_xarray()
fig, ax = plt.subplots()
ax.plot(found.time, found.preys, label="prey")
ax.plot(found.time, found.hunters, label="predators")
ax.set_xlabel("time")
ax.legend()

# %%
# Run other methods and steps up to time 4, and compare them with a run of very short steps.
text = yaml.safe_load(MODEL.read_text())
body = text["predator_and_prey"]["graphs"]["predator_and_prey"]["nodes"]["field"]["parameters"]["body"]["value"]


def at_time_4(method, steps):
    """The number of prey at time 4."""
    given = {"growth": 1.1, "hunting": 0.4, "efficiency": 0.1, "death": 0.4, "dt": 4 / steps}
    return mdf_loop.loop(steps, True, 10.0, 5.0, body={**body, "method": method}, **given)[0]


exact = at_time_4("rk4", 20_000)
counts = np.array([20, 40, 80, 160, 320])
errors = {name: [abs(at_time_4(name, n) - exact) for n in counts] for name in ("euler", "heun", "rk4")}

fig, ax = plt.subplots()
for name, values in errors.items():
    ax.loglog(4 / counts, values, "o-", label=name)
ax.set_xticks(4 / counts, [f"{step:g}" for step in 4 / counts])
ax.minorticks_off()
ax.set_xlabel("dt")
ax.set_ylabel("error")
ax.legend()
orders = {name: np.log2(values[-2] / values[-1]) for name, values in errors.items()}
assert np.allclose([*orders.values()], [1, 2, 4], atol=0.2)
