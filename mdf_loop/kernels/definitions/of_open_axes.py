"""Operators along axes whose lengths only the run can tell, for programs that look whether an axis is empty when they run.

Kernels ask for the lengths, as numpy decides what an empty axis gives: traced, they are for lengths that are known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place, places
from mdf_loop.kernels.definitions.of_shapes import count_along
from mdf_loop.ops.rows import open_axes


def _axis(node: Any, x: Any) -> list[int]:
    if node.opset < 13 or x.type.kind != "f" or x.type.dtype.itemsize < 4:
        raise ValueError("not along one axis, or rounded after each step")
    return [place(node.attrs.get("axis", -1), len(x.type.shape or ()))]


@open_axes("Softmax")
def softmax(b, node, x):
    """exp(x) divided by its sum along the axis."""
    along = _axis(node, x)
    y = b.exp(b.sub(x, b.reduce(x, "max", along, True)))
    return b.div(y, b.reduce(y, "sum", along, True))


@open_axes("LogSoftmax")
def log_softmax(b, node, x):
    """x less the logarithm of the sum of exp(x) along the axis."""
    along = _axis(node, x)
    y = b.sub(x, b.reduce(x, "max", along, True))
    return b.sub(y, b.log(b.reduce(b.exp(y), "sum", along, True)))


_KINDS = {"ReduceSum": "sum", "ReduceMean": "sum", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "prod"}


@open_axes(*_KINDS)
def reduced(b, node, x, axes=None):
    """A reduction along some axes, or all."""
    rank, given = len(x.type.shape or ()), node.attrs.get("axes")
    if axes is not None and axes.op == "const" and axes.attr is not None:
        given = np.atleast_1d(axes.attr).tolist()
    elif axes is not None and axes.op != "const":
        raise ValueError("axes that are computed")
    if not given and node.attrs.get("noop_with_empty_axes", 0):
        return x
    along = sorted(set(places(given, rank))) if given else list(range(rank))
    if x.type.kind not in "fiu" or x.type.dtype.itemsize < 4 or not along:
        raise ValueError("half precision, or nothing to reduce")
    found = b.reduce(x, _KINDS[node.op], along, bool(node.attrs.get("keepdims", 1)))
    if node.op != "ReduceMean":
        return found
    if x.type.kind != "f":
        raise ValueError("whole numbers are added up in 64 bits")
    return b.div(found, count_along(b, x, along))


@open_axes("ArgMax", "ArgMin")
def place_of(b, node, x):
    """The first place of an extreme."""
    if node.attrs.get("select_last_index", 0) or x.type.kind not in "fiu":
        raise ValueError("not the first one")
    axis = place(node.attrs.get("axis", 0), len(x.type.shape or ()))
    return b.reduce(x, node.op.lower(), [axis], bool(node.attrs.get("keepdims", 1)))
