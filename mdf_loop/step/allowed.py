"""Which element types ONNX allows for inputs: definitions hold for those, of others the kernel says what is wrong."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import onnx

from mdf_loop.ir import Node
from mdf_loop.step.records import Type
from mdf_loop.types.elements import CODES
from mdf_loop.types.schemas import LARGEST_VERSION, schema_of


def allows(node: Node, types: Sequence[Type | None]) -> bool:
    """Whether a node of ONNX's newest version may be given values of such types; weak and omitted ones are let pass."""
    if node.domain:
        return True
    return _allows(node.op, tuple(None if t is None or t.weak else t.dtype for t in types))


@functools.lru_cache(maxsize=4096)
def _allows(op: str, dtypes: tuple[np.dtype | None, ...]) -> bool:
    schema = schema_of(op, LARGEST_VERSION)
    if schema is None or not schema.inputs:
        return True
    formal = [schema.inputs[min(k, len(schema.inputs) - 1)] for k in range(len(dtypes))]
    return all(
        dtype is None or dtype not in CODES or _name(dtype) in one.types for dtype, one in zip(dtypes, formal, strict=True)
    )


def _name(dtype: np.dtype) -> str:
    return f"tensor({onnx.TensorProto.DataType.Name(CODES[dtype]).lower()})"
