"""A damped oscillator with stateful parameters: 10 000 steps of a scheduled MDF model as one loop.

The model is in oscillator.yaml and, the same, in oscillator.json.  MDF alone can run it; mdf_loop makes it fast.
"""

import math
from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")


def reference(steps=1, time_increment=None):
    """The outputs after so many evaluations, computed with Python alone: the first has no time increment."""
    position, speed = 1.0, 0.0
    for _ in range(steps - 1):
        position += speed * time_increment
        speed += (-4.0 * position - 0.5 * speed) * time_increment
    return {"count": steps, "level": position}


outputs = mdf_loop.run(MODEL, steps=10_000, time_increment=0.001)
print(f"after {outputs['count']} evaluations the spring is at {outputs['level']:.6f}")
assert outputs == reference(10_000, 0.001)

course = mdf_loop.run(MODEL, steps=10_000, time_increment=0.001, collect=True)["level"]
assert course.shape == (10_000,)
assert course[0] == 1.0
assert course[-1] == outputs["level"]

frequency = math.sqrt(4.0 - 0.25**2)  # of a damped spring
first_zero = np.argmax(course < 0) * 0.001
assert abs(first_zero - (math.pi / 2 + math.asin(0.25 / 2)) / frequency) < 0.01
