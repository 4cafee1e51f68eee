"""Running sums and products: CumSum and CumProd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.axes import place, settled
from mdf_loop.ops.batching import Result, all_stacked
from mdf_loop.ops.registry import kernel
from mdf_loop.ops.rows import Call
from mdf_loop.types.elements import kind_of


def cumulative_rule(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """The axis, which is an input, moves up by one."""
    x, axis = args
    return all_stacked(run(x, np.asarray(place(int(axis.item()), x.ndim - 1) + 1), **attrs))


@kernel("CumSum", since=11, batch=settled((1,), cumulative_rule))
def cum_sum(x, axis, *, exclusive=0, reverse=0):
    """The sum of the elements so far along an axis, from the end if ``reverse``, without the element itself if ``exclusive``."""
    return _running(np.add, x, axis, exclusive, reverse)


@kernel("CumProd", since=26, batch=settled((1,), cumulative_rule))
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
        _accumulate(ufunc, source[(*front, slice(None, -1))], along, out[(*front, slice(1, None))])
    else:
        out = _accumulate(ufunc, source, along, np.empty_like(source, x.dtype))
    return np.flip(out, along) if reverse else out


def _accumulate(ufunc: np.ufunc, x: np.ndarray, axis: int, out: np.ndarray) -> np.ndarray:
    """``ufunc.accumulate``; where the elements of a step lie side by side, a call for each step takes far less time."""
    if axis == x.ndim - 1 or x.size < MANY * x.shape[axis]:
        return ufunc.accumulate(x, axis, x.dtype, out)
    steps, sums = np.moveaxis(x, axis, 0), np.moveaxis(out, axis, 0)
    for k in range(len(steps)):
        if k:
            ufunc(sums[k - 1], steps[k], sums[k])
        else:
            sums[0] = steps[0]
    return out


MANY = 128
"""Elements of a step from which on it is worth a call."""
