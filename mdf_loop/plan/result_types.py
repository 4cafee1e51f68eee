"""Types of what an operator gives, from those of what it reads: ONNX's own inference, node by node.

Where that knows nothing, the operator's row may say it (:class:`mdf_loop.ops.rows.Facts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from mdf_loop.errors import let_through
from mdf_loop.ir import Node
from mdf_loop.ops.registry import INTERNAL_DOMAINS, facts
from mdf_loop.types.elements import CODES, DTYPES
from mdf_loop.writers.onnx_graph import write_node, write_tensor

Inferred = tuple[np.dtype | None, tuple[int | None, ...] | None]
"""An element type and a shape; None for what is not known, and for open lengths."""

MOST = 1 << 10
"""Elements of a constant up to which inference gets its value."""


def result_types(node: Node, given: Sequence[Inferred | None], values: Sequence[Any]) -> list[Inferred]:
    """The type of each output, as far as ONNX's inference knows it.

    Parameters
    ----------
    node : Node
    given : sequence of (dtype, shape), or None
        Types of the node's inputs; None for an omitted one.
    values : sequence
        What the inputs are that are constants; None for the others.
    """
    unknown: list[Inferred] = [(None, None)] * len(node.outputs)
    if node.domain in INTERNAL_DOMAINS or any(t is not None and t[0] is None for t in given) or node.bodies:
        return unknown
    said = facts(node).results
    if said is not None:
        return said(given[0][1] if given and given[0] else None, **node.attrs)[: len(node.outputs)]
    names = ["" if t is None else f"i{k}" for k, t in enumerate(given)]
    plain = write_node(replace(node, inputs=tuple(names), outputs=tuple(f"o{k}" for k in range(len(node.outputs)))))
    types = {name: _type(*t) for name, t in zip(names, given, strict=True) if t is not None}
    data = {
        name: write_tensor(np.asarray(value), name)
        for name, value in zip(names, values, strict=True)
        if name and isinstance(value, np.ndarray | np.generic) and np.size(value) <= MOST
    }
    try:
        schema = onnx.defs.get_schema(node.op, node.opset, node.domain)
        imports = [onnx.helper.make_opsetid(node.domain, node.opset)]
        found = onnx.shape_inference.infer_node_outputs(schema, plain, types, data, opset_imports=imports)
    except Exception as error:  # of the schema or of inference: what is wrong, the kernel will say
        let_through(error)
        return unknown
    return [_inferred(found.get(f"o{k}")) for k in range(len(node.outputs))]


def _type(dtype: np.dtype | None, shape: tuple[int | None, ...] | None) -> onnx.TypeProto:
    assert dtype is not None
    return onnx.helper.make_tensor_type_proto(CODES[dtype], shape)


def _inferred(found: onnx.TypeProto | None) -> Inferred:
    if found is None or not found.HasField("tensor_type"):
        return None, None
    tensor = found.tensor_type
    dtype = DTYPES.get(tensor.elem_type)
    if dtype is None or dtype.hasobject:
        return None, None
    if not tensor.HasField("shape"):
        return dtype, None
    return dtype, tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
