"""Functions of numbers, element by element: those of numpy and of Python's ``math``.

onnxruntime has no float64 for some of ONNX's functions; they are written by others, exact to the last places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.convert.expressions.arithmetic import common_type
from mdf_loop.convert.expressions.table import LOWERED, Emitter, Traced, lowered
from mdf_loop.convert.expressions.tracing import DOUBLE, FLOAT
from mdf_loop.types.elements import kind_of

Formula = Callable[["Formulas", str], str]


class Formulas:
    """Operators of ONNX on values of one element type, by short names."""

    def __init__(self, emitter: Emitter, dtype: np.dtype) -> None:
        self.emitter, self.dtype = emitter, dtype

    def __call__(self, op: str, *inputs: str | float) -> str:
        values = (value if isinstance(value, str) else np.array(value, self.dtype) for value in inputs)
        return self.emitter.op(op, *values)

    def where(self, test: str, then: str | float, otherwise: str | float) -> str:
        """One of two values."""
        return self("Where", test, then, otherwise)

    def log1p(self, x: str) -> str:
        """log(1 + x), exact near 0."""
        u = self("Add", x, 1.0)
        near = self("Mul", self("Log", u), self("Div", x, self("Sub", u, 1.0)))
        return self.where(self("Equal", u, 1.0), x, self.where(self._is_infinite(x), self("Log", u), near))

    def expm1(self, x: str) -> str:
        """exp(x) - 1, exact near 0."""
        u = self("Exp", x)
        less = self("Sub", u, 1.0)
        near = self("Mul", less, self("Div", x, self("Log", u)))
        is_far = self("Greater", self("Abs", x), 0.5)
        return self.where(self("Equal", u, 1.0), x, self.where(is_far, less, near))

    def atan(self, x: str) -> str:
        """arctan: from float32, made exact by Newton's method."""
        y = self.emitter.cast(self.emitter.op("Atan", self.emitter.cast(x, self.dtype, FLOAT)), FLOAT, self.dtype)
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

    def _is_infinite(self, x: str) -> str:
        return self("IsInf", x)


def _acos(f: Formulas, x: str) -> str:
    return f("Sub", math.pi / 2, f.asin(x))


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


def _trunc(f: Formulas, x: str) -> str:
    return f.where(f("Less", x, 0.0), f("Ceil", x), f("Floor", x))


def _cbrt(f: Formulas, x: str) -> str:
    root = f("Mul", f("Sign", x), f("Pow", f("Abs", x), 1 / 3))
    error = f("Sub", f("Mul", f("Mul", root, root), root), x)
    better = f("Sub", root, f("Div", error, f("Mul", f("Mul", root, root), 3.0)))
    return f.where(f("Or", f("Equal", x, 0.0), f("IsInf", x)), x, better)


def _sinc(f: Formulas, x: str) -> str:
    y = f("Mul", x, math.pi)
    return f.where(f("Equal", x, 0.0), 1.0, f("Div", f("Sin", y), y))


FORMULAS: dict[str, Formula] = {
    "tan": lambda f, x: f("Div", f("Sin", x), f("Cos", x)),
    "arcsin": lambda f, x: f.asin(x),
    "arccos": _acos,
    "arctan": lambda f, x: f.atan(x),
    "sinh": _sinh,
    "cosh": _cosh,
    "arcsinh": _asinh,
    "arccosh": _acosh,
    "arctanh": _atanh,
    "log1p": lambda f, x: f.log1p(x),
    "expm1": lambda f, x: f.expm1(x),
    "exp2": lambda f, x: f("Pow", 2.0, x),
    "log2": lambda f, x: f("Div", f("Log", x), math.log(2)),
    "log10": lambda f, x: f("Div", f("Log", x), math.log(10)),
    "square": lambda f, x: f("Mul", x, x),
    "trunc": _trunc,
    "cbrt": _cbrt,
    "sinc": _sinc,
    "degrees": lambda f, x: f("Mul", x, 180 / math.pi),
    "radians": lambda f, x: f("Mul", x, math.pi / 180),
}
FORMULAS |= {"rad2deg": FORMULAS["degrees"], "deg2rad": FORMULAS["radians"]}

OPERATORS = {
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "sin": "Sin",
    "cos": "Cos",
    "tanh": "Tanh",
    "floor": "Floor",
    "ceil": "Ceil",
    "sign": "Sign",
    "reciprocal": "Reciprocal",
}

_NAMES_IN_MATH = {
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
}


_OF_WHOLE_NUMBERS = {"sign", "square"}
"""What is computed in whole numbers where the result is whole: there it wraps around as in numpy."""


def _function(name: str, formula: Formula) -> None:
    """Write a function of one number, in the type of the result; where that is whole, in float64 with few exceptions."""

    @lowered(f"numpy.{name}", f"math.{_NAMES_IN_MATH.get(name, name)}")
    def write(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
        wanted = np.asarray(sample).dtype
        dtype = wanted if kind_of(wanted) == "float" or name in _OF_WHOLE_NUMBERS else DOUBLE
        if kind_of(inputs[0].dtype) in ("integer", "bool") and name in ("floor", "ceil", "trunc"):
            return emitter.typed(inputs[0], wanted)
        return emitter.cast(formula(Formulas(emitter, dtype), emitter.typed(inputs[0], dtype)), dtype, wanted)


for _name, _op in OPERATORS.items():
    _function(_name, lambda f, x, op=_op: f(op, x))  # type: ignore[misc]
for _name, _formula in FORMULAS.items():
    _function(_name, _formula)
for _missing in ("math.sign", "math.reciprocal", "math.square", "math.sinc", "math.rad2deg", "math.deg2rad"):
    del LOWERED[_missing]


@lowered("math.erf", "math.erfc")
def erf(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """The error function; onnxruntime has it in float32."""
    value = emitter.cast(emitter.op("Erf", emitter.typed(inputs[0], FLOAT)), FLOAT, DOUBLE)
    return emitter.op("Sub", emitter.number(1, DOUBLE), value) if emitter.where_op == "math.erfc" else value


def _two(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> tuple[Formulas, list[str]]:
    dtype = np.asarray(sample).dtype
    return Formulas(emitter, dtype), [emitter.typed(value, dtype) for value in inputs]


@lowered("numpy.hypot", "math.hypot")
def hypot(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """sqrt(a * a + b * b)."""
    f, (a, b) = _two(emitter, inputs, sample)
    return f("Sqrt", f("Add", f("Mul", a, a), f("Mul", b, b)))


@lowered("numpy.arctan2", "math.atan2")
def arctan2(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """The angle of a point (x, y)."""
    f, (y, x) = _two(emitter, inputs, sample)
    half = f.where(f("Less", y, 0.0), -math.pi, math.pi)
    angle = f.atan(f("Div", y, x))
    turned = f.where(f("Less", x, 0.0), f("Add", angle, half), angle)
    upright = f("Mul", f("Sign", y), math.pi / 2)
    return f.where(f("Equal", x, 0.0), upright, turned)


@lowered("numpy.fmod", "math.fmod")
def fmod(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """What division leaves, with the sign of a."""
    dtype = np.asarray(sample).dtype
    return emitter.op("Mod", *(emitter.typed(value, dtype) for value in inputs), fmod=1)


def _extreme(op: str, test: str, nan_wins: bool) -> None:
    @lowered(op)
    def write(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
        f, (a, b) = _two(emitter, inputs, sample)
        is_first = f(test, a, b)
        if kind_of(f.dtype) == "float":
            is_first = f("Or", is_first, f("IsNaN", a if nan_wins else b))
        return f.where(is_first, a, b)


for _op, _test, _wins in (
    ("numpy.maximum", "GreaterOrEqual", True),
    ("numpy.minimum", "LessOrEqual", True),
    ("numpy.fmax", "GreaterOrEqual", False),
    ("numpy.fmin", "LessOrEqual", False),
):
    _extreme(_op, _test, _wins)


@lowered("builtins.min", "builtins.max")
def extreme(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """The first smallest or largest of several numbers, or of the elements of an array."""
    is_min = emitter.where_op == "builtins.min"
    dtype = np.asarray(sample).dtype
    if len(inputs) == 1:
        return emitter.op("ReduceMin" if is_min else "ReduceMax", emitter.typed(inputs[0], dtype), keepdims=0)
    dtype = common_type(inputs)
    names = [emitter.typed(value, dtype) for value in inputs]
    result = names[0]
    for name in names[1:]:
        result = emitter.op("Where", emitter.op("Less" if is_min else "Greater", name, result), name, result)
    return emitter.cast(result, dtype, np.asarray(sample).dtype)


@lowered("numpy.clip")
def clip(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """Values below the second become it, those above the third become that."""
    f, (value, *limits) = _two(emitter, [v for v in inputs if v.value is not None], sample)
    for name, test, limit in zip(limits, ("Less", "Greater"), inputs[1:], strict=False):
        if limit.value is not None:
            value = f.where(f(test, value, name), name, value)
    return value


@lowered("numpy.copysign", "math.copysign")
def copysign(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """The size of a with the sign of b."""
    f, (a, b) = _two(emitter, inputs, sample)
    size = f("Abs", a)
    is_negative = f("Less", f.where(f("Equal", b, 0.0), f("Reciprocal", b), b), 0.0)
    return f.where(is_negative, f("Neg", size), size)


@lowered("numpy.heaviside")
def heaviside(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """0 below 0, 1 above, b at 0."""
    f, (a, b) = _two(emitter, inputs, sample)
    return f.where(f("Equal", a, 0.0), b, f.where(f("Less", a, 0.0), 0.0, f.where(f("IsNaN", a), a, 1.0)))


@lowered("numpy.logaddexp", "numpy.logaddexp2")
def logaddexp(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """log(exp(a) + exp(b)), or with 2 in the place of e."""
    f, (a, b) = _two(emitter, inputs, sample)
    if emitter.where_op.endswith("2"):
        a, b = (f("Mul", value, math.log(2)) for value in (a, b))
    larger = f.where(f("Greater", a, b), a, b)
    distance = f.where(f("Equal", a, b), 0.0, f("Abs", f("Sub", a, b)))
    total = f("Add", larger, f.log1p(f("Exp", f("Neg", distance))))
    return f("Div", total, math.log(2)) if emitter.where_op.endswith("2") else total


@lowered("numpy.ldexp", "math.ldexp")
def ldexp(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """a * 2 ** b."""
    f, (a, b) = _two(emitter, inputs, sample)
    return f("Mul", a, f("Pow", 2.0, b))


@lowered("numpy.signbit")
def signbit(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """Whether a number is negative, -0.0 too."""
    f = Formulas(emitter, inputs[0].dtype)
    x = emitter.typed(inputs[0])
    if kind_of(f.dtype) != "float":
        return f("Less", x, 0)
    return f("Less", f.where(f("Equal", x, 0.0), f("Reciprocal", x), x), 0.0)


def _testing(name: str, write_test: Callable[[Emitter, str], str]) -> None:
    @lowered(f"numpy.{name}", f"math.{name}")
    def write(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
        dtype = inputs[0].dtype if kind_of(inputs[0].dtype) == "float" else DOUBLE
        return write_test(emitter, emitter.typed(inputs[0], dtype))


_testing("isnan", lambda e, x: e.op("IsNaN", x))
_testing("isinf", lambda e, x: e.op("IsInf", x))
_testing("isfinite", lambda e, x: e.op("Not", e.op("Or", e.op("IsNaN", x), e.op("IsInf", x))))


@lowered("numpy.nan_to_num")
def nan_to_num(
    emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> str:
    """Numbers in place of nan and the infinities."""
    f, (x,) = _two(emitter, inputs, sample)
    if kind_of(f.dtype) != "float":
        return x
    largest = float(np.finfo(f.dtype).max)
    above, below = largest if posinf is None else posinf, -largest if neginf is None else neginf
    x = f.where(f("IsNaN", x), float(nan), x)
    infinite = f.where(f("Greater", x, 0.0), float(above), float(below))
    return f.where(f("IsInf", x), infinite, x)


@lowered("builtins.sum")
def sum_(emitter: Emitter, inputs: Sequence[Traced], sample: Any) -> str:
    """The elements along the first axis, and what they are added to."""
    dtype = np.asarray(sample).dtype
    total = emitter.op("ReduceSum", emitter.typed(inputs[0], dtype), np.array([0]), keepdims=0)
    return emitter.op("Add", total, emitter.typed(inputs[1], dtype)) if len(inputs) > 1 else total
