"""Dropout in all its versions: an identity, except where a node asks for training."""

from __future__ import annotations

import numpy as np

from mdf_loop.ops.batching import elementwise
from mdf_loop.ops.registry import kernel, say
from mdf_loop.ops.rows import Known


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
