"""Normalisation: softmax, and taking off a mean and dividing by a spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place, places
from mdf_loop.kernels.definitions.of_elements import in_float32
from mdf_loop.kernels.definitions.of_reductions import FLOAT32, FLOAT64, count_of, mean
from mdf_loop.kernels.definitions.of_shapes import fits, rank_of
from mdf_loop.ops.registry import definition
from mdf_loop.ops.rows import Call
from mdf_loop.types.elements import DTYPES


def _shifted(b: Any, x: Any, axis: int) -> tuple[Any, list[int]]:
    """x less its largest element along an axis, so that exp cannot overflow, and that axis."""
    along = [place(axis, rank_of(x))]
    count_of(x, along)
    return b.sub(x, b.reduce(x, "max", along, True)), along


@definition("Softmax", since=13)
def softmax(b, x, *, axis=-1):
    """exp(x) divided by its sum along the axis."""
    if x.type.dtype.itemsize < 4:
        raise ValueError("rounded after each step")
    shifted, along = _shifted(b, x, axis)
    y = b.exp(shifted)
    return b.div(y, b.reduce(y, "sum", along, True))


@definition("LogSoftmax", since=13)
@in_float32
def log_softmax(b, x, *, axis=-1):
    """x less the logarithm of the sum of exp(x) along the axis."""
    y, along = _shifted(b, x, axis)
    return b.sub(y, b.log(b.reduce(b.exp(y), "sum", along, True)))


def _of_matrix(define: Call) -> Call:
    """All axes from ``axis`` on, taken as one."""

    def first(b: Any, x: Any, *, axis: int = 1) -> Any:
        shape, rank = x.type.shape, rank_of(x)
        if not x.type.is_static or not -rank <= axis <= rank:
            raise ValueError("open lengths, or no such axis")
        axis %= rank + (axis >= 0)
        return b.reshape(define(b, b.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))), shape)

    return first


definition("Softmax", until=13)(_of_matrix(softmax))
definition("LogSoftmax", until=13)(_of_matrix(log_softmax))


def _stashed(b: Any, x: Any, stash_type: int) -> Any:
    """x in the type that statistics are computed in."""
    dtype = DTYPES.get(stash_type)
    if dtype is None or dtype not in (FLOAT32, FLOAT64):
        raise ValueError("too small to add up in")
    return b.cast(x, dtype)


def _last_axes(x: Any, axis: int) -> Sequence[int]:
    along = range(place(axis, rank_of(x)), rank_of(x))
    count_of(x, along)
    return along


@definition("LayerNormalization", since=17)
def layer_normalization(b, x, scale, bias=None, *, axis=-1, epsilon=1e-5, stash_type=1):
    """Standardised over the axes from ``axis`` on, scaled and shifted; also mean and 1 / standard deviation."""
    wide, along = _stashed(b, x, stash_type), _last_axes(x, axis)
    centre = mean(b, wide, along, True)
    deviation = b.sub(wide, centre)
    inverse = b.div(b.number(1, wide), b.sqrt(b.add(mean(b, b.mul(deviation, deviation), along, True), epsilon)))
    y = _scaled(b, b.cast(b.mul(deviation, inverse), x.type.dtype), scale)
    if bias is not None:
        if bias.type.dtype != y.type.dtype or not fits(bias, y):
            raise ValueError("a bias that does not fit")
        y = b.add(y, bias)
    return y, centre, inverse


@definition("RMSNormalization", since=23)
def rms_normalization(b, x, scale, *, axis=-1, epsilon=1e-5, stash_type=1):
    """Divided by the root of the mean square over the axes from ``axis`` on, and scaled."""
    wide, along = _stashed(b, x, stash_type), _last_axes(x, axis)
    y = b.div(wide, b.sqrt(b.add(mean(b, b.mul(wide, wide), along, True), epsilon)))
    return _scaled(b, b.cast(b.cast(y, x.type.dtype), scale.type.dtype), scale)


def _scaled(b: Any, y: Any, scale: Any) -> Any:
    if scale.type.dtype != y.type.dtype or not fits(scale, y):
        raise ValueError("a scale that does not fit")
    return b.mul(y, scale)


@definition("BatchNormalization", since=14)
def batch_normalization(b, x, scale, bias, mean, var, *, training_mode=0, momentum=0.9, epsilon=1e-5):
    """Each channel by the given statistics."""
    if training_mode or any(rank_of(p) != 1 for p in (scale, bias, mean, var)) or not rank_of(x) > 1:
        raise ValueError("not by given statistics of each channel")
    parameters = [_per_channel(b, p, rank_of(x)) for p in (scale, bias, mean, var)]
    scale, bias, mean, var = parameters
    wide = _widened(b, x)
    y = b.mul(b.sub(wide, mean), b.div(scale, b.sqrt(b.add(var, b.const(np.float32(epsilon))))))
    if not fits(bias, wide) or y.type.dtype != wide.type.dtype:
        raise ValueError("statistics that do not fit")
    return b.cast(b.add(y, bias), x.type.dtype)


def _widened(b: Any, x: Any) -> Any:
    return x if x.type.dtype.itemsize >= 4 else b.cast(x, FLOAT32)


def _per_channel(b: Any, parameter: Any, rank: int) -> Any:
    (length,) = parameter.type.shape
    if not isinstance(length, int):
        raise ValueError("an open length")
    return b.reshape(_widened(b, parameter), (length,) + (1,) * (rank - 2))


@definition("Dropout", since=12)
def dropout(b, data, ratio=None, training_mode=None, *, seed=None):
    """The data and a mask of ones, but in training."""
    if training_mode is not None and (training_mode.op != "const" or np.any(training_mode.attr)):
        raise ValueError("in training, perhaps")
    return _kept(b, data, np.True_)


@definition("Dropout", since=10, until=12)
def dropout_10(b, data, *, ratio=0.5):
    """The data and a mask of ones."""
    return _kept(b, data, np.True_)


@definition("Dropout", since=7, until=10)
def dropout_7(b, data, *, ratio=0.5):
    """The mask has the type of the data."""
    return _kept(b, data, data.type.dtype.type(1))


def _kept(b: Any, data: Any, one: Any) -> tuple[Any, Any]:
    if not data.type.is_static:
        raise ValueError("open lengths")
    return data, b.broadcast(b.const(one), data.type.shape)


@definition("InstanceNormalization")
def instance_normalization(b, input, scale, bias, *, epsilon=1e-5, consumed_inputs=None):
    """Each channel of each sample by its own statistics."""
    rank = rank_of(input)
    if not input.type.is_static or rank < 3 or scale.type.shape != bias.type.shape or rank_of(scale) != 1:
        raise ValueError("not channels of known lengths")
    y = _standardised(b, _widened(b, input), range(2, rank), epsilon)
    return b.cast(b.add(b.mul(y, _per_channel(b, scale, rank)), _per_channel(b, bias, rank)), input.type.dtype)


def _standardised(b: Any, x: Any, along: Sequence[int], epsilon: float) -> Any:
    """(x - mean) / sqrt(variance + epsilon)."""
    deviation = b.sub(x, mean(b, x, along, True))
    spread = b.sqrt(b.add(mean(b, b.mul(deviation, deviation), along, True), epsilon))
    return b.mul(deviation, b.div(b.number(1, x), spread))


@definition("GroupNormalization", since=21)
def group_normalization(b, x, scale, bias, *, num_groups, epsilon=1e-5, stash_type=1):
    """Each group of channels of each sample by its own statistics; scale and bias for each channel."""
    shape = x.type.shape
    if not x.type.is_static or rank_of(x) < 3 or shape[1] % num_groups or not fits(_channels(b, scale, x), x):
        raise ValueError("not groups of channels of known lengths")
    grouped = b.reshape(_stashed(b, x, stash_type), (shape[0], num_groups, shape[1] // num_groups, *shape[2:]))
    y = b.reshape(_standardised(b, grouped, range(2, rank_of(grouped)), epsilon), shape)
    return b.add(_scaled(b, b.cast(y, x.type.dtype), _channels(b, scale, x)), _channels(b, bias, x))


def _channels(b: Any, parameter: Any, x: Any) -> Any:
    if parameter.type.shape != x.type.shape[1:2] or parameter.type.dtype != x.type.dtype:
        raise ValueError("a parameter that is not one number a channel")
    return b.reshape(parameter, (*parameter.type.shape, *(1,) * (rank_of(x) - 2)))


@definition("GlobalAveragePool")
def global_average_pool(b, x):
    """The mean of each channel."""
    return b.cast(mean(b, _widened(b, x), _whole_channel(x), True), x.type.dtype)


@definition("GlobalMaxPool")
def global_max_pool(b, x):
    """The largest element of each channel."""
    return b.reduce(x, "max", _whole_channel(x), True)


def _whole_channel(x: Any) -> Sequence[int]:
    along = range(2, rank_of(x))
    if rank_of(x) < 3 or x.type.dtype.kind != "f":
        raise ValueError("not channels")
    count_of(x, along)
    return along


@definition("LpNormalization")
@in_float32
def lp_normalization(b, input, *, axis=-1, p=2):
    """Divided by the sum of magnitudes, or by the root of the sum of squares; zeros stay zeros."""
    along = [place(axis, rank_of(input))]
    count_of(input, along)
    if p not in (1, 2):
        raise ValueError("neither sizes nor squares")
    total = b.reduce(b.abs(input) if p == 1 else b.mul(input, input), "sum", along, True)
    norm = total if p == 1 else b.sqrt(total)
    return b.select(b.ne(norm, 0), b.div(input, norm), 0)


@definition("MeanVarianceNormalization", since=9)
@in_float32
def mean_variance_normalization(b, x, *, axes=(0, 2, 3)):
    """(x - mean) / standard deviation."""
    along = places(list(axes), rank_of(x))
    count_of(x, along)
    deviation = b.sub(x, mean(b, x, along, True))
    spread = b.sqrt(mean(b, b.mul(deviation, deviation), along, True))
    return b.div(deviation, b.add(spread, b.const(np.float32(1e-9))))


@definition("Hardmax", since=13)
def hardmax(b, x, *, axis=-1):
    """1 at the first largest element along the axis, 0 elsewhere."""
    along, shape = place(axis, rank_of(x)), x.type.shape
    if not x.type.is_static or x.type.kind != "f":
        raise ValueError("open lengths")
    count_of(x, [along])
    numbers = np.arange(shape[along]).reshape([-1 if k == along else 1 for k in range(len(shape))])
    first = b.reduce(x, "argmax", [along], True)
    return b.cast(b.eq(b.const(numbers), first), x.type.dtype)


definition("Hardmax", until=13)(_of_matrix(hardmax))
