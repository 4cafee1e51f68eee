"""Definitions of operators over axes whose lengths only the run can tell.

Those of :mod:`mdf_loop.kernels.definitions` refuse them, as numpy's kernels decide there what an empty axis is; machine code
looks at lengths when it runs, and leaves what is empty to the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place, places
from mdf_loop.ops.registry import lookup
from mdf_loop.step.before_lowering import allows
from mdf_loop.step.build import Builder
from mdf_loop.step.records import Apply, Value

FLOAT32 = np.dtype(np.float32)

Define = Callable[..., Value]
"""``define(builder, node, *inputs)``."""

OPENED: dict[str, Define] = {}
"""By operator."""


def opens(*names: str) -> Callable[[Define], Define]:
    """Say what operators are."""

    def decorate(define: Define) -> Define:
        OPENED.update(dict.fromkeys(names, define))
        return define

    return decorate


def opened(b: Builder, attr: Apply, args: Sequence[Value]) -> Value | None:
    """What an operator is in primitives; None if it is not one of these."""
    define, node = OPENED.get(attr.node.op), attr.node
    if define is None or node.domain or not lookup(node.op, node.opset).built_in or not args:
        return None
    if args[0].type.shape is None or args[0].type.dtype is None or not allows(node, [x.type for x in args]):
        return None
    try:
        return define(b, attr.node, *args)
    except ValueError:
        return None


def _axis(node: Any, x: Value) -> list[int]:
    if node.opset < 13 or x.type.kind != "f" or x.type.dtype.itemsize < 4:  # type: ignore[union-attr]
        raise ValueError("not along one axis, or rounded after each step")
    return [place(node.attrs.get("axis", -1), len(x.type.shape or ()))]


@opens("Softmax")
def softmax(b: Builder, node: Any, x: Value) -> Value:
    """exp(x) divided by its sum along the axis."""
    along = _axis(node, x)
    y = b.exp(b.sub(x, b.reduce(x, "max", along, True)))
    return b.div(y, b.reduce(y, "sum", along, True))


@opens("LogSoftmax")
def log_softmax(b: Builder, node: Any, x: Value) -> Value:
    """x less the logarithm of the sum of exp(x) along the axis."""
    along = _axis(node, x)
    y = b.sub(x, b.reduce(x, "max", along, True))
    return b.sub(y, b.log(b.reduce(b.exp(y), "sum", along, True)))


_KINDS = {"ReduceSum": "sum", "ReduceMean": "sum", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "prod"}


@opens(*_KINDS)
def reduced(b: Builder, node: Any, x: Value, axes: Value | None = None) -> Value:
    """A reduction along some axes, or all."""
    rank, given = len(x.type.shape or ()), node.attrs.get("axes")
    if axes is not None and axes.op == "const" and axes.attr is not None:
        given = np.atleast_1d(axes.attr).tolist()
    elif axes is not None and axes.op != "const":
        raise ValueError("axes that are computed")
    if not given and node.attrs.get("noop_with_empty_axes", 0):
        return x
    along = sorted(set(places(given, rank))) if given else list(range(rank))
    if x.type.kind not in "fiu" or x.type.dtype.itemsize < 4 or not along:  # type: ignore[union-attr]
        raise ValueError("half precision, or nothing to reduce")
    found = b.reduce(x, _KINDS[node.op], along, bool(node.attrs.get("keepdims", 1)))
    if node.op != "ReduceMean":
        return found
    if x.type.kind != "f":
        raise ValueError("whole numbers are added up in 64 bits")
    count = b.length(x, along[0])
    for axis in along[1:]:
        count = b.mul(count, b.length(x, axis))
    return b.div(found, b.cast(count, x.type.dtype))  # type: ignore[arg-type]


@opens("ArgMax", "ArgMin")
def place_of(b: Builder, node: Any, x: Value) -> Value:
    """The first place of an extreme."""
    if node.attrs.get("select_last_index", 0) or x.type.kind not in "fiu":
        raise ValueError("not the first one")
    axis = place(node.attrs.get("axis", 0), len(x.type.shape or ()))
    return b.reduce(x, node.op.lower(), [axis], bool(node.attrs.get("keepdims", 1)))
