"""Elements taken by their places: Gather, GatherElements, GatherND, Slice, Compress, ReverseSequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import (
    all_repeated,
    as_tensor,
    moved,
    numbers,
    place,
    places,
    repeated_along,
    row_ranks,
)
from mdf_loop.ops.batching import Result, all_stacked, by_step
from mdf_loop.ops.registry import kernel, say
from mdf_loop.ops.rows import Call


def gather_rule(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """One take where either input is stacked; rows of each iteration's own data where both are."""
    data, indices = args
    axis = place(attrs.get("axis", 0), data.ndim - stacked[0])
    if not stacked[1]:
        return moved(run, args, attrs, "axis", axis, data.ndim - 1)
    return all_stacked(gathered(data, stacked[0], indices, axis))


def gathered(data: Any, is_stacked: bool, indices: Any, axis: int) -> Any:
    """What each iteration's indices take along an axis (of one iteration's data), stacked."""
    if not is_stacked:
        taken = data.take(indices, axis)
        # In the order of single calls' results, so that sums over it add up in the same order.
        return taken if axis == 0 else np.ascontiguousarray(np.moveaxis(taken, axis, 0))
    rows = np.arange(len(data)).reshape(-1, *(1,) * (indices.ndim - 1))
    taken = np.moveaxis(data, axis + 1, 1)[rows, indices]
    new = range(1, indices.ndim)
    return taken if axis == 0 else np.ascontiguousarray(np.moveaxis(taken, new, [k + axis for k in new]))


@kernel("Gather", batch=gather_rule)
def gather(data, indices, *, axis=0):
    """The entries of an axis that the indices name; negative ones count from the end."""
    # The x[i] of most loops takes half as long without take.
    taken = data[int(indices)] if axis == 0 and indices.ndim == 0 else data.take(indices, axis)
    return as_tensor(taken) if data.dtype.hasobject else taken


@kernel("GatherElements", since=11, batch=repeated_along)
def gather_elements(data, indices, *, axis=0):
    """For each index the element at that place of the axis, and at the index's own place of the others."""
    return data[element_places(data, indices, axis)]


def element_places(data: Any, indices: Any, axis: int) -> tuple[Any, ...]:
    """A numpy index that replaces the place along one axis by ``indices``.

    Raises
    ------
    ValueError
        The ranks differ.
    """
    if data.ndim != indices.ndim:
        raise ValueError(f"data and indices must have one rank; got shapes {list(data.shape)} and {list(indices.shape)}")
    axis = place(axis, data.ndim)
    return tuple(indices if k == axis else own_places(n, k, data.ndim) for k, n in enumerate(indices.shape))


def own_places(length: int, axis: int, rank: int) -> np.ndarray:
    """0, 1, 2, ... along one of ``rank`` axes."""
    return np.arange(length).reshape((-1,) + (1,) * (rank - axis - 1))


def gather_nd_rule(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """The iteration axis is one more batch axis, or just one more axis of the indices."""
    batch_dims = attrs.get("batch_dims", 0)
    if not row_ranks(args, stacked)[1]:
        return None
    if batch_dims == 0 and not stacked[0]:
        return all_stacked(run(*args, **attrs))
    data, indices = all_repeated(args, stacked)
    return all_stacked(gather_nd(data, indices, batch_dims=batch_dims + 1))


@kernel("GatherND", since=12, batch=gather_nd_rule)
def gather_nd(data, indices, *, batch_dims=0):
    """The slices of data that rows of indices point at, within each entry of the leading batch axes."""
    if data.shape[:batch_dims] != indices.shape[:batch_dims] or batch_dims >= indices.ndim:
        raise ValueError(
            f"data and indices must agree in the first {batch_dims} dimensions, and indices must have one more; "
            f"got shapes {list(data.shape)} and {list(indices.shape)}"
        )
    if not 1 <= indices.shape[-1] <= data.ndim - batch_dims:
        raise ValueError(f"rows of {indices.shape[-1]} indices cannot point into data of shape {list(data.shape)}")
    batch = tuple(own_places(indices.shape[k], k, indices.ndim - 1) for k in range(batch_dims))
    return as_tensor(data[batch + rows_of(indices)])


@kernel("GatherND", since=11, batch=gather_nd_rule)
def gather_nd_11(data, indices):
    """The slices of data that rows of indices point at."""
    return gather_nd(data, indices)


def rows_of(indices: Any) -> tuple[Any, ...]:
    """A numpy index of what the last axis of ``indices`` points at."""
    return tuple(indices[..., k] for k in range(indices.shape[-1]))


def _sliding(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """x[i:i + 3], axis after axis: the places that each iteration's bounds name, if they are equally many."""
    if not any(stacked[1:3]) or any(stacked[3:]):
        return None
    data, starts, ends, axes, steps = (*args, None, None)[:5]
    is_stacked = stacked[0]
    bounds = [np.broadcast_to(b, (len(args[1] if stacked[1] else args[2]), b.shape[-1])) for b in (starts, ends)]
    width = bounds[0].shape[1]
    steps = [1] * width if steps is None else numbers(steps)
    for k, axis in enumerate(places(range(width) if axes is None else axes, data.ndim - is_stacked)):
        where = _window(*(b[:, k].astype(np.int64) for b in bounds), steps[k], data.shape[axis + is_stacked])
        if where is None:
            return None
        data, is_stacked = gathered(data, is_stacked, where, axis), True
    return all_stacked(data)


def _window(starts: np.ndarray, ends: np.ndarray, step: int, length: int) -> np.ndarray | None:
    """The places that a slice takes in each iteration; None if they are not equally many."""
    if step == 0:
        return None
    first, last = (0, length) if step > 0 else (-1, length - 1)
    starts = (starts + length * (starts < 0)).clip(0, last)
    ends = (ends + length * (ends < 0)).clip(first, last)
    counts = np.maximum(-((starts - ends) // step), 0)
    if (counts != counts[0]).any():
        return None
    return starts[:, None] + step * np.arange(counts[0])


@kernel("Slice", since=10, batch=_sliding)
def slice_10(data, starts, ends, axes=None, steps=None):
    """From ``starts`` up to but not including ``ends``, in steps, along the given axes or the first ones."""
    if starts.size == ends.size == 1 and data.ndim and _is_plain(axes, 0) and _is_plain(steps, 1):
        return data[starts.item() : ends.item()]
    return data[sliced(data.shape, starts, ends, axes, steps)]


def _is_plain(steering: Any, number: int) -> bool:
    """Whether axes or steps are left out or are one number, which is what they are then."""
    return steering is None or (steering.size == 1 and steering.item() == number)


def sliced(shape: tuple[int, ...], starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> tuple[slice, ...]:
    """The numpy index of a Slice of an array of this shape.

    Raises
    ------
    ValueError
        The lists are not equally long.
    """
    starts, ends = numbers(starts), numbers(ends)
    steps = [1] * len(starts) if steps is None else numbers(steps)
    axes = range(len(starts)) if axes is None else numbers(axes)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ValueError(f"starts, ends, axes and steps must be equally long; got {starts}, {ends}, {list(axes)}, {steps}")
    where = [slice(None)] * len(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = place(axis, len(shape))
        if step < 0:
            # ONNX clamps a start before the first element to the first one, Python to before it.
            start = max(start, -shape[axis])
        where[axis] = slice(start, end, step)
    return tuple(where)


@kernel("Slice", since=1, batch=by_step)
def slice_1(data, *, starts, ends, axes=None):
    """From ``starts`` up to but not including ``ends``."""
    return data[sliced(data.shape, starts, ends, axes)]


@kernel("Compress", since=9, batch=by_step)
def compress(input, condition, *, axis=None):
    """The entries for which the condition is true; of the flattened tensor where no axis is given."""
    return input.take(np.flatnonzero(condition), axis)


@kernel("ReverseSequence", since=10)
def reverse_sequence(input, sequence_lens, *, batch_axis=1, time_axis=0):
    """The first ``sequence_lens[b]`` elements of sequence b in reverse, the others as they are."""
    if {batch_axis, time_axis} != {0, 1}:
        raise ValueError(f"batch_axis and time_axis must be 0 and 1; got {batch_axis} and {time_axis}")
    steps, sequences = input.shape[time_axis], input.shape[batch_axis]
    if sequence_lens.shape != (sequences,) or (sequence_lens < 0).any() or (sequence_lens > steps).any():
        raise ValueError(f"sequence_lens must be {sequences} numbers from 0 to {steps}; got {sequence_lens.tolist()}")
    time = np.arange(steps)[:, None]
    source = np.where(time < sequence_lens, sequence_lens - 1 - time, time)
    batch = np.arange(sequences)
    return input[source, batch] if time_axis == 0 else input[batch[:, None], source.T]


say("Gather", light=True, picks_rows=lambda axis=0: axis == 0)
say("Slice", light=True, is_open_ended=True)
say("Slice", until=10, traced=True)
say("Compress", traced=True)
