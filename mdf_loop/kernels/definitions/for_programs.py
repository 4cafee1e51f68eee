"""Operators for programs in machine code, where a loop over elements costs as much as a call of numpy's, and less than a kernel.

Such programs look when they run whether an axis is empty.  Kernels ask for the lengths, as numpy decides what an empty axis
gives: traced, they are for lengths that are known.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place, places
from mdf_loop.kernels.definitions.mdf_reductions import accumulated
from mdf_loop.kernels.definitions.of_shapes import count_along, go_together, known
from mdf_loop.ops.rows import for_programs


def _axis(node: Any, x: Any) -> list[int]:
    if node.opset < 13 or x.type.kind != "f" or x.type.dtype.itemsize < 4:
        raise ValueError("not along one axis, or rounded after each step")
    return [place(node.attrs.get("axis", -1), len(x.type.shape or ()))]


@for_programs("Softmax")
def softmax(b, node, x):
    """exp(x) divided by its sum along the axis."""
    along = _axis(node, x)
    y = b.exp(b.sub(x, b.reduce(x, "max", along, True)))
    return b.div(y, b.reduce(y, "sum", along, True))


@for_programs("LogSoftmax")
def log_softmax(b, node, x):
    """x less the logarithm of the sum of exp(x) along the axis."""
    along = _axis(node, x)
    y = b.sub(x, b.reduce(x, "max", along, True))
    return b.sub(y, b.log(b.reduce(b.exp(y), "sum", along, True)))


_KINDS = {"ReduceSum": "sum", "ReduceMean": "sum", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "prod"}


@for_programs(*_KINDS)
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


@for_programs("ArgMax", "ArgMin")
def place_of(b, node, x):
    """The first place of an extreme."""
    if node.attrs.get("select_last_index", 0) or x.type.kind not in "fiu":
        raise ValueError("not the first one")
    axis = place(node.attrs.get("axis", 0), len(x.type.shape or ()))
    return b.reduce(x, node.op.lower(), [axis], bool(node.attrs.get("keepdims", 1)))


@for_programs("CumSum")
def running(b, node, x, axis):
    """The sum of the elements so far along an axis."""
    (along,) = places(known(axis, "axis"), len(x.type.shape))
    if x.type.kind not in "fiu" or x.type.dtype.itemsize < 4 or node.attrs.get("exclusive"):
        raise ValueError("half precision, or without the element itself")
    turn = [slice(None, None, -1) if k == along and node.attrs.get("reverse") else slice(None) for k in range(len(x.type.shape))]
    return b.slice(accumulated(b, "add", b.slice(x, turn), along), turn)


@for_programs("GatherElements")
def gather_elements(b, node, x, indices):
    """For each index the element at that place of the axis: elements by their number, row by row."""
    shape, wanted = x.type.shape, indices.type.shape
    if len(shape) != len(wanted):
        raise ValueError("two ranks")
    axis = place(node.attrs.get("axis", 0), len(shape))
    lengths = [wanted[k] if k == axis else n for k, n in enumerate(shape)]
    if not x.type.is_static or not indices.type.is_static or any(m > n for m, n in zip(wanted, lengths, strict=True)):
        raise ValueError("open lengths, or indices that are longer than the data")
    steps = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    others = np.ix_(*(np.arange(1 if k == axis else n) * step for k, (n, step) in enumerate(zip(wanted, steps, strict=True))))
    index = b.cast(indices, np.dtype(np.int64))
    index = b.select(b.lt(index, 0), b.add(index, shape[axis]), index)
    is_inside = b.and_(b.ge(index, 0), b.lt(index, shape[axis]))
    number = b.add(b.mul(index, steps[axis]), b.const(sum(others)))
    number = b.select(is_inside, number, x.type.size)  # where nothing stands, which ends the program
    return b.put_in("gather", (b.reshape(x, (x.type.size,)), number), x.type.__class__(x.type.dtype, wanted), 0)


@for_programs("MatMul")
def matmul(b, node, x, y):
    """Stacks of matrices."""
    left, right = x.type.shape, y.type.shape
    if not left or not right or x.type.dtype != y.type.dtype or x.type.kind not in "fiu" or x.type.dtype == np.float16:
        raise ValueError("numbers, or half precision")
    if not go_together(b, left[-1], right[max(len(right) - 2, 0)]):
        raise ValueError("lengths that do not go together")
    return b.dot(x, y)
