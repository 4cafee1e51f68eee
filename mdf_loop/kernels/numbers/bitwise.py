"""Bits of whole numbers."""

import operator

import numpy as np

from mdf_loop.ops.batching import elementwise
from mdf_loop.ops.registry import kernel

for _op, _function in {
    "BitwiseAnd": operator.and_,
    "BitwiseNot": operator.invert,
    "BitwiseOr": operator.or_,
    "BitwiseXor": operator.xor,
}.items():
    kernel(_op, since=18, batch=elementwise)(_function)


@kernel("BitShift", since=11, batch=elementwise)
def bit_shift(x, y, *, direction):
    """The bits of x moved by y places; all are gone if y is negative or not below the width of x."""
    if direction == "LEFT":
        return np.left_shift(x, y)
    if direction == "RIGHT":
        return np.right_shift(x, y)
    raise ValueError(f"direction must be LEFT or RIGHT; got {direction!r}")
