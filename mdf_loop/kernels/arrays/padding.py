"""Putting a border round a tensor, or cutting one off: Pad and CenterCropPad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import is_seen, numbers, places, zero
from mdf_loop.kernels.arrays.bounds import shape_for
from mdf_loop.ops.batching import by_step
from mdf_loop.ops.registry import kernel, say


@kernel("Pad", since=19, batch=by_step)
def pad(data, pads, constant_value=None, axes=None, *, mode="constant"):
    """A border of a constant, of the edge, of the mirrored tensor or of the tensor repeated; negative widths cut off."""
    return _padded(data, numbers(pads), places(axes, data.ndim), mode, constant_value, ("constant", "reflect", "edge", "wrap"))


@kernel("Pad", since=18, batch=by_step)
def pad_18(data, pads, constant_value=None, axes=None, *, mode="constant"):
    """A border along some axes."""
    return _padded(data, numbers(pads), places(axes, data.ndim), mode, constant_value)


@kernel("Pad", since=11, batch=by_step)
def pad_11(data, pads, constant_value=None, *, mode="constant"):
    """A border along all axes."""
    return _padded(data, numbers(pads), list(range(data.ndim)), mode, constant_value)


@kernel("Pad", since=2, batch=by_step)
def pad_2(data, *, pads, mode="constant", value=0.0):
    """A border whose widths and value are attributes."""
    return _padded(data, list(pads), list(range(data.ndim)), mode, data.dtype.type(value))


@kernel("Pad", since=1, batch=by_step)
def pad_1(data, *, paddings, mode="constant", value=0.0):
    """A border whose widths and value are attributes."""
    return _padded(data, list(paddings), list(range(data.ndim)), mode, data.dtype.type(value))


def _padded(
    data: Any, pads: list[int], axes: list[int], mode: str, value: Any, modes: Sequence[str] = ("constant", "reflect", "edge")
) -> Any:
    """The tensor, cut where a width is negative and then with its border."""
    if mode not in modes:
        raise ValueError(f"mode must be one of {', '.join(modes)}; got {mode!r}")
    if len(pads) != 2 * len(axes):
        raise ValueError(f"pads must have a number for both ends of {len(axes)} axes; got {pads}")
    widths = [(0, 0)] * data.ndim
    for axis, *ends in zip(axes, pads, pads[len(axes) :], strict=False):
        widths[axis] = (ends[0], ends[1])
    shape_for([max(n + sum(ends), 0) for n, ends in zip(data.shape, widths, strict=True)], data.itemsize)
    data = _cut(data, widths)
    if mode == "constant":
        return _framed(data, widths, zero(data.dtype) if value is None else value)
    for axis, (before, after) in enumerate(widths):
        if before > 0 or after > 0:
            length = data.shape[axis]
            if not length:
                raise ValueError(f"axis {axis} has no elements that mode {mode!r} could repeat")
            data = data.take(_sources(np.arange(-max(before, 0), length + max(after, 0)), length, mode), axis)
    return data


def _cut(data: Any, widths: list[tuple[int, int]]) -> Any:
    """Without what negative widths remove."""
    if all(before >= 0 and after >= 0 for before, after in widths):
        return data
    for axis, (before, after) in enumerate(widths):
        if data.shape[axis] + min(before, 0) + min(after, 0) < 0:
            raise ValueError(
                f"axis {axis} has only {data.shape[axis]} elements; {-min(before, 0) - min(after, 0)} cannot be removed"
            )
    kept = (slice(-min(b, 0), n + min(a, 0)) for (b, a), n in zip(widths, data.shape, strict=True))
    return data[tuple(kept)]


def _framed(data: Any, widths: list[tuple[int, int]], value: Any) -> Any:
    """With a border of one value."""
    ends = [(max(before, 0), max(after, 0)) for before, after in widths]
    shape = shape_for([b + n + a for (b, a), n in zip(ends, data.shape, strict=True)], data.itemsize)
    if not is_seen(data):
        value = value.astype(data.dtype).reshape((1,) * data.ndim)
        for axis, around in enumerate(ends):
            borders = [[np.tile(value, (*data.shape[:axis], n, *data.shape[axis + 1 :]))] if n else [] for n in around]
            data = np.concatenate([*borders[0], data, *borders[1]], axis)
        return data
    out = np.empty_like(data, order="C", shape=shape)
    out[...] = value
    out[tuple(slice(b, b + n) for (b, _), n in zip(ends, data.shape, strict=True))] = data
    return out


def _sources(at: np.ndarray, length: int, mode: str) -> np.ndarray:
    """Which element stands at each place, where the tensor itself begins at 0."""
    if mode == "edge":
        return at.clip(0, length - 1)
    if mode == "wrap":
        return at % length
    period = max(2 * (length - 1), 1)  # there and back, both ends once
    return length - 1 - abs(at % period - (length - 1))


@kernel("CenterCropPad", since=18, batch=by_step)
def center_crop_pad(input_data, shape, *, axes=None):
    """The middle of the tensor, or the tensor in the middle of zeros, so that the axes get the given lengths."""
    axes, targets = places(axes, input_data.ndim), numbers(shape)
    if len(targets) != len(axes):
        raise ValueError(f"shape must have a number for each of {len(axes)} axes; got {targets}")
    widths = [(0, 0)] * input_data.ndim
    for axis, target in zip(axes, targets, strict=True):
        missing = target - input_data.shape[axis]
        # The odd element is added at the end, and taken off at the end.
        before = missing // 2 if missing > 0 else -(-missing // 2)
        widths[axis] = (before, missing - before)
    return _framed(_cut(input_data, widths), widths, zero(input_data.dtype))


for _op in ("Pad", "CenterCropPad"):
    say(_op, traced=True)
