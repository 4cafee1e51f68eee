"""Layers of networks: products of matrices, convolution, pooling, normalization, random numbers, recurrent cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.openvino.layer_nodes import MANY, Nodes, Values, converts
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


_ACTIVATIONS = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "hardsigmoid": "HardSigmoid"}

_GATES = {"RNN": [0], "GRU": [0, 1, 2], "LSTM": [1, 3, 0, 2]}
"""For each of ONNX's gates, which of OpenVINO's it is."""

_DEFAULT_ACTIVATIONS = {"RNN": "tanh", "GRU": "sigmoid,tanh", "LSTM": "sigmoid,tanh,tanh"}


@converts("RNNCell", takes=(4, 5))
@converts("GRUCell", takes=(4, 5))
@converts("LSTMCell", takes=(5, 7))
def cell(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """One step: a sequence of length 1 in one direction."""
    kind = layer.type.removesuffix("Cell")
    n_states = 2 if kind == "LSTM" else 1
    x, *states = (_unsqueezed(nodes, name) for name in inputs[: 1 + n_states])
    weights = [_unsqueezed(nodes, name) for name in inputs[1 + n_states :]]
    if len(weights) > 3:
        raise layer.unsupported("peepholes are not supported")
    _, *last = _run(layer, nodes, kind, x, "", states, weights, "forward")
    made = tuple(nodes.node("Squeeze", name, nodes.constant([0], np.int64)) for name in last)
    return made if len(made) > 1 else made[0]


def _unsqueezed(nodes: Nodes, name: str) -> str:
    """With an axis of one element in front; of a constant, a constant."""
    value = nodes.known.get(name)
    if value is not None:
        return nodes.constant(value[None])
    kind = nodes.kind(name)
    made = nodes.node("Unsqueeze", name, nodes.constant([0], np.int64))
    return nodes.typed(made, kind.dtype, None if kind.shape is None else (1, *kind.shape))


@converts("RNNSequence", "GRUSequence", takes=6)
@converts("LSTMSequence", takes=(7, 8))
def sequence(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """A whole sequence, forwards, backwards or both."""
    kind = layer.type.removesuffix("Sequence")
    n_states = 2 if kind == "LSTM" else 1
    x, *states = (nodes.node("Transpose", name, perm=(1, 0, 2)) for name in inputs[: 1 + n_states])
    lengths = nodes.vector(inputs[1 + n_states], np.dtype(np.int32))
    weights = list(inputs[2 + n_states :])
    if len(weights) > 3:
        raise layer.unsupported("peepholes are not supported")
    direction = layer.text("direction").lower()
    if direction not in ("forward", "reverse", "bidirectional"):
        raise layer.wrong(f"direction must be forward, reverse or bidirectional; got {direction!r}")
    y, *last = _run(layer, nodes, kind, x, lengths, states, weights, direction)
    return nodes.node("Transpose", y, perm=(2, 1, 0, 3)), *(nodes.node("Transpose", name, perm=(1, 0, 2)) for name in last)


def _run(
    layer: Layer, nodes: Nodes, kind: str, x: str, lengths: str, states: list[str], weights: list[str], direction: str
) -> tuple[str, ...]:
    """The ONNX operator; returns Y and the last of each state, as it gives them."""
    hidden = layer.integer("hidden_size")
    if not 0 < hidden < 1 << 24:
        raise layer.wrong(f"hidden_size is {hidden}")
    before_reset = kind == "GRU" and layer.flag("linear_before_reset", False)
    attrs = _attributes(layer, kind, hidden, direction)
    if kind == "GRU":
        attrs["linear_before_reset"] = int(before_reset)
    w, r = (_reordered(nodes, name, _GATES[kind]) for name in weights[:2])
    b = _bias(nodes, weights[2], kind, hidden, before_reset) if len(weights) > 2 else ""
    return nodes.node(kind, x, w, r, b, lengths, *states, outputs=1 + len(states), **attrs)


def _attributes(layer: Layer, kind: str, hidden: int, direction: str) -> dict[str, Any]:
    if layer.text("input_forget", "false") not in ("false", "0") or layer.text("weights_format", "fico") != "fico":
        raise layer.unsupported("input_forget and other orders of gates than fico are not supported")
    names = [name.strip() for name in layer.text("activations", _DEFAULT_ACTIVATIONS[kind]).lower().split(",")]
    if unknown := [name for name in names if name not in _ACTIVATIONS]:
        raise layer.unsupported(f"the activation {unknown[0]!r} is not supported; known: {', '.join(_ACTIVATIONS)}")
    both = 2 if direction == "bidirectional" else 1
    attrs: dict[str, Any] = {
        "hidden_size": hidden,
        "direction": direction,
        "activations": tuple(_ACTIVATIONS[name] for name in names) * both,
    }
    for key, name in (("activations_alpha", "activation_alpha"), ("activations_beta", "activation_beta")):
        if values := layer.numbers(key, ""):
            attrs[name] = tuple(values) * both
    if clip := layer.number("clip", 0.0):
        attrs["clip"] = clip
    return attrs


def _reordered(nodes: Nodes, name: str, order: list[int]) -> str:
    """The equal parts of the second axis in another order."""
    if order == sorted(order):
        return name
    value = nodes.known.get(name)
    if value is not None and value.shape[1] % len(order) == 0:
        parts = np.split(value, len(order), 1)
        return nodes.constant(np.concatenate([parts[k] for k in order], 1))
    pieces = nodes.node("Split", name, outputs=len(order), axis=1, num_outputs=len(order))
    return nodes.node("Concat", *(pieces[k] for k in order), axis=1)


def _bias(nodes: Nodes, name: str, kind: str, hidden: int, before_reset: bool) -> str:
    """Both biases of ONNX: the one there is, and zeros; a linear GRU has one more for the state of its last gate."""
    value, dtype = nodes.known.get(name), nodes.dtype(name)
    order = _GATES[kind]
    gates = len(order)
    n_directions = value.shape[0] if value is not None else (nodes.kind(name).shape or (1,))[0]
    n_directions = n_directions if isinstance(n_directions, int) else 1
    zeros = nodes.constant(np.zeros((n_directions, hidden * (gates - before_reset))), dtype)
    if not before_reset:
        return nodes.node("Concat", _reordered(nodes, name, order), zeros, axis=1)
    front, back = nodes.node("Split", name, nodes.constant([gates * hidden, hidden], np.int64), outputs=2, axis=1)
    return nodes.node("Concat", front, zeros, back, axis=1)
