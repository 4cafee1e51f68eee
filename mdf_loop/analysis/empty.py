"""What a loop that never ran has collected: nothing, of the right type and shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from mdf_loop.ir import Body, Dim, Loop, ValueType
from mdf_loop.readers.onnx_graph import read_type
from mdf_loop.writers.onnx_graph import write_model


def empty_collected(loop: Loop, carried: Sequence[Any], captured: Sequence[Any]) -> list[np.ndarray]:
    """One array with no rows for each collected value.

    Shape ``(0, *dims)``, with the iteration axis where the record wants it.  Dimensions and type are those
    the body declares; what it leaves open is inferred from the initial values and captures by ONNX shape
    inference.  A dimension that stays open is 0, a type that stays open is float32.
    """
    declared = [loop.body.type_of(c.output) for c in loop.collected]
    if not all(kind.dtype is not None and _known(kind.shape) for kind in declared):
        given = dict(zip(loop.body.captures, captured, strict=True))
        given |= {c.input: value for c, value in zip(loop.carried, carried, strict=True)}
        inferred = infer_types(loop.body, {name: type_of_value(value) for name, value in given.items()})
        declared = [_merge(kind, inferred.get(c.output)) for kind, c in zip(declared, loop.collected, strict=True)]
    return [_empty(kind, c.axis, c.stack) for kind, c in zip(declared, loop.collected, strict=True)]


def _known(shape: tuple[Dim, ...] | None) -> bool:
    return shape is not None and all(isinstance(dim, int) for dim in shape)


def _merge(declared: ValueType, inferred: ValueType | None) -> ValueType:
    """What is declared, completed by what was inferred."""
    if inferred is None:
        return declared
    shape = inferred.shape
    if declared.shape is not None:
        same_rank = shape is not None and len(shape) == len(declared.shape)
        others: Sequence[Dim] = shape if same_rank and shape is not None else declared.shape
        shape = tuple(d if isinstance(d, int) else o for d, o in zip(declared.shape, others, strict=True))
    return ValueType(declared.dtype if declared.dtype is not None else inferred.dtype, shape)


def _empty(kind: ValueType, axis: int, stack: bool) -> np.ndarray:
    dims = [dim if isinstance(dim, int) else 0 for dim in kind.shape or ()]
    if stack:
        dims.insert(axis if axis >= 0 else len(dims) + 1 + axis, 0)
    elif dims:
        dims[axis] = 0
    else:
        dims = [0]
    return np.zeros(dims, kind.dtype if kind.dtype is not None else np.float32)


def type_of_value(value: Any) -> ValueType:
    """The type of a value that is there."""
    if isinstance(value, np.ndarray | np.generic):
        return ValueType(value.dtype, value.shape)
    if isinstance(value, list):
        return ValueType(kind="sequence", element=type_of_value(value[0]) if value else ValueType())
    return ValueType()


def infer_types(body: Body, given: Mapping[str, ValueType]) -> dict[str, ValueType]:
    """Types of the values of a body, by ONNX shape inference, when its inputs have the types given."""
    types = {name: _merge(body.type_of(name), given.get(name)) for name in body.inputs}
    outputs = {name: ValueType() for name in body.outputs if name not in body.inputs}
    typed = replace(body, types={**body.types, **types, **outputs})
    try:
        model = onnx.shape_inference.infer_shapes(write_model(typed, given), data_prop=True)
    except Exception:  # inference is a help: what it cannot do stays open
        return dict(types)
    return types | {v.name: read_type(v.type) for v in (*model.graph.value_info, *model.graph.output)}
