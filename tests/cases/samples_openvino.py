"""Samples for the kernels of OpenVINO's operations (domain ``openvino``) that have a rule for batching."""

import numpy as np

A = np.float32([[1.5, -2.0, 0.25], [3.0, 0.5, -1.0]])
ROW = np.float32([0.75, 2.0, -3.0])
SCALAR = np.array(0.75, np.float32)
INTS = np.int32([[5, 3, -2], [7, 1, 4]])
COUNTS = np.int32([3, 1, 2])


def samples(names, *inputs, **attrs):
    """One sample of each operator for each row of inputs."""
    return [(f"openvino::{name}", 1, list(row), attrs) for name in names.split() for row in inputs]


SAMPLES = [
    *samples("Divide", (A, ROW), (SCALAR, ROW), (INTS, COUNTS)),
    *samples("RoundAway", (A,), (SCALAR,)),
    *samples("Broadcast", (ROW, np.int64([3, 3]))),
    *samples("BroadcastAlong", (ROW, np.int64([3, 3]), np.int64([0]))),
    *samples("FakeQuantize", (A, SCALAR - 2, SCALAR, SCALAR - 1, SCALAR + 1), levels=5),
]
