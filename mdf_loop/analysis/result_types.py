"""Element types of what an operator gives, from those of what it reads: the type variables of ONNX's schemas."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import onnx

from mdf_loop.element_types import DTYPES
from mdf_loop.ir import Node
from mdf_loop.registry import INTERNAL_DOMAINS

_TENSORS = {f"tensor({name})": dtype for name, dtype in (("float", np.dtype(np.float32)), ("double", np.dtype(np.float64)))}
_TENSORS |= {f"tensor({dtype.name})": dtype for dtype in DTYPES.values() if dtype.kind in "biu"}


def result_dtypes(node: Node, given: Sequence[np.dtype | None]) -> list[np.dtype | None]:
    """The element type of each output; None where the schema leaves it open, or where it is no tensor.

    Parameters
    ----------
    node : Node
    given : sequence of numpy.dtype or None
        Element types of the node's inputs; None where it is not known or the input is omitted.
    """
    unknown: list[np.dtype | None] = [None] * len(node.outputs)
    if node.domain in INTERNAL_DOMAINS:
        return unknown
    rules = _rules(node.op, node.domain, node.opset)
    if rules is None:
        return unknown
    inputs, outputs = rules
    variables: dict[str, np.dtype] = {}
    for k, dtype in enumerate(given):
        variable = inputs[min(k, len(inputs) - 1)] if inputs else None
        if dtype is not None and isinstance(variable, str):
            variables.setdefault(variable, dtype)
    rows = [outputs[min(k, len(outputs) - 1)] for k in range(len(node.outputs))]
    return [variables.get(row) if isinstance(row, str) else row for row in rows]


Row = str | np.dtype | None
"""The name of a type variable, an element type, or nothing that helps."""


@functools.lru_cache(maxsize=1024)
def _rules(op: str, domain: str, opset: int) -> tuple[tuple[Row, ...], tuple[Row, ...]] | None:
    try:
        schema = onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None
    tensors = {c.type_param_str: _row(c.type_param_str, c.allowed_type_strs) for c in schema.type_constraints}

    def rows(formal: Sequence[onnx.defs.OpSchema.FormalParameter]) -> tuple[Row, ...]:
        return tuple(tensors.get(f.type_str, _TENSORS.get(f.type_str)) for f in formal)

    return rows(schema.inputs), rows(schema.outputs)


def _row(name: str, allowed: Sequence[str]) -> Row:
    """A type variable of tensors; the one type there is where only one is allowed."""
    if not all(text.startswith("tensor(") for text in allowed):
        return None
    return _TENSORS.get(next(iter(allowed)), name) if len(allowed) == 1 else name
