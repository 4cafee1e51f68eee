"""Softmax, LogSoftmax and the logarithm of a sum of exponentials inside an emitted function, in memory that is used again."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.execute.arrays import fits_a_buffer
from mdf_loop.execute.kinds import ARRAY, Kind
from mdf_loop.execute.reductions import Written, along_axes, as_matrix, sums_of
from mdf_loop.execute.scalars import Operand
from mdf_loop.ir import Node

OPERATORS = ("Softmax", "LogSoftmax", "ReduceLogSumExp")

# Names that end in _ stand for numbers of Python without it.
NAMES = {
    "maximum_reduce": np.maximum.reduce,
    "subtract": np.subtract,
    "divide_": np.divide,
    "add": np.add,
    "exp_": np.exp,
    "log_": np.log,
    "empty": np.empty,
}


def write_exponentials(node: Node, data: Operand, axes: Any, result: Kind) -> Written | None:
    """The lines that compute one of the operators; None where only the kernel knows."""
    kind = data.kind
    if kind.form != ARRAY or not kind.shape or 0 in kind.shape or kind.dtype not in (np.float32, np.float64):
        return None
    if not fits_a_buffer(result) or result.dtype != kind.dtype:
        return None
    if node.op == "ReduceLogSumExp":
        along = along_axes(node, kind.shape, axes)
        return _log_sum_exp(node, data, along, result) if along else None
    rank = len(kind.shape)
    axis = int(node.attrs.get("axis", -1 if node.opset >= 13 else 1)) % rank
    return _softmax(node, data, axis, result) if node.opset >= 13 or axis == rank - 1 else None


def _softmax(node: Node, data: Operand, axis: int, result: Kind) -> Written | None:
    """The largest element is taken off first, so that exp cannot overflow."""
    shape = data.kind.shape or ()
    if as_matrix(shape, (axis,)) is None:
        return None
    kept = (*shape[:axis], 1, *shape[axis + 1 :])
    powers = "{out}" if node.op == "Softmax" else "{powers}"
    total = sums_of(powers, shape, (axis,), result.dtype, "{flat}")
    lines = [*_less_the_largest(data, (axis,), "{out}"), f"exp_({{out}}, {powers})", *total.lines]
    if node.op == "Softmax":
        lines.append("divide_({out}, {peak}, {out})")
    else:
        lines += ["log_({peak}, {peak})", "subtract({out}, {peak}, {out})"]
    prologue = {"{peak}": f"empty({kept!r}, {{dtype}})", "{flat}": "{peak}.reshape(-1)"}
    if node.op != "Softmax":
        prologue["{powers}"] = f"empty({shape!r}, {{dtype}})"
    return Written(lines, "", {**NAMES, **total.names}, prologue)


def _log_sum_exp(node: Node, data: Operand, along: tuple[int, ...], result: Kind) -> Written | None:
    """The largest element is taken off first and added at last, unless it is not finite."""
    shape = data.kind.shape or ()
    if as_matrix(shape, along) is None:
        return None
    kept = tuple(1 if axis in along else size for axis, size in enumerate(shape))
    total = sums_of("{powers}", shape, along, result.dtype, "{flat}")
    size = int(np.prod(kept))
    lines = [
        f"maximum_reduce({data.text}, {along!r}, None, {{peak}}, True)",
        f"if {{peaks}}.dot(zeros_{size}_{result.dtype}) != 0: settle({{peak}})",
        "{powers}[...] = {peak}",
        f"subtract({data.text}, {{powers}}, {{powers}})",
        "exp_({powers}, {powers})",
        *total.lines,
        "log_({flat}, {flat})",
        "add({flat}, {peaks}, {flat})",
        f"{{out}}[...] = {{flat}}.reshape({result.shape!r})",
    ]
    prologue = {
        "{peak}": f"empty({kept!r}, {{dtype}})",
        "{peaks}": "{peak}.reshape(-1)",
        "{flat}": f"empty({size}, {{dtype}})",
        "{powers}": f"empty({shape!r}, {{dtype}})",
    }
    zeros = {f"zeros_{size}_{result.dtype}": np.zeros(size, result.dtype), "settle": settle}
    return Written(lines, "", {**NAMES, **total.names, **zeros}, prologue)


def _less_the_largest(data: Operand, along: tuple[int, ...], out: str) -> list[str]:
    return [
        f"maximum_reduce({data.text}, {along!r}, None, {{peak}}, True)",
        f"{out}[...] = {{peak}}",
        f"subtract({data.text}, {out}, {out})",
    ]


def settle(peak: np.ndarray) -> None:
    """Put 0 for peaks that are not finite: infinity less itself would not be a number."""
    np.copyto(peak, 0, where=~np.isfinite(peak))
