"""Normalisation: taking off a mean and dividing by a spread, over one set of axes or another."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.numbers.wide import widened
from mdf_loop.ops.batching import along, by_step, folding
from mdf_loop.ops.registry import kernel, say
from mdf_loop.types.elements import DTYPES


def standardized(x: np.ndarray, axes: int | tuple[int, ...], epsilon: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x - mean) / sqrt(variance + epsilon), the mean, and 1 / sqrt(variance + epsilon)."""
    mean = mean_over(x, axes)
    deviation = x - mean
    inverse = 1 / np.sqrt(mean_over(np.square(deviation), axes) + x.dtype.type(epsilon))
    deviation *= inverse
    return deviation, mean, inverse


def mean_over(x: np.ndarray, axes: int | tuple[int, ...]) -> np.ndarray:
    """The mean, axes kept: a third of the overhead of the method ``mean``."""
    total = np.add.reduce(x, axes, None, None, True)
    total /= x.size / max(total.size, 1)
    return total


def per_channel(parameter: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A parameter of shape (C) as it broadcasts against x, of shape (N, C, ...)."""
    return widened(parameter).reshape(-1, *(1,) * (x.ndim - 2))


# Batch normalisation, where each channel is alone


@kernel("BatchNormalization", since=14, batch=by_step)
def batch_normalization(x, scale, b, input_mean, input_var, *, training_mode=0, momentum=0.9, epsilon=1e-5):
    """Each channel by the given statistics; in training by its own, which enter the running ones."""
    if not training_mode:
        return _by_statistics(x, scale, b, input_mean, input_var, epsilon)
    y, mean, var = _by_own_statistics(x, scale, b, _spatial_axes(x), epsilon)
    return y, _running(input_mean, mean, momentum), _running(input_var, var, momentum)


@kernel("BatchNormalization", since=9, batch=by_step)
def batch_normalization_9(x, scale, b, mean, var, *, momentum=0.9, epsilon=1e-5, n_outputs=1):
    """Training is asked for by naming the further outputs."""
    if n_outputs == 1:
        return _by_statistics(x, scale, b, mean, var, epsilon)
    return _trained(x, scale, b, mean, var, _spatial_axes(x), momentum, epsilon)


@kernel("BatchNormalization", since=7, batch=by_step)
def batch_normalization_7(x, scale, b, mean, var, *, spatial=1, momentum=0.9, epsilon=1e-5, n_outputs=1):
    """Without ``spatial`` every position has statistics of its own."""
    if n_outputs == 1:
        return _by_statistics(x, scale, b, mean, var, epsilon)
    return _trained(x, scale, b, mean, var, _spatial_axes(x) if spatial else (0,), momentum, epsilon)


@kernel("BatchNormalization", since=1, batch=by_step)
def batch_normalization_1(x, scale, b, mean, var, *, is_test=0, spatial=1, momentum=0.9, epsilon=1e-5, consumed_inputs=None):
    """Training unless ``is_test``, however many outputs are named."""
    if is_test:
        return _by_statistics(x, scale, b, mean, var, epsilon)
    return _trained(x, scale, b, mean, var, _spatial_axes(x) if spatial else (0,), momentum, epsilon)


def _spatial_axes(x: np.ndarray) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


def _by_statistics(x: Any, scale: Any, b: Any, mean: Any, var: Any, epsilon: float) -> np.ndarray:
    """(x - mean) / sqrt(var + epsilon) * scale + b, with the statistics given."""
    if scale.ndim == 1:
        scale, b, mean, var = (per_channel(p, x) for p in (scale, b, mean, var))
    y = widened(x) - widened(mean)
    y *= scale / np.sqrt(widened(var) + np.float32(epsilon))
    y += b
    return y.astype(x.dtype, copy=False)


def _by_own_statistics(x: Any, scale: Any, b: Any, axes: tuple[int, ...], epsilon: float) -> tuple[np.ndarray, ...]:
    """The output, and the mean and variance of x, of the shape of ``scale``."""
    wide = widened(x)
    mean, var = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    y = _by_statistics(x, scale, b, mean.reshape(scale.shape), var.reshape(scale.shape), epsilon)
    return y, mean.reshape(scale.shape), var.reshape(scale.shape)


def _running(old: np.ndarray, new: np.ndarray, momentum: float) -> np.ndarray:
    return (widened(old) * momentum + new * (1 - momentum)).astype(old.dtype)


def _trained(
    x: Any, scale: Any, b: Any, mean: Any, var: Any, axes: tuple[int, ...], momentum: float, epsilon: float
) -> tuple[np.ndarray, ...]:
    """The five outputs of training before version 14: Y, running and saved statistics."""
    y, own_mean, own_var = _by_own_statistics(x, scale, b, axes, epsilon)
    saved = own_mean.astype(mean.dtype), own_var.astype(var.dtype)
    return y, _running(mean, own_mean, momentum), _running(var, own_var, momentum), *saved


# Normalisation of one sample, or of a group of its channels


@kernel("InstanceNormalization", batch=by_step)
def instance_normalization(input, scale, b, *, epsilon=1e-5, consumed_inputs=None):
    """Each channel of each sample by its own statistics."""
    y, _, _ = standardized(widened(input), tuple(range(2, input.ndim)), epsilon)
    y = y * per_channel(scale, input) + per_channel(b, input)
    return y.astype(input.dtype, copy=False)


@kernel("GroupNormalization", since=21, batch=by_step)
def group_normalization(x, scale, bias, *, num_groups, epsilon=1e-5, stash_type=1):
    """Each group of channels of each sample by its own statistics; scale and bias for each channel."""
    shape = (x.shape[0], num_groups, x.shape[1] // num_groups, *x.shape[2:])
    if x.shape[1] % num_groups:
        raise ValueError(f"{x.shape[1]} channels cannot be divided into {num_groups} groups")
    grouped = x.astype(DTYPES[stash_type], copy=False).reshape(shape)
    y = standardized_in(grouped, tuple(range(2, grouped.ndim)), epsilon)[0].reshape(x.shape).astype(x.dtype)
    return y * _channels(scale, x) + _channels(bias, x)


@kernel("GroupNormalization", since=18, batch=by_step)
def group_normalization_18(x, scale, bias, *, num_groups, epsilon=1e-5):
    """Scale and bias are given for each group."""
    size = x.shape[1] // num_groups
    return group_normalization(x, scale.repeat(size), bias.repeat(size), num_groups=num_groups, epsilon=epsilon)


def _channels(parameter: np.ndarray, x: np.ndarray) -> np.ndarray:
    return parameter.reshape(-1, *(1,) * (x.ndim - 2))


def standardized_in(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> tuple[np.ndarray, ...]:
    """:func:`standardized` with results in the type of x, which may be too small to add up in."""
    return tuple(part.astype(x.dtype, copy=False) for part in standardized(widened(x), axes, epsilon))


# Normalisation of the last axes


@kernel("LayerNormalization", since=17, batch=by_step)
def layer_normalization(x, scale, b=None, *, axis=-1, epsilon=1e-5, stash_type=1):
    """Standardised over the axes from ``axis`` on, scaled and shifted; also mean and 1 / standard deviation."""
    normalized, mean, inverse = standardized_in(x.astype(DTYPES[stash_type], copy=False), _from(axis, x), epsilon)
    y = normalized.astype(x.dtype, copy=False)
    y *= scale  # in place: a scale that does not fit cannot enlarge the output
    if b is not None:
        y += b
    return y, mean, inverse


@kernel("RMSNormalization", since=23, batch=by_step)
def rms_normalization(x, scale, *, axis=-1, epsilon=1e-5, stash_type=1):
    """Divided by the root of the mean square over the axes from ``axis`` on, and scaled."""
    wide = widened(x.astype(DTYPES[stash_type], copy=False))
    y = wide / np.sqrt(mean_over(np.square(wide), _from(axis, x)) + wide.dtype.type(epsilon))
    y = y.astype(DTYPES[stash_type], copy=False).astype(x.dtype, copy=False).astype(scale.dtype, copy=False)
    y *= scale
    return y


def _from(axis: int, x: np.ndarray) -> tuple[int, ...]:
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis {axis} is out of range for an input of rank {x.ndim}")
    return tuple(range(axis % x.ndim, x.ndim))


# Others


@kernel("LpNormalization", batch=along("axis", -1))
def lp_normalization(input, *, axis=-1, p=2):
    """Divided by the sum of magnitudes, or by the root of the sum of squares; zeros stay zeros."""
    wide = widened(input)
    if p == 1:
        norm = np.abs(wide).sum(axis, keepdims=True)
    elif p == 2:
        norm = np.sqrt(np.square(wide).sum(axis, keepdims=True))
    else:
        raise ValueError(f"p must be 1 or 2; got {p}")
    return np.divide(wide, norm, out=np.zeros_like(wide), where=norm != 0).astype(input.dtype, copy=False)


@kernel("MeanVarianceNormalization", since=9, batch=by_step)
def mean_variance_normalization(x, *, axes=(0, 2, 3)):
    """(x - mean) / standard deviation."""
    wide = widened(x)
    mean, deviation = wide.mean(tuple(axes), keepdims=True), wide.std(tuple(axes), keepdims=True)
    return ((wide - mean) / (deviation + np.float32(1e-9))).astype(x.dtype, copy=False)


@kernel("LRN", batch=folding())
def lrn(x, *, size, alpha=1e-4, beta=0.75, bias=1.0):
    """Divided by a power of the squares summed over the neighbouring channels."""
    wide = widened(x)
    before = (size - 1) // 2
    square = np.pad(np.square(wide), [(0, 0), (before, size - 1 - before)] + [(0, 0)] * (x.ndim - 2))
    near = np.lib.stride_tricks.sliding_window_view(square, size, axis=1).sum(axis=-1)
    return (wide / (bias + alpha / size * near) ** beta).astype(x.dtype, copy=False)


for _op in ("BatchNormalization", "InstanceNormalization", "GroupNormalization", "LayerNormalization", "RMSNormalization"):
    say(_op, traced=True)
for _op in ("LpNormalization", "MeanVarianceNormalization"):
    say(_op, traced=True)
