"""Putting tensors together and taking them apart: Concat and Split."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import numbers, place
from mdf_loop.ops.batching import by_step
from mdf_loop.ops.registry import kernel, say


@kernel("Concat", since=4, batch=by_step)
def concat(*inputs, axis):
    """The inputs one behind the other along an axis."""
    return np.concatenate(inputs, axis)


@kernel("Concat", since=1, batch=by_step)
def concat_1(*inputs, axis=1):
    """The inputs one behind the other along an axis."""
    return np.concatenate(inputs, axis)


@kernel("Split", since=18, batch=by_step)
def split(input, split=None, *, axis=0, num_outputs=None, n_outputs):
    """Parts of the given lengths, or ``num_outputs`` parts of which the last may be smaller."""
    if (split is None) == (num_outputs is None):
        raise ValueError("Split needs either the input split or the attribute num_outputs, and not both")
    axis = place(axis, input.ndim)
    if split is not None:
        return parts(input, numbers(split), axis)
    if num_outputs < 1:
        raise ValueError(f"num_outputs must be at least 1; got {num_outputs}")
    length = input.shape[axis]
    made = chunks(length, -(-length // num_outputs), min(num_outputs, n_outputs))
    return parts(input, [*made, length - sum(made)], axis)[: len(made)]  # last is what no output is named for


@kernel("Split", since=13, batch=by_step)
def split_13(input, split=None, *, axis=0, n_outputs):
    """Parts of the given lengths, or as many equal ones as there are outputs."""
    axis = place(axis, input.ndim)
    return parts(input, _equal(input.shape[axis], n_outputs) if split is None else numbers(split), axis)


@kernel("Split", since=2, batch=by_step)
def split_2(input, *, axis=0, split=None, n_outputs):
    """Parts of the lengths that an attribute says, or as many equal ones as there are outputs."""
    axis = place(axis, input.ndim)
    return parts(input, _equal(input.shape[axis], n_outputs) if split is None else list(split), axis)


@kernel("Split", since=1, batch=by_step)
def split_1(input, lengths=None, *, axis=0, split=None, n_outputs):
    """Parts of the lengths that an input or an attribute says; the axis has no default here, later versions have 0."""
    if split is None and lengths is not None:
        split = [int(length) for length in numbers(lengths)]  # in the type of the data
    return split_2(input, axis=axis, split=split, n_outputs=n_outputs)


def _equal(length: int, count: int) -> list[int]:
    if length % count:
        raise ValueError(f"{length} elements cannot be split into {count} equal parts")
    return [length // count] * count


def chunks(length: int, size: int, count: int) -> list[int]:
    """The lengths of ``count`` chunks of a size, of which the last ones get what is left."""
    return [min(size, max(length - k * size, 0)) for k in range(count)]


def parts(data: Any, lengths: list[int], axis: int) -> tuple[Any, ...]:
    """Parts of the given lengths one behind the other along an axis.

    Raises
    ------
    ValueError
        The lengths do not add up, or one is negative.
    """
    if sum(lengths) != data.shape[axis] or any(length < 0 for length in lengths):
        raise ValueError(
            f"lengths must not be negative and add up to the {data.shape[axis]} elements of axis {axis}; got {lengths}"
        )
    front = (slice(None),) * axis
    ends = itertools.accumulate(lengths)
    return tuple(data[(*front, slice(end - length, end))] for length, end in zip(lengths, ends, strict=True))


for _op in ("Concat", "Split"):
    say(_op, light=True, traced=True)
