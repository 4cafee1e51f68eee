"""Softmax and its relatives, and the losses built on it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import is_seen, place
from mdf_loop.ops.batching import along
from mdf_loop.ops.registry import kernel, say


@kernel("Softmax", since=13, batch=along("axis", -1))
def softmax(x, *, axis=-1):
    """exp(x) divided by its sum along the axis."""
    if x.itemsize < 4:
        return _in_half(x, axis)
    if is_seen(x) and x.size and x.shape[-1:] == (x.size,) and axis in (-1, x.ndim - 1):
        return _of_one_row(x.ravel()).reshape(x.shape)
    # The largest element is taken off so that exp cannot overflow; an empty axis has none.
    y = x - np.maximum.reduce(x, axis, None, None, True, -np.inf)
    np.exp(y, y)
    y /= np.add.reduce(y, axis, None, None, True)
    return y


def _of_one_row(x):
    """Softmax of one row, as attention has it: the same numbers, with less overhead than several axes have."""
    y = x - x[x.argmax()]
    np.exp(y, y)
    y /= np.add.reduce(y)
    return y


def _in_half(x, axis):
    """Each step rounded to the type of x, as ONNX's own definition rounds it."""
    y = np.exp(x - np.maximum.reduce(x, axis, None, None, True, -np.inf))
    # Only a long sum is not: in bfloat16, 256 and one more is 256.
    precision = np.float32 if x.shape[axis] > 8 else None
    return y / np.add.reduce(y, axis, precision, None, True).astype(x.dtype, copy=False)


@kernel("LogSoftmax", since=13, batch=along("axis", -1))
def log_softmax(x, *, axis=-1):
    """x less the logarithm of the sum of exp(x) along the axis."""
    if x.itemsize < 4:
        return log_softmax(x.astype(np.float32), axis=axis).astype(x.dtype)
    y = x - np.maximum.reduce(x, axis, None, None, True, -np.inf)
    y -= np.log(np.add.reduce(np.exp(y), axis, None, None, True))
    return y


@kernel("Hardmax", since=13, batch=along("axis", -1))
def hardmax(x, *, axis=-1):
    """1 at the first largest element along the axis, 0 elsewhere."""
    if not x.size:
        return np.zeros_like(x)
    axis = place(axis, x.ndim)
    numbers = np.arange(x.shape[axis]).reshape(-1, *(1,) * (x.ndim - 1 - axis))
    return (numbers == np.expand_dims(x.argmax(axis), axis)).astype(x.dtype)


def _from_axis_on(run: Callable[..., Any]) -> Callable[..., Any]:
    """The same over all axes from ``axis`` on, taken as one."""

    def of_matrix(x, *, axis=1):
        return run(_matrix(x, axis)).reshape(x.shape)

    return of_matrix


for _op, _run in (("Softmax", softmax), ("LogSoftmax", log_softmax), ("Hardmax", hardmax)):
    kernel(_op, since=1, batch=along("axis", 1))(_from_axis_on(_run))
    say(_op, traced=True)


def _matrix(x: np.ndarray, axis: int) -> np.ndarray:
    """x as a matrix: the axes in front of ``axis``, and the others."""
    if not -x.ndim <= axis <= x.ndim:
        raise ValueError(f"axis {axis} is out of range for an input of rank {x.ndim}")
    axis %= x.ndim + (axis >= 0)
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _in_float32(loss: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Half precision is too little to add up many samples in."""

    @functools.wraps(loss)
    def wide(scores, labels, weights=None, **attrs):
        if scores.itemsize >= 4:
            return loss(scores, labels, weights, **attrs)
        weights = None if weights is None else weights.astype(np.float32)
        return tuple(o.astype(scores.dtype) for o in loss(scores.astype(np.float32), labels, weights, **attrs))

    return wide


@kernel("NegativeLogLikelihoodLoss", since=12)
@_in_float32
def negative_log_likelihood_loss(input, target, weight=None, *, ignore_index=None, reduction="mean"):
    """Minus the input at each sample's class, weighted by class, then reduced."""
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f"reduction must be none, sum or mean; got {reduction!r}")
    classes, weights = _weights(target, weight, ignore_index, input)
    loss = -np.take_along_axis(input, classes[:, None], 1)[:, 0]
    if weights is not None:
        loss = loss * weights
    if ignore_index is not None:  # nothing, even where the input is infinite
        loss = np.where(target == ignore_index, input.dtype.type(0), loss)
    if reduction == "none":
        return (loss,)
    total = loss.sum()
    if reduction == "sum":
        return (total,)
    return (total / (np.ones_like(loss) if weights is None else weights).sum(),)


@kernel("SoftmaxCrossEntropyLoss", since=12)
@_in_float32
def softmax_cross_entropy_loss(scores, labels, weights=None, *, ignore_index=None, reduction="mean"):
    """The negative log likelihood loss of LogSoftmax(scores); the second output is LogSoftmax(scores)."""
    log_prob = log_softmax(scores, axis=1)
    (loss,) = negative_log_likelihood_loss(log_prob, labels, weights, ignore_index=ignore_index, reduction=reduction)
    return loss, log_prob


def _weights(target: Any, weight: Any, ignore_index: int | None, like: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Each sample's class (any valid one where it is ignored) and weight; None where all weigh 1."""
    counts = None if ignore_index is None else target != ignore_index
    classes = target if counts is None else np.where(counts, target, 0)
    if is_seen(classes) and classes.size and not (classes.min() >= 0 and classes.max() < like.shape[1]):
        raise ValueError(f"classes must be in [0, {like.shape[1]}); got {classes.min()} to {classes.max()}")
    weights = None if weight is None else weight[classes]
    if counts is None:
        return classes, weights
    return classes, counts.astype(like.dtype) if weights is None else np.where(counts, weights, like.dtype.type(0))
