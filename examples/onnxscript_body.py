"""A body written in onnxscript: Python's syntax, an ONNX graph in the end.  Needs the package onnxscript."""

import numpy as np
from onnxscript import BOOL, DOUBLE, INT64, script
from onnxscript import opset18 as op

import mdf_loop


@script()
def grow(i: INT64, go: BOOL, x: DOUBLE):
    """Double x, as long as it stays below 100."""
    doubled = op.Add(x, x)
    small = op.Less(doubled, op.CastLike(100, doubled))
    return small, doubled, op.Identity(doubled)


x, sizes = mdf_loop.loop("", True, 10.0, body=grow)
print("sizes:", sizes)
assert x == 160
assert np.array_equal(sizes, [20, 40, 80, 160])
