"""Layers of networks: products of matrices, convolution, pooling, normalization, random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.openvino.conversions import MANY, Nodes, Values, converts
from mdf_loop.openvino.xml import Layer
from mdf_loop.types.elements import CODES


@converts("MatMul", takes=2)
def mat_mul(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Product of matrices; a value of one axis is not transposed."""
    flags = [layer.flag("transpose_a", False), layer.flag("transpose_b", False)]
    ranks = [nodes.rank(name) for name in inputs]
    if any(flag and rank is None for flag, rank in zip(flags, ranks, strict=True)):
        return nodes.own("MatMul", *inputs, transpose_a=int(flags[0]), transpose_b=int(flags[1]))
    sides = []
    for name, flag, rank in zip(inputs, flags, ranks, strict=True):
        if flag and rank is not None and rank > 1:
            name = nodes.node("Transpose", name, perm=(*range(rank - 2), rank - 1, rank - 2))
        sides.append(name)
    return nodes.node("MatMul", *sides)


@converts("Einsum", takes=(1, MANY))
def einsum(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """A sum of products that the equation describes."""
    return nodes.node("Einsum", *inputs, equation=layer.text("equation"))


def _windows(layer: Layer, dilated: bool = True) -> dict[str, Any]:
    """Strides, padding and dilations as ONNX names them."""
    attrs: dict[str, Any] = {"strides": tuple(layer.integers("strides"))}
    begin, end = layer.integers("pads_begin", ""), layer.integers("pads_end", "")
    if dilated:
        attrs["dilations"] = tuple(layer.integers("dilations", ",".join("1" * len(attrs["strides"]))))
    auto = layer.text("auto_pad", "explicit").lower()
    if auto not in ("explicit", "notset", "same_upper", "same_lower", "valid"):
        raise layer.unsupported(f"auto_pad is {auto!r}")
    if auto in ("explicit", "notset"):
        attrs["pads"] = tuple(begin + end)
    else:
        attrs["auto_pad"] = auto.upper()
    return attrs


@converts("Convolution", takes=2)
def convolution(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Products of a kernel with each window of the input, summed."""
    return nodes.node("Conv", *inputs, **_windows(layer))


@converts("GroupConvolution", takes=2)
def group_convolution(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """A convolution for each group of channels; the groups are the first axis of the kernels."""
    shape = nodes.kind(inputs[1]).shape
    if shape is None or len(shape) < 3 or not all(isinstance(dim, int) for dim in shape[:3]):
        raise layer.unsupported("the shape of its kernels must be declared")
    groups, rest = shape[0], shape[2:]
    dims = [-1, *(dim if isinstance(dim, int) else 0 for dim in rest)]
    kernels = nodes.node("Reshape", inputs[1], nodes.constant(dims, np.int64))
    return nodes.node("Conv", inputs[0], kernels, group=groups, **_windows(layer))


@converts("ConvolutionBackpropData", takes=(2, 3))
def convolution_backprop(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """A convolution the other way round."""
    padding = tuple(layer.integers("output_padding", ""))
    attrs = _windows(layer) | ({"output_padding": padding} if padding else {})
    if len(inputs) > 2:
        shape = nodes.integers(inputs[2])
        if shape is None:
            raise layer.unsupported("the shape of its output must be a constant")
        attrs["output_shape"] = tuple(shape)
        attrs.pop("pads", None)
    return nodes.node("ConvTranspose", *inputs[:2], **attrs)


@converts("MaxPool")
def max_pool(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The largest element of each window; from version 8 on also where it was."""
    attrs = _windows(layer, dilated=layer.opset >= 8)
    attrs["kernel_shape"] = tuple(layer.integers("kernel"))
    attrs["ceil_mode"] = int(_rounds_up(layer))
    if layer.opset < 8:
        return nodes.node("MaxPool", *inputs, **attrs)
    dtype = layer.element_type("index_element_type", "i64")
    if layer.integer("axis", 0) != 0:
        raise layer.unsupported("places can only be counted from axis 0")
    values, places = nodes.node("MaxPool", *inputs, outputs=2, **attrs)
    return values, nodes.node("Cast", places, to=CODES[dtype])


def _rounds_up(layer: Layer) -> bool:
    return layer.text("rounding_type", "floor", ("floor", "ceil", "ceil_torch")) != "floor"


@converts("AvgPool")
def avg_pool(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The mean of each window."""
    attrs = _windows(layer, dilated=layer.opset >= 16)
    attrs["kernel_shape"] = tuple(layer.integers("kernel"))
    attrs["ceil_mode"] = int(_rounds_up(layer))
    attrs["count_include_pad"] = int(not layer.flag("exclude-pad"))
    return nodes.node("AveragePool", *inputs, **attrs)


@converts("BatchNormInference", takes=5)
def batch_norm(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Scaled and shifted by channel; version 1 has the data as its third input."""
    gamma, beta, data, mean, variance = inputs
    if layer.opset >= 5:
        data, gamma, beta = gamma, beta, data
    return nodes.node("BatchNormalization", data, gamma, beta, mean, variance, epsilon=layer.number("epsilon"))


@converts("MVN", takes=2)
def mvn(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The mean taken off along axes, and divided by the deviation."""
    if layer.opset < 6:
        raise layer.unsupported("only its version 6 is supported")
    x, axes = inputs[0], nodes.vector(inputs[1])
    mode = layer.text("eps_mode", "inside_sqrt").lower()
    centred = nodes.node("Sub", x, nodes.node("ReduceMean", x, axes, keepdims=1))
    if not layer.flag("normalize_variance", True):
        layer.ignore("eps")
        return centred
    variance = nodes.node("ReduceMean", nodes.node("Mul", centred, centred), axes, keepdims=1)
    eps = nodes.constant(layer.number("eps"), nodes.dtype(x))
    if mode == "inside_sqrt":
        return nodes.node("Div", centred, nodes.node("Sqrt", nodes.node("Add", variance, eps)))
    return nodes.node("Div", centred, nodes.node("Add", nodes.node("Sqrt", variance), eps))


@converts("NormalizeL2", takes=2)
def normalize_l2(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Divided by the length along axes."""
    x, axes = inputs[0], nodes.vector(inputs[1])
    mode = layer.text("eps_mode", "add", ("add", "max"))
    squares = nodes.node("ReduceSumSquare", x, axes, keepdims=1, noop_with_empty_axes=1)
    eps = nodes.constant(layer.number("eps"), nodes.dtype(x))
    bounded = nodes.node("Add" if mode == "add" else "Max", squares, eps)
    return nodes.node("Div", x, nodes.node("Sqrt", bounded))


@converts("GroupNormalization", takes=3)
def group_normalization(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Groups of channels normalized each, then scaled and shifted by channel."""
    return nodes.node("GroupNormalization", *inputs, num_groups=layer.integer("num_groups"), epsilon=layer.number("epsilon"))


@converts("LRN", takes=2)
def lrn(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Divided by a power of the mean square of the channels around."""
    if nodes.integers(inputs[1]) != [1]:
        raise layer.unsupported("only its axis 1 is supported")
    names = {"alpha": "alpha", "beta": "beta", "bias": "bias"}
    attrs: dict[str, Any] = {name: layer.number(key) for key, name in names.items()}
    return nodes.node("LRN", inputs[0], size=layer.integer("size"), **attrs)


@converts("ScaledDotProductAttention", takes=(3, 5))
def attention(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Values weighted by how well keys fit the queries; a mask and a scale may be given."""
    return nodes.own("ScaledDotProductAttention", *inputs, causal=int(layer.flag("causal", False)))


@converts("FakeQuantize", takes=5)
def fake_quantize(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Rounded to one of so many levels between bounds, and mapped to other bounds."""
    layer.text("auto_broadcast", "numpy", ("numpy",))
    levels = layer.integer("levels")
    if levels < 2:
        raise layer.wrong(f"levels is {levels}; it must be 2 or more")
    return nodes.own("FakeQuantize", *inputs, levels=levels)


@converts("RandomUniform", takes=3)
def random_uniform(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Random numbers between two bounds, from the stream of the run: not the numbers that OpenVINO draws."""
    layer.ignore("global_seed", "op_seed", "alignment")
    dtype = layer.element_type("output_type")
    return nodes.typed(nodes.own("RandomUniform", nodes.vector(inputs[0]), *inputs[1:], dtype=CODES[dtype]), dtype)
