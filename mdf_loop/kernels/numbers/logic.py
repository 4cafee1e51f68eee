"""Truth values, comparisons and choices; bits of whole numbers."""

import operator

import numpy as np

from mdf_loop.kernels.numbers.ufuncs import of_two
from mdf_loop.ops.batching import elementwise
from mdf_loop.ops.registry import kernel, say

for _op, _function in {
    "And": operator.and_,
    "Equal": operator.eq,
    "Greater": operator.gt,
    "Less": operator.lt,
    "Or": operator.or_,
    "Xor": operator.xor,
}.items():
    of_two(_op)(_function)

for _op, _since, _function in (
    ("GreaterOrEqual", 12, operator.ge),
    ("IsNaN", 9, np.isnan),
    ("LessOrEqual", 12, operator.le),
    ("Not", 1, np.logical_not),
):
    kernel(_op, since=_since, batch=elementwise)(_function)


@kernel("Where", since=9, batch=elementwise)
def where(condition, x, y):
    """x where the condition is true, y elsewhere."""
    if type(condition) is np.bool_ and x.shape == y.shape:
        return x if condition else y
    return np.where(condition, x, y)


@kernel("IsInf", since=10, batch=elementwise)
def is_inf(x, *, detect_negative=1, detect_positive=1):
    """Where x is infinite, with a sign that is asked for."""
    found = np.isinf(x)
    if not detect_negative:
        found = found & ~np.signbit(x)
    if not detect_positive:
        found = found & np.signbit(x)
    return found


for _op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
    say(_op, compares=True)
say("And", accumulates="logical_and")
say("Or", accumulates="logical_or")


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
