"""Operators that only look at an array in another way, inside an emitted function: slices and shapes, written out.

The shapes are those of the iteration that was tried; the array's own shape is known not to change, and whatever else
the operator reads is the same in every iteration.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.execute.kinds import ARRAY, INT, INT64, Changed, Kind
from mdf_loop.execute.scalars import Operand
from mdf_loop.ir import Node
from mdf_loop.kernels.indexing import sliced

SHAPES = ("Reshape", "Squeeze", "Unsqueeze", "Flatten")
"""Operators that keep all elements in their order."""

VIEWS = (*SHAPES, "Split", "Transpose", "Slice")


def write_view(node: Node, data: Operand, others: Sequence[Any], results: Sequence[Kind]) -> tuple[list[str], Any] | None:
    """An expression for each output, and what ``{at}`` in it stands for; None where only the kernel knows.

    ``others`` are the values of the other inputs, constants of the body.
    """
    shape = data.kind.shape
    if node.op == "Slice" and data.kind.form == ARRAY and shape is None:
        at = _slices(*others)
        return None if at is None else ([f"{data.text}[{{at}}]"], at)
    if data.kind.form != ARRAY or shape is None or any(k.form != ARRAY or k.shape is None for k in results):
        return None
    if node.op in SHAPES:
        return [f"{data.text}.reshape({results[0].shape!r})"], None
    if node.op == "Slice":
        given = others or [node.attrs[name] for name in ("starts", "ends", "axes") if node.attrs.get(name) is not None]
        return [f"{data.text}[{{at}}]"], sliced(shape, *given)
    if node.op == "Transpose":
        order = tuple(int(axis) for axis in node.attrs.get("perm") or reversed(range(len(shape))))
        return [f"{data.text}.transpose({order!r})"], None
    return _split(node, data.text, len(shape), results), None


def write_single(data: Operand, result: Kind, dtype: str) -> str | None:
    """An expression for a number as an array of one element; None where that is not what is wanted."""
    shape = result.shape
    if not data.kind.is_number or data.kind.weak or result.form != ARRAY or not shape or result.dtype != data.kind.dtype:
        return None
    return f"array({'[' * len(shape)}{data.text}{']' * len(shape)}, {dtype})"


def _slices(starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> tuple[slice, ...] | None:
    """A numpy index for slices forwards, of an array whose shape may change: numpy counts from the end as ONNX does."""
    if starts is None or ends is None or (steps is not None and np.any(np.asarray(steps) != 1)):
        return None
    firsts, lasts = np.ravel(starts).tolist(), np.ravel(ends).tolist()
    along = np.ravel(axes).tolist() if axes is not None else list(range(len(firsts)))
    if along != list(range(len(along))):
        return None
    return tuple(slice(first, last) for first, last in zip(firsts, lasts, strict=True))


Place = Callable[[Operand, int], str]
"""Writes the lines that bring the one element of an index into a range from 0 on, and returns its name."""


def write_gather(node: Node, data: Operand, index: Operand, result: Kind, place: Place) -> str | None:
    """An expression for the entry of an axis that one index names; None where only the kernel knows.

    An index that is out of range raises, as does whatever is unexpected.
    """
    shape, at = data.kind.shape, index.kind
    if data.kind.form != ARRAY or not shape or result.dtype != data.kind.dtype or data.kind.dtype.kind not in "fiub":  # type: ignore[union-attr]
        return None
    axis = int(node.attrs.get("axis", 0)) % len(shape)
    front = ":, " * axis
    if at.form == INT and result.form == ARRAY:
        return f"{data.text}[{front}{index.text}]"
    if at.form == INT and len(shape) == 1:
        return f"{data.text}.item({index.text})" if result.is_number else f"{data.text}[{index.text}]"
    if at.form != ARRAY or at.dtype != INT64 or at.shape != (1,) or result.form != ARRAY:
        return None
    name = place(index, shape[axis])
    return f"{data.text}[{front}{name}:{name} + 1]"


def from_end(index: int, size: int) -> int:
    """The place that a negative index means."""
    if not -size <= index < 0:
        raise Changed
    return index + size


def _split(node: Node, text: str, rank: int, results: Sequence[Kind]) -> list[str]:
    axis = int(node.attrs.get("axis", 0)) % rank
    ends = list(itertools.accumulate(kind.shape[axis] for kind in results if kind.shape is not None))
    front = ":, " * axis
    return [f"{text}[{front}{start}:{end}]" for start, end in zip([0, *ends], ends, strict=False)]
