"""Layers that reduce, order or run along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.openvino.conversions import Nodes, Values, converts
from mdf_loop.openvino.xml import Layer
from mdf_loop.types.elements import CODES, DTYPES

_REDUCTIONS = {
    "ReduceL1": "ReduceL1",
    "ReduceL2": "ReduceL2",
    "ReduceMax": "ReduceMax",
    "ReduceMean": "ReduceMean",
    "ReduceMin": "ReduceMin",
    "ReduceProd": "ReduceProd",
    "ReduceSum": "ReduceSum",
    "ReduceLogicalAnd": "ReduceMin",
    "ReduceLogicalOr": "ReduceMax",
}


@converts(*_REDUCTIONS, takes=2)
def reduction(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The ONNX operator of the same meaning; no axes leave the input as it is."""
    data, axes = inputs
    return nodes.node(
        _REDUCTIONS[layer.type],
        data,
        nodes.vector(axes),
        keepdims=int(layer.flag("keep_dims", False)),
        noop_with_empty_axes=1,
    )


def constant_axis(layer: Layer, nodes: Nodes, name: str) -> int:
    """An axis that comes as an input, where ONNX has an attribute."""
    values = nodes.integers(name)
    if values is None or len(values) != 1:
        raise layer.unsupported("the axis must be a constant of one element")
    return values[0]


@converts("CumSum", takes=(1, 2))
def cum_sum(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The sum of the elements so far."""
    axis = inputs[1] if len(inputs) > 1 else nodes.constant(0, np.int64)
    exclusive, reverse = layer.flag("exclusive", False), layer.flag("reverse", False)
    return nodes.node("CumSum", inputs[0], axis, exclusive=int(exclusive), reverse=int(reverse))


@converts("Softmax", "SoftMax", "LogSoftmax")
def softmax(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Along one axis, in every version: ONNX's reading from opset 13 on."""
    op = "LogSoftmax" if layer.type == "LogSoftmax" else "Softmax"
    return nodes.node(op, *inputs, axis=layer.integer("axis", 1))


@converts("TopK", takes=2)
def top_k(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The largest or smallest elements of an axis, ordered by value or by place."""
    x, k = inputs
    largest = layer.text("mode", among=("max", "min")) == "max"
    order = layer.text("sort", "none", ("value", "index", "none"))
    dtype = layer.element_type("index_element_type", "i32")
    layer.ignore("stable")  # equal elements keep their order here anyway
    axis = layer.integer("axis")
    values, places = nodes.node("TopK", x, nodes.vector(k), outputs=2, axis=axis, largest=int(largest), sorted=1)
    if order == "index":
        length = nodes.vector(k)
        places, _ = nodes.node("TopK", places, length, outputs=2, axis=axis, largest=0, sorted=1)
        values = nodes.node("GatherElements", x, places, axis=axis)
    return values, nodes.node("Cast", places, to=CODES[dtype])


@converts("NonZero")
def non_zero(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Places of what is not zero, one row for each axis."""
    return _cast(nodes, nodes.node("NonZero", *inputs), layer.element_type("output_type", "i64"))


def _cast(nodes: Nodes, name: str, dtype: np.dtype) -> str:
    """Indices with the element type the layer asks for; ONNX's are int64."""
    return name if dtype == DTYPES[7] else nodes.typed(nodes.node("Cast", name, to=CODES[dtype]), dtype)


@converts("Unique", takes=(1, 2))
def unique(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Each value once, where it first is, where each element went, and how often it is there."""
    attrs: dict[str, Any] = {"sorted": int(layer.flag("sorted", True))}
    if len(inputs) > 1:
        attrs["axis"] = constant_axis(layer, nodes, inputs[1])
    indices = layer.element_type("index_element_type", "i64")
    counts = layer.element_type("count_element_type", "i64")
    values, first, back, count = nodes.node("Unique", inputs[0], outputs=4, **attrs)
    return values, _cast(nodes, first, indices), _cast(nodes, back, indices), _cast(nodes, count, counts)


@converts("Bucketize", takes=2)
def bucketize(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The number of the interval, between sorted bounds, that each element lies in."""
    right = layer.flag("with_right_bound", True)
    dtype = layer.element_type("output_type", "i64")
    return _cast(nodes, nodes.own("Bucketize", *inputs, right=int(right)), dtype)


@converts("SearchSorted", takes=2)
def search_sorted(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Where each value would go into its sorted row."""
    right = layer.flag("right_mode", False)
    dtype = layer.element_type("output_type", "i64")
    return _cast(nodes, nodes.own("SearchSorted", *inputs, right=int(right)), dtype)
