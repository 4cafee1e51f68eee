"""Axes reduced to one element."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place, places
from mdf_loop.kernels.definitions.of_shapes import known, rank_of
from mdf_loop.kernels.numbers.casting import DIRECT
from mdf_loop.ops.registry import definition
from mdf_loop.ops.rows import Call
from mdf_loop.types.elements import kind_of

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

Reduce = Callable[[Any, Any, Sequence[int], bool], Any]
"""``reduce(b, data, axes, keep)``."""


def count_of(x: Any, axes: Sequence[int]) -> int:
    """How many elements become one.

    Raises
    ------
    ValueError
        There are none, or it is not known.
    """
    lengths = [x.type.shape[axis] for axis in axes]
    if not all(isinstance(n, int) and n for n in lengths):
        raise ValueError("nothing to reduce, perhaps")
    return math.prod(lengths)


def _of_kind(kind: str) -> Reduce:
    def reduce(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
        return b.reduce(x, kind, axes, keep)

    return reduce


def _sum(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
    """The sum; that of everything in a product of two vectors is their product."""
    if not keep and len(axes) == rank_of(x) and x.op == "mul" and _are_alike(*x.args):
        flat = [b.reshape(v, (math.prod(v.type.shape),)) for v in x.args]
        return b.put_in("dot", flat, x.type.__class__(x.type.dtype, ()))
    return b.reduce(x, "sum", axes, keep)


def _are_alike(x: Any, y: Any) -> bool:
    """Whether two values are arrays of floats of one known shape."""
    return x.type == y.type and x.type.is_static and x.type.kind == "f" and bool(x.type.shape)


def mean(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
    """The sum over the number of elements."""
    if kind_of(x.type.dtype) == "integer":
        raise ValueError("whole numbers are added up in 64 bits")
    return b.div(b.reduce(x, "sum", axes, keep), count_of(x, axes))


def _sum_of_sizes(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
    return b.reduce(b.abs(x), "sum", axes, keep)


def _sum_of_squares(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
    return b.reduce(b.mul(x, x), "sum", axes, keep)


def _length(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
    return b.sqrt(_sum_of_squares(b, x, axes, keep))


def _log_sum(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
    return b.log(b.reduce(x, "sum", axes, keep))


def _log_sum_exp(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
    """The largest element is taken off first so that exp cannot overflow."""
    peak = b.reduce(x, "max", axes, True)
    peak = b.select(b.eq(b.sub(peak, peak), 0), peak, 0)  # infinity less itself is nan
    found = b.add(b.log(b.reduce(b.exp(b.sub(x, peak)), "sum", axes, True)), peak)
    return found if keep else b.reshape(found, [n for k, n in enumerate(found.type.shape) if k not in axes])


def _widened(reduce: Reduce, integers: bool = False) -> Reduce:
    """Half precision is too little to add up in; whole numbers have no roots and logarithms."""

    def wide(b: Any, x: Any, axes: Sequence[int], keep: bool) -> Any:
        dtype, is_float = x.type.dtype, kind_of(x.type.dtype) == "float"
        if is_float and dtype.itemsize < 4:
            return b.cast(reduce(b, b.cast(x, FLOAT32), axes, keep), dtype)
        if integers and not is_float:
            return b.cast(reduce(b, b.cast(x, FLOAT64), axes, keep), dtype)
        return reduce(b, x, axes, keep)

    return wide


def _checked(b: Any, x: Any, reduce: Reduce, axes: Sequence[int] | None, keepdims: int) -> Any:
    if x.type.dtype not in DIRECT or x.type.kind == "b":
        raise ValueError("a reduction that is not numpy's")
    along = places(axes, rank_of(x))
    count_of(x, along)
    return reduce(b, x, along, bool(keepdims))


def _by_input(reduce: Reduce) -> Call:
    def define(b: Any, data: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        along = [] if axes is None else known(axes, "axes")
        return _checked(b, data, reduce, along if along or noop_with_empty_axes else None, keepdims)

    return define


def _by_attribute(reduce: Reduce) -> Call:
    def define(b: Any, data: Any, *, axes: Any = None, keepdims: int = 1) -> Any:
        return _checked(b, data, reduce, axes or None, keepdims)

    return define


def _defines(op: str, reduce: Reduce, with_input_since: int = 18) -> None:
    definition(op, since=with_input_since)(_by_input(reduce))
    definition(op, until=with_input_since)(_by_attribute(reduce))


_defines("ReduceSum", _widened(_sum), with_input_since=13)
_defines("ReduceProd", _widened(_of_kind("prod")))
_defines("ReduceMean", _widened(mean))
_defines("ReduceMax", _of_kind("max"))
_defines("ReduceMin", _of_kind("min"))
_defines("ReduceL1", _widened(_sum_of_sizes))
_defines("ReduceL2", _widened(_length, integers=True))
_defines("ReduceSumSquare", _widened(_sum_of_squares))
_defines("ReduceLogSum", _widened(_log_sum, integers=True))
_defines("ReduceLogSumExp", _widened(_log_sum_exp, integers=True))


def _place_of(kind: str) -> Call:
    def define(b: Any, data: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        if select_last_index or data.type.kind not in "fiu":
            raise ValueError("not the first one")
        count_of(data, [place(axis, rank_of(data))])
        return b.reduce(data, kind, [axis], bool(keepdims))

    return define


for _op in ("ArgMax", "ArgMin"):
    definition(_op)(_place_of(_op.lower()))
