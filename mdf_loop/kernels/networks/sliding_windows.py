"""Sliding windows over the spatial axes, for convolution and pooling."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.bounds import shape_for

AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True, eq=False)
class Windows:
    """Where the windows lie.

    Attributes
    ----------
    kernel, strides, dilations, out : tuple of int
        For each spatial axis; ``out`` counts the windows.
    pads : tuple of (int, int)
        Padding in front and behind, as the node asks.
    reach : tuple of int
        Length from the first element of the padded input to the last of the last window.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    out: tuple[int, ...]
    reach: tuple[int, ...]

    def of(self, x: np.ndarray, fill: Any = 0) -> np.ndarray:
        """A view of all windows on x, padded with ``fill``: shape (..., *out, *kernel)."""
        x = self.padded(x, fill)
        if not isinstance(x, np.ndarray):  # of another library, whose arrays have no strides
            for axis in range(len(self.out)):
                x = np.stack([*self.taps(x, axis)])
            return np.moveaxis(x, range(len(self.out)), range(-1, -1 - len(self.out), -1))
        front = x.ndim - len(self.out)
        steps = x.strides[front:]
        shape = (*x.shape[:front], *self.out, *self.kernel)
        moves = [step * s for step, s in zip(steps, self.strides, strict=True)]
        inner = [step * d for step, d in zip(steps, self.dilations, strict=True)]
        return np.lib.stride_tricks.as_strided(x, shape, (*x.strides[:front], *moves, *inner), writeable=False)

    def padded(self, x: np.ndarray, fill: Any) -> np.ndarray:
        """x with ``fill`` around it, as far as the windows reach."""
        spatial = x.shape[x.ndim - len(self.out) :]
        # With ceil_mode the last window may reach beyond the padding.
        behind = [max(end, r - n - begin) for n, r, (begin, end) in zip(spatial, self.reach, self.pads, strict=True)]
        widths = [(0, 0)] * (x.ndim - len(self.out)) + [(p[0], b) for p, b in zip(self.pads, behind, strict=True)]
        if not any(map(any, widths)):
            return x
        shape = shape_for([n + sum(pair) for n, pair in zip(x.shape, widths, strict=True)], x.itemsize, "the padded input")
        padded = np.full_like(x, fill, order="C", shape=shape)
        padded[tuple(slice(begin, begin + n) for n, (begin, _) in zip(x.shape, widths, strict=True))] = x
        return padded

    def reduced(self, x: np.ndarray, combine: np.ufunc, fill: Any = 0) -> np.ndarray:
        """All elements of each window combined, along one axis after the other: shape (..., *out)."""
        x = self.padded(x, fill)
        for axis in range(len(self.out)):
            first, *others = self.taps(x, axis)
            total = combine(first, others[0]) if others else first
            for other in others[1:]:
                combine(total, other, out=total)
            x = total
        return x

    def taps(self, x: np.ndarray, axis: int) -> Iterator[np.ndarray]:
        """The first elements of all windows along a spatial axis, their second ones, ...: views of padded x."""
        front = (slice(None),) * (x.ndim - len(self.out) + axis)
        stride, length = self.strides[axis], self.strides[axis] * (self.out[axis] - 1) + 1
        for k in range(self.kernel[axis]):
            start = k * self.dilations[axis]
            yield x[(*front, slice(start, max(start + length, start), stride))]


def windows(
    spatial: Sequence[int],
    kernel: Sequence[int],
    *,
    auto_pad: str = "NOTSET",
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    ceil_mode: int = 0,
) -> Windows:
    """Lay out windows over an input of the given spatial shape, by the attributes ONNX has for it."""
    strides, dilations, pads = strides and tuple(strides), dilations and tuple(dilations), pads and tuple(pads)
    return _laid_out(tuple(spatial), tuple(kernel), auto_pad, strides, dilations, pads, ceil_mode)


@functools.lru_cache(maxsize=256)
def _laid_out(
    spatial: tuple[int, ...],
    kernel: tuple[int, ...],
    auto_pad: str,
    strides: tuple[int, ...] | None,
    dilations: tuple[int, ...] | None,
    pads: tuple[int, ...] | None,
    ceil_mode: int,
) -> Windows:
    """Worked out once for each shape: it takes longer than a small convolution."""
    rank = len(spatial)
    strides, dilations = per_axis(strides, rank, "strides"), per_axis(dilations, rank, "dilations")
    if len(kernel) != rank:
        raise ValueError(f"kernel_shape has {len(kernel)} entries for {rank} spatial axes")
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        out = [-(-n // s) for n, s in zip(spatial, strides, strict=True)]
        total = [max((o - 1) * s + e - n, 0) for o, s, e, n in zip(out, strides, extents, spatial, strict=True)]
        both = tuple(halves(t, upper=auto_pad == "SAME_UPPER") for t in total)
    else:
        both = pairs(pads if auto_pad == "NOTSET" else None, rank, auto_pad)
        out = [_count(*axis, ceil_mode) for axis in zip(spatial, both, extents, strides, strict=True)]
    reach = tuple(max(o - 1, 0) * s + e for o, s, e in zip(out, strides, extents, strict=True))
    return Windows(tuple(kernel), strides, dilations, both, tuple(out), reach)


def _count(n: int, pads: tuple[int, int], extent: int, stride: int, ceil_mode: int) -> int:
    """How many windows fit; one that would begin behind the input does not count."""
    room = n + sum(pads) - extent
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (count - 1) * stride >= n + pads[0]:
        count -= 1
    if count < 0:
        raise ValueError(f"a window of {extent} does not fit into {n} elements and {sum(pads)} of padding")
    return count


def per_axis(values: Sequence[int] | None, rank: int, name: str) -> tuple[int, ...]:
    """An attribute with one number an axis; 1 where it is omitted."""
    values = tuple(values or (1,) * rank)
    if len(values) != rank or min(values, default=1) < 1:
        raise ValueError(f"{name} must have a positive number for each of {rank} spatial axes; got {list(values)}")
    return values


def pairs(pads: Sequence[int] | None, rank: int, auto_pad: str = "NOTSET") -> tuple[tuple[int, int], ...]:
    """The attribute ``pads`` as (front, behind) of each axis; 0 where it is omitted."""
    if auto_pad not in AUTO_PADS:
        raise ValueError(f"auto_pad must be one of {', '.join(AUTO_PADS)}; got {auto_pad!r}")
    pads = tuple(pads or (0,) * (2 * rank))
    if len(pads) != 2 * rank or min(pads, default=0) < 0:
        raise ValueError(f"pads must have {2 * rank} numbers, none negative, for {rank} spatial axes; got {list(pads)}")
    return tuple(zip(pads[:rank], pads[rank:], strict=True))


def halves(total: int, *, upper: bool) -> tuple[int, int]:
    """Padding split in two; an odd one goes behind (upper) or in front (lower)."""
    return (total // 2, total - total // 2) if upper else (total - total // 2, total // 2)
