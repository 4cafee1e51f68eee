"""What depends on the elements' values: TopK, Unique, NonZero."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place
from mdf_loop.ops.batching import along
from mdf_loop.ops.registry import kernel


@kernel("TopK", since=11, batch=along("axis", -1))
def top_k(X, K, *, axis=-1, largest=1, sorted=1):
    """The k largest or smallest elements along an axis and their places, the best first, equal ones by place."""
    if K.size != 1:
        raise ValueError(f"K must be one number; got shape {list(K.shape)}")
    return _best(X, int(K.item()), axis, largest)


@kernel("TopK", since=10, batch=along("axis", -1))
def top_k_10(X, K, *, axis=-1):
    """The k largest elements along an axis and their places."""
    return top_k(X, K, axis=axis)


@kernel("TopK", since=1, batch=along("axis", -1))
def top_k_1(X, *, k, axis=-1):
    """The k largest elements along an axis and their places."""
    return _best(X, k, axis, largest=1)


def _best(x: Any, k: int, axis: int, largest: int) -> tuple[Any, Any]:
    axis = place(axis, x.ndim)
    length = x.shape[axis]
    if not 0 <= k <= length:
        raise ValueError(f"K must be in [0, {length}], the elements along axis {axis}; got {k}")
    if k == 1 and largest:  # the likeliest of a hundred thousand words is found without sorting
        where = x.argmax(axis, keepdims=True)
        return np.take_along_axis(x, where, axis), where
    if axis == x.ndim - 1:
        where = _places(x, k, largest)
        return _taken(x, where), where
    lanes = x.swapaxes(axis, -1).astype(x.dtype, order="C", copy=False)
    where = _places(lanes, k, largest)
    found = (_taken(lanes, where), where)
    return tuple(each.swapaxes(axis, -1).astype(each.dtype, order="C", copy=False) for each in found)


def _places(x: Any, k: int, largest: int) -> np.ndarray:
    """Where the k best elements of the last axis are, the best first."""
    length = x.shape[-1]
    is_foreign = not isinstance(x, np.ndarray)  # of a library that sorts as well as it can
    if is_foreign or x.dtype.kind not in "fiu" or length < FEW or not 0 < k <= length // 4 or not x.size:
        return _sorted(x, k, largest)
    candidates = _candidates(x, k, largest)
    if candidates is not None:
        # Back to front twice: the largest come first, but equal ones still in their order.
        candidates = candidates[..., ::-1] if largest else candidates
        order = _taken(x, candidates).argsort(-1, "stable")
        return _taken(candidates, (order[..., ::-1] if largest else order)[..., :k])
    if x.ndim == 1 or length < MANY:
        return _sorted(x, k, largest)
    return np.array([_places(lane, k, largest) for lane in x.reshape(-1, length)]).reshape(*x.shape[:-1], k)


SEVERAL = 16
"""Times as many parts as elements to be found."""

FEW, MANY = 100, 256
"""Elements from which on it is faster to sort the best alone, and to look at each lane of many alone."""


def _candidates(x: Any, k: int, largest: int) -> np.ndarray | None:
    """Places, rising, of those that are at least as good as the k-th best: all that have to be sorted.

    None if lanes differ in how many these are, because of ties or NaN.
    """
    if x.ndim == 1 and x.size >= SEVERAL * k * k and largest and x.dtype.kind == "f":
        # The k-th best of the best of many parts is no better than the k-th best of all.
        bests = np.sort(x[: x.size // (SEVERAL * k) * (SEVERAL * k)].reshape(-1, SEVERAL * k).max(0))
        return (~(x < bests[-k])).nonzero()[0]
    kth = x.shape[-1] - k if largest else k - 1
    parted = x.copy()
    parted.partition(kth)
    limit = parted[kth] if x.ndim == 1 else parted[..., kth, None]
    worse = x < limit if largest else x > limit
    found = (~worse).ravel().nonzero()[0]  # NaN is not worse than anything, so it is sorted too
    if x.ndim == 1:
        return found
    length, lanes = x.shape[-1], x.size // x.shape[-1]
    if len(found) > lanes * k:
        return None
    return (found.reshape(lanes, k) - length * np.arange(lanes)[:, None]).reshape(*x.shape[:-1], k)


def _sorted(x: Any, k: int, largest: int) -> np.ndarray:
    """The first k places of a stable sort from the best element to the worst."""
    if not largest:
        return x.argsort(-1, "stable")[..., :k].astype(np.int64, order="C", copy=False)
    backwards = x[..., ::-1].argsort(-1, "stable")[..., ::-1]
    return x.shape[-1] - 1 - backwards[..., :k]


def _taken(x: Any, where: np.ndarray) -> Any:
    """The elements at places of the last axis."""
    return x.take(where) if x.ndim == 1 else np.take_along_axis(x, where, -1)


@kernel("Unique", since=11)
def unique(X, *, axis=None, sorted=1):
    """The different elements, or slices along an axis; their first places, the place of each in the result, and counts."""
    if X.dtype.hasobject and axis is not None:
        codes = np.unique(X, return_inverse=True)[1].reshape(X.shape)  # numbers that are in the texts' order
        _, first, inverse, counts = np.unique(codes, True, True, True, axis)
    else:
        _, first, inverse, counts = np.unique(X, True, True, True, axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        by_place = first.argsort()
        first, counts = first[by_place], counts[by_place]
        inverse = by_place.argsort()[inverse]
    return X.ravel()[first] if axis is None else X.take(first, axis), first, inverse, counts


@kernel("NonZero", since=9)
def non_zero(X):
    """The places of the elements that are not zero, one row for each axis; a scalar has none, so 0 rows."""
    if X.ndim == 0:
        return np.zeros((0, int(bool(X))), np.int64)
    return np.array(X.nonzero(), np.int64)
