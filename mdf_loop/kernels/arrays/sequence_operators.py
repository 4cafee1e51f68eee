"""Sequences, which are Python lists, optionals, which are the value itself or None, and the mark of a value that is absent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import numbers, place
from mdf_loop.kernels.arrays.reshaping import chunks, parts
from mdf_loop.ops.batching import Result, all_stacked, elementwise, of_shape
from mdf_loop.ops.registry import kernel, say


@kernel("SequenceEmpty", since=11)
def sequence_empty(*, dtype=1):
    """A sequence without elements; of which type they would be makes no difference here."""
    return []


@kernel("SequenceConstruct", since=11)
def sequence_construct(*inputs):
    """The inputs as a sequence."""
    return list(inputs)


@kernel("SequenceInsert", since=11)
def sequence_insert(input_sequence, tensor, position=None):
    """One element more, in front of ``position`` or at the end."""
    if input_sequence and input_sequence[0].dtype != tensor.dtype:
        raise TypeError(f"the sequence holds {input_sequence[0].dtype.name}, so {tensor.dtype.name} cannot be inserted")
    if position is None:
        return [*input_sequence, tensor]
    at, length = int(position.item()), len(input_sequence)
    if not -length <= at <= length:
        raise IndexError(f"position {at} is out of range for inserting into a sequence of {length}")
    return [*input_sequence[:at], tensor, *input_sequence[at:]]


@kernel("SequenceErase", since=11)
def sequence_erase(input_sequence, position=None):
    """One element less: the one at ``position``, or the last."""
    at = _position(input_sequence, position)
    return [*input_sequence[:at], *input_sequence[at + 1 :]]


def elements_rule(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """The elements of one sequence at many positions, where all of them are arrays of one type and shape."""
    (sequence, position), length = args, len(args[0])
    if stacked[0] or position.ndim != 1 or position.min() < -length or position.max() >= length:
        return None
    found = [sequence[at] for at in position.tolist()]
    if not all(type(x) is np.ndarray for x in found) or len({(x.dtype, x.shape) for x in found}) > 1 or found[0].dtype.hasobject:
        return None
    return all_stacked(np.stack(found))


@kernel("SequenceAt", since=11, batch=elements_rule)
def sequence_at(input_sequence, position):
    """The element at ``position``."""
    return input_sequence[_position(input_sequence, position)]


def _position(sequence: list[Any], position: Any) -> int:
    """A position counted from the front; the last one where none is given."""
    at, length = -1 if position is None else int(position.item()), len(sequence)
    if not -length <= at < length:
        raise IndexError(f"position {at} is out of range for a sequence of {length}")
    return at % length


@kernel("SequenceLength", since=11)
def sequence_length(input_sequence):
    """The number of elements."""
    return np.int64(len(input_sequence))


@kernel("SplitToSequence", since=11)
def split_to_sequence(input, split=None, *, axis=0, keepdims=1):
    """Parts of the given lengths, chunks of one given length, or single slices (without the axis if not ``keepdims``)."""
    axis = place(axis, input.ndim)
    length = input.shape[axis]
    if split is None:
        slices = parts(input, [1] * length, axis)
        return list(slices) if keepdims else [part.squeeze(axis) for part in slices]
    if split.ndim == 0:
        size = int(split)
        if size < 1:
            raise ValueError(f"a chunk must have at least one element; got {size}")
        return list(parts(input, chunks(length, size, -(-length // size)), axis))
    return list(parts(input, numbers(split), axis))


@kernel("ConcatFromSequence", since=11)
def concat_from_sequence(input_sequence, *, axis, new_axis=0):
    """The elements one behind the other along an axis, or along a new one."""
    if not input_sequence:
        raise ValueError("a sequence without elements cannot be put together: nothing says the shape of the result")
    return np.stack(input_sequence, axis) if new_axis else np.concatenate(input_sequence, axis)


@kernel("Optional", since=15, batch=elementwise)
def optional(input=None, *, type=None):
    """The input, or an empty optional of a type."""
    if input is None and type is None:
        raise ValueError("Optional needs an input, or the attribute type for an empty one")
    return input


@kernel("OptionalHasElement", since=15, batch=of_shape)
def optional_has_element(input=None):
    """Whether there is a value."""
    return np.bool_(input is not None)


@kernel("OptionalGetElement", since=15, batch=elementwise)
def optional_get_element(input):
    """The value of an optional that has one."""
    if input is None:
        raise ValueError("an empty optional has no element to get")
    return input


say("OptionalHasElement", traced=True)
say("SequenceInsert", appends=True)


ABSENT = object()
"""In place of a value that was not computed, where it is recorded."""


@kernel("Absent", domain="record")
def absent():
    """No value, of a branch that was not taken."""
    return ABSENT
