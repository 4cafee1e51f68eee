"""Layers that reduce, order or run along axes, and that take or put elements by their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.openvino.layer_nodes import Nodes, Values, converts
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


@converts("Gather", takes=(2, 3))
def gather(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Entries of an axis by their places; within each batch where there are batch axes."""
    batch = layer.integer("batch_dims", 0)
    data, indices = inputs[:2]
    if len(inputs) > 2 and nodes.integers(inputs[2]) is None:
        return nodes.own("Gather", *inputs, batch_dims=batch)
    axis = constant_axis(layer, nodes, inputs[2]) if len(inputs) > 2 else 0
    if batch:
        return nodes.own("Gather", data, indices, nodes.constant(axis, np.int64), batch_dims=batch)
    return nodes.node("Gather", data, indices, axis=axis)


@converts("GatherElements", takes=2)
def gather_elements(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """For each index the element at that place of an axis."""
    return nodes.node("GatherElements", *inputs, axis=layer.integer("axis"))


@converts("GatherND", takes=2)
def gather_nd(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Slices by rows of coordinates; version 5 joins several batch axes to one."""
    batch = layer.integer("batch_dims", 0)
    if batch > 1 and layer.opset < 8:
        return nodes.own("GatherNDJoined", *inputs, batch_dims=batch)
    return nodes.node("GatherND", *inputs, batch_dims=batch)


@converts("ScatterUpdate", takes=4)
def scatter_update(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Entries of an axis put in the places that the indices name."""
    data, indices, updates, axis = inputs
    if nodes.integers(axis) == [0]:
        rows = nodes.node("Unsqueeze", nodes.cast(indices, np.dtype(np.int64)), nodes.constant([-1], np.int64))
        return nodes.node("ScatterND", data, rows, updates)
    return nodes.own("ScatterUpdate", *inputs)


_REDUCED = {"none": "none", "sum": "add", "prod": "mul", "min": "min", "max": "max"}


@converts("ScatterElementsUpdate", takes=4)
def scatter_elements_update(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Elements put in, or joined with what is there."""
    data, indices, updates, axis = inputs
    reduction = layer.text("reduction", "none", (*_REDUCED, "mean"))
    uses_data = layer.flag("use_init_val", True)
    place = constant_axis(layer, nodes, axis)
    if reduction == "none" or (uses_data and reduction != "mean"):
        return nodes.node("ScatterElements", data, indices, updates, axis=place, reduction=_REDUCED[reduction])
    return nodes.own("ScatterElements", data, indices, updates, axis=place, reduction=reduction, use_init_val=int(uses_data))


@converts("ScatterNDUpdate", takes=3)
def scatter_nd_update(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Slices put in by rows of coordinates, or joined with what is there."""
    reduction = layer.text("reduction", "none", (*_REDUCED, "sub"))
    data, indices, updates = inputs
    if reduction == "sub":
        updates, reduction = nodes.node("Neg", updates), "sum"
    return nodes.node("ScatterND", data, nodes.cast(indices, np.dtype(np.int64)), updates, reduction=_REDUCED[reduction])


@converts("Slice", takes=(4, 5))
def slice_(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """A range of each axis: data, starts, stops, steps and, if not all in order, the axes."""
    data, start, stop, step, *axes = inputs
    return nodes.node("Slice", data, *map(nodes.vector, (start, stop, *axes)), *([""] if not axes else []), nodes.vector(step))


_MASKS = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")

Masks = dict[str, Any]

FAR = 2**62
"""Beyond the end of any axis."""


@converts("StridedSlice", takes=(3, 4))
def strided_slice(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """numpy's x[begin:end:stride] with masks that say where a bound is open, an axis new, single, or an ellipsis."""
    masks: Masks = {key: tuple(int(bool(v)) for v in layer.integers(key, "")) for key in _MASKS}
    data, *bounds = (inputs[0], *map(nodes.vector, inputs[1:]))
    known = [nodes.integers(name) for name in bounds]
    if len(known) == 2 and known[0] is not None:
        known.append([1] * len(known[0]))
    begin, end, stride = known
    rank = nodes.rank(data)
    if begin is not None and end is not None and stride is not None and rank is not None and any(masks["ellipsis_mask"]):
        begin, end, stride = _without_ellipsis(begin, end, stride, masks, rank)
    if begin is None or end is None or stride is None or 0 in stride or any(masks["ellipsis_mask"]):
        return nodes.own("StridedSlice", data, *bounds, **masks)
    if not len(begin) == len(end) == len(stride):
        raise layer.wrong(f"it has {len(begin)} begins, {len(end)} ends and {len(stride)} strides")
    return _sliced(nodes, data, begin, end, stride, masks)


def _without_ellipsis(
    begin: list[int], end: list[int], stride: list[int], masks: Masks, rank: int
) -> tuple[list[int], list[int], list[int]]:
    """The same with the ellipsis written out as whole axes, in the masks as well."""
    wide = {key: [*mask, *[0] * (len(begin) - len(mask))][: len(begin)] for key, mask in masks.items()}
    place = wide["ellipsis_mask"].index(1)
    new = sum(flag for k, flag in enumerate(wide["new_axis_mask"]) if k != place)
    count = rank - (len(begin) - 1 - new)
    for key, mask in wide.items():
        masks[key] = (*mask[:place], *[int(key in ("begin_mask", "end_mask"))] * count, *mask[place + 1 :])
    return tuple([*row[:place], *[fill] * count, *row[place + 1 :]] for row, fill in ((begin, 0), (end, 0), (stride, 1)))  # type: ignore[return-value]


def _sliced(nodes: Nodes, data: str, begin: list[int], end: list[int], stride: list[int], masks: Masks) -> str:
    """The same by ONNX's Slice, Squeeze and Unsqueeze."""

    def says(key: str, k: int) -> bool:
        return k < len(masks[key]) and bool(masks[key][k])

    rows: list[tuple[int, ...]] = []
    new: list[int] = []
    single: list[int] = []
    axis = 0
    for k, (first, last, step) in enumerate(zip(begin, end, stride, strict=True)):
        if says("new_axis_mask", k):
            new.append(len(new) + axis - len(single))
            continue
        if says("shrink_axis_mask", k):
            single.append(axis)
            rows.append((first, first + 1 if first != -1 else FAR, axis, 1))
        else:
            first = first if not says("begin_mask", k) else 0 if step > 0 else FAR
            last = last if not says("end_mask", k) else FAR if step > 0 else -FAR
            rows.append((first, last, axis, step))
        axis += 1
    out = nodes.node("Slice", data, *(nodes.constant(column, np.int64) for column in zip(*rows, strict=True))) if rows else data
    out = nodes.node("Squeeze", out, nodes.constant(single, np.int64)) if single else out
    return nodes.node("Unsqueeze", out, nodes.constant(new, np.int64)) if new else out


@converts("SliceScatter", takes=(5, 6))
def slice_scatter(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Updates put into a range of each axis: data, updates, starts, stops, steps and the axes."""
    return nodes.own("SliceScatter", *inputs[:2], *map(nodes.vector, inputs[2:]))


@converts("OneHot", takes=4)
def one_hot(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """One value at the place that an index names, another everywhere else; an index out of range is nowhere."""
    places, count = (nodes.cast(x, DTYPES[7]) for x in inputs[:2])
    if layer.text("negative_indices_mode", "ignore_negative", ("ignore_negative", "normalize")) == "ignore_negative":
        places = nodes.node("Where", nodes.node("Less", places, nodes.constant(0, np.int64)), count, places)
    off_on = nodes.node("Concat", *(nodes.node("Reshape", x, nodes.constant([1], np.int64)) for x in inputs[:1:-1]), axis=0)
    return nodes.node("OneHot", places, count, off_on, axis=layer.integer("axis", -1))


@converts("ReverseSequence", takes=2)
def reverse_sequence(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The first elements of each sequence turned round."""
    batch, time = layer.integer("batch_axis", 0), layer.integer("seq_axis", 1)
    rank = nodes.rank(inputs[0])
    if (batch < 0 or time < 0) and rank is None:
        raise layer.unsupported("the rank of its input must be declared")
    batch, time = (axis + (rank or 0) if axis < 0 else axis for axis in (batch, time))
    lengths = nodes.vector(inputs[1])
    if (batch, time) in ((0, 1), (1, 0)):
        return nodes.node("ReverseSequence", inputs[0], lengths, batch_axis=batch, time_axis=time)
    return nodes.own("ReverseSequence", inputs[0], lengths, batch_axis=batch, time_axis=time)
