"""ReadValue and Assign: values that a model keeps from run to run."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mdf_loop.openvino.conversions import Nodes, Values, converts
from mdf_loop.openvino.xml import Layer, declared_shape
from mdf_loop.types.elements import CODES, DTYPES

LARGEST = 1 << 28
"""So many elements may a variable have that starts as zeros."""


@converts("ReadValue", takes=(0, 1))
def read_value(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """What was kept; in the first run the input, or zeros of the declared shape where there is none."""
    if len(nodes.path) > 1:
        raise layer.unsupported("a variable inside a body is not supported")
    id = layer.text("variable_id")
    dims = declared_shape(layer.text("variable_shape", "..."), layer)
    said = layer.text("variable_type", "dynamic")
    dtype = layer.outputs[0].kind.dtype if said == "dynamic" and layer.outputs else None
    dtype = layer.element_type("variable_type", "f32") if said != "dynamic" else dtype or DTYPES[1]
    shape = tuple(dim if isinstance(dim, int) else 0 for dim in dims or ())
    if prod(shape) > LARGEST:
        raise layer.wrong(f"the variable has shape {list(shape)}, which is more than {LARGEST} elements")
    if id not in nodes.variables:
        nodes.variables[id] = nodes.name(f"variable {id}")
    attrs: dict[str, Any] = {} if inputs else {"shape": shape, "dtype": CODES[dtype]}
    return nodes.typed(nodes.own("ReadValue", nodes.variables[id], *inputs, **attrs), dtype)


@converts("Assign")
def assign(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Keep a value for the next run."""
    if len(nodes.path) > 1:
        raise layer.unsupported("a variable inside a body is not supported")
    id = layer.text("variable_id")
    if id in nodes.assigned:
        raise layer.wrong(f"the variable {id!r} is assigned twice")
    nodes.assigned[id] = inputs[0]
    return inputs[0]
