"""Axes reduced to one element: ReduceSum and its relatives, ArgMax and ArgMin; running sums and products."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import is_seen, numbers, place
from mdf_loop.kernels.numbers.wide import highest, lowest
from mdf_loop.ops.batching import Result, all_stacked, along, reducing
from mdf_loop.ops.registry import kernel, say
from mdf_loop.ops.rows import Call
from mdf_loop.types.elements import kind_of

Axes = tuple[int, ...] | None
Reduction = Callable[[Any, Axes, bool], Any]
"""``reduction(data, axes, keepdims)``: axes None are all axes, () are none."""


def _sum(data: Any, axes: Axes, keepdims: bool) -> Any:
    return np.add.reduce(data, axes, data.dtype, None, keepdims)


def _product(data: Any, axes: Axes, keepdims: bool) -> Any:
    return np.multiply.reduce(data, axes, data.dtype, None, keepdims)


def _largest(data: Any, axes: Axes, keepdims: bool) -> Any:
    if data.size:
        return np.maximum.reduce(data, axes, None, None, keepdims)
    return np.maximum.reduce(data, axes, None, None, keepdims, lowest(data.dtype))


def _smallest(data: Any, axes: Axes, keepdims: bool) -> Any:
    if data.size:
        return np.minimum.reduce(data, axes, None, None, keepdims)
    return np.minimum.reduce(data, axes, None, None, keepdims, highest(data.dtype))


def _mean(data: Any, axes: Axes, keepdims: bool) -> Any:
    """The sum over the number of elements; of whole numbers, cut off towards zero."""
    if kind_of(data.dtype) != "integer":
        total = _sum(data, axes, keepdims)
        return total / data.dtype.type(_count(data, total))
    total = np.add.reduce(data, axes, None, None, keepdims)  # in 64 bits
    count = total.dtype.type(_count(data, total))
    return (total // count if total.dtype.kind == "u" else (total - np.fmod(total, count)) // count).astype(data.dtype)


def _count(data: Any, total: Any) -> int:
    """How many elements went into each one of the result; 0 where there were none."""
    return data.size // total.size if total.size else 0


def _log_sum_exp(data: Any, axes: Axes, keepdims: bool) -> Any:
    """The largest element is taken off first so that exp cannot overflow."""
    peak = _largest(data, axes, True)
    if not (is_seen(peak) and _is_finite(peak.ravel())):
        peak = np.where(np.isfinite(peak), peak, data.dtype.type(0))
    out = np.log(_sum(np.exp(data - peak), axes, True)) + peak
    return out if keepdims else out.squeeze(axes)


def _is_finite(x: Any) -> bool:
    """The quickest way to ask all elements of a vector; a square that overflows does no harm."""
    return math.isfinite(x.dot(x))


def _widened(reduction: Reduction, integers: bool = False) -> Reduction:
    """Half precision is too little to add up in; whole numbers have no roots and logarithms."""

    def wide(data: Any, axes: Axes, keepdims: bool) -> Any:
        dtype = data.dtype
        if dtype.kind == "f" and dtype.itemsize >= 4:
            return reduction(data, axes, keepdims)
        if kind_of(dtype) == "float":
            return reduction(data.astype(np.float32), axes, keepdims).astype(dtype)
        return reduction(data.astype(np.float64), axes, keepdims).astype(dtype) if integers else reduction(data, axes, keepdims)

    return wide


def _register(op: str, reduction: Reduction, with_input_since: int = 18) -> None:
    """The two forms of a reduction: with the axes as an attribute, and as the second input."""

    @kernel(op, since=with_input_since, batch=reducing)
    def by_input(data, axes=None, *, keepdims=1, noop_with_empty_axes=0):
        """The axes of an input reduced; without them all, or none with ``noop_with_empty_axes``."""
        along = () if axes is None else tuple(numbers(axes))
        return reduction(data, along if along or noop_with_empty_axes else None, bool(keepdims))

    @kernel(op, since=1, batch=reducing)
    def by_attribute(data, *, axes=None, keepdims=1):
        """The axes of an attribute reduced; all where it is not there."""
        return reduction(data, tuple(axes) if axes else None, bool(keepdims))

    say(op, light=True, traced=True)


_register("ReduceSum", _widened(_sum), with_input_since=13)
_register("ReduceProd", _widened(_product))
_register("ReduceMean", _widened(_mean))
_register("ReduceMax", _largest)
_register("ReduceMin", _smallest)
_register("ReduceL1", _widened(lambda data, *how: _sum(np.absolute(data), *how)))
_register("ReduceL2", _widened(lambda data, *how: np.sqrt(_sum(np.square(data), *how)), integers=True))
_register("ReduceSumSquare", _widened(lambda data, *how: _sum(np.square(data), *how)))
_register("ReduceLogSum", _widened(lambda *given: np.log(_sum(*given)), integers=True))
_register("ReduceLogSumExp", _widened(_log_sum_exp, integers=True))


@kernel("ArgMax", since=12, batch=along("axis", 0))
def arg_max(data, *, axis=0, keepdims=1, select_last_index=0):
    """The place of the first, or last, largest element along an axis."""
    return _last(data, axis, keepdims, np.argmax) if select_last_index else arg_max_1(data, axis=axis, keepdims=keepdims)


@kernel("ArgMin", since=12, batch=along("axis", 0))
def arg_min(data, *, axis=0, keepdims=1, select_last_index=0):
    """The place of the first, or last, smallest element along an axis."""
    return _last(data, axis, keepdims, np.argmin) if select_last_index else arg_min_1(data, axis=axis, keepdims=keepdims)


def _last(data: Any, axis: int, keepdims: int, first: Callable[..., Any]) -> Any:
    """The last place is the first one from behind."""
    return data.shape[axis] - 1 - first(np.flip(data, axis), axis, keepdims=bool(keepdims))


@kernel("ArgMax", since=1, batch=along("axis", 0))
def arg_max_1(data, *, axis=0, keepdims=1):
    """The place of the first largest element along an axis."""
    return data.argmax(axis, keepdims=bool(keepdims))


@kernel("ArgMin", since=1, batch=along("axis", 0))
def arg_min_1(data, *, axis=0, keepdims=1):
    """The place of the first smallest element along an axis."""
    return data.argmin(axis, keepdims=bool(keepdims))


for _op in ("ArgMax", "ArgMin"):
    say(_op, light=True, traced=True)


def cumulative_rule(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """The axis, which is an input, moves up by one."""
    if stacked[1]:
        return None
    x, axis = args
    return all_stacked(run(x, np.asarray(place(int(axis.item()), x.ndim - 1) + 1), **attrs))


@kernel("CumSum", since=11, batch=cumulative_rule)
def cum_sum(x, axis, *, exclusive=0, reverse=0):
    """The sum of the elements so far along an axis, from the end if ``reverse``, without the element itself if ``exclusive``."""
    return _running(np.add, x, axis, exclusive, reverse)


@kernel("CumProd", since=26, batch=cumulative_rule)
def cum_prod(x, axis, *, exclusive=0, reverse=0):
    """The product of the elements so far along an axis."""
    return _running(np.multiply, x, axis, exclusive, reverse)


def _running(ufunc: np.ufunc, x: Any, axis: Any, exclusive: int, reverse: int) -> Any:
    if kind_of(x.dtype) == "float" and x.itemsize < 4:  # half precision is too little to add up in
        return _running(ufunc, x.astype(np.float32), axis, exclusive, reverse).astype(x.dtype)
    along = place(int(axis.item()), x.ndim)
    source = np.flip(x, along) if reverse else x
    if exclusive:
        out = np.full_like(source, ufunc.identity)
        front = (slice(None),) * along
        ufunc.accumulate(source[(*front, slice(None, -1))], along, x.dtype, out[(*front, slice(1, None))])
    else:
        out = ufunc.accumulate(source, along, x.dtype)
    return np.flip(out, along) if reverse else out
