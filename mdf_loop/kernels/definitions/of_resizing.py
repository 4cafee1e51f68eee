"""Axes resized: elements picked, or matrices of weights multiplied with, that are known beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import places
from mdf_loop.kernels.definitions.of_shapes import rank_of
from mdf_loop.kernels.networks.interpolation import ROUNDINGS, TRANSFORMATIONS, Axis, by_scales, by_sizes, terms_of, weights
from mdf_loop.ops.registry import definition
from mdf_loop.types.elements import kind_of

FLOAT64 = np.dtype(np.float64)


@definition("Resize", since=11, why="speed")
def resize(
    b,
    x,
    roi=None,
    scales=None,
    sizes=None,
    *,
    axes=None,
    coordinate_transformation_mode="half_pixel",
    keep_aspect_ratio_policy="stretch",
    extrapolation_value=0.0,
    **how,
):
    """To known sizes or by known scales, but for parts of the input."""
    along = places(axes, rank_of(x))
    given = [_numbers(v) for v in (scales, sizes)]
    if coordinate_transformation_mode == "tf_crop_and_resize" or bool(given[0]) == bool(given[1]):
        raise ValueError("a part of the input, or neither scales nor sizes")
    _check(x)
    if given[0]:
        layout = by_scales(x.type.shape, along, given[0])
    else:
        layout = by_sizes(x.type.shape, along, given[1], keep_aspect_ratio_policy)
    return _resized(b, x, layout, coordinate_transformation_mode, **how)


@definition("Resize", since=10, until=11, why="speed")
def resize_10(b, x, scales, *, mode="nearest"):
    """By known scales, places counted from the first element on."""
    return _by_scales(b, x, _numbers(scales), mode)


@definition("Upsample", since=9, why="speed")
def upsample(b, x, scales, *, mode="nearest"):
    """By known scales, places counted from the first element on."""
    return _by_scales(b, x, _numbers(scales), mode)


def _by_scales(b: Any, x: Any, scales: Sequence[float], mode: str) -> Any:
    _check(x)
    layout = by_scales(x.type.shape, range(rank_of(x)), scales)
    x = _resized(b, x, [a for a in layout if a.scale >= 1], "asymmetric", mode=mode, nearest_mode="floor")
    return _resized(b, x, [a for a in layout if a.scale < 1], "asymmetric", mode=mode, nearest_mode="ceil")


def _numbers(x: Any) -> list[float]:
    """What an input of numbers says, if it is there."""
    if x is not None and x.op != "const":
        raise ValueError("sizes that are computed")
    return [] if x is None or x.attr is None else np.atleast_1d(x.attr).tolist()


def _check(x: Any) -> None:
    if not x.type.is_static or not all(x.type.shape):
        raise ValueError("open lengths, or nothing to resize")


def _resized(
    b: Any,
    x: Any,
    axes: Sequence[Axis],
    transformation: str,
    *,
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    antialias: int = 0,
    exclude_outside: int = 0,
) -> Any:
    y, dtype = x, x.type.dtype
    if mode != "nearest" and kind_of(dtype) != "float":
        raise ValueError("whole numbers are weighed in another way")
    for axis in axes:
        where = TRANSFORMATIONS[transformation](np.arange(axis.after, dtype=np.float64), axis)
        if axis.before == axis.after and np.array_equal(where, np.arange(axis.before)):
            continue
        if mode == "nearest":
            picked = np.clip(ROUNDINGS[nearest_mode](where), 0, axis.before - 1).astype(np.int64)
            shape = tuple(axis.after if k == axis.axis else n for k, n in enumerate(y.type.shape))
            y = b.put_in("gather", (y, b.const(picked)), y.type.__class__(dtype, shape), axis.axis)
        else:
            matrix = weights(where, axis, mode, cubic_coeff_a, antialias, exclude_outside)
            y = _weighed(b, b.cast(y, FLOAT64), matrix, axis.axis)
    return b.cast(y, dtype)


def _weighed(b: Any, y: Any, matrix: np.ndarray, axis: int) -> Any:
    """The product of a matrix with an axis."""
    rank, terms = rank_of(y), terms_of(matrix)
    if terms is not None:
        return _added_up(b, y, terms, axis)
    order = [axis, *(k for k in range(rank) if k != axis)]
    front = b.transpose(y, order)
    rest = front.type.shape[1:]
    flat = b.reshape(front, (matrix.shape[1], math.prod(rest)))
    found = b.put_in("dot", (b.const(matrix), flat), y.type.__class__(FLOAT64, (len(matrix), math.prod(rest))))
    return b.transpose(b.reshape(found, (len(matrix), *rest)), [order.index(k) for k in range(rank)])


def _added_up(b: Any, y: Any, terms: Sequence[tuple[np.ndarray, np.ndarray]], axis: int) -> Any:
    """Some elements of an axis for each of another one, times what they count, one after the other."""
    shape = (*y.type.shape[:axis], len(terms[0][0]), *y.type.shape[axis + 1 :])
    total: Any = None
    for found, shares in terms:
        part = b.put_in("gather", (y, b.const(found)), y.type.__class__(FLOAT64, shape), axis)
        part = b.mul(part, b.const(shares.reshape(-1, *(1,) * (len(shape) - 1 - axis))))
        total = part if total is None else b.add(total, part)
    return total
