"""What depends on the elements' values: TopK, Unique, NonZero."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import is_seen, place
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
    if is_seen(x) and x.ndim == 1 and 0 < 4 * k <= length and x.dtype.kind in "fiu":
        left = _at_least_as_good(x, k, largest)
        if len(left) < length:
            found, where = _best(x[left], k, 0, largest)
            return found, left[where]
    ahead = (slice(None),) * axis
    turned = (*ahead, slice(None, None, -1 if largest else 1))  # from behind, so that equal ones are in their order in the end
    where = x[turned].argsort(axis, "stable")[turned][(*ahead, slice(k))]
    where = (length - 1 - where if largest else where).astype(np.int64, order="C", copy=False)
    return x.take(where) if x.ndim == 1 else np.take_along_axis(x, where, axis), where


def _at_least_as_good(x: np.ndarray, k: int, largest: int) -> np.ndarray:
    """The places of what is at least as good as the k-th best: all that has to be sorted.  NaN is, as it passes no comparison."""
    kth = len(x) - k if largest else k - 1
    limit = np.partition(x, kth)[kth]
    return np.flatnonzero(~(x < limit if largest else x > limit))


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
