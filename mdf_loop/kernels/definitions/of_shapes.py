"""The same elements in another shape or order, and asking for the shape."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import places
from mdf_loop.ops.registry import definition


def is_number(x: Any) -> bool:
    """Whether a value is one number."""
    return x.type.shape == ()


def known(x: Any, what: str) -> list[int]:
    """Whole numbers of an input that is a constant.

    Raises
    ------
    ValueError
        It is not.
    """
    if x.op != "const":
        raise ValueError(f"{what} are not known")
    return np.atleast_1d(x.attr).tolist()


def rank_of(x: Any) -> int:
    """The number of axes.

    Raises
    ------
    ValueError
        It is not known.
    """
    if x.type.shape is None:
        raise ValueError("the rank is not known")
    return len(x.type.shape)


def in_all(shape: Any) -> int:
    """How many elements there are; -1, which is what is left in a new shape, where only the run can tell."""
    return math.prod(shape) if shape is not None and all(isinstance(n, int) for n in shape) else -1


def go_together(b: Any, *lengths: Any) -> bool:
    """Whether lengths are the same, as far as they are known where the builder takes open lengths."""
    return len({n for n in lengths if isinstance(n, int) or not b.takes_open}) <= 1


def count_along(b: Any, x: Any, axes: Any) -> Any:
    """How many elements some axes have together; a value in the element type of x where only the run can tell.

    Raises
    ------
    ValueError
        There are none, or it is not known, and the builder does not take open lengths.
    """
    if not b.takes_open or not axes:
        return x.type.count_along(axes)
    return b.cast(functools.reduce(b.mul, [b.length(x, axis) for axis in axes]), x.type.dtype)


def _size(shape: Any) -> int:
    if not all(isinstance(n, int) for n in shape):
        raise ValueError("a length is open")
    return math.prod(shape)


def squeezed(b: Any, data: Any, axes: Any = None) -> Any:
    """Without axes of one element."""
    shape = data.type.shape
    rank_of(data)
    if axes is None:
        _size(shape)
        gone = {k for k, n in enumerate(shape) if n == 1}
    else:
        gone = set(places(axes, rank_of(data)))
    if any(shape[k] != 1 for k in gone):
        raise ValueError("an axis that has not one element")
    return b.reshape(data, [n for k, n in enumerate(shape) if k not in gone])


@definition("Unsqueeze", since=13, why="open lengths")
def unsqueeze(b, data, axes):
    """With new axes of one element."""
    return unsqueeze_1(b, data, axes=known(axes, "axes"))


@definition("Unsqueeze", until=13, why="open lengths")
def unsqueeze_1(b, data, *, axes):
    """With new axes of one element."""
    rank = rank_of(data) + len(axes)
    new, old = places(list(axes), rank), iter(data.type.shape)
    return b.reshape(data, [1 if k in new else next(old) for k in range(rank)])


@definition("Expand", why="speed")
def expand(b, data, shape):
    """Broadcast to a shape, both ways."""
    dims = known(shape, "lengths")
    ours = data.type.shape
    rank_of(data)
    rank = max(len(ours), len(dims))
    both = zip((1,) * (rank - len(ours)) + ours, (1,) * (rank - len(dims)) + tuple(dims), strict=True)
    target = [n if m in (1, n) else m for n, m in both]
    if any(n not in (1, m) for n, m in zip((1,) * (rank - len(ours)) + ours, target, strict=True)):
        raise ValueError("shapes that do not go together")
    _size(target)
    return b.broadcast(data, target)


@definition("Shape", why="open lengths")
def shape(b, data, *, start=0, end=None):
    """The dimensions from ``start`` up to ``end``."""
    axes = range(rank_of(data))[start:end]
    if not axes:
        return b.const(np.zeros(0, np.int64))
    return b.pack([b.length(data, axis) for axis in axes])


@definition("Size", why="open lengths")
def size(b, data):
    """The number of elements."""
    return functools.reduce(b.mul, (b.length(data, axis) for axis in range(rank_of(data))), b.const(np.int64(1)))


@definition("ConstantOfShape", why="speed")
def constant_of_shape(b, shape, *, value=None):
    """One number everywhere."""
    dims = known(shape, "lengths")
    number = np.float32(0) if value is None else np.asarray(value).reshape(())[()]
    return b.const(np.full(dims, number)) if math.prod(dims) <= 1 << 16 else b.broadcast(b.const(number), dims)
