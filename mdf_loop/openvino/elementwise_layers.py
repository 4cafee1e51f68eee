"""Layers that work element by element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdf_loop.openvino.layer_nodes import Nodes, Values, converts
from mdf_loop.openvino.xml import Layer
from mdf_loop.types.elements import kind_of

_SAME_OF_ONE = (
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cos Cosh Erf Exp Floor Identity IsNaN Log Mish Sigmoid Sign Sin Sinh Sqrt",
    "Tan Tanh",
)

_OF_ONE = {name: name for names in _SAME_OF_ONE for name in names.split()} | {
    "Ceiling": "Ceil",
    "HSwish": "HardSwish",
    "LogicalNot": "Not",
    "Negative": "Neg",
    "ReLU": "Relu",
    "SoftPlus": "Softplus",
    "SoftSign": "Softsign",
}
"""Types of one input whose meaning is that of an ONNX operator."""

_OF_TWO = {name: name for name in ["Add", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Greater", "Less"]} | {
    "GreaterEqual": "GreaterOrEqual",
    "LessEqual": "LessOrEqual",
    "LogicalAnd": "And",
    "LogicalOr": "Or",
    "LogicalXor": "Xor",
    "Maximum": "Max",
    "Minimum": "Min",
    "Multiply": "Mul",
    "Power": "Pow",
    "Subtract": "Sub",
}
"""Types of two inputs whose meaning is that of an ONNX operator."""


@converts(*_OF_ONE)
def same_of_one(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The ONNX operator of the same meaning."""
    return nodes.node(_OF_ONE[layer.type], *inputs)


@converts(*_OF_TWO, takes=2)
def same_of_two(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The ONNX operator of the same meaning."""
    broadcast(layer, nodes, inputs)
    return nodes.node(_OF_TWO[layer.type], *inputs)


def broadcast(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> None:
    """See that the rule of ``auto_broadcast`` gives what numpy's does.

    ``none`` asks for one shape; ``pdpd`` fits the second input to the first, whose shape the result has.
    """
    rule = layer.text("auto_broadcast", "numpy", ("numpy", "none", "explicit", "pdpd"))
    if rule == "numpy":
        return
    first, second = (nodes.kind(name).shape for name in inputs[:2])
    if first is None or second is None:
        return
    if rule == "pdpd":
        fits = len(second) <= len(first) and all(
            not isinstance(a, int) or not isinstance(b, int) or b in (1, a)
            for a, b in zip(first[::-1], second[::-1], strict=False)
        )
    else:
        fits = len(first) == len(second) and all(
            not isinstance(a, int) or not isinstance(b, int) or a == b for a, b in zip(first, second, strict=True)
        )
    if not fits:
        raise layer.wrong(f"auto_broadcast is {rule!r}, which shapes {list(first)} and {list(second)} do not fit")


@converts("NotEqual", takes=2)
def not_equal(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Where two values differ."""
    broadcast(layer, nodes, inputs)
    return nodes.node("Not", nodes.node("Equal", *inputs))


@converts("Divide", takes=2)
def divide(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Of whole numbers: rounded down, or cut off where m_pythondiv is false."""
    broadcast(layer, nodes, inputs)
    rounded_down = layer.flag("m_pythondiv", True)
    if rounded_down and _are_whole(nodes, inputs) is not False:
        return nodes.own("Divide", *inputs)
    return nodes.node("Div", *inputs)


def _are_whole(nodes: Nodes, inputs: Sequence[str]) -> bool | None:
    """Whether values are whole numbers; None where their type is not known."""
    dtypes = [dtype for dtype in map(nodes.dtype, inputs) if dtype is not None]
    return kind_of(dtypes[0]) == "integer" if dtypes else None


@converts("Mod", takes=2)
def mod(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The remainder with the sign of the first input."""
    broadcast(layer, nodes, inputs)
    return nodes.node("Mod", *inputs, fmod=1)


@converts("FloorMod", takes=2)
def floor_mod(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The remainder with the sign of the second input; ONNX has it for whole numbers only."""
    broadcast(layer, nodes, inputs)
    if _are_whole(nodes, inputs):
        return nodes.node("Mod", *inputs, fmod=0)
    return nodes.node("remainder", *inputs, domain="mdf")


@converts("SquaredDifference", takes=2)
def squared_difference(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """(a - b) squared."""
    broadcast(layer, nodes, inputs)
    difference = nodes.node("Sub", *inputs)
    return nodes.node("Mul", difference, difference)


@converts("BitwiseLeftShift", "BitwiseRightShift", takes=2)
def shift(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Bits moved, the sign stays; ONNX has it for numbers without a sign only."""
    broadcast(layer, nodes, inputs)
    return nodes.node("left_shift" if layer.type == "BitwiseLeftShift" else "right_shift", *inputs, domain="mdf")


@converts("Select", takes=3)
def select(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The second input where the first holds, or else the third."""
    broadcast(layer, nodes, inputs[1:])
    return nodes.node("Where", *inputs)


@converts("Convert")
def convert(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Another element type."""
    return cast_to(nodes, inputs[0], layer.element_type("destination_type"))


def cast_to(nodes: Nodes, name: str, dtype: np.dtype) -> str:
    """A Cast, also where the type stays: the layer has a value of its own."""
    from mdf_loop.types.elements import CODES

    return nodes.typed(nodes.node("Cast", name, to=CODES[dtype]), dtype, nodes.kind(name).shape)


@converts("ConvertLike", takes=2)
def convert_like(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The element type of the second input."""
    return nodes.node("CastLike", *inputs)


@converts("ConvertPromoteTypes", takes=2)
def convert_promote_types(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Both inputs with the element type that the file says they come to."""
    layer.ignore("promote_unsafe", "pytorch_scalar_promotion", "u64_integer_promotion_target")
    wanted = [port.kind.dtype for port in layer.outputs]
    if len(wanted) != 2 or None in wanted:
        raise layer.unsupported("the element types of its output ports must be declared")
    return tuple(cast_to(nodes, name, dtype) for name, dtype in zip(inputs, wanted, strict=True) if dtype is not None)


@converts("Clamp")
def clamp(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Between two bounds; those of whole numbers are rounded inwards."""
    low, high = layer.number("min"), layer.number("max")
    dtype = nodes.dtype(inputs[0])
    if dtype is None:
        raise layer.unsupported("the element type of its input must be declared")
    if kind_of(dtype) == "integer":
        limits = np.iinfo(dtype)
        bounds = [np.clip(np.ceil(low), limits.min, limits.max), np.clip(np.floor(high), limits.min, limits.max)]
        names = [
            nodes.constant(int(bound) if abs(bound) < 2**62 else limits.max if bound > 0 else limits.min, dtype)
            for bound in bounds
        ]
    else:
        names = [nodes.constant(bound, dtype) for bound in (low, high)]
    return nodes.node("Clip", inputs[0], *names)


@converts("Elu")
def elu(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """x, or alpha (exp x - 1) below 0."""
    return nodes.node("Elu", *inputs, alpha=layer.number("alpha"))


@converts("Selu", takes=3)
def selu(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """lambda x, or lambda alpha (exp x - 1) below 0, with alpha and lambda as inputs."""
    x, alpha, factor = inputs
    zero = nodes.constant(0, nodes.dtype(x))
    below = nodes.node("Mul", nodes.node("Elu", nodes.node("Min", x, zero), alpha=1.0), alpha)
    return nodes.node("Mul", nodes.node("Where", nodes.node("Greater", x, zero), x, below), factor)


@converts("PReLU", takes=2)
def p_relu(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """x, or slope x below 0; a slope of one axis goes along the channels, which are axis 1, where it is as long."""
    x, slope = inputs
    slopes, rank = nodes.kind(slope).shape, nodes.rank(x)
    channels = (nodes.kind(x).shape or (None,))[1:2]
    if (
        slopes is not None
        and rank is not None
        and len(slopes) == 1
        and slopes[0] != 1
        and rank > 2
        and channels in (slopes, (None,))
    ):
        slope = nodes.node("Reshape", slope, nodes.constant([1, -1, *[1] * (rank - 2)], np.int64))
    elif slopes is None or (rank is None and slopes != () and slopes != (1,)):
        raise layer.unsupported("the rank of its inputs must be declared")
    return nodes.node("PRelu", x, slope)


@converts("HardSigmoid", takes=3)
def hard_sigmoid(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """alpha x + beta, between 0 and 1."""
    x, alpha, beta = inputs
    line = nodes.node("Add", nodes.node("Mul", x, alpha), beta)
    return nodes.node("Clip", line, *(nodes.constant(bound, nodes.dtype(x)) for bound in (0, 1)))


@converts("HSigmoid")
def h_sigmoid(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """(x + 3) / 6, between 0 and 1."""
    (x,) = inputs
    dtype = nodes.dtype(x)
    shifted = nodes.node("Add", x, nodes.constant(3, dtype))
    cut = nodes.node("Clip", shifted, nodes.constant(0, dtype), nodes.constant(6, dtype))
    return nodes.node("Div", cut, nodes.constant(6, dtype))


@converts("Swish", takes=(1, 2))
def swish(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """x sigmoid(beta x)."""
    scaled = nodes.node("Mul", *inputs) if len(inputs) == 2 else inputs[0]
    return nodes.node("Mul", inputs[0], nodes.node("Sigmoid", scaled))


@converts("Gelu")
def gelu(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """x times the probability of being below x."""
    mode = layer.text("approximation_mode", "ERF").lower()
    if mode not in ("erf", "tanh"):
        raise layer.unsupported(f"approximation_mode is {mode!r}; known: erf, tanh")
    return nodes.node("Gelu", *inputs, approximate="tanh" if mode == "tanh" else "none")


@converts("Round")
def round_(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """To the nearest whole number; halves to the even one, or away from zero."""
    mode = layer.text("mode", "half_to_even").lower()
    if mode == "half_to_even":
        return nodes.node("Round", *inputs)
    if mode != "half_away_from_zero":
        raise layer.unsupported(f"mode is {mode!r}; known: half_to_even, half_away_from_zero")
    return nodes.own("RoundAway", *inputs)


@converts("IsInf")
def is_inf(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Where x is infinite, with a sign that is asked for."""
    negative, positive = layer.flag("detect_negative", True), layer.flag("detect_positive", True)
    return nodes.node("IsInf", *inputs, detect_negative=int(negative), detect_positive=int(positive))


@converts("IsFinite")
def is_finite(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Where x is neither infinite nor NaN."""
    (x,) = inputs
    return nodes.node("Not", nodes.node("Or", nodes.node("IsInf", x), nodes.node("IsNaN", x)))
