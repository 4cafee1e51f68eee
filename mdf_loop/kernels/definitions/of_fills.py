"""Tensors made larger: borders, copies, and a one among zeros."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place
from mdf_loop.kernels.definitions.of_places import entry
from mdf_loop.kernels.definitions.of_shapes import known, rank_of
from mdf_loop.ops.registry import definition

MOST_CONSTANT = 1 << 20
"""Elements up to which a table of what is known is made while a graph is compiled."""


def _static(x: Any) -> tuple[int, ...]:
    if not x.type.is_static:
        raise ValueError("an open length")
    return x.type.shape


def tiled(b: Any, data: Any, counts: Sequence[int]) -> Any:
    """So many copies along each axis of an array whose shape is known."""
    both = list(zip(counts, data.type.shape, strict=True))
    apart = b.reshape(data, [n for _, length in both for n in (1, length)])
    return b.reshape(b.broadcast(apart, [n for pair in both for n in pair]), [count * length for count, length in both])


def _marked(b: Any, indices: Any, depth: Any, values: Any, axis: int, from_end: bool) -> Any:
    (length,) = known(b.cast(depth, np.dtype(np.int64)), "the depth")
    shape = _static(indices)
    if values.type.shape != (2,) or not 0 <= length <= MOST_CONSTANT:
        raise ValueError("not [off, on], or too long for a constant")
    axis = place(axis, len(shape) + 1)
    where = b.cast(indices, np.dtype(np.int64))
    if from_end:
        where = b.select(b.lt(where, 0), b.add(where, length), where)
    places_ = np.arange(length).reshape((-1,) + (1,) * (len(shape) - axis))
    found = b.eq(b.reshape(where, (*shape[:axis], 1, *shape[axis:])), b.const(places_))
    off, on = (entry(b, values, b.const(np.int64(k))) for k in range(2))
    return b.select(found, on, off)


@definition("OneHot", since=11, why="speed")
def one_hot(b, indices, depth, values, *, axis=-1):
    """``values[1]`` where the index points to along a new axis, also from its end, and ``values[0]`` elsewhere."""
    return _marked(b, indices, depth, values, axis, from_end=True)


@definition("OneHot", until=11, why="speed")
def one_hot_9(b, indices, depth, values, *, axis=-1):
    """The same; a negative index points nowhere."""
    return _marked(b, indices, depth, values, axis, from_end=False)


@definition("Hardmax", since=13, why="speed")
def hardmax(b, x, *, axis=-1):
    """1 at the first largest element along the axis, 0 elsewhere."""
    shape, along = _static(x), place(axis, rank_of(x))
    x.type.count_along([along])
    numbers = np.arange(shape[along]).reshape([-1 if k == along else 1 for k in range(len(shape))])
    return b.cast(b.eq(b.const(numbers), b.reduce(x, "argmax", [along], True)), x.type.dtype)


@definition("Hardmax", until=13, why="speed")
def hardmax_1(b, x, *, axis=1):
    """All axes from ``axis`` on, taken as one."""
    shape, rank = _static(x), rank_of(x)
    if not -rank <= axis <= rank:
        raise ValueError("no such axis")
    axis %= rank + (axis >= 0)
    return b.reshape(hardmax(b, b.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))), shape)
