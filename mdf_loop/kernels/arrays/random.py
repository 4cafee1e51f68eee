"""Random numbers, drawn from the run's generator; Dropout, an identity except where a node asks for training."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.bounds import shape_for
from mdf_loop.kernels.numbers.casting import element_type
from mdf_loop.ops.batching import elementwise
from mdf_loop.ops.registry import kernel, say
from mdf_loop.ops.rows import Known
from mdf_loop.types.elements import FLOATS


def floating(number: int | None, like: Any = None) -> np.dtype:
    """The type of a number, or of a tensor to be like; it must be a floating-point type.

    Raises
    ------
    TypeError
        It is another type.
    """
    dtype = like.dtype if number is None else element_type(number)
    if dtype not in FLOATS:
        raise TypeError(f"random numbers have a floating-point type; got {dtype.name}")
    return dtype


@kernel("RandomNormal")
def random_normal(*, shape, dtype=1, mean=0.0, scale=1.0, seed=None, rng):
    """Numbers of a normal distribution."""
    return np.asarray(rng.normal(mean, scale, shape_for(shape, 8))).astype(floating(dtype))


@kernel("RandomNormalLike")
def random_normal_like(x, *, dtype=None, mean=0.0, scale=1.0, seed=None, rng):
    """Numbers of a normal distribution, in the shape of x."""
    return np.asarray(rng.normal(mean, scale, x.shape)).astype(floating(dtype, x))


@kernel("RandomUniform")
def random_uniform(*, shape, dtype=1, low=0.0, high=1.0, seed=None, rng):
    """Numbers that are equally likely anywhere from low to high."""
    return np.asarray(rng.uniform(low, high, shape_for(shape, 8))).astype(floating(dtype))


@kernel("RandomUniformLike")
def random_uniform_like(x, *, dtype=None, low=0.0, high=1.0, seed=None, rng):
    """Numbers that are equally likely anywhere from low to high, in the shape of x."""
    return np.asarray(rng.uniform(low, high, x.shape)).astype(floating(dtype, x))


@kernel("Bernoulli", since=15)
def bernoulli(x, *, dtype=None, seed=None, rng):
    """1 with probability x, else 0."""
    drawn = np.asarray(rng.random(x.shape)) < x.astype(np.float64)
    return drawn.astype(x.dtype if dtype is None else element_type(dtype))


@kernel("Multinomial", since=7)
def multinomial(x, *, dtype=6, sample_size=1, seed=None, rng):
    """For each row of logarithms of likelihoods, numbers of classes drawn by them."""
    if x.ndim != 2 or not x.shape[1]:
        raise ValueError(f"the input must have shape [batch_size, class_size] with a class; got {list(x.shape)}")
    if dtype not in (6, 7):
        raise TypeError(f"numbers of classes are int32 (6) or int64 (7); got type {dtype}")
    logarithms = x.astype(np.float64)
    reached = np.cumsum(np.exp(logarithms - logarithms.max(axis=1, keepdims=True)), axis=1)
    if not np.isfinite(reached).all():
        raise ValueError("each row must have a class that is possible, and no NaN or +infinity")
    drawn = rng.random(shape_for((len(x), sample_size), 8)) * reached[:, -1:]
    classes = [np.searchsorted(row[:-1], values, side="right") for row, values in zip(reached, drawn, strict=True)]
    return np.array(classes, element_type(dtype)).reshape(len(x), sample_size)


def dropped(data, ratio: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Elements set to zero with probability ``ratio``, the others scaled up; and the mask of those kept."""
    if not 0 <= ratio < 1:
        raise ValueError(f"the ratio of a dropout must be in [0, 1); got {ratio}")
    if ratio == 0:
        return data, np.ones(data.shape, bool)
    mask = rng.random(data.shape) >= ratio
    return np.where(mask, data * data.dtype.type(1 / (1 - ratio)), data.dtype.type(0)), mask


@kernel("Dropout", since=12)
def dropout(data, ratio=None, training_mode=None, *, seed=None, rng):
    """Random in training mode alone; else the data, and a mask of ones."""
    if training_mode is None or not training_mode:
        return data, np.ones(data.shape, bool)
    return dropped(data, 0.5 if ratio is None else float(ratio), rng)


@kernel("Dropout", since=10, batch=elementwise)
def dropout_10(data, *, ratio=0.5):
    """The data, and a mask of ones: versions 7 to 11 have no way to ask for training."""
    return data, np.ones(data.shape, bool)


@kernel("Dropout", since=7, batch=elementwise)
def dropout_7(data, *, ratio=0.5):
    """The mask has the type of the data."""
    return data, np.ones(data.shape, data.dtype)


@kernel("Dropout", since=1)
def dropout_1(data, *, ratio=0.5, is_test=0, consumed_inputs=None, rng):
    """Random unless ``is_test``, which leaves the mask out."""
    if is_test:
        return data
    output, mask = dropped(data, ratio, rng)
    return output, mask.astype(data.dtype)


def is_no_training(
    data: Known, ratio: Known | None = None, training_mode: Known | None = None, *, seed: int | None = None
) -> bool:
    """Whether it is known that a node does not train."""
    return training_mode is None or (training_mode.value is not None and not np.any(training_mode.value))


say("Dropout", since=1, until=7, alias=lambda data, *, ratio=0.5, is_test=0, consumed_inputs=None: bool(is_test))
say("Dropout", since=7, until=12, alias=lambda data, *, ratio=0.5: True)
say("Dropout", since=12, alias=is_no_training)
say("Dropout", since=7, traced=True)
