"""Primitives on single numbers as expressions: float64, int64, int32, bool and weak numbers are Python's own inside a program.

A template gets the texts of its arguments; where it names one more than once, the argument gets a name first.  The value is
numpy's: the same bits for arithmetic, comparisons and rounding, within 3 units in the last place for the rest.  Where Python
raises and numpy does not, the program ends and the interpreter runs the same work.

Whole numbers do not wrap around in Python.  ``+ - *`` may leave the range of their type on the way, as wrapping commutes with
them; who reads the number itself checks it first.

Weak numbers are what Python makes of them, with Python's errors, and whole numbers among them have no end.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.backends.python import runtime
from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import Type, Value

SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
    "and_": "&", "or_": "|", "xor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip
"""Python's operators."""

INFIX = {name: f"{{0}} {sign} {{1}}" for name, sign in SIGNS.items()}

TEMPLATES: dict[tuple[str, str], str] = {
    **{(name, kind): INFIX[name] for kind in "fi" for name in ("add", "sub", "mul", "floordiv", "mod")},
    **{(name, kind): INFIX[name] for kind in "fi" for name in ("lt", "le", "gt", "ge", "eq", "ne")},
    **{(name, "i"): INFIX[name] for name in ("and_", "or_", "xor")},
    **{(name, "b"): INFIX[name] for name in ("eq", "ne")},
    ("neg", "f"): "-{0}",
    ("neg", "i"): "-{0}",
    ("div", "f"): "{0} / {1} if {1} else {divide}({0}, {1})",
    ("quotient", "i"): "{0} // {1} if ({0} >= 0) == ({1} > 0) else -(-{0} // {1})",
    ("max", "f"): "{0} if {0} > {1} or {0} != {0} else {1}",
    ("min", "f"): "{0} if {0} < {1} or {0} != {0} else {1}",
    ("max", "i"): "{0} if {0} >= {1} else {1}",
    ("min", "i"): "{0} if {0} <= {1} else {1}",
    ("floor", "i"): "{0}",
    ("ceil", "i"): "{0}",
    ("trunc", "i"): "{0}",
    ("and_", "b"): "{0} and {1}",
    ("or_", "b"): "{0} or {1}",
    ("xor", "b"): "{0} != {1}",
    ("not_", "b"): "not {0}",
    ("not_", "i"): "~{0}",
    ("reciprocal", "f"): "1.0 / {0} if {0} else {divide}(1.0, {0})",
    ("sign", "f"): "1.0 if {0} > 0.0 else -1.0 if {0} < 0.0 else 0.0 if {0} == 0.0 else {0}",
    ("sign", "i"): "1 if {0} > 0 else -1 if {0} else 0",
}
"""By primitive and kind: expressions."""

_MATH = (
    "exp expm1 log log1p log2 log10 sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf atan2 hypot copysign "
    "fmod pow exp2 cbrt nextafter"
)

FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    **{(name, "f"): getattr(math, name) for name in _MATH.split()},
    **{(name, "f"): getattr(runtime, name) for name in ("floor", "ceil", "rint", "trunc")},
    **{("abs", kind): operator.abs for kind in "fi"},
    ("gcd", "i"): math.gcd,
}
"""By primitive and kind: functions of numbers, where there is no expression."""

HELPERS: dict[str, Callable[..., Any]] = {"divide": runtime.divide}
"""What templates call."""

WEAK: dict[str, str] = {**INFIX, "neg": "-{0}", "not_": "~{0}"}
"""By primitive: expressions of Python's own numbers, whatever their kinds."""

CASTS: dict[tuple[str, str], str] = {
    ("i", "f"): "float({0})",
    ("b", "f"): "float({0})",
    ("b", "i"): "int({0})",
    ("i", "i"): "{0}",
    ("f", "i"): "in_range(int({0}), {end})",
    ("f", "b"): "{0} != 0.0",
    ("i", "b"): "{0} != 0",
    ("O", "f"): "float({0})",
    ("O", "i"): "in_range(int({0}), {end})",
    ("O", "b"): "bool({0})",
}
"""Conversions between float64, int64 and bool; nan and what is out of range are left to the interpreter."""

PYTHON_CASTS: dict[tuple[str, str], str] = {
    ("f", "f"): "{0}",
    ("i", "i"): "{0}",
    ("b", "b"): "{0}",
    ("f", "b"): "{0} != 0.0",
    ("i", "b"): "{0} != 0",
}
"""Conversions to Python's own numbers; the others are calls of their types."""

_BOXES = {np.dtype(box): box for box in (np.float64, np.int64, np.int32, np.bool_)}


def end_of(type: Type) -> int:
    """What is out of range for whole numbers of a type, and its negative is not."""
    return 1 << (8 * type.dtype.itemsize - 1) if type.dtype is not None else 0


def bound_of(name: str, bounds: Sequence[int]) -> int:
    """How large a result can be that may leave its type, from how large its arguments can be."""
    if name == "mul":
        return math.prod(bounds)
    return sum(bounds) if name in ("add", "sub") else bounds[0]


def is_native(type: Type) -> bool:
    """Whether a value is one of Python's numbers inside a program."""
    return type.shape == () and (type.weak or type.dtype in _BOXES)


def box_of(type: Type) -> Callable[[Any], Any] | None:
    """What makes a number of a program what the kernels take; None where it is that already."""
    if type.is_array:
        return functools.partial(np.array, dtype=type.dtype) if is_native(type) else np.asarray
    return _BOXES.get(type.dtype) if is_native(type) and not type.weak and type.dtype is not None else None


def unbounded(value: Value) -> Callable[..., Any] | None:
    """What looks at the size of a weak whole number that a primitive gives; None where it needs no look."""
    row = PRIMITIVES.get(value.op)
    if row is None or not value.type.weak or (value.op == "mul" and value.type.kind not in "iO"):
        return None
    return runtime.power if value.op == "pow" else row.bounded


def written(name: str, kind: str, weak: bool) -> tuple[str, bool] | None:
    """The template of a primitive for a kind of numbers, and whether an argument stands in it twice."""
    if weak:
        if (name, kind) == ("python.whole", "f"):
            return "int({0}) if {0}.is_integer() else {0}", True
        return (WEAK[name], False) if name in WEAK else None
    text = TEMPLATES.get((name, kind))
    return None if text is None else (text, any(text.count(f"{{{k}}}") > 1 for k in range(2)))
