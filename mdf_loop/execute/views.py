"""Operators that only look at an array in another way, inside an emitted function: slices and shapes, written out.

The shapes are those of the iteration that was tried; the array's own shape is known not to change, and whatever else
the operator reads is the same in every iteration.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from mdf_loop.execute.kinds import ARRAY, Kind
from mdf_loop.execute.scalars import Operand
from mdf_loop.ir import Node

SHAPES = ("Reshape", "Squeeze", "Unsqueeze", "Flatten")
"""Operators that keep all elements in their order."""

VIEWS = (*SHAPES, "Split", "Transpose")


def write_view(node: Node, data: Operand, results: Sequence[Kind]) -> list[str] | None:
    """An expression for each output; None where only the kernel knows."""
    if data.kind.form != ARRAY or data.kind.shape is None or any(k.form != ARRAY or k.shape is None for k in results):
        return None
    if node.op in SHAPES:
        return [f"{data.text}.reshape({results[0].shape!r})"]
    if node.op == "Transpose":
        order = tuple(int(axis) for axis in node.attrs.get("perm") or reversed(range(len(data.kind.shape))))
        return [f"{data.text}.transpose({order!r})"]
    return _split(node, data.text, len(data.kind.shape), results)


def _split(node: Node, text: str, rank: int, results: Sequence[Kind]) -> list[str]:
    axis = int(node.attrs.get("axis", 0)) % rank
    ends = list(itertools.accumulate(kind.shape[axis] for kind in results if kind.shape is not None))
    front = ":, " * axis
    return [f"{text}[{front}{start}:{end}]" for start, end in zip([0, *ends], ends, strict=False)]
