"""Operators that give the same bits for many lanes at once as for each alone, in every engine.

They move data, or compute each element by operations that IEEE 754 defines to the last bit, or add up along an axis of
each lane in the order in which one lane does.  Functions such as ``exp`` are not among them: their last place depends on
how many numbers a processor works on at once, so bodies that use them are run lane by lane.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator

from mdf_loop.ir import Body, Node
from mdf_loop.ops.registry import lookup
from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import Apply, Region, Value
from mdf_loop.step.structure import values_in

_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Neg", "Abs", "Sqrt", "Reciprocal", "Max", "Min", "Clip", "Sign", "Floor", "Ceil")
_ROUNDED = ("Round", "Relu", "LeakyRelu", "PRelu", "ThresholdedRelu", "Where", "Identity", "Cast", "IsNaN", "IsInf")
_LOGIC = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "Not", "And", "Or", "Xor")
_PLACES = ("Reshape", "Squeeze", "Unsqueeze", "Transpose", "Concat", "Slice", "Gather", "Expand", "Shape", "Size", "Flatten")
_ALONG = ("ReduceSum", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin")

_MDF = ("add", "subtract", "multiply", "divide", "negative", "positive", "absolute", "numpy.sqrt", "numpy.maximum")
_MDF_LOGIC = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "numpy.minimum", "numpy.where")
_MDF_PLACES = ("tensor", "and", "or", "choose", "numpy.clip", "numpy.zeros_like", "numpy.ones_like", "index", "array")

EXACT = {("", op) for op in (*_ARITHMETIC, *_ROUNDED, *_LOGIC, *_PLACES, *_ALONG)} | {
    ("mdf", op) for op in (*_MDF, *_MDF_LOGIC, *_MDF_PLACES)
}
"""Operators by (domain, name)."""

SHARED = {("mdf", "power")}
"""Operators whose results have the same bits only if all lanes share their inputs, and there is no machine code for them."""

SUMS = {("", "ReduceSum")}
"""Those of them that add up, each engine in its own order where there are many terms."""

DRAWS = {
    ("", "RandomNormal"): "normal",
    ("", "RandomNormalLike"): "normal",
    ("", "RandomUniform"): "uniform",
    ("", "RandomUniformLike"): "uniform",
    ("mdf", "numpy.random.normal"): "standard_normal",
    ("mdf", "numpy.random.randn"): "standard_normal",
    ("mdf", "numpy.random.uniform"): "random",
    ("mdf", "numpy.random.rand"): "random",
}
"""Operators that draw each element by itself, and what they draw."""


SHORT = 8
"""Terms from which on the order in which they are added up is each engine's own."""


class NotBatched(Exception):
    """Something that is run lane by lane; says what."""


def refuse_inexact(body: Body, shared: Container[tuple[str, str]] = ()) -> None:
    """See that a body gives the same bits for many lanes at once; ``shared`` are operators that are seen to later.

    Raises
    ------
    NotBatched
        It does not; says which node.
    """
    for node in body.nodes:
        place = (node.domain, node.op)
        entry = lookup(node.op, node.opset, node.domain)
        if not entry.built_in or not entry.native:
            raise NotBatched(f"{called(node)} is a user's kernel")
        if place in DRAWS:
            if node.attrs.get("seed") is not None:
                raise NotBatched(f"{called(node)} has a seed of its own")
        elif place in shared:
            continue
        elif place not in EXACT or entry.batch is None:
            raise NotBatched(f"{called(node)} may differ in the last place for many lanes at once")


def adds_up_little(region: Region) -> bool:
    """Whether a Step adds up, or multiplies, no more numbers than all engines do in one order."""
    return not any(map(_adds_up, _values_of(region)))


def gives_same_bits(region: Region) -> bool:
    """Whether a Step gives the same bits in all engines, and however many are computed at once."""
    return adds_up_little(region) and all(
        v.op not in PRIMITIVES or PRIMITIVES[v.op].is_exact or v.type.kind in "biu" for v in _values_of(region)
    )


def _values_of(region: Region) -> Iterator[Value]:
    """The values of a Step, those of its operators as a whole among them."""
    for value in values_in(region):
        yield value
        if isinstance(value.attr, Apply) and value.attr.definition is not None:
            yield from _values_of(value.attr.definition)


def _adds_up(value: Value) -> bool:
    """Whether an operation adds up or multiplies so many floats that their order counts."""
    if value.op == "dot":
        return value.type.kind not in "biu"
    if value.op != "reduce" or value.attr.kind not in ("sum", "prod"):
        return False
    shape = value.args[0].type.shape
    lengths = [None if shape is None else shape[axis] for axis in value.attr.axes]
    return math.prod(n if isinstance(n, int) else SHORT for n in lengths) >= SHORT


def adds_terms_up(body: Body) -> bool:
    """Whether a body has sums, of whose terms each engine has an order of its own."""
    return any((node.domain, node.op) in SUMS for node in body.nodes)


def called(node: Node) -> str:
    """A node in a message."""
    return f"{node.op} -> {next(filter(None, node.outputs), node.name)}"
