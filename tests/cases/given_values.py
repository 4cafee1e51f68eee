"""Models whose inputs have defaults, and other values for inputs: for the law that a value that is given is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper


def with_defaults(model: onnx.ModelProto, values: Mapping[str, Any], sparse: bool = False) -> onnx.ModelProto:
    """The same model, whose inputs of these names have defaults: initializers, or sparse ones where they are vectors."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for name, value in values.items():
        value = np.asarray(value)
        if sparse and value.ndim == 1 and value.size:
            made.graph.sparse_initializer.append(_sparse(name, value))
        else:
            made.graph.initializer.append(numpy_helper.from_array(value, name))
    return made


def _sparse(name: str, value: np.ndarray) -> onnx.SparseTensorProto:
    (places,) = np.nonzero(value)
    made = onnx.SparseTensorProto(dims=value.shape)
    made.values.CopyFrom(numpy_helper.from_array(value[places], name))
    made.indices.CopyFrom(numpy_helper.from_array(places.astype(np.int64), f"{name} places"))
    return made


def others(value: Any) -> Iterator[Any]:
    """Three other values of the type, shape and range of a value; fewer where there are no more."""
    if isinstance(value, list | tuple) and not all(isinstance(item, bool | int | float) for item in np.ravel(value)):
        return
    array = np.asarray(value)
    if array.dtype == bool:
        yield ~array
    elif array.dtype.kind in "iu":
        yield from (array + np.asarray(step, array.dtype) for step in (1, 2, 3))
    elif array.dtype.kind == "f":
        yield from (np.asarray(array * scale + step, array.dtype) for scale, step in ((1.5, 0.25), (0.5, 0), (1, 0.125)))
