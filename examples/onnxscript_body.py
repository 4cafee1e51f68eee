"""A body written in onnxscript, which turns Python code into an ONNX graph.  Needs the package onnxscript."""

import numpy as np
from onnxscript import BOOL, DOUBLE, INT64, script
from onnxscript import opset18 as op

import mdf_loop


@script()
def grow(i: INT64, go: BOOL, x: DOUBLE):
    """Double x while it is below 100."""
    doubled = op.Add(x, x)
    small = op.Less(doubled, op.CastLike(100, doubled))
    return small, doubled, op.Identity(doubled)


x, sizes = mdf_loop.loop("", True, 10.0, body=grow)
print("sizes:", sizes)
assert x == 160
assert np.array_equal(sizes, [20, 40, 80, 160])
