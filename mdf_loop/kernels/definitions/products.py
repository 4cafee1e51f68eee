"""Products of matrices, and reductions of axes."""

from __future__ import annotations

import math
from typing import Any

from mdf_loop.kernels.axes import place, places
from mdf_loop.kernels.definitions.shapes import known, rank_of
from mdf_loop.registry import Call, definition


@definition("MatMul")
def matmul(b, x, y):
    """The matrix product, by numpy's rules for ranks."""
    left, right = x.type.shape, y.type.shape
    if x.type.kind != "f" or x.type.dtype.itemsize < 4 or not 1 <= rank_of(x) <= 2 or not 1 <= rank_of(y) <= 2:
        raise ValueError("not a product of two matrices or vectors")
    if left[-1] != right[0]:
        raise ValueError("lengths that do not go together")
    return b.put_in("dot", (x, y), x.type.__class__(x.type.dtype, left[:-1] + right[1:]))


_KINDS = {"ReduceSum": ("sum", 13), "ReduceProd": ("prod", 18), "ReduceMax": ("max", 18), "ReduceMin": ("min", 18)}


def _reduced(b: Any, data: Any, kind: str, axes: Any, keepdims: int) -> Any:
    if data.type.kind not in "fiu" or data.type.dtype.itemsize < 4 or not rank_of(data):
        raise ValueError("a reduction that is not numpy's")
    axes = places(axes or None, rank_of(data))
    if any(data.type.shape[axis] == 0 or not isinstance(data.type.shape[axis], int) for axis in axes):
        raise ValueError("nothing to reduce, perhaps")
    if kind == "sum" and not keepdims and len(axes) == rank_of(data) and data.op == "mul" and _are_alike(*data.args):
        flat = [b.reshape(x, (math.prod(x.type.shape),)) for x in data.args]
        return b.put_in("dot", flat, data.type.__class__(data.type.dtype, ()))
    return b.reduce(data, kind, axes, bool(keepdims))


def _are_alike(x: Any, y: Any) -> bool:
    """Whether two values are floats of one known shape."""
    return x.type == y.type and x.type.is_static and x.type.kind == "f"


def _by_input(kind: str) -> Call:
    def define(b: Any, data: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        along = [] if axes is None else known(axes, "axes")
        return data if not along and noop_with_empty_axes else _reduced(b, data, kind, along, keepdims)

    return define


def _by_attribute(kind: str) -> Call:
    def define(b: Any, data: Any, *, axes: Any = None, keepdims: int = 1) -> Any:
        return _reduced(b, data, kind, list(axes or ()), keepdims)

    return define


for _op, (_kind, _since) in _KINDS.items():
    definition(_op, since=_since)(_by_input(_kind))
    definition(_op, until=_since)(_by_attribute(_kind))


def _place_of(kind: str) -> Call:
    def define(b: Any, data: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        if select_last_index or data.type.kind not in "fiu" or data.type.shape[place(axis, rank_of(data))] == 0:
            raise ValueError("not the first one")
        return b.reduce(data, kind, [axis], bool(keepdims))

    return define


for _op in ("ArgMax", "ArgMin"):
    definition(_op)(_place_of(_op.lower()))
