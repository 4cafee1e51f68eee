"""RNN, GRU and LSTM: one step (Cell) or a whole sequence, as ONNX's operators.

OpenVINO has batches in front, one bias for each gate, and the gates of an LSTM in the order f, i, c, o.  ONNX has
time in front, a bias for the input and one for the state, and the order i, o, f, c.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.openvino.conversions import Nodes, Values, converts
from mdf_loop.openvino.xml import Layer

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
    w, r = (_reordered(nodes, name, _GATES[kind], 1) for name in weights[:2])
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


def _reordered(nodes: Nodes, name: str, order: list[int], axis: int) -> str:
    """The equal parts of an axis in another order."""
    if order == sorted(order):
        return name
    value = nodes.known.get(name)
    if value is not None and value.shape[axis] % len(order) == 0:
        parts = np.split(value, len(order), axis)
        return nodes.constant(np.concatenate([parts[k] for k in order], axis))
    pieces = nodes.node("Split", name, outputs=len(order), axis=axis, num_outputs=len(order))
    return nodes.node("Concat", *(pieces[k] for k in order), axis=axis)


def _bias(nodes: Nodes, name: str, kind: str, hidden: int, before_reset: bool) -> str:
    """Both biases of ONNX: the one there is, and zeros; a linear GRU has one more for the state of its last gate."""
    value, dtype = nodes.known.get(name), nodes.dtype(name)
    order = _GATES[kind]
    gates = len(order)
    n_directions = value.shape[0] if value is not None else (nodes.kind(name).shape or (1,))[0]
    n_directions = n_directions if isinstance(n_directions, int) else 1
    zeros = nodes.constant(np.zeros((n_directions, hidden * (gates - before_reset))), dtype)
    if not before_reset:
        return nodes.node("Concat", _reordered(nodes, name, order, 1), zeros, axis=1)
    front, back = nodes.node("Split", name, nodes.constant([gates * hidden, hidden], np.int64), outputs=2, axis=1)
    return nodes.node("Concat", front, zeros, back, axis=1)
