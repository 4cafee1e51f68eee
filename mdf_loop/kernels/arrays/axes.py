"""Axis numbers and other whole numbers that steer an operator, and rules that move them behind the iteration axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.ops.batching import Result, all_stacked
from mdf_loop.ops.rows import Call


def numbers(values: Any) -> list[int]:
    """Whole numbers from an attribute or from a tensor; a scalar is a list of one."""
    found = values.tolist() if hasattr(values, "tolist") else list(values)
    return found if type(found) is list else [found]


_SEEN = np.ndarray, np.generic


def is_seen(x: Any) -> bool:
    """Whether the values of x may be looked at: not those of other libraries, or of a kernel that is traced."""
    return isinstance(x, _SEEN)


def place(axis: int, rank: int) -> int:
    """An axis counted from the front.

    Raises
    ------
    ValueError
        There is no such axis.
    """
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for rank {rank}; it must be in [{-rank}, {rank - 1}]")
    return axis + rank if axis < 0 else axis


def places(axes: Any, rank: int) -> list[int]:
    """Axes counted from the front, in the order given; all of them where None is given.

    Raises
    ------
    ValueError
        There is no such axis, or one is named twice.
    """
    if axes is None:
        return list(range(rank))
    found = [place(axis, rank) for axis in numbers(axes)]
    if len(set(found)) < len(found):
        raise ValueError(f"each axis may be named once; got {numbers(axes)}")
    return found


def zero(dtype: np.dtype) -> Any:
    """What fills up a tensor of this type: 0, False or the empty text."""
    return "" if dtype.hasobject else dtype.type(0)


def as_tensor(value: Any) -> Any:
    """A single text taken out of an array of objects, as a tensor again."""
    return value if hasattr(value, "dtype") else np.array(value, object)


def behind(axes: Any, rank: int) -> list[int]:
    """Axes (all where None is given) of a tensor of some rank, as they count with the iteration axis in front."""
    return [axis + 1 for axis in places(axes, rank)]


def moved(run: Call, args: Sequence[Any], attrs: Mapping[str, Any], attr: str, axis: int, rank: int) -> Result:
    """A call whose axis attribute counts the iteration axis too; every output is stacked."""
    return all_stacked(run(*args, **{**attrs, attr: place(axis, rank) + 1}))


def row_ranks(args: Sequence[Any], stacked: Sequence[bool]) -> list[int]:
    """How many axes each input has in one iteration; 0 for one that is omitted.

    With the iteration axis in front an input that has too few of them may look as if it had enough.
    """
    return [0 if a is None else a.ndim - s for a, s in zip(args, stacked, strict=True)]


def count_of(args: Sequence[Any], stacked: Sequence[bool]) -> int:
    """The number of iterations."""
    return next(len(a) for a, s in zip(args, stacked, strict=True) if s)


def all_repeated(args: Sequence[Any], stacked: Sequence[bool]) -> list[Any]:
    """Every input with the iteration axis; the unstacked ones are seen again and again, not copied."""
    count = count_of(args, stacked)
    return [a if s or a is None else np.broadcast_to(a, (count, *a.shape)) for a, s in zip(args, stacked, strict=True)]


def repeated_along(run: Call, args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """All inputs have one rank and are worked on side by side, along the axis that the attribute ``axis`` names."""
    rank = args[0].ndim - stacked[0]
    return moved(run, all_repeated(args, stacked), attrs, "axis", attrs.get("axis", 0), rank)
