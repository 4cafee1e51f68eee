"""Interpolation: Resize and Upsample, along one axis after the other, and GridSample, at any places."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.bounds import shape_for
from mdf_loop.ops.batching import by_step, folding
from mdf_loop.ops.registry import kernel, say


@dataclass(frozen=True)
class Axis:
    """One axis to be resized.

    Attributes
    ----------
    axis, before, after : int
        Which one, and its length before and after.
    scale, exact : float
        Ratio of the lengths, and the length after it before rounding down.
    start, end : float
        The part of the input that is shown (``tf_crop_and_resize``).
    """

    axis: int
    before: int
    after: int
    scale: float
    exact: float
    start: float = 0.0
    end: float = 1.0


Transformation = Callable[[np.ndarray, Axis], np.ndarray]

TRANSFORMATIONS: dict[str, Transformation] = {
    "half_pixel": lambda x, a: (x + 0.5) / a.scale - 0.5,
    "half_pixel_symmetric": lambda x, a: a.before / 2 * (1 - a.after / a.exact) + (x + 0.5) / a.scale - 0.5,
    "pytorch_half_pixel": lambda x, a: (x + 0.5) / a.scale - 0.5 if a.after > 1 else np.zeros_like(x),
    "align_corners": lambda x, a: x * (a.before - 1) / (a.exact - 1) if a.exact != 1 else np.zeros_like(x),
    "asymmetric": lambda x, a: x / a.scale,
    "tf_half_pixel_for_nn": lambda x, a: (x + 0.5) / a.scale,
    "tf_crop_and_resize": lambda x, a: (
        (a.before - 1)
        * (a.start + x * (a.end - a.start) / (a.after - 1) if a.after > 1 else np.full_like(x, (a.start + a.end) / 2))
    ),
}
"""Where in the input each element of the output lies."""

ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def chosen(table: Mapping[str, Any], name: str, attribute: str) -> Any:
    """The entry of a table; an error that lists them all if there is none of that name."""
    if name not in table:
        raise ValueError(f"{attribute} must be one of {', '.join(table)}; got {name!r}")
    return table[name]


def triangle(t: np.ndarray) -> np.ndarray:
    """The weight of a neighbour at distance t in linear interpolation."""
    return np.maximum(1 - np.abs(t), 0)


def cubic(t: np.ndarray, a: float) -> np.ndarray:
    """The weight of a neighbour at distance t in cubic interpolation."""
    t = np.abs(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


def weights(where: np.ndarray, axis: Axis, mode: str, cubic_coeff_a: float, antialias: int, exclude_outside: int) -> np.ndarray:
    """A matrix: what each element of the input counts in each element of the output."""
    radius, function = {"linear": (1, triangle), "cubic": (2, lambda t: cubic(t, cubic_coeff_a))}[mode]
    stretch = min(axis.scale, 1.0) if antialias else 1.0
    reach = int(np.ceil(radius / stretch))
    neighbours = np.floor(where)[:, None] + np.arange(1 - reach, reach + 1)
    counts = function((neighbours - where[:, None]) * stretch)
    if exclude_outside:
        counts = np.where((neighbours < 0) | (neighbours > axis.before - 1), 0, counts)
    if antialias or exclude_outside:
        counts /= counts.sum(1, keepdims=True)
    matrix = np.zeros((axis.after, axis.before))
    rows = np.arange(axis.after)[:, None]
    np.add.at(matrix, (rows, np.clip(neighbours, 0, axis.before - 1).astype(np.intp)), counts)
    return matrix


def terms_of(matrix: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """What a matrix of weights adds up: places in the input and what they count, each for all elements of the output."""
    counts = (matrix != 0).sum(1)
    most = int(counts.max(initial=1))
    order = np.argsort(matrix == 0, 1, kind="stable")[:, :most]  # those that count first, in the order of their places
    order = np.where(np.arange(most) < counts[:, None], order, order[:, :1])
    shares = np.take_along_axis(matrix, order, 1) * (np.arange(most) < counts[:, None])
    return [(np.ascontiguousarray(order[:, k]), np.ascontiguousarray(shares[:, k])) for k in range(most)]


def _weighed(y: np.ndarray, matrix: np.ndarray, axis: int) -> np.ndarray:
    """A matrix of weights times an axis, in float64; an element that does not count may be infinite."""
    y = y.astype(np.float64, copy=False)
    spread = (-1, *(1,) * (y.ndim - 1 - axis))
    return functools.reduce(np.add, (y.take(places, axis) * shares.reshape(spread) for places, shares in terms_of(matrix)))


def resized(
    x: np.ndarray,
    axes: Sequence[Axis],
    *,
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    coordinate_transformation_mode: str = "half_pixel",
    extrapolation_value: float = 0.0,
    cubic_coeff_a: float = -0.75,
    antialias: int = 0,
    exclude_outside: int = 0,
) -> np.ndarray:
    """x with some of its axes resized."""
    transform = chosen(TRANSFORMATIONS, coordinate_transformation_mode, "coordinate_transformation_mode")
    chosen({"nearest": 0, "linear": 0, "cubic": 0}, mode, "mode")
    y, outside = x, []
    after = {axis.axis: axis.after for axis in axes}
    shape_for([after.get(k, n) for k, n in enumerate(x.shape)], x.itemsize)
    for axis in axes:
        shape_for((axis.after, max(axis.before, 1) if mode != "nearest" else 1), 8, "the table of weights")
        where = transform(np.arange(axis.after, dtype=np.float64), axis)
        if coordinate_transformation_mode == "tf_crop_and_resize":
            outside.append((axis.axis, (where < 0) | (where > axis.before - 1)))
        if axis.before == axis.after and np.array_equal(where, np.arange(axis.before)):
            continue
        if mode == "nearest":
            nearest = chosen(ROUNDINGS, nearest_mode, "nearest_mode")(where)
            y = y.take(np.clip(nearest, 0, axis.before - 1).astype(np.intp), axis.axis)
        else:
            matrix = weights(where, axis, mode, cubic_coeff_a, antialias, exclude_outside)
            y = _weighed(y, matrix, axis.axis)
    y = y.astype(x.dtype, order="C", copy=False)
    for place, rows in outside:
        if rows.any():
            y = y.copy() if y is x else y
            np.moveaxis(y, place, 0)[rows] = extrapolation_value
    return y


def by_scales(
    shape: Sequence[int], axes: Sequence[int], scales: Sequence[float], roi: Sequence[float] | None = None
) -> list[Axis]:
    """Axes of which the scales are given."""
    starts, ends = _parts(roi, len(axes))
    # The text shortens the output with the part shown; onnx's own shape inference and all runtimes do not.
    lengths = [shape[a] * float(s) for a, s in zip(axes, scales, strict=True)]
    if any(s <= 0 for s in scales):
        raise ValueError(f"scales must be greater than 0; got {list(map(float, scales))}")
    return [
        Axis(a, shape[a], int(np.floor(length)), float(s), length, start, end)
        for a, s, length, start, end in zip(axes, scales, lengths, starts, ends, strict=True)
    ]


def by_sizes(
    shape: Sequence[int], axes: Sequence[int], sizes: Sequence[int], policy: str = "stretch", roi: Sequence[float] | None = None
) -> list[Axis]:
    """Axes of which the lengths are given, kept in proportion if the policy says so."""
    starts, ends = _parts(roi, len(axes))
    scales = [int(size) / shape[a] for a, size in zip(axes, sizes, strict=True)]
    if policy != "stretch":
        common = chosen({"not_larger": min, "not_smaller": max}, policy, "keep_aspect_ratio_policy")(scales)
        scales = [common] * len(axes)
        sizes = [int(np.floor(common * shape[a] + 0.5)) for a in axes]
    return [
        Axis(a, shape[a], int(size), s, float(size), start, end)
        for a, size, s, start, end in zip(axes, sizes, scales, starts, ends, strict=True)
    ]


def _parts(roi: Sequence[float] | None, count: int) -> tuple[list[float], list[float]]:
    """Start and end of the part shown along each axis: all of it if nothing is said."""
    if roi is None or len(roi) == 0:
        return [0.0] * count, [1.0] * count
    if len(roi) != 2 * count:
        raise ValueError(f"roi must have a start and an end for each of {count} axes; got {len(roi)} numbers")
    return [float(v) for v in roi[:count]], [float(v) for v in roi[count:]]


@kernel("Resize", since=11, batch=by_step)
def resize(
    x,
    roi=None,
    scales=None,
    sizes=None,
    *,
    antialias=0,
    axes=None,
    coordinate_transformation_mode="half_pixel",
    cubic_coeff_a=-0.75,
    exclude_outside=0,
    extrapolation_value=0.0,
    keep_aspect_ratio_policy="stretch",
    mode="nearest",
    nearest_mode="round_prefer_floor",
):
    """To given sizes or by given scales, with any of ONNX's ways to find and weigh the elements."""
    axes = [a % x.ndim for a in (range(x.ndim) if axes is None else axes)]
    part = roi if coordinate_transformation_mode == "tf_crop_and_resize" else None
    if (scales is None or not len(scales)) == (sizes is None or not len(sizes)):
        raise ValueError("Resize takes either scales or sizes")
    if sizes is None or not len(sizes):
        layout = by_scales(x.shape, axes, scales, part)
    else:
        layout = by_sizes(x.shape, axes, sizes, keep_aspect_ratio_policy, part)
    return resized(
        x,
        layout,
        mode=mode,
        nearest_mode=nearest_mode,
        coordinate_transformation_mode=coordinate_transformation_mode,
        extrapolation_value=extrapolation_value,
        cubic_coeff_a=cubic_coeff_a,
        antialias=antialias,
        exclude_outside=exclude_outside,
    )


@kernel("Resize", since=10, batch=by_step)
@kernel("Upsample", since=9, batch=by_step)
def upsample(x, scales, *, mode="nearest"):
    """By given scales, places counted from the first element on.

    The nearest element is the one before a place, and behind it where an axis shrinks, as in ONNX's cases.
    """
    layout = by_scales(x.shape, range(x.ndim), scales)
    longer, shorter = [a for a in layout if a.scale >= 1], [a for a in layout if a.scale < 1]
    x = resized(x, longer, mode=mode, nearest_mode="floor", coordinate_transformation_mode="asymmetric")
    return resized(x, shorter, mode=mode, nearest_mode="ceil", coordinate_transformation_mode="asymmetric")


@kernel("Upsample", since=7, batch=by_step)
def upsample_7(x, *, scales, mode="nearest"):
    """The scales are an attribute."""
    return upsample(x, np.array(scales, np.float32), mode=mode)


@kernel("Upsample", since=1, batch=by_step)
def upsample_1(x, *, height_scale, width_scale, mode="nearest"):
    """Height and width of images alone; linear is called bilinear."""
    return upsample(x, np.array([1, 1, height_scale, width_scale], np.float32), mode="linear" if mode == "bilinear" else mode)


PADDINGS = ("zeros", "border", "reflection")
FILTERS = {"linear": (1, triangle), "cubic": (2, lambda t: cubic(t, -0.75))}


for _op in ("Resize", "Upsample"):
    say(_op, traced=True)


@kernel("GridSample", since=20, batch=folding((0, 0)))
def grid_sample(x, grid, *, align_corners=0, mode="linear", padding_mode="zeros"):
    """Each place is a weighted sum of its neighbours, or the nearest of them."""
    if padding_mode not in PADDINGS:
        raise ValueError(f"padding_mode must be one of {', '.join(PADDINGS)}; got {padding_mode!r}")
    spatial = x.shape[2:]
    where = [_places(grid[..., -1 - k].astype(np.float64), n, align_corners) for k, n in enumerate(spatial)]
    look = _Looking(x, padding_mode, align_corners)
    if mode == "nearest":
        return look.up([np.rint(w) for w in where])
    radius, function = chosen(FILTERS, mode, "mode")
    total = None
    for offsets in itertools.product(range(1 - radius, radius + 1), repeat=len(spatial)):
        neighbours = [np.floor(w) + o for w, o in zip(where, offsets, strict=True)]
        part = look.up(
            neighbours, functools.reduce(np.multiply, [function(n - w) for n, w in zip(neighbours, where, strict=True)])
        )
        total = part if total is None else np.add(total, part, out=total)
    return total.astype(x.dtype, order="C", copy=False)


def _places(normalized: np.ndarray, length: int, align_corners: int) -> np.ndarray:
    """Positions along an axis, from -1 to 1, in units of its elements."""
    return (normalized + 1) / 2 * (length - 1) if align_corners else ((normalized + 1) * length - 1) / 2


class _Looking:
    """Looks up elements at whole positions, of which some may lie outside; behind all places there is one of zeros."""

    def __init__(self, x: np.ndarray, padding_mode: str, align_corners: int) -> None:
        samples, channels, *self.spatial = x.shape
        size = math.prod(self.spatial)
        self.table = np.zeros_like(x, order="C", shape=(samples, channels, size + 1))
        self.table[..., :size] = x.reshape(samples, channels, size)
        self.padding_mode, self.align_corners = padding_mode, align_corners

    def up(self, places: Sequence[np.ndarray], weight: np.ndarray | None = None) -> np.ndarray:
        """The elements, of shape (samples, channels, ...), times a weight in float64."""
        inside = functools.reduce(np.logical_and, [(p >= 0) & (p < n) for p, n in zip(places, self.spatial, strict=True)])
        if self.padding_mode == "reflection":
            places = [_reflected(p, n, self.align_corners) for p, n in zip(places, self.spatial, strict=True)]
        index = np.zeros(places[0].shape, np.intp)
        for place, n in zip(places, self.spatial, strict=True):
            index = index * n + np.clip(np.nan_to_num(place), 0, n - 1).astype(np.intp)
        if self.padding_mode == "zeros":
            index = np.where(inside, index, math.prod(self.spatial))
        found = np.stack([sample.take(at.reshape(-1), 1) for sample, at in zip(self.table, index, strict=True)])
        if weight is not None:
            found = found * weight.reshape(len(weight), 1, -1)
        return found.reshape(len(index), -1, *index.shape[1:])


def _reflected(place: np.ndarray, length: int, align_corners: int) -> np.ndarray:
    """Positions mirrored at the ends until they lie inside: at the centre of the last element, or at its edge."""
    if align_corners:
        period = max(2 * (length - 1), 1)
        within = np.mod(place, period)
        return np.where(within > length - 1, period - within, within)
    within = np.mod(place, 2 * length)
    return np.where(within >= length, 2 * length - 1 - within, within)


@kernel("GridSample", since=16, batch=folding((0, 0)))
def grid_sample_16(x, grid, *, align_corners=0, mode="bilinear", padding_mode="zeros"):
    """The modes of images have names of their own."""
    name = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return grid_sample(x, grid, align_corners=align_corners, mode=name, padding_mode=padding_mode)
