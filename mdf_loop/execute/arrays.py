"""Operators on arrays inside an emitted function: calls that write into a buffer which was there before.

An array of two or more elements is written over in place of making a new one; ``np.multiply(a, h, out=h)`` on one
element would cost three times as much as without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.execute.kinds import ARRAY, BOOL, OTHER, SCALAR, Kind
from mdf_loop.execute.scalars import FUNCTIONS, Operand
from mdf_loop.kernels.sine import sine_into

UFUNCS: dict[str, np.ufunc] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Abs": np.absolute,
    "Exp": np.exp,
    "Log": np.log,
    "Sqrt": np.sqrt,
    "Tanh": np.tanh,
    "Cos": np.cos,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Min": np.minimum,
    "Max": np.maximum,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "Not": np.logical_not,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Equal": np.equal,
}
"""Operators of ONNX that are one call of a ufunc."""

MDF_UFUNCS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "negative": np.negative,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}

COMPARISONS = {np.less, np.less_equal, np.greater, np.greater_equal, np.equal, *map(UFUNCS.get, ("And", "Or", "Xor", "Not"))}

SHORT_ROW, MANY = 128, 512
"""Elements of a row, and of all rows, for which copying and a call on whole arrays take less than broadcasting."""

LARGEST_SPREAD = 1 << 16
"""Elements up to which a value is copied to be as large as what it is combined with."""

Statement = tuple[str, dict[str, Any]]
"""A line of Python, ``{out}`` standing for the buffer, and the names of ours that it uses."""


def write_call(domain: str, op: str, attrs: Any, args: Sequence[Operand], result: Kind, target: str) -> list[Statement] | None:
    """The lines that compute an operator into a buffer, the target; None where only the kernel knows."""
    if not fits_a_buffer(result):
        return None
    if op in SPECIAL and domain == "":
        return SPECIAL[op](attrs, args, result)
    ufunc = (UFUNCS if domain == "" else MDF_UFUNCS if domain == "mdf" else {}).get(op)
    if op == "Div" and domain == "" and result.dtype is not None and result.dtype.kind == "f":
        ufunc = np.divide
    if ufunc is None or attrs or len(args) != ufunc.nin or not _same_types(ufunc, args, result):
        return None
    widened = _to_widen(args, result, target)
    if widened is None:
        return [_call(ufunc, args)]
    whole = [replace(arg, text="{out}", box="") if arg is widened else arg for arg in args]
    return [(f"{{out}}[...] = {widened.boxed}", {}), _call(ufunc, whole)]


def _to_widen(args: Sequence[Operand], result: Kind, target: str) -> Operand | None:
    """The one operand that is better written all over the target first: ufuncs take long to broadcast short rows."""
    narrow = [arg for arg in args if arg.kind.shape != result.shape]
    if len(args) != 2 or len(narrow) != 1 or any(arg.boxed == target for arg in args) or args[0].kind.dtype != result.dtype:
        return None
    shape, size = result.shape or (), int(np.prod(result.shape or ()))
    is_array = narrow[0].kind.form == ARRAY and len(shape) > 1
    return narrow[0] if is_array and shape[-1] <= SHORT_ROW and MANY <= size <= LARGEST_SPREAD else None


def fits_a_buffer(kind: Kind) -> bool:
    """Whether a value is written over in place of made anew."""
    if kind.form != ARRAY or kind.shape is None or kind.dtype is None:
        return False
    return kind.dtype.kind in "fiub" and int(np.prod(kind.shape)) > 1


def _same_types(ufunc: np.ufunc, args: Sequence[Operand], result: Kind) -> bool:
    """Whether the ufunc on these arguments gives the result's type by itself."""
    types = {arg.kind.dtype for arg in args}
    known = all(arg.kind.form in (ARRAY, SCALAR) or arg.kind.is_number for arg in args)
    if len(types) != 1 or not known or any(arg.kind.weak for arg in args):
        return False
    return result.dtype == np.bool_ if ufunc in COMPARISONS else result.dtype in types


def to_spread(domain: str, op: str, arg: Operand, result: Kind) -> bool:
    """Whether a value that stays the same is better brought to the result's shape once: broadcasting costs more than it."""
    shape, wanted = arg.kind.shape, result.shape
    if not arg.fixed or shape is None or wanted is None or shape == wanted or arg.kind.weak or arg.kind.form == OTHER:
        return False
    if not shape and op not in ("Max", "Min"):  # which are slow with one number for all
        return False
    return (op in UFUNCS or op == "Div" or op in MDF_UFUNCS) and int(np.prod(wanted)) <= LARGEST_SPREAD


def _call(function: Callable[..., Any], args: Sequence[Operand]) -> Statement:
    name = f"{function.__name__}_" if function.__name__ in FUNCTIONS else function.__name__  # those are for numbers
    out = "out={out}" if name in ("maximum", "minimum") else "{out}"  # numpy deprecates their third argument
    return f"{name}({', '.join(arg.boxed for arg in args)}, {out})", {name: function}


def _matmul(attrs: Any, args: Sequence[Operand], result: Kind) -> list[Statement] | None:
    """A product of matrices or vectors; the method dot costs half of matmul."""
    if any(arg.kind.form != ARRAY or arg.kind.shape is None or len(arg.kind.shape) > 2 for arg in args):
        return None
    if {arg.kind.dtype for arg in args} != {result.dtype} or result.dtype not in (np.float32, np.float64):
        return None
    return [(f"{args[0].boxed}.dot({args[1].boxed}, {{out}})", {})]


def _gemm(attrs: Any, args: Sequence[Operand], result: Kind) -> list[Statement] | None:
    """A product of matrices, and a bias added to it in place."""
    if attrs.get("alpha", 1.0) != 1 or attrs.get("beta", 1.0) != 1 or attrs.get("broadcast") or attrs.get("transA"):
        return None
    a, b = args[:2]
    if {arg.kind.dtype for arg in args} != {result.dtype} or result.dtype not in (np.float32, np.float64):
        return None
    if a.kind.shape is None or b.kind.shape is None or len(a.kind.shape) != 2 or len(b.kind.shape) != 2:
        return None
    second = f"{b.boxed}.T" if attrs.get("transB") else b.boxed
    lines: list[Statement] = [(f"{a.boxed}.dot({second}, {{out}})", {})]
    if len(args) > 2:
        lines.append((f"add({{out}}, {args[2].boxed}, {{out}})", {"add": np.add}))
    return lines


def _sigmoid(attrs: Any, args: Sequence[Operand], result: Kind) -> list[Statement] | None:
    """1 / (1 + e^-x), in four calls on one buffer."""
    if result.dtype not in (np.float32, np.float64) or args[0].kind != result:
        return None
    names = {"negative": np.negative, "exp_": np.exp, "add": np.add, "divide_": np.divide}
    one = {"one" if result.dtype == np.float64 else "one32": np.ones((), result.dtype)}
    text = next(iter(one))
    return [
        (f"negative({args[0].boxed}, {{out}})", names),
        ("exp_({out}, {out})", {}),
        (f"add({{out}}, {text}, {{out}})", one),
        (f"divide_({text}, {{out}}, {{out}})", {}),
    ]


def _sine(attrs: Any, args: Sequence[Operand], result: Kind) -> list[Statement] | None:
    """The kernel's own way, which for many elements is not numpy's."""
    if result.dtype not in (np.float32, np.float64) or args[0].kind != result:
        return None
    return [(f"sine_into({args[0].boxed}, {{out}})", {"sine_into": sine_into})]


def _where(attrs: Any, args: Sequence[Operand], result: Kind) -> list[Statement] | None:
    """One value copied, the other one put over it where the condition says so."""
    condition, a, b = args
    if condition.kind.dtype != np.bool_ or any(x.kind.dtype != result.dtype or x.kind.weak for x in (a, b)):
        return None
    if condition.kind.form == BOOL:
        return [(f"{{out}}[...] = {a.boxed} if {condition.text} else {b.boxed}", {})]
    return [
        (f"{{out}}[...] = {b.boxed}", {}),
        (f"copyto({{out}}, {a.boxed}, where={condition.boxed})", {"copyto": np.copyto}),
    ]


def _cast(attrs: Any, args: Sequence[Operand], result: Kind) -> list[Statement] | None:
    """Truth values and whole numbers as numbers of another type."""
    have, want = args[0].kind.dtype, result.dtype
    if have is None or want is None or args[0].kind.form != ARRAY or args[0].kind.shape != result.shape:
        return None
    if have.kind not in "bi" or want.kind not in "fi":
        return None
    return [(f"{{out}}[...] = {args[0].boxed}", {})]


def _concat(attrs: Any, args: Sequence[Operand], result: Kind) -> list[Statement] | None:
    """Arrays one behind the other."""
    if any(arg.kind.form != ARRAY or arg.kind.dtype != result.dtype for arg in args) or "axis" not in attrs:
        return None
    texts = ", ".join(arg.boxed for arg in args)
    return [(f"concatenate(({texts},), {int(attrs['axis'])}, {{out}})", {"concatenate": np.concatenate})]


SPECIAL = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Sigmoid": _sigmoid,
    "Sin": _sine,
    "Where": _where,
    "Cast": _cast,
    "Concat": _concat,
}
