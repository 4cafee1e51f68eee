"""What goes into a loop and round in it: how often, and of which types."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mdf_loop.ops.rows import LoopInputs
from mdf_loop.step.build import CannotLower
from mdf_loop.step.primitives import either_kind
from mdf_loop.step.records import UNKNOWN, Size, Type, Value


def known_trip_count(places: LoopInputs, count: Value | None) -> Value | None:
    """The trip count of a node, None where it has no limit.

    Raises
    ------
    CannotLower
        Whether it has one, or whether scanned values last as long, is known only when it runs.
    """
    if count is None or places.endless is None:
        return count
    if count.op != "const" or np.size(count.attr) != 1 or places.loop.scanned:
        raise CannotLower("a trip count that may have no limit")
    number = int(np.asarray(count.attr).item())
    if number < 0 and number != places.endless:
        raise CannotLower("a trip count below 0")
    return None if number == places.endless else count


def with_axis(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """A shape with an axis of one element."""
    axis %= len(shape) + 1
    return (*shape[:axis], 1, *shape[axis:])


def type_of_part(axis: int, given: Type) -> Type:
    """The type of what each iteration gets of a scanned array."""
    if given.shape is None or not given.shape:
        return Type(given.dtype)
    axis %= len(given.shape)
    return replace(given, shape=given.shape[:axis] + given.shape[axis + 1 :])


def of_its_own(type: Type) -> Type:
    """A type with open lengths of its own: what goes round may have another length than what it was at first."""
    if type.shape is None or type.is_static:
        return type
    return replace(type, shape=tuple(n if isinstance(n, int) else Size() for n in type.shape))


def joined(one: Type, other: Type) -> Type:
    """The type of what is now of one type, now of the other."""
    if one == other:
        return one
    if one.dtype is None or other.dtype is None or one.dtype != other.dtype:  # to numpy None is float64 as well
        return UNKNOWN if one.dtype is None or other.dtype is None else either_kind(one, other)
    if (one.weak, one.is_array) != (other.weak, other.is_array):
        return UNKNOWN
    if one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
        return Type(one.dtype)
    return Type(
        one.dtype, tuple(n if n == m or isinstance(n, Size) else Size() for n, m in zip(one.shape, other.shape, strict=True))
    )
