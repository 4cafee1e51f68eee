"""Python's own operators and functions as MDF expressions use them: domain ``mdf``.

The meaning is that of Python and numpy, not of ONNX: ``/`` on integers divides truly, and Python numbers
are weak, so ``2.0 * x`` keeps the type of ``x``.  What these kernels return is a Python number where Python
would return one.  A kernel has a batching rule only if numpy values in give numpy values out: Python numbers
lose their weakness when they are stacked.

Names: operators are called as numpy calls them (``add``), functions by module (``math.exp``,
``builtins.min``); ``numpy.exp`` and its kin are in :mod:`mdf_loop.kernels.mdf.expression_functions` and
:mod:`mdf_loop.kernels.mdf.expression_arrays`.  The last ones are no functions of an expression: values between
untyped bodies and typed ones, and between MDF's engine and ONNX operators, which compute in 32 bits there.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.bounds import (
    elements_of,
    refuse_bits,
    refuse_digits,
    refuse_elements,
    refuse_matmul,
    refuse_unbounded,
)
from mdf_loop.ops.batching import Result, Rule, all_stacked, by_step, elementwise, matmul
from mdf_loop.ops.registry import Kernel, kernel, register, say
from mdf_loop.types.elements import kind_of
from mdf_loop.types.fitting import fit_values

DOMAIN = "mdf"

KINDS = ("bool", "integer", "float", "complex")
PYTHON_NUMBERS = {bool: "bool", int: "integer", float: "float", complex: "complex"}


def operation(op: str, run: Callable[..., Any], batch: Rule | None = elementwise) -> None:
    """Register a function that is its own kernel, without a layer in between."""
    register(Kernel(op, 1, run, batch, domain=DOMAIN, built_in=True))


NO_POWER = "^ is the exclusive or of whole numbers, {}bitwise_xor(a, b); a power is written **"
"""What to say where ``^`` is meant for a power, with the module in which the function is called."""


def exclusive_or(a: Any, b: Any) -> Any:
    """a ^ b, which many take for a power.

    Raises
    ------
    TypeError
        One of them is neither a whole number nor a truth value.
    """
    try:
        return a ^ b
    except TypeError as error:
        raise TypeError(NO_POWER.format("")) from error


OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "negative": operator.neg,
    "positive": operator.pos,
    "absolute": operator.abs,
    "invert": operator.invert,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": exclusive_or,
    "right_shift": operator.rshift,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}
"""``+ - / // % abs ~ & | ^ >>`` and the comparisons, element by element."""

for _op, _run in OPERATORS.items():
    operation(_op, _run)

for _op in ("less", "less_equal", "greater", "greater_equal", "equal"):
    say(_op, domain=DOMAIN, compares=True, orders=_op != "equal")
for _op in ("divide", "floor_divide", "remainder"):
    say(_op, domain=DOMAIN, divides=True)


@kernel("matmul", domain=DOMAIN, batch=matmul)
def matmul_(a, b):
    """a @ b."""
    refuse_unbounded("a product", a, b)
    refuse_matmul(a, b)
    return a @ b


@kernel("multiply", domain=DOMAIN, batch=elementwise)
def multiply(a, b):
    """a * b."""
    if type(a) is int and type(b) is int:
        refuse_bits(a.bit_length() + b.bit_length(), "a product")
    elif type(a) is np.ndarray or type(b) is np.ndarray:
        refuse_unbounded("a product", a, b)
    return a * b


def _power_rule(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """Element by element, but not where numpy gives single numbers something else than elements of an array.

    Arrays are squared and rooted by functions of their own: a square of truth values is int8 there, and the root of minus
    infinity nan, that of -0.0 itself.
    """
    a, b = args
    rows_are_arrays = stacked[0] and a.ndim > 1
    if type(b) in PYTHON_NUMBERS and rows_are_arrays:
        return elementwise(run, args, stacked, attrs)
    dtype = np.asarray(a).dtype
    if (dtype.kind == "b" and type(b) is int) or (dtype.kind == "c" and not np.isfinite(a).all()):
        return None
    if dtype.kind == "f" and np.any(np.equal(b, 0.5)) and np.any(np.signbit(a) & (np.isinf(a) | np.equal(a, 0))):
        return None
    return elementwise(run, args, stacked, attrs)


@kernel("power", domain=DOMAIN, batch=_power_rule)
def power(a, b):
    """a ** b."""
    if type(a) is int and type(b) is int:
        refuse_bits(a.bit_length() * b, "a power")
    elif type(a) is np.ndarray or type(b) is np.ndarray:
        refuse_unbounded("a power", a, b)
    return a**b


@kernel("left_shift", domain=DOMAIN, batch=elementwise)
def left_shift(a, b):
    """a << b."""
    if isinstance(a, int) and isinstance(b, int):
        refuse_bits(a.bit_length() + b, "a shift")
    else:
        refuse_unbounded("a shift", a, b)
    return a << b


for _op in ("invert", "left_shift", "bitwise_xor"):
    say(_op, domain=DOMAIN, of_bits=True)


@kernel("and", domain=DOMAIN, batch=by_step)
def and_(a, b):
    """``a and b``, where computing b cannot fail."""
    _refuse_elements(a, "(a > 0) & (b > 0)")
    return b if a else a


@kernel("or", domain=DOMAIN, batch=by_step)
def or_(a, b):
    """``a or b``, where computing b cannot fail."""
    _refuse_elements(a, "(a > 0) | (b > 0)")
    return a if a else b


@kernel("choose", domain=DOMAIN, batch=by_step)
def choose(condition, a, b):
    """``a if condition else b``, where a and b are there already."""
    _refuse_elements(condition, INSTEAD)
    return a if condition else b


def _refuse_elements(x: Any, instead: str) -> None:
    if type(x) is np.ndarray and x.size > 1:
        raise ValueError(f"an array of {x.size} elements is neither true nor false; for each element write {instead}")


INSTEAD = "numpy.where(x > 0, a, b)"
"""What chooses for each element."""


def _is_true(x: Any) -> bool:
    _refuse_elements(x, INSTEAD)
    return bool(x)


def _is_false(x: Any) -> bool:
    _refuse_elements(x, "numpy.logical_not(x)")
    return not x


operation("not", _is_false, None)


@kernel("index", domain=DOMAIN, batch=by_step)
def index(x, *, index):
    """``x[index]`` with an index that is known: integers, slices, ``...`` and None."""
    return x[index]


def _getitem_rule(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """One index of integers: of an array that stays the same, or a scalar one."""
    if attrs["index"] != ("value", 0) or not stacked[1] or args[1].dtype.kind not in "iu":
        return None
    if not stacked[0]:
        return all_stacked(args[0][args[1]])
    return all_stacked(args[0][np.arange(len(args[1])), args[1]]) if args[1].ndim == 1 and args[0].ndim > 1 else None


@kernel("getitem", domain=DOMAIN, batch=_getitem_rule)
def getitem(x, *values, index):
    """``x[...]`` with values in the index; ``index`` says where they go, see :func:`fill_index`."""
    return x[fill_index(index, values)]


@kernel("setitem", domain=DOMAIN)
def setitem(x, new, *values, index, in_place=False):
    """A copy of an array after ``x[...] = new``; ``index`` is that of ``getitem``.

    ``in_place`` is for ``x[...] += y``, where new is the sum: numpy refuses a type that a part of several elements cannot hold.
    """
    changed, at, new = np.array(x), fill_index(index, values), np.asarray(new)
    if in_place and changed[at].ndim and not fits_in_place(new.dtype, changed.dtype):
        raise TypeError(
            f"{new.dtype} does not fit into the elements of an array of {changed.dtype}; begin with an array of {new.dtype}"
        )
    changed[at] = new
    return changed


def fits_in_place(new: np.dtype, old: np.dtype) -> bool:
    """Whether numpy puts numbers of a type into elements of another one that an operator in place computes."""
    return np.can_cast(new, old, "same_kind")


def fill_index(template: Any, values: Sequence[Any]) -> Any:
    """An index with the values put in.

    ``("value", k)`` is the k-th value, ``("slice", start, stop, step)`` a slice and ``("tuple", ...)`` a tuple of
    such parts; anything else is itself.
    """
    if type(template) is not tuple:
        return template
    kind, *parts = template
    if kind == "value":
        return values[parts[0]]
    filled = [fill_index(part, values) for part in parts]
    return slice(*filled) if kind == "slice" else tuple(filled)


@kernel("whole", domain=DOMAIN, batch=by_step)
def whole(x):
    """A Python float without a fraction as an int, as MDF's engine hands it on; anything else as it is."""
    return int(x) if type(x) is float and x.is_integer() else x


@kernel("tensor", domain=DOMAIN, batch=by_step)
def tensor(x, *like, floating=False, vector=False):
    """A Python number as an array; anything else as it is.

    Its element type is that of the arrays it goes with, if their kind can hold it, else Python's own (float64,
    int64, bool).  ``floating`` makes integers floats, ``vector`` makes an array of one element.
    """
    if type(x) not in PYTHON_NUMBERS:
        return x
    if floating and type(x) is int:
        x = float(x)
    kind = KINDS.index(PYTHON_NUMBERS[type(x)])
    types = [v.dtype for v in like if isinstance(v, np.ndarray | np.generic) and kind_of(v.dtype) in KINDS]
    fitting = [dtype for dtype in types if KINDS.index(kind_of(dtype)) >= kind]
    array = np.array(x, fitting[0] if fitting else None)
    return array.reshape(1) if vector else array


@kernel("initially", domain=DOMAIN)
def initially(previous, first):
    """The previous value of a parameter, or its first one where there is no previous one."""
    return first if previous is None else previous


def _array_rule(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    n = next(len(a) for a, s in zip(args, stacked, strict=True) if s)
    rows = [a if s else np.broadcast_to(a, (n, *np.shape(a))) for a, s in zip(args, stacked, strict=True)]
    return all_stacked(np.stack(rows, axis=1).reshape((n, *attrs["shape"], *rows[0].shape[1:])))


@kernel("array", domain=DOMAIN, batch=_array_rule)
def array(*elements, shape):
    """``[a, b]``, ``[[a, b], [c, d]]``: the elements in a row, put into a shape."""
    joined = in_a_row(elements)
    return joined.reshape(shape + joined.shape[1:])


def in_a_row(elements: Sequence[Any]) -> Any:
    """Elements as an array; those of several shapes are broadcast, where numpy refuses them."""
    if any(hasattr(type(x), "__array_function__") and not isinstance(x, np.ndarray | np.generic) for x in elements):
        return np.stack(np.broadcast_arrays(*elements))  # what is no array of numpy's itself
    try:
        return np.array(elements)
    except ValueError:
        parts = [np.asarray(element) for element in elements]
        shape = np.broadcast_shapes(*(part.shape for part in parts))
        refuse_elements(len(parts) * elements_of(shape), "a list")
        return np.array([np.broadcast_to(part, shape) for part in parts])


def leaving(value: Any) -> Any:
    """What an output of an MDF graph is: a list or tuple with numbers is the array that operators make of it.

    A list of arrays is a sequence of ONNX; what cannot be an array of numbers stays as it is.
    """
    if not isinstance(value, list | tuple) or all(isinstance(item, np.ndarray) for item in value):
        return value
    try:
        array = in_a_row(value)
    except ValueError:
        return value
    return array if array.dtype.kind in "biufc" else value


@kernel("listed", domain=DOMAIN)
def listed(*elements, place):
    """An element of a list that MDF makes an array of, where it can: of an array it has the type of them all."""
    try:
        return np.array(elements)[place]
    except ValueError:
        return elements[place]


@kernel("dimension", domain=DOMAIN)
def dimension(x, *, axis):
    """``numpy.shape(x)[axis]``."""
    return np.shape(x)[axis]


def scalar(x: Any, instead: str) -> Any:
    """An array of rank 0 as the number it is: Python's functions do not all take such arrays, and none takes larger ones."""
    if not isinstance(x, np.ndarray):
        return x
    if x.size > 1:
        raise TypeError(f"it is Python's function of numbers; {instead}")
    return x if x.ndim else x[()]


def _extreme(of_python: Callable[..., Any], wins: Callable[[Any, Any], Any], args: tuple[Any, ...]) -> Any:
    """Of arrays of one element the result has the common shape and type, whichever it is: what goes on with it has one type."""
    numpys = f"write numpy.{of_python.__name__}(x), or numpy.{of_python.__name__}imum(a, b), which goes element by element"
    if len(args) > 1 and all(isinstance(a, np.ndarray) and a.ndim and a.size == 1 for a in args):
        return functools.reduce(lambda x, y: np.where(wins(y, x), y, x), args)
    compared = args if len(args) > 1 else args[0] if np.ndim(args[0]) > 1 else ()
    for each in compared if len(compared) > 1 else ():
        scalar(each, numpys)
    return of_python(*args)


@kernel("builtins.min", domain=DOMAIN, batch=by_step)
def min_(*args):
    """Python's ``min``: the first smallest of several numbers, or of the elements of one array."""
    return _extreme(builtins.min, operator.lt, args)


@kernel("builtins.max", domain=DOMAIN, batch=by_step)
def max_(*args):
    """Python's ``max``: the first largest of several numbers, or of the elements of one array."""
    return _extreme(builtins.max, operator.gt, args)


for _op in ("min", "max"):
    say(f"builtins.{_op}", domain=DOMAIN, orders=True)


@kernel("builtins.sum", domain=DOMAIN)
def sum_(x, start=0):
    """Python's ``sum``: over the first axis, one after the other."""
    return builtins.sum(x, start)


@kernel("builtins.round", domain=DOMAIN)
def round_(x, digits=None):
    """Python's ``round``: halves go to the even neighbour; without digits the result is an int."""
    refuse_digits(digits)
    return builtins.round(scalar(x, "write numpy.round(x, digits)"), digits)


@kernel("builtins.int", domain=DOMAIN)
def int_(x):
    """Python's ``int``: towards zero."""
    return int(scalar(x, "write numpy.trunc(x)"))


@kernel("builtins.float", domain=DOMAIN)
def float_(x):
    """Python's ``float``, which takes arrays of one element too, as older versions of numpy have it."""
    return float(scalar(x.reshape(()) if isinstance(x, np.ndarray) and x.size == 1 else x, "leave float() out: write x"))


operation("builtins.bool", _is_true, None)
operation("builtins.len", len, None)


def math_functions(names: str) -> None:
    """Functions of Python's ``math``: of numbers, with Python's errors (``math.sqrt(-1)``) in place of nan."""
    for name in names.split():
        operation(f"math.{name}", getattr(math, name), None)


math_functions("acos acosh asin asinh atan atan2 atanh cos cosh sin sinh tan tanh degrees radians hypot")
math_functions("exp exp2 expm1 log log10 log1p log2 sqrt cbrt pow erf erfc gamma lgamma fabs fmod remainder copysign ldexp")
math_functions("ceil floor trunc gcd lcm isfinite isinf isnan")


@kernel("to_onnx", domain=DOMAIN)
def to_onnx(x):
    """A value as MDF hands it to an operator: numbers of Python as arrays of one, float64 as float32, int32 as int64."""
    array = np.atleast_1d(x) if type(x) in (int, float) else np.asarray(x)
    return array.astype(_HANDED.get(array.dtype, array.dtype), copy=False)


_HANDED: dict[Any, Any] = {np.dtype(np.float64): np.float32, np.dtype(np.int32): np.int64}


@kernel("from_onnx", domain=DOMAIN)
def from_onnx(y):
    """What MDF makes of the only result of an operator: float32 as float64."""
    array = np.asarray(y)
    return array.astype(np.float64) if array.dtype == np.float32 else array


@kernel("fit", domain=DOMAIN)
def fit(*values, names, asked):
    """The values with the element types that a body asks of its inputs and captures of these names."""
    return tuple(fit_values(asked, dict(zip(names, values, strict=True))).values())
