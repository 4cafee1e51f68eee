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
from typing import Any

import numpy as np

from mdf_loop.ir import record
from mdf_loop.kernels.mdf import expression_operators as expression
from mdf_loop.kernels.numbers.arithmetic_operators import div
from mdf_loop.kernels.numbers.transcendental import error_function
from mdf_loop.step.records import UNKNOWN, Length, Size, Type

DIVISION, CALL = 12, 15
"""What dividing whole numbers, and a function, costs, beside an addition."""


@record
class Primitive:
    """One operation on elements.

    Attributes
    ----------
    call : callable
        What it is, on numpy's numbers and arrays (and on Python's numbers, where they are weak).
    ufunc : numpy.ufunc or None
        The same as a universal function, for its type rule and for ``out=``; None for what is none.
    cost : int
        What one element takes in machine code, in additions.
    is_question : bool
        The answer is a bool.
    is_python : bool
        A function of Python's, of weak numbers alone: it raises where numpy gives nan.
    is_exact : bool
        Floats have the same bits however many are computed at once: they are what IEEE 754 says.  Functions such as exp are
        not, whose last place depends on how many numbers a processor works on.
    refuses : bool
        Python may raise an error for numbers of its own, and not only for whole ones that are too large for a float.
    divides : bool
        Python's numbers are not divided by 0: numpy's are.
    bounded : callable or None
        The same for weak numbers, where a whole one may become so large that the run looks at it first.
    is_whole_apart : bool
        Whole numbers may give another number than floats of the same values: 1 // 0 is 0, and 1.0 // 0.0 is infinite.
    is_apart : bool
        numpy gives single numbers something else than elements of an array: roots of -0.0 and of minus infinity, say.
    leaves, wraps : bool
        Of whole numbers that do not wrap around by themselves: the result may leave the range of its type; it may be given
        what has left it, as wrapping around once, in the end, gives the same.
    """

    call: Callable[..., Any]
    ufunc: np.ufunc | None
    cost: int = CALL
    is_question: bool = False
    is_python: bool = False
    is_exact: bool = True
    refuses: bool = True
    divides: bool = False
    bounded: Callable[..., Any] | None = None
    is_whole_apart: bool = False
    is_apart: bool = False
    leaves: bool = False
    wraps: bool = False


def _whole(x: Any) -> Any:
    return int(x) if type(x) is float and x.is_integer() else x


def _question(call: Callable[..., Any], ufunc: np.ufunc) -> Primitive:
    return Primitive(call, ufunc, cost=1, is_question=True, refuses=False)


def _functions(names: str, **facts: Any) -> dict[str, Primitive]:
    """Functions that numpy has by the same names, but for those that begin with ``arc`` there."""
    ufuncs = {name: getattr(np, f"arc{name[1:]}" if name.startswith("a") else name) for name in names.split()}
    return {name: Primitive(ufunc, ufunc, **facts) for name, ufunc in ufuncs.items()}


_MATH = (
    "acos acosh asin asinh atan atan2 atanh cos cosh sin sinh tan tanh degrees radians hypot exp exp2 expm1 log log10 log1p log2 "
    "sqrt cbrt pow erf erfc gamma lgamma fabs fmod remainder copysign ldexp ceil floor trunc gcd lcm isfinite isinf isnan"
)

PRIMITIVES: dict[str, Primitive] = {
    "add": Primitive(operator.add, np.add, cost=1, refuses=False, leaves=True, wraps=True),
    "sub": Primitive(operator.sub, np.subtract, cost=1, refuses=False, leaves=True, wraps=True),
    "mul": Primitive(operator.mul, np.multiply, cost=1, refuses=False, bounded=expression.multiply, leaves=True, wraps=True),
    "neg": Primitive(operator.neg, np.negative, cost=1, refuses=False, leaves=True, wraps=True),
    "abs": Primitive(operator.abs, np.absolute, cost=1, refuses=False, leaves=True),  # the lowest number has no opposite
    "div": Primitive(operator.truediv, np.true_divide, cost=4, divides=True),
    "floordiv": Primitive(operator.floordiv, np.floor_divide, cost=DIVISION, divides=True, is_whole_apart=True, leaves=True),
    "mod": Primitive(operator.mod, np.remainder, cost=DIVISION, divides=True, is_whole_apart=True),
    "quotient": Primitive(div, None, cost=DIVISION, is_whole_apart=True, leaves=True),
    "pow": Primitive(operator.pow, np.power, is_exact=False, is_apart=True, bounded=expression.power),
    "shl": Primitive(operator.lshift, np.left_shift, cost=1, bounded=expression.left_shift),
    "shr": Primitive(operator.rshift, np.right_shift, cost=1),
    "and_": Primitive(operator.and_, np.bitwise_and, cost=1, refuses=False),
    "or_": Primitive(operator.or_, np.bitwise_or, cost=1, refuses=False),
    "xor": Primitive(operator.xor, np.bitwise_xor, cost=1, refuses=False),
    "not_": Primitive(operator.invert, np.invert, cost=1, refuses=False),
    "lt": _question(operator.lt, np.less),
    "le": _question(operator.le, np.less_equal),
    "gt": _question(operator.gt, np.greater),
    "ge": _question(operator.ge, np.greater_equal),
    "eq": _question(operator.eq, np.equal),
    "ne": _question(operator.ne, np.not_equal),
    "signbit": _question(np.signbit, np.signbit),
    "max": Primitive(np.maximum, np.maximum, cost=1),
    "min": Primitive(np.minimum, np.minimum, cost=1),
    "sqrt": Primitive(np.sqrt, np.sqrt, cost=6),
    **_functions("sign floor ceil rint trunc", cost=1),
    **_functions("copysign nextafter ldexp gcd lcm"),
    **_functions("fmod reciprocal", is_whole_apart=True),
    **_functions("cbrt exp exp2 expm1 log log1p log2 log10 sin cos tan sinh cosh tanh hypot", is_exact=False),
    **_functions("asin acos atan asinh acosh atanh atan2", is_exact=False),
    "erf": Primitive(error_function, None, is_exact=False),
    **{f"math.{name}": Primitive(getattr(math, name), None, is_python=True, is_exact=False) for name in _MATH.split()},
    "python.whole": Primitive(_whole, None, is_python=True, refuses=False),
    "python.round": Primitive(round, None, is_python=True, bounded=expression.round_),
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


def type_of_result(name: str, types: Sequence[Type]) -> Type:
    """The type of a primitive's result, by numpy's rules."""
    row, dtypes = PRIMITIVES[name], [t.dtype for t in types]
    for dtype in dtypes:
        if dtype is None:
            return UNKNOWN
    is_weak = True in [t.weak for t in types]
    if (is_weak or row.is_python) and (found := _type_of_python(name, row, types)) is not None:
        return found
    shape = broadcast_shape([t.shape for t in types])
    if row.is_question:
        return Type(BOOL, shape)
    is_one = not is_weak and dtypes.count(dtypes[0]) == len(dtypes)
    if row.ufunc is None or (is_one and types[0].kind not in "iubc"):  # floats stay what they are
        return Type(dtypes[0], shape)
    return Type(dtype_of_result(row.ufunc, types), shape)


def _type_of_python(name: str, row: Primitive, types: Sequence[Type]) -> Type | None:
    """The type of what Python makes of its own numbers; None where numpy makes it."""
    if name == "python.whole" and types[0].weak:
        return Type(EITHER, (), weak=True)
    if not row.is_python and (row.call is row.ufunc or row.ufunc is None or not all(t.weak for t in types)):
        return None
    is_known = all(t.weak and t.kind in _KINDS for t in types)
    return _result_of_python(row.call, "".join(t.kind for t in types)) if is_known else UNKNOWN


def dtype_of_result(ufunc: np.ufunc, types: Sequence[Type]) -> np.dtype | None:
    """The element type that a universal function gives, by numpy's rules for weak numbers; None if it takes no such values."""
    return dtypes_of(ufunc, types)[-1]


def dtypes_of(ufunc: np.ufunc, types: Sequence[Type]) -> list[np.dtype | None]:
    """The element types that a universal function takes values in, and that of its result; None for one that types do not say."""
    if True not in [t.weak for t in types]:
        return [*_resolved(ufunc, tuple([t.dtype for t in types]))]
    given = itertools.product(*[_KINDS.get(t.kind, (t.dtype,)) if t.weak and t.kind != "b" else (t.dtype,) for t in types])
    found = [{*column} for column in zip(*[_resolved(ufunc, some) for some in given], strict=True)]
    return [column.pop() if len(column) == 1 else None for column in found]


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


@functools.lru_cache(maxsize=1024)
def _resolved(ufunc: np.ufunc, given: tuple[Any, ...]) -> tuple[np.dtype | None, ...]:
    """The element types that a universal function takes and gives; None if it takes no such types."""
    try:
        return ufunc.resolve_dtypes((*given, None))
    except TypeError:
        return (None,) * (len(given) + 1)


def either_kind(one: Type, other: Type) -> Type:
    """The type of what is one of two weak numbers."""
    if not (one.weak and other.weak) or not {one.kind, other.kind} <= {"i", "f", "O"}:
        return UNKNOWN
    return one if one == other else Type(EITHER, (), weak=True)


def promoted(types: Sequence[Type]) -> np.dtype | None:
    """The element type of several values together, by numpy's rules for weak numbers."""
    first = types[0]
    if first.dtype is not None and not first.weak and all(t is first or _is_as(t, first) for t in types):
        return first.dtype
    dtypes = {t.dtype for t in types if not t.weak}
    if any(t.dtype == EITHER for t in types if t.dtype is not None):
        both = [[Type(d, (), weak=True) if t.dtype == EITHER else t for t in types] for d in (INT64, FLOAT64)]
        whole, other = map(promoted, both)
        return None if whole is None or other is None or whole != other else whole
    if any(dtype is None for dtype in dtypes):  # numpy takes None for float64, and so does ==
        return None
    try:
        return np.result_type(*[_PYTHON[t.kind](1) if t.weak else t.dtype for t in types])
    except TypeError:
        return None


def _is_as(one: Type, other: Type) -> bool:
    """Whether numbers are of the same type of numpy's."""
    return one.dtype is not None and one.dtype == other.dtype and not one.weak


def broadcast_shape(shapes: Sequence[tuple[Length, ...] | None]) -> tuple[Length, ...] | None:
    """The common shape of several; a length that only the run can tell is open.

    Raises
    ------
    ValueError
        They do not go together.
    """
    shapes = [shape for shape in shapes if shape != ()] or shapes  # numbers go with everything
    if shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    if any(shape is None for shape in shapes):
        return None
    rank = max(len(shape) for shape in shapes if shape is not None)
    columns = zip(*[(1,) * (rank - len(shape)) + shape for shape in shapes if shape is not None], strict=True)
    return tuple(map(_common_length, columns))


def _common_length(lengths: tuple[Length, ...]) -> Length:
    if lengths.count(lengths[0]) == len(lengths):
        return lengths[0]
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
