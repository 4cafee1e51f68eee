"""Tensors made from little: Constant, ConstantOfShape, Range, EyeLike, OneHot, and Trilu, which keeps a triangle."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import all_repeated, count_of, is_seen, numbers, zero
from mdf_loop.kernels.arrays.bounds import shape_for
from mdf_loop.ops.batching import Result, all_stacked, by_step, of_shape
from mdf_loop.ops.registry import kernel, say
from mdf_loop.ops.rows import Call
from mdf_loop.types.elements import DTYPES, kind_of


@kernel("Constant")
def constant(**attrs):
    """The value of the one attribute that is given."""
    if len(attrs) != 1:
        raise ValueError(f"a Constant has exactly one value attribute; got {', '.join(attrs) or 'none'}")
    ((name, value),) = attrs.items()
    if name not in _CONSTANTS:
        raise ValueError(f"a Constant has no attribute {name!r}; it takes one of {', '.join(_CONSTANTS)}")
    return np.array(value, _CONSTANTS[name])


_CONSTANTS: dict[str, Any] = {
    "value": None,
    "sparse_value": None,
    **dict.fromkeys(("value_float", "value_floats"), np.float32),
    **dict.fromkeys(("value_int", "value_ints"), np.int64),
    **dict.fromkeys(("value_string", "value_strings"), object),
}
"""The attributes of Constant, and the types of those that are not tensors."""


@kernel("ConstantOfShape", since=9, batch=by_step)
def constant_of_shape(input, *, value=None):
    """One value in every element; 0 as float32 where not said."""
    dims = shape_for(numbers(input), 4 if value is None else value.itemsize)
    if value is None:
        return np.zeros(dims, np.float32)
    if value.size != 1:
        raise ValueError(f"value must have one element; got shape {list(value.shape)}")
    out = np.empty(dims, value.dtype)
    out[...] = value.reshape(())
    return out


def range_rule(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """Ranges that change from iteration to iteration, as long as all have the same length."""
    columns = [column.ravel() for column in all_repeated([np.asarray(a) for a in args], stacked)]
    if any(len(column) != count_of(args, stacked) for column in columns):
        return None
    lengths = {_length(*row) for row in zip(*columns, strict=True)}
    if len(lengths) > 1:
        return None
    start, _, delta = (column[:, None] for column in columns)
    return all_stacked(_counted(start, delta, lengths.pop(), attrs.get("stash_type", 1)))


@kernel("Range", since=11, batch=range_rule)
def range_11(start, limit, delta):
    """The numbers from ``start`` up to but not including ``limit``, in steps of ``delta``."""
    return _counted(start, delta, _length(start, limit, delta))


@kernel("Range", since=27, batch=range_rule)
def range_27(start, limit, delta, *, stash_type=1):
    """The numbers from ``start`` up to but not including ``limit``; half precision is counted in a wider type."""
    return _counted(start, delta, _length(start, limit, delta), stash_type)


def _length(start: Any, limit: Any, delta: Any) -> int:
    """The number of elements; exact for whole numbers."""
    if kind_of(start.dtype) == "integer":
        first, end, step = start.item(), limit.item(), delta.item()
    else:
        first, end, step = (float(value.astype(np.float64).item()) for value in (start, limit, delta))
    if step == 0:
        raise ValueError("delta must not be 0")
    steps = -((first - end) // step) if isinstance(step, int) else math.ceil((end - first) / step)
    return max(steps, 0)


def _counted(start: Any, delta: Any, length: int, stash_type: int = 1) -> Any:
    """start, start + delta, start + 2 delta, ... along the last axis."""
    dtype = start.dtype
    wide = DTYPES[stash_type] if kind_of(dtype) == "float" and dtype.itemsize < 4 else dtype
    shape_for((length,), 8)
    return (start.astype(wide) + np.arange(length).astype(wide) * delta.astype(wide)).astype(dtype, copy=False)


@kernel("EyeLike", since=9, batch=of_shape)
def eye_like(input, *, dtype=None, k=0):
    """Ones on the k-th diagonal of a matrix of the same shape, zeros elsewhere."""
    if input.ndim != 2:
        raise ValueError(f"EyeLike makes a matrix; got an input of rank {input.ndim}")
    return np.eye(*input.shape, k, input.dtype if dtype is None else DTYPES[dtype])


@kernel("OneHot", since=11, batch=by_step)
def one_hot(indices, depth, values, *, axis=-1):
    """``values[1]`` where the index points to along a new axis, also from its end, and ``values[0]`` elsewhere."""
    return _marked(indices, depth, values, axis, from_end=True)


@kernel("OneHot", since=9, batch=by_step)
def one_hot_9(indices, depth, values, *, axis=-1):
    """``values[1]`` where the index points to along a new axis, and ``values[0]`` elsewhere; a negative index points nowhere."""
    return _marked(indices, depth, values, axis, from_end=False)


SHORT = 256
"""Length of a new axis up to which rows of a matrix are taken: that matrix is small, whatever the result is."""


def _marked(indices: Any, depth: Any, values: Any, axis: int, from_end: bool) -> Any:
    indices, length = indices.astype(np.int64), int(depth.astype(np.int64).item())
    shape_for((length, *indices.shape), max(values.itemsize, 8))
    if values.shape != (2,):
        raise ValueError(f"values must be [off, on]; got shape {list(values.shape)}")
    are_seen = is_seen(indices) and is_seen(values)
    if are_seen and axis in (-1, indices.ndim) and 0 < length <= min(indices.size, SHORT) and (from_end or indices.min() >= 0):
        try:
            return _unit_rows(length, values).take(indices, 0)
        except IndexError:  # some index points nowhere
            pass
    if from_end:
        indices = np.where(indices < 0, indices + length, indices)
    indices = np.expand_dims(indices, axis)
    steps = [1] * indices.ndim
    steps[axis] = length
    found = indices == np.arange(length).reshape(steps)
    if not are_seen:
        return np.where(found, values[1], values[0])
    # The truth values are places in [off, on]: this keeps any type, texts too.
    return values.take(found.astype(np.intp))


def _unit_rows(length: int, values: Any) -> np.ndarray:
    """A matrix with ``values[1]`` on the diagonal and ``values[0]`` elsewhere."""
    rows = np.empty((length, length), values.dtype)
    rows[...] = values[0]
    rows.ravel()[:: length + 1] = values[1]
    return rows


@kernel("Trilu", since=14, batch=by_step)
def trilu(input, k=None, *, upper=1):
    """The elements on and above the k-th diagonal of each matrix (or on and below it), zeros elsewhere."""
    if input.ndim < 2:
        raise ValueError(f"Trilu works on matrices; got an input of rank {input.ndim}")
    rows, columns = input.shape[-2:]
    diagonal = 0 if k is None else min(max(int(k.item()), -rows - 1), columns + 1)
    lower = np.tri(rows, columns, diagonal - 1 if upper else diagonal, bool)
    return np.where(lower, zero(input.dtype), input) if upper else np.where(lower, input, zero(input.dtype))


for _op in ("OneHot", "Trilu"):
    say(_op, traced=True)
