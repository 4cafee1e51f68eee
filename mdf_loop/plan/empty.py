"""What a loop that never ran has collected: nothing, of the right type and shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from mdf_loop.errors import ArgumentError, let_through
from mdf_loop.ir import Body, Dim, Loop, Scanned, ValueType
from mdf_loop.readers.onnx.graph import read_type
from mdf_loop.types.elements import DTYPES
from mdf_loop.writers.onnx_graph import write_model

Infer = Callable[[Body, Mapping[str, ValueType]], Mapping[str, ValueType]]


def empty_collected(
    loop: Loop,
    carried: Sequence[Any],
    captured: Sequence[Any],
    scanned: Sequence[Any] = (),
    invariant: Sequence[Any] = (),
    infer: Infer | None = None,
) -> list[Any]:
    """One array with no rows for each collected value; an empty list where rows may differ.

    Shape ``(0, *dims)``, with the iteration axis where the record wants it.  Dimensions and type are those
    the body declares; what it leaves open is inferred from the values that were given, by ONNX shape
    inference (or ``infer``) and by the names of dimensions.  A dimension that stays open is 0, a type that stays open is
    float32.

    Raises
    ------
    ArgumentError
        A collected value has no such axis.
    """
    kinds = [loop.body.type_of(c.output) for c in loop.collected]
    if not all(kind.dtype is not None and _known(kind.shape) for kind in kinds):
        given = _given_types(loop, carried, captured, scanned, invariant)
        inferred = (infer or infer_types)(loop.body, given)
        sizes = _named_sizes(loop.body, given)
        kinds = [_merge(kind, inferred.get(c.output), sizes) for kind, c in zip(kinds, loop.collected, strict=True)]
    found = zip(kinds, loop.collected, strict=True)
    return [[] if c.ragged else _empty(kind, c.output, c.axis, c.stack) for kind, c in found]


def _given_types(
    loop: Loop, carried: Sequence[Any], captured: Sequence[Any], scanned: Sequence[Any], invariant: Sequence[Any]
) -> dict[str, ValueType]:
    """Types of everything the body would have been given."""
    types = {name: type_of_value(value) for name, value in zip(loop.body.captures, captured, strict=True)}
    types |= {c.input: type_of_value(value) for c, value in zip(loop.carried, carried, strict=True)}
    types |= {name: type_of_value(value) for name, value in zip(loop.invariant, invariant, strict=False)}
    types |= {s.input: _part_type(s, value) for s, value in zip(loop.scanned, scanned, strict=False)}
    for name, dtype in ((loop.index, DTYPES[7]), (loop.condition, DTYPES[9])):
        if name:
            rank = len(loop.body.type_of(name).shape or ())
            types[name] = ValueType(dtype, (1,) * rank)
    return types


def _part_type(scanned: Scanned, value: np.ndarray) -> ValueType:
    """The type of one part of a scanned input."""
    dims = list(value.shape)
    if scanned.part is None:
        del dims[scanned.axis]
    else:
        dims[scanned.axis] = scanned.part
    return ValueType(value.dtype, tuple(dims))


def _named_sizes(body: Body, given: Mapping[str, ValueType]) -> dict[str, int]:
    """What the named dimensions of the body's inputs are, where the given values say it."""
    sizes: dict[str, int] = {}
    for name, kind in given.items():
        declared, shape = body.type_of(name).shape, kind.shape
        if declared is not None and shape is not None and len(declared) == len(shape):
            sizes |= {d: size for d, size in zip(declared, shape, strict=True) if isinstance(d, str) and isinstance(size, int)}
    return sizes


def _known(shape: tuple[Dim, ...] | None) -> bool:
    return shape is not None and all(isinstance(dim, int) for dim in shape)


def _merge(declared: ValueType, inferred: ValueType | None, sizes: Mapping[str, int] | None = None) -> ValueType:
    """What is declared, completed by what was inferred and by the sizes of named dimensions."""
    if sizes and declared.shape is not None:
        declared = replace(declared, shape=tuple(sizes.get(d, d) if isinstance(d, str) else d for d in declared.shape))
    if inferred is None:
        return declared
    shape = inferred.shape
    if declared.shape is not None:
        same_rank = shape is not None and len(shape) == len(declared.shape)
        others: Sequence[Dim] = shape if same_rank and shape is not None else declared.shape
        shape = tuple(d if isinstance(d, int) else o for d, o in zip(declared.shape, others, strict=True))
    return ValueType(declared.dtype if declared.dtype is not None else inferred.dtype, shape)


def _empty(kind: ValueType, name: str, axis: int, stack: bool) -> np.ndarray:
    dims = [dim if isinstance(dim, int) else 0 for dim in kind.shape or ()]
    rank = len(dims) + stack
    if kind.shape is not None and not -rank <= axis < rank:
        raise ArgumentError(f"collected output {name!r} has no axis {axis} to put iterations along; it is {kind}")
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
    types |= {name: given[name] for name in body.captures if name in given}
    types |= {name: type_of_value(value) for name, value in body.constants.items() if name not in types}
    outputs = {name: ValueType() for name in body.outputs if name not in types}
    typed = replace(body, types={**body.types, **types, **outputs}, defaults={})  # what an input is by itself says nothing
    try:
        model = onnx.shape_inference.infer_shapes(write_model(typed, given), data_prop=True)
    except Exception as error:  # inference is a help: what it cannot do stays open
        let_through(error)
        return dict(types)
    found = {v.name: read_type(v.type) for v in (*model.graph.value_info, *model.graph.output)}
    return {**found, **types}
