"""A vectorisation rule for operators with a batch axis: all iterations in one larger batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.ops.batching import Result, Rule


def folding(
    axes: Sequence[int | None] = (0,),
    out_axes: Sequence[int] = (0,),
) -> Rule:
    """The rule for an operator that treats every entry of its batch axis alike and alone.

    Parameters
    ----------
    axes : sequence of (int or None)
        Batch axis of each input; None for an input that has none (a weight) and must be unstacked.
        Further inputs have none either.
    out_axes : sequence of int
        Batch axis of each output.
    """

    def rule(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
        where = [axes[k] if k < len(axes) else None for k in range(len(args))]
        if any(s and (axis is None or a.ndim - 1 <= axis) for a, s, axis in zip(args, stacked, where, strict=True)):
            return None
        count = next(len(a) for a, s in zip(args, stacked, strict=True) if s)
        folded = [fold(a, s, axis, count) for a, s, axis in zip(args, stacked, where, strict=True)]
        result = run(*folded, **attrs)
        outputs = result if type(result) is tuple else (result,)
        return tuple(unfold(o, axis, count) for o, axis in zip(outputs, out_axes, strict=False)), (True,) * len(outputs)

    return rule


def fold(a: Any, is_stacked: bool, axis: int | None, count: int) -> Any:
    """The iteration axis put into the batch axis; an unstacked input repeated along it."""
    if a is None or axis is None:
        return a
    if not is_stacked:
        return np.concatenate([a] * count, axis)
    moved = np.moveaxis(a, 0, axis)
    shape = moved.shape
    return moved.reshape(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])


def unfold(a: Any, axis: int, count: int) -> Any:
    """The iteration axis taken out of the batch axis."""
    shape = a.shape
    return np.moveaxis(a.reshape(*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :]), axis, 0)
