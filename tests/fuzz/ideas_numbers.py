"""Ideas for a node: arithmetic, comparisons, choices, and what is not exact."""

from __future__ import annotations

import numpy as np

from mdf_loop.types.elements import CODES

from . import contents
from .drawing import Drawing, Value, fresh

EXACT_OF_ONE = ("Neg", "Abs", "Sqrt", "Floor", "Ceil", "Round", "Relu", "Sign", "Reciprocal", "Identity", "Not", "BitwiseNot")
EXACT_OF_TWO = ("Add", "Sub", "Mul", "Div", "Add", "Sub", "Mul", "Max", "Min", "And", "Or", "Xor", "BitwiseAnd", "BitwiseXor")
COMPARISONS = ("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual")
DISCRETE = {"Floor", "Ceil", "Round", "Sign", *COMPARISONS}
"""These turn a difference in the last place into another number."""
SMOOTH_OF_ONE = ("Sin", "Cos", "Tanh", "Sigmoid", "Erf", "Softplus", "Atan", "Exp", "Gelu", "Elu", "Selu", "Mish", "HardSwish")
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceLogSumExp", "ReduceL2", "ReduceProd")


def of_one(d: Drawing) -> None:
    """An exact operator of one value."""
    op = d.choose.choice(EXACT_OF_ONE)
    if x := d.tensor(exact=op in DISCRETE):
        d.add(op, [x])


def of_two(d: Drawing) -> None:
    """An exact operator of two values that broadcast, one of them a constant now and then."""
    x = d.tensor()
    if x is None:
        return
    y = d.like(x)
    if d.choose.random() < 0.25:
        y = d.constant(fresh(d, d.choose.choice([(), (), (1,), x.shape]), x.dtype), x.dtype)
    pair = [x, y] if d.choose.random() < 0.5 else [y, x]
    d.add(d.choose.choice(EXACT_OF_TWO), pair)


def compared(d: Drawing) -> None:
    """A comparison."""
    if x := d.tensor(exact=True):
        y = d.like(x)
        if y.exact:
            d.add(d.choose.choice(COMPARISONS), [x, y])


def chosen(d: Drawing) -> None:
    """Where of a flag and two values."""
    flag, x = d.tensor("b"), d.tensor()
    if flag and x:
        d.add("Where", [flag, x, d.like(x)])


def clipped(d: Drawing) -> None:
    """Clip between values, one of which may be left out."""
    if x := d.tensor("f", "i", "u"):
        low, high = (d.constant(fresh(d, (), x.dtype), x.dtype) for _ in range(2))
        d.add("Clip", [x, low if d.choose.random() < 0.7 else None, high])


def cast(d: Drawing) -> None:
    """Another element type; a fraction that is not exact stays one."""
    to = contents.element_type(d.choose)
    if to.kind != "O" and (x := d.tensor("b", "i", "u", "f", exact=to.kind in "biu")):
        if x.dtype.kind in "fV" and to.kind in "iu" and not np.all(np.abs(np.nan_to_num(x.sample.astype(float), nan=1e9)) < 100):
            return  # ONNX does not say what is out of range
        d.add("Cast", [x], to=CODES[to])


def extreme(d: Drawing) -> None:
    """ReduceMax, ReduceMin, ArgMax and what else picks a number."""
    x = d.tensor("f", "i", "u", "b", exact=True)
    if x is None:
        return
    op, keep = d.choose.choice(["ReduceMax", "ReduceMin", "ArgMax", "ArgMin"]), d.choose.randint(0, 1)
    if op.startswith("Arg"):
        d.add(op, [x], keepdims=keep, axis=d.choose.choice([0, -1]), select_last_index=d.choose.randint(0, 1))
    else:
        d.add(op, [x, axes(d, x)], keepdims=keep)


def axes(d: Drawing, x: Value) -> Value | None:
    """Some axes of a value as a constant, or None for all."""
    rank = len(x.shape)
    if not rank or d.choose.random() < 0.3:
        return None
    return d.constant([k - rank * d.choose.randint(0, 1) for k in d.choose.sample(range(rank), d.choose.randint(1, rank))])


def whole_sum(d: Drawing) -> None:
    """Sums of whole numbers, which are exact."""
    if x := d.tensor("i", "u"):
        d.add(d.choose.choice(["ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceL1"]), [x, axes(d, x)], keepdims=0)


def divided(d: Drawing) -> None:
    """Remainders and powers of whole numbers, and shifts."""
    if x := d.tensor("i", "u"):
        op = d.choose.choice(["Mod", "Div", "Pow", "BitShift"])
        attrs = {"direction": d.choose.choice(["LEFT", "RIGHT"])} if op == "BitShift" else {}
        y = d.constant(d.choose.randint(1, 5), x.dtype) if d.choose.random() < 0.7 else d.like(x)
        d.add(op, [x, y], **attrs)


def several(d: Drawing) -> None:
    """Sum, Max, Mean and Min of three values."""
    if x := d.tensor("f"):
        d.add(d.choose.choice(["Max", "Min", "Sum"]), [x, d.like(x), d.like(x)])


def smooth(d: Drawing) -> None:
    """A transcendental function."""
    if x := d.tensor("f"):
        d.add(d.choose.choice(SMOOTH_OF_ONE), [x], exact=False)


def summed(d: Drawing) -> None:
    """A reduction of fractions."""
    if x := d.tensor("f"):
        d.add(d.choose.choice(REDUCTIONS), [x, axes(d, x)], exact=False, keepdims=d.choose.randint(0, 1))


def along_axis(d: Drawing) -> None:
    """Softmax, LogSoftmax, CumSum."""
    if x := d.tensor("f", ranks=(1, 2, 3)):
        op = d.choose.choice(["Softmax", "LogSoftmax", "CumSum", "LpNormalization"])
        if op == "CumSum":
            d.add(op, [x, d.constant(-1)], exact=False, exclusive=d.choose.randint(0, 1), reverse=d.choose.randint(0, 1))
        else:
            d.add(op, [x], exact=False, axis=d.choose.choice([0, -1]))


def product(d: Drawing) -> None:
    """A product of matrices or vectors."""
    x = d.tensor("f", ranks=(1, 2, 3))
    if x is None:
        return
    y = d.like(x)
    if d.choose.random() < 0.5:
        y = d.capture(fresh(d, (x.shape[-1], d.choose.randint(1, 3)), x.dtype))
    d.add("MatMul", [x, y], exact=False)


def decayed(d: Drawing) -> None:
    """Half of one value and another: what a filter or a leaky integrator does."""
    if x := d.tensor("f"):
        factor = d.constant(d.choose.choice([0.5, 0.9, -0.7, 1.5, 2.0, 1.0]), x.dtype)
        if half := d.add("Mul", [x, factor]):
            d.add("Add", [half, d.like(x)])


EXACT = [of_one, of_one, of_two, of_two, of_two, of_two, compared, chosen, clipped, cast, extreme, whole_sum, divided, several]
EXACT += [decayed]
SMOOTH = [of_two, of_two, of_two, chosen, several, smooth, smooth, summed, summed, along_axis, product, product, cast, decayed]
SMOOTH += [compared, whole_sum]
