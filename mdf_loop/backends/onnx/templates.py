"""How each primitive is spelt in operators of ONNX.

onnxruntime has no float64 for some of ONNX's functions; they are written by others, exact to the last places.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mdf_loop.backends.onnx.emission import Emission
from mdf_loop.types.elements import CODES

FLOAT = np.dtype(np.float32)
Template = Callable[..., str]


class Formulas:
    """Operators of ONNX on values of one element type, by short names; numbers become constants of that type."""

    def __init__(self, emission: Emission, dtype: np.dtype) -> None:
        self.emission, self.dtype = emission, dtype

    def __call__(self, op: str, *inputs: str | float, **attrs: Any) -> str:
        values = (x if isinstance(x, str) else np.array(x, self.dtype) for x in inputs)
        return self.emission.op(op, *values, **attrs)

    @property
    def is_float(self) -> bool:
        """Whether the elements are floats."""
        return self.dtype.kind in "fV"

    def in_float32(self, op: str, x: str) -> str:
        """A function that is computed in float32."""
        if self.dtype == FLOAT:
            return self(op, x)
        narrow = self("Cast", x, to=CODES[FLOAT])
        return self("Cast", self(op, narrow), to=CODES[self.dtype])

    def where(self, test: str, then: str | float, otherwise: str | float) -> str:
        """One of two values."""
        return self("Where", test, then, otherwise)

    def log1p(self, x: str) -> str:
        """log(1 + x), exact near 0."""
        u = self("Add", x, 1.0)
        near = self("Mul", self("Log", u), self("Div", x, self("Sub", u, 1.0)))
        return self.where(self("Equal", u, 1.0), x, self.where(self("IsInf", x), self("Log", u), near))

    def expm1(self, x: str) -> str:
        """exp(x) - 1, exact near 0."""
        u = self("Exp", x)
        less = self("Sub", u, 1.0)
        near = self("Mul", less, self("Div", x, self("Log", u)))
        is_far = self("Greater", self("Abs", x), 0.5)
        return self.where(self("Equal", u, 1.0), x, self.where(is_far, less, near))

    def atan(self, x: str) -> str:
        """arctan: from float32, made exact by Newton's method."""
        y = self.in_float32("Atan", x)
        for _ in range(2):
            sin, cos = self("Sin", y), self("Cos", y)
            error = self("Sub", sin, self("Mul", x, cos))
            y = self("Sub", y, self("Div", error, self("Add", cos, self("Mul", x, sin))))
        quarter = self("Mul", self("Sign", x), math.pi / 2)
        return self.where(self("Greater", self("Abs", x), 1e17), quarter, y)

    def asin(self, x: str) -> str:
        """arcsin."""
        rest = self("Sqrt", self("Mul", self("Sub", 1.0, x), self("Add", 1.0, x)))
        return self.atan(self("Div", x, rest))

    def is_negative(self, x: str) -> str:
        """Whether the sign is that of negative numbers, -0.0 too."""
        return self("Less", self.where(self("Equal", x, 0.0), self("Reciprocal", x), x), 0.0)


def _plain(op: str) -> Template:
    return lambda f, *inputs: f(op, *inputs)


def _whole_or(op: str) -> Template:
    """A rounding: whole numbers stay as they are."""
    return lambda f, x: f(op, x) if f.is_float else x


def _trunc(f: Formulas, x: str) -> str:
    return f.where(f("Less", x, 0.0), f("Ceil", x), f("Floor", x)) if f.is_float else x


def _sinh(f: Formulas, x: str) -> str:
    return f("Div", f("Sub", f.expm1(x), f.expm1(f("Neg", x))), 2.0)


def _cosh(f: Formulas, x: str) -> str:
    return f("Div", f("Add", f("Exp", x), f("Exp", f("Neg", x))), 2.0)


def _asinh(f: Formulas, x: str) -> str:
    a = f("Abs", x)
    root = f("Sqrt", f("Add", f("Mul", a, a), 1.0))
    near = f.log1p(f("Add", a, f("Div", f("Mul", a, a), f("Add", root, 1.0))))
    far = f("Add", f("Log", a), math.log(2))
    return f("Mul", f("Sign", x), f.where(f("Greater", a, 1e17), far, near))


def _acosh(f: Formulas, x: str) -> str:
    t = f("Sub", x, 1.0)
    return f.log1p(f("Add", t, f("Sqrt", f("Add", f("Mul", t, t), f("Mul", t, 2.0)))))


def _atanh(f: Formulas, x: str) -> str:
    return f("Div", f.log1p(f("Div", f("Mul", x, 2.0), f("Sub", 1.0, x))), 2.0)


def _cbrt(f: Formulas, x: str) -> str:
    root = f("Mul", f("Sign", x), f("Pow", f("Abs", x), 1 / 3))
    error = f("Sub", f("Mul", f("Mul", root, root), root), x)
    better = f("Sub", root, f("Div", error, f("Mul", f("Mul", root, root), 3.0)))
    return f.where(f("Or", f("Equal", x, 0.0), f("IsInf", x)), x, better)


def _atan2(f: Formulas, y: str, x: str) -> str:
    half = f.where(f("Less", y, 0.0), -math.pi, math.pi)
    angle = f.atan(f("Div", y, x))
    turned = f.where(f("Less", x, 0.0), f("Add", angle, half), angle)
    upright = f("Mul", f("Sign", y), math.pi / 2)
    return f.where(f("Equal", x, 0.0), upright, turned)


def _copysign(f: Formulas, x: str, y: str) -> str:
    size = f("Abs", x)
    return f.where(f.is_negative(y), f("Neg", size), size)


def _extreme(test: str) -> Template:
    def extreme(f: Formulas, x: str, y: str) -> str:
        is_first = f(test, x, y)
        return f.where(f("Or", is_first, f("IsNaN", x)) if f.is_float else is_first, x, y)

    return extreme


def _rest(f: Formulas, x: str, y: str) -> tuple[str, str]:
    """What the division of floats leaves, with the sign of x, and whether that is neither zero nor of the sign of y."""
    rest = f("Mod", x, y, fmod=1)
    is_other = f("Xor", f("Less", y, 0.0), f("Less", rest, 0.0))
    return rest, f("And", f("Not", f("Equal", rest, 0.0)), is_other)


def _mod(f: Formulas, x: str, y: str) -> str:
    if not f.is_float:
        return f("Mod", x, y)
    rest, is_other = _rest(f, x, y)
    nothing = f("Mul", f("Sign", y), 0.0)
    rest = f.where(is_other, f("Add", rest, y), rest)
    return f.where(f("Equal", rest, 0.0), nothing, rest)


def _floordiv(f: Formulas, x: str, y: str) -> str:
    """Rounded down.  Floats as numpy has it: x / y where y is zero, a zero with the sign of x / y."""
    if not f.is_float:
        return _floor_divided(f, x, y)
    rest, is_other = _rest(f, x, y)
    ratio = f("Div", x, y)
    whole = f("Div", f("Sub", x, rest), y)
    whole = f("Round", f.where(is_other, f("Sub", whole, 1.0), whole))
    whole = f.where(f("Equal", whole, 0.0), f("Mul", f("Sign", ratio), 0.0), whole)
    return f.where(f("Equal", y, 0.0), ratio, whole)


def _floor_divided(f: Formulas, x: str, y: str) -> str:
    """Whole numbers, without a step that could wrap around: Div rounds towards zero."""
    ratio = f("Div", x, y)
    if f.dtype.kind == "u":
        return ratio
    rest = f("Mod", x, y)  # has the sign of y
    other_signs = f("Xor", f("Less", x, 0), f("Less", y, 0))
    is_below = f("And", other_signs, f("Not", f("Equal", rest, 0)))
    return f("Sub", ratio, f.where(is_below, 1, 0))


def _shr(f: Formulas, x: str, y: str) -> str:
    """x // 2 ** y, in two steps, since the type may not hold 2 ** y."""
    bits = 8 * f.dtype.itemsize
    y = f.where(f("Greater", y, bits), bits, y)
    half = f("Div", y, 2)
    for by in (half, f("Sub", y, half)):
        x = _floor_divided(f, x, f("Pow", 2, by))
    return x


def _logic(of_booleans: str, of_integers: str) -> Template:
    return lambda f, *inputs: f(of_booleans if f.dtype.kind == "b" else of_integers, *inputs)


def _pythons_round(f: Formulas, x: str, digits: Any = None) -> str:
    if digits is None or not digits:
        return f("Round", x)
    there, back = ("Mul", "Div") if digits > 0 else ("Div", "Mul")
    scale = 10.0 ** abs(digits)
    return f(back, f("Round", f(there, x, scale)), scale)


TEMPLATES: dict[str, Template] = {
    "add": _logic("Or", "Add"),
    "mul": _logic("And", "Mul"),
    "sub": _plain("Sub"),
    "div": _plain("Div"),
    "quotient": _plain("Div"),
    "floordiv": _floordiv,
    "mod": _mod,
    "fmod": lambda f, x, y: f("Mod", x, y, fmod=1),
    "pow": _plain("Pow"),
    "neg": _plain("Neg"),
    "abs": _plain("Abs"),
    "fabs": _plain("Abs"),
    "sign": _plain("Sign"),
    "reciprocal": _plain("Reciprocal"),
    "shl": lambda f, x, y: f("Mul", x, f("Pow", 2, y)),
    "shr": _shr,
    "and_": _logic("And", "BitwiseAnd"),
    "or_": _logic("Or", "BitwiseOr"),
    "xor": _logic("Xor", "BitwiseXor"),
    "not_": _logic("Not", "BitwiseNot"),
    "lt": _plain("Less"),
    "le": _plain("LessOrEqual"),
    "gt": _plain("Greater"),
    "ge": _plain("GreaterOrEqual"),
    "eq": _plain("Equal"),
    "ne": lambda f, x, y: f("Not", f("Equal", x, y)),
    "signbit": Formulas.is_negative,
    "isnan": _plain("IsNaN"),
    "isinf": _plain("IsInf"),
    "isfinite": lambda f, x: f("Not", f("Or", f("IsNaN", x), f("IsInf", x))),
    "max": _extreme("GreaterOrEqual"),
    "min": _extreme("LessOrEqual"),
    "floor": _whole_or("Floor"),
    "ceil": _whole_or("Ceil"),
    "rint": _whole_or("Round"),
    "trunc": _trunc,
    "sqrt": _plain("Sqrt"),
    "cbrt": _cbrt,
    "exp": _plain("Exp"),
    "exp2": lambda f, x: f("Pow", 2.0, x),
    "expm1": Formulas.expm1,
    "log": _plain("Log"),
    "log1p": Formulas.log1p,
    "log2": lambda f, x: f("Div", f("Log", x), math.log(2)),
    "log10": lambda f, x: f("Div", f("Log", x), math.log(10)),
    "sin": _plain("Sin"),
    "cos": _plain("Cos"),
    "tan": lambda f, x: f("Div", f("Sin", x), f("Cos", x)),
    "asin": Formulas.asin,
    "acos": lambda f, x: f("Sub", math.pi / 2, f.asin(x)),
    "atan": Formulas.atan,
    "atan2": _atan2,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _plain("Tanh"),
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "hypot": lambda f, x, y: f("Sqrt", f("Add", f("Mul", x, x), f("Mul", y, y))),
    "copysign": _copysign,
    "ldexp": lambda f, x, y: f("Mul", x, f("Pow", 2.0, y)),
    "degrees": lambda f, x: f("Mul", x, 180 / math.pi),
    "radians": lambda f, x: f("Mul", x, math.pi / 180),
    "erf": lambda f, x: f.in_float32("Erf", x),
    "erfc": lambda f, x: f("Sub", 1.0, f.in_float32("Erf", x)),
    "whole": lambda f, x: x,
    "round": _pythons_round,
}
"""By primitive (those of Python's math have the same names): ``template(formulas, *names)`` gives the name of the result."""
