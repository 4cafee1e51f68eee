"""The primitives: operations on elements that everything element-wise is made of, each with numpy's function and its type rule.

A row says what a primitive is; printers have a template for each in tables of their own.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.kernels.numbers.arithmetic_operators import div
from mdf_loop.kernels.numbers.transcendental import error_function
from mdf_loop.step.records import UNKNOWN, Length, Size, Type


@dataclass(frozen=True)
class Primitive:
    """One operation on elements.

    Attributes
    ----------
    call : callable
        What it is, on numpy's numbers and arrays (and on Python's numbers, where they are weak).
    ufunc : numpy.ufunc or None
        The same as a universal function, for its type rule and for ``out=``; None for what is none.
    is_question : bool
        The answer is a bool.
    is_python : bool
        A function of Python's, of weak numbers alone: it raises where numpy gives nan.
    """

    call: Callable[..., Any]
    ufunc: np.ufunc | None
    is_question: bool = False
    is_python: bool = False


def _whole(x: Any) -> Any:
    return int(x) if type(x) is float and x.is_integer() else x


_OPERATORS: dict[str, tuple[np.ufunc, Callable[..., Any]]] = {
    "add": (np.add, operator.add),
    "sub": (np.subtract, operator.sub),
    "mul": (np.multiply, operator.mul),
    "div": (np.true_divide, operator.truediv),
    "floordiv": (np.floor_divide, operator.floordiv),
    "mod": (np.remainder, operator.mod),
    "neg": (np.negative, operator.neg),
    "abs": (np.absolute, operator.abs),
    "pow": (np.power, operator.pow),
    "shl": (np.left_shift, operator.lshift),
    "shr": (np.right_shift, operator.rshift),
    "and_": (np.bitwise_and, operator.and_),
    "or_": (np.bitwise_or, operator.or_),
    "xor": (np.bitwise_xor, operator.xor),
    "not_": (np.invert, operator.invert),
}
_QUESTIONS: dict[str, tuple[np.ufunc, Callable[..., Any]]] = {
    "lt": (np.less, operator.lt),
    "le": (np.less_equal, operator.le),
    "gt": (np.greater, operator.gt),
    "ge": (np.greater_equal, operator.ge),
    "eq": (np.equal, operator.eq),
    "ne": (np.not_equal, operator.ne),
    "signbit": (np.signbit, np.signbit),
}
_OF_THEIR_NAMES = (
    "fmod sign floor ceil rint trunc sqrt cbrt reciprocal exp exp2 expm1 log log1p log2 log10 sin cos tan sinh cosh tanh "
    "hypot copysign nextafter ldexp gcd lcm"
)
_UFUNCS: dict[str, np.ufunc] = {"max": np.maximum, "min": np.minimum}
_UFUNCS |= {f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")}
_UFUNCS |= {name: getattr(np, name) for name in _OF_THEIR_NAMES.split()}
_MATH = (
    "acos acosh asin asinh atan atan2 atanh cos cosh sin sinh tan tanh degrees radians hypot exp exp2 expm1 log log10 log1p log2 "
    "sqrt cbrt pow erf erfc gamma lgamma fabs fmod remainder copysign ldexp ceil floor trunc gcd lcm isfinite isinf isnan"
)

PRIMITIVES: dict[str, Primitive] = {
    "erf": Primitive(error_function, None),
    "quotient": Primitive(div, None),
    **{name: Primitive(call, ufunc) for name, (ufunc, call) in _OPERATORS.items()},
    **{name: Primitive(call, ufunc, is_question=True) for name, (ufunc, call) in _QUESTIONS.items()},
    **{name: Primitive(ufunc, ufunc) for name, ufunc in _UFUNCS.items()},
    **{f"math.{name}": Primitive(getattr(math, name), None, is_python=True) for name in _MATH.split()},
    "python.whole": Primitive(_whole, None, is_python=True),
    "python.round": Primitive(round, None, is_python=True),
}
"""All primitives by name."""

REDUCTIONS: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "any": np.logical_or,
    "all": np.logical_and,
}
"""The universal function of each kind of reduction but those that find places."""

BOOL, INT64, FLOAT64 = np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.float64)
_PYTHON: dict[str, type] = {"b": bool, "i": int, "f": float, "c": complex}
_KINDS: dict[str, tuple[type, ...]] = {**{kind: (python,) for kind, python in _PYTHON.items()}, "O": (int, float)}
EITHER = np.dtype(object)
"""The element type of weak numbers of which only the run can tell whether they are an int or a float."""
_LOGIC = {"and_", "or_", "xor", "not_", "max", "min"}
"""What gives a bool of bools; other arithmetic makes small whole numbers of them."""


def type_of_result(name: str, types: Sequence[Type]) -> Type:
    """The type of a primitive's result, by numpy's rules."""
    if any(t.dtype is None for t in types):
        return UNKNOWN
    row = PRIMITIVES[name]
    if name == "python.whole" and types[0].weak:
        return Type(EITHER, (), weak=True)
    if row.is_python or (row.call is not row.ufunc and row.ufunc is not None and all(t.weak for t in types)):
        is_known = all(t.weak and t.kind in _KINDS for t in types)
        return _result_of_python(row.call, "".join(t.kind for t in types)) if is_known else UNKNOWN
    shape = broadcast_shape([t.shape for t in types])
    if row.is_question:
        return Type(BOOL, shape)
    dtypes = {t.dtype for t in types}
    is_plain = len(dtypes) == 1 and name not in _FLOATING and (types[0].dtype != BOOL or name in _LOGIC)
    if row.ufunc is None or (is_plain and not any(t.weak for t in types)):
        return Type(types[0].dtype, shape)
    return Type(dtype_of_result(row.ufunc, types), shape)


def dtype_of_result(ufunc: np.ufunc, types: Sequence[Type]) -> np.dtype | None:
    """The element type that a universal function gives, by numpy's rules for weak numbers; None if it takes no such values."""
    given = itertools.product(*[_KINDS.get(t.kind, (t.dtype,)) if t.weak else (t.dtype,) for t in types])
    found = {_resolved(ufunc, some) for some in given}
    return found.pop() if len(found) == 1 else None


@functools.lru_cache(maxsize=1024)
def _result_of_python(call: Callable[..., Any], kinds: str) -> Type:
    """What Python makes of its own numbers: it is asked."""
    found = {_asked(call, given) for given in itertools.product(*map(_KINDS.__getitem__, kinds))}
    if None in found or (not found <= {int, float} and len(found) > 1):
        return UNKNOWN
    return Type(np.dtype(found.pop()) if len(found) == 1 else EITHER, (), weak=True)  # type: ignore[arg-type]


def _asked(call: Callable[..., Any], given: Sequence[type]) -> type | None:
    for number in (1, 2, 0):
        with contextlib.suppress(TypeError, ValueError, ArithmeticError):
            return type(call(*[kind(number) for kind in given]))
    return None


_FLOATING = {name for name, row in PRIMITIVES.items() if row.ufunc is not None and "ll->l" not in row.ufunc.types}
_FLOATING -= {"neg", "abs", "sign", "not_", "floor", "ceil", "trunc", "reciprocal"}
"""Primitives that make floats of whole numbers."""


@functools.lru_cache(maxsize=1024)
def _resolved(ufunc: np.ufunc, given: tuple[Any, ...]) -> np.dtype | None:
    """The element type that a universal function gives; None if it takes no such types."""
    try:
        return ufunc.resolve_dtypes((*given, None))[-1]
    except TypeError:
        return None


def either_kind(one: Type, other: Type) -> Type:
    """The type of what is one of two weak numbers."""
    if not (one.weak and other.weak) or not {one.kind, other.kind} <= {"i", "f", "O"}:
        return UNKNOWN
    return one if one == other else Type(EITHER, (), weak=True)


def promoted(types: Sequence[Type]) -> np.dtype | None:
    """The element type of several values together, by numpy's rules for weak numbers."""
    dtypes = {t.dtype for t in types if not t.weak}
    if any(t.dtype == EITHER for t in types if t.dtype is not None):
        return None
    if any(dtype is None for dtype in dtypes):  # numpy takes None for float64, and so does ==
        return None
    if len(dtypes) == 1 and not any(t.weak for t in types):
        return dtypes.pop()
    try:
        return np.result_type(*[_PYTHON[t.kind](1) if t.weak else t.dtype for t in types])
    except TypeError:
        return None


def broadcast_shape(shapes: Sequence[tuple[Length, ...] | None]) -> tuple[Length, ...] | None:
    """The common shape of several; a length that only the run can tell is open.

    Raises
    ------
    ValueError
        They do not go together.
    """
    if len(set(shapes)) == 1:
        return shapes[0]
    if any(shape is None for shape in shapes):
        return None
    rank = max(len(shape) for shape in shapes if shape is not None)
    columns = zip(*[(1,) * (rank - len(shape)) + shape for shape in shapes if shape is not None], strict=True)
    return tuple(map(_common_length, columns))


def _common_length(lengths: tuple[Length, ...]) -> Length:
    known = {length for length in lengths if isinstance(length, int)} - {1}
    if len(known) > 1:
        raise ValueError(f"lengths {sorted(known)} do not go together")
    if known:
        return known.pop()
    open_ones = {length for length in lengths if isinstance(length, Size)}
    if not open_ones:
        return 1
    return open_ones.pop() if len(open_ones) == 1 else Size()


def joined_shape(shapes: Sequence[tuple[Length, ...] | None], axis: int) -> tuple[Length, ...] | None:
    """The shape of a concatenation along an axis; None where a rank is unknown."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes):
        return None
    lengths = [shape[axis] for shape in known]
    total = sum(n for n in lengths if isinstance(n, int)) if all(isinstance(n, int) for n in lengths) else Size()
    others = [next((n for n in column if isinstance(n, int)), column[0]) for column in zip(*known, strict=True)]
    others[axis] = total
    return tuple(others)
