"""Operators that only look at an array in another way, inside an emitted function: slices and shapes, written out.

The shapes are those of the iteration that was tried; the array's own shape is known not to change, and whatever else
the operator reads is the same in every iteration.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from mdf_loop.execute.kinds import ARRAY, Kind
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


def _split(node: Node, text: str, rank: int, results: Sequence[Kind]) -> list[str]:
    axis = int(node.attrs.get("axis", 0)) % rank
    ends = list(itertools.accumulate(kind.shape[axis] for kind in results if kind.shape is not None))
    front = ":, " * axis
    return [f"{text}[{front}{start}:{end}]" for start, end in zip([0, *ends], ends, strict=False)]
