"""Primitives on single numbers as expressions: float64, int64, int32, bool and weak numbers are Python's own inside a program.

A template gets the texts of its arguments; where it names one more than once, the argument gets a name first.  The value is
numpy's: the same bits for arithmetic, comparisons and rounding, within 3 units in the last place for the rest.  Where Python
raises and numpy does not, the program ends and the interpreter runs the same work.

Whole numbers do not wrap around in Python.  ``+ - *`` may leave the range of their type on the way, as wrapping commutes with
them; who reads the number itself checks it first (``UNCHECKED``).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.backends.python import runtime
from mdf_loop.step.records import Type

SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
"""Operators that mean the same in Python."""

UNCHECKED = {"add", "sub", "mul", "neg"}
"""What may leave the range of its type, and may be given what has left it."""

LEAVING = UNCHECKED | {"abs", "quotient", "floordiv"}
"""What may leave the range of its type: the lowest number has no opposite."""

FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    (name, "f"): getattr(math, name)
    for name in (
        *("exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "atan2", "hypot", "copysign", "fmod", "pow"),
    )
}
FUNCTIONS |= {(name, "f"): getattr(runtime, name) for name in ("floor", "ceil", "rint")}
FUNCTIONS |= {("abs", kind): operator.abs for kind in "fi"}
"""By primitive and kind: functions of numbers."""

TEMPLATES: dict[tuple[str, str], str] = {
    ("neg", "f"): "-{0}",
    ("neg", "i"): "-{0}",
    ("div", "f"): "{0} / {1} if {1} else {divide}({0}, {1})",
    ("quotient", "i"): "{0} // {1} if ({0} >= 0) == ({1} > 0) else -(-{0} // {1})",
    ("max", "f"): "{0} if {0} > {1} or {0} != {0} else {1}",
    ("min", "f"): "{0} if {0} < {1} or {0} != {0} else {1}",
    ("max", "i"): "{0} if {0} >= {1} else {1}",
    ("min", "i"): "{0} if {0} <= {1} else {1}",
    ("and_", "b"): "{0} and {1}",
    ("or_", "b"): "{0} or {1}",
    ("xor", "b"): "{0} != {1}",
    ("not_", "b"): "not {0}",
    ("and_", "i"): "{0} & {1}",
    ("or_", "i"): "{0} | {1}",
    ("xor", "i"): "{0} ^ {1}",
    ("not_", "i"): "~{0}",
    ("reciprocal", "f"): "1.0 / {0} if {0} else {divide}(1.0, {0})",
    ("sign", "f"): "1.0 if {0} > 0.0 else -1.0 if {0} < 0.0 else 0.0 if {0} == 0.0 else {0}",
    ("sign", "i"): "1 if {0} > 0 else -1 if {0} else 0",
}
"""By primitive and kind: other expressions."""

HELPERS: dict[str, Callable[..., Any]] = {"divide": runtime.divide}
"""What templates call."""

BITS = {("f", "i"): runtime.bits_of, ("i", "f"): runtime.of_bits}
"""By kinds of 64 bits: the same bits as another number."""

CASTS: dict[tuple[str, str], str] = {
    ("i", "f"): "float({0})",
    ("b", "f"): "float({0})",
    ("b", "i"): "int({0})",
    ("i", "i"): "{0}",
    ("f", "i"): "in_range(int({0}), {end})",
    ("f", "b"): "{0} != 0.0",
    ("i", "b"): "{0} != 0",
}
"""Conversions between float64, int64 and bool; nan and what is out of range are left to the interpreter."""

_BOXES = {np.dtype(box): box for box in (np.float64, np.int64, np.int32, np.bool_)}


def end_of(type: Type) -> int:
    """What is out of range for whole numbers of a type, and its negative is not."""
    return 1 << (8 * type.dtype.itemsize - 1) if type.dtype is not None else 0


def bound_of(name: str, bounds: Sequence[int]) -> int:
    """How large a result of ``LEAVING`` can be, from how large its arguments can be."""
    if name == "mul":
        return math.prod(bounds)
    return sum(bounds) if name in ("add", "sub") else bounds[0]


def is_native(type: Type) -> bool:
    """Whether a value is one of Python's numbers inside a program."""
    return type.is_number and (type.weak or type.dtype in _BOXES)


def box_of(type: Type) -> Callable[[Any], Any] | None:
    """What makes a number of a program what the kernels take; None where it is that already."""
    return _BOXES[type.dtype] if is_native(type) and not type.weak else None


def written(name: str, kind: str) -> tuple[str, bool] | None:
    """The template of a primitive for a kind of numbers, and whether an argument stands in it twice."""
    if name in SIGNS and kind in "fi":
        return f"{{0}} {SIGNS[name]} {{1}}", False
    if name in ("eq", "ne") and kind == "b":
        return f"{{0}} {SIGNS[name]} {{1}}", False
    text = TEMPLATES.get((name, kind))
    return None if text is None else (text, any(text.count(f"{{{k}}}") > 1 for k in range(2)))
