"""The same elements in another shape or order, and asking for the shape."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place, places
from mdf_loop.ops.registry import definition


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


def fits(x: Any, whole: Any) -> bool:
    """Whether a value broadcasts to the shape of another one, lengths being known."""
    if not x.type.is_static or not whole.type.is_static or rank_of(x) > rank_of(whole):
        return False
    return all(n in (1, m) for n, m in zip(x.type.shape[::-1], whole.type.shape[::-1], strict=False))


def _size(shape: Any) -> int:
    if not all(isinstance(n, int) for n in shape):
        raise ValueError("a length is open")
    return math.prod(shape)


@definition("Reshape", since=5)
def reshape(b, data, shape, *, allowzero=0):
    """The elements in another shape."""
    if data.type.shape is None:
        raise ValueError("the rank is not known")
    numbers = b.unpacked(shape)
    if numbers is None:
        raise ValueError("the shape is not known")
    dims = [int(n.attr) if n.op == "const" else None for n in numbers]
    if None in dims or (allowzero and 0 in dims):
        raise ValueError("an open or an empty shape")
    dims = [data.type.shape[k] if n == 0 else n for k, n in enumerate(dims)]
    if -1 in dims:
        rest = [n for n in dims if n != -1]
        if _size(rest) == 0:
            raise ValueError("nothing to work out a length from")
        dims[dims.index(-1)] = _size(data.type.shape) // _size(rest)
    if _size(dims) != _size(data.type.shape):
        raise ValueError("another number of elements")
    return b.reshape(data, dims)


@definition("Flatten")
def flatten(b, data, *, axis=1):
    """A matrix."""
    shape = data.type.shape
    split = axis if axis == rank_of(data) else place(axis, rank_of(data))
    return b.reshape(data, (_size(shape[:split]), _size(shape[split:])))


@definition("Squeeze", since=13)
def squeeze(b, data, axes=None):
    """Without axes of one element."""
    return squeeze_1(b, data, axes=None if axes is None else known(axes, "axes"))


@definition("Squeeze", until=13)
def squeeze_1(b, data, *, axes=None):
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


@definition("Unsqueeze", since=13)
def unsqueeze(b, data, axes):
    """With new axes of one element."""
    return unsqueeze_1(b, data, axes=known(axes, "axes"))


@definition("Unsqueeze", until=13)
def unsqueeze_1(b, data, *, axes):
    """With new axes of one element."""
    rank = rank_of(data) + len(axes)
    new, old = places(list(axes), rank), iter(data.type.shape)
    return b.reshape(data, [1 if k in new else next(old) for k in range(rank)])


@definition("Transpose")
def transpose(b, data, *, perm=None):
    """Axes in another order."""
    rank = rank_of(data)
    return b.transpose(data, range(rank - 1, -1, -1) if perm is None else places(list(perm), rank))


@definition("Expand")
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


@definition("Shape", until=15)
def shape_1(b, data):
    """The dimensions."""
    return shape(b, data)


@definition("Shape", since=15)
def shape(b, data, *, start=0, end=None):
    """The dimensions from ``start`` up to ``end``."""
    axes = range(rank_of(data))[start:end]
    if not axes:
        return b.const(np.zeros(0, np.int64))
    return b.pack([b.length(data, axis) for axis in axes])


@definition("Size")
def size(b, data):
    """The number of elements."""
    return functools.reduce(b.mul, (b.length(data, axis) for axis in range(rank_of(data))), b.const(np.int64(1)))


@definition("ConstantOfShape")
def constant_of_shape(b, shape, *, value=None):
    """One number everywhere."""
    dims = known(shape, "lengths")
    number = np.float32(0) if value is None else np.asarray(value).reshape(())[()]
    return b.const(np.full(dims, number)) if math.prod(dims) <= 1 << 16 else b.broadcast(b.const(number), dims)
