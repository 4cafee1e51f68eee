"""Operators and functions of MDF's expressions: what Python and numpy make of numbers, in primitives; and conversions.

Weak numbers are Python's own and stay so among themselves; what numpy's functions make of them is numpy's.  Where a definition
cannot tell the exact type or value it raises ValueError, and the kernel is called as a whole: rather that than another number.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mdf_loop.kernels.definitions.of_shapes import is_number
from mdf_loop.kernels.mdf.expression_operators import DOMAIN
from mdf_loop.ops.registry import definition
from mdf_loop.ops.rows import FUNCTIONS, Call, numpys, of_given
from mdf_loop.types.elements import kind_of

BOOL, INT64, FLOAT64 = np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.float64)


def of_python(op: str) -> Call:
    """Say what an operator on Python's numbers computes; none of them may be omitted."""
    return lambda make: definition(op, domain=DOMAIN, why="python")(of_given(make))


of_python("bitwise_xor")(lambda b, *inputs: b.xor(*inputs))
numpys("numpy.lcm")(lambda b, *inputs: b.lcm(*inputs))


@of_python("positive")
def positive(b, x):
    """+x; of a truth value of Python's a whole number."""
    if x.type.weak:
        return x if x.type.kind != "b" else b.python(x, int)
    if x.type.kind == "b":
        raise ValueError("numpy refuses it")
    return b.strong(x)


FAST: dict[float, Call] = {
    -1: lambda b, x: b.reciprocal(x),
    0.5: lambda b, x: b.sqrt(x),
    1: lambda b, x: b.mul(x, 1.0),
    2: lambda b, x: b.mul(x, x),
}
"""numpy's ways for arrays of floats that are raised to single exponents; for 0 it has another."""


@of_python("power")
def power(b, x, y):
    """x ** y; whole numbers of Python's to a negative power are floats, and roots of negative ones complex."""
    if x.type.weak and y.type.weak and y.op == "const" and "f" not in (x.type.kind, y.type.kind) and y.attr < 0:
        return b.pow(b.python(x, float), b.const(float(y.attr)))
    if _may_be_refused(x, y) and not (b.takes_open and y.op != "const"):
        raise ValueError("numpy refuses negative powers of its own whole numbers: begin with a float, such as 2.0")
    if is_number(x) and not (x.type.is_array or y.type.is_array):
        return b.pow(x, y)
    if y.op == "const" and y.type.weak and x.type.kind == "f":
        if y.attr in FAST:
            return FAST[y.attr](b, x)
        if y.attr != 0 and not is_number(x):
            return b.pow(x, y)
    if b.takes_open:
        return b.pow(x, y)
    raise ValueError("numpy has other ways for single exponents of arrays")


def _may_be_refused(x: Any, y: Any) -> bool:
    """Whether an exponent may be negative where that is an error."""
    is_whole = x.type.kind in "iub" and y.type.kind == "i" and not (x.type.weak and y.type.weak)
    return is_whole and not (y.op == "const" and np.all(np.asarray(y.attr) >= 0))


@numpys("numpy.signbit")
def signbit(b, x):
    """Whether the sign is that of negative numbers, -0.0 and some nan among them."""
    x = b.strong(x)
    if kind_of(x.type.dtype) == "float":
        return b.signbit(x)
    if x.type.kind != "i":
        raise ValueError("numpy makes a float of it first")
    return b.lt(x, x.type.dtype.type(0))


@numpys("numpy.ldexp")
def ldexp(b, x, y):
    """x * 2 ** y."""
    if x.type.kind != "f" and not (is_number(x) and is_number(y)):
        raise ValueError("a type that numpy chooses by more than types")
    return b.ldexp(x, y)


# Choices


def truth(b: Any, x: Any) -> Any:
    """Whether a number, or the only element of an array, is not zero, as a truth value of Python's."""
    if not is_number(x):
        if x.type.size != 1 or not (x.type.is_static or b.takes_open):
            raise ValueError("an array of many elements is neither true nor false")
        x = b.reshape(x, ())
    return b.const(bool(x.attr)) if x.op == "const" else b.python(x, bool)


def one_of(b: Any, condition: Any, x: Any, y: Any) -> Any:
    """One of two of the same type, as it is."""
    both_weak = x.type.weak and y.type.weak
    if (x.type != y.type and not both_weak) or not x.type.is_static:
        raise ValueError("two types")
    found = b.select(condition, x, y)
    return b.as_array(found) if x.type.is_array else found


of_python("choose")(lambda b, condition, x, y: one_of(b, truth(b, condition), x, y))
of_python("and")(lambda b, x, y: one_of(b, truth(b, x), y, x))
of_python("or")(lambda b, x, y: one_of(b, truth(b, x), x, y))
of_python("not")(lambda b, x: b.eq(truth(b, x), b.const(False)))
of_python("builtins.bool")(truth)


def _extreme(kind: str, primitive: str) -> Call:
    def extreme(b: Any, *inputs: Any) -> Any:
        if b.takes_open and len(inputs) == 1:
            return b.reduce(b.reshape(*inputs, (-1,)), kind, [0])
        if len(inputs) < 2 or not (b.takes_open or all(x.type.is_static and math.prod(x.type.shape) == 1 for x in inputs)):
            raise ValueError("an array is gone through by Python")
        if all(map(is_number, inputs)) and not (b.takes_open and len({x.type for x in inputs}) > 1):
            return functools.reduce(lambda x, y: one_of(b, b.element(primitive, y, x), y, x), inputs)
        if any(map(is_number, inputs)) and not b.takes_open:
            raise ValueError("either an array or a number")
        dtype = b.common_type(*inputs)
        alike = [b.strong(x, dtype) for x in inputs]
        return functools.reduce(lambda x, y: b.select(b.element(primitive, y, x), y, x), alike)

    return extreme


of_python("builtins.min")(_extreme("min", "lt"))
of_python("builtins.max")(_extreme("max", "gt"))


@of_python("initially")
def initially(b, previous=None, first=None):
    """The previous value, or the first one where there is none."""
    if (found := first if previous is None else previous) is None:
        raise ValueError("neither is there")
    return found


@numpys("numpy.where")
def where(b, condition, x, y):
    """x where the condition is true, y elsewhere."""
    condition = condition if condition.type.kind == "b" else b.ne(condition, b.const(0))
    dtype = b.common_type(x, y)
    found = b.select(condition, b.strong(x, dtype), b.strong(y, dtype))
    return b.as_array(found) if is_number(found) and not b.traces else found


def _python(kind: type) -> Call:
    def convert(b: Any, x: Any) -> Any:
        if not is_number(x) or x.type.kind == "c":
            raise ValueError("no single number")
        return b.python(x, kind)

    return convert


of_python("builtins.int")(_python(int))


@of_python("builtins.float")
def float_(b, x):
    """Python's ``float``, of one element."""
    is_one = x.type.is_static and x.type.shape and math.prod(x.type.shape) == 1
    return _python(float)(b, b.reshape(x, ()) if is_one else x)


@of_python("builtins.round")
def round_(b, x, digits=None):
    """Python's ``round``; without digits it gives a whole number, and with them of a number of numpy's what numpy rounds."""
    if digits is not None and digits.op == "const" and is_number(x) and not x.type.weak and x.type.kind in "iuf":
        return FUNCTIONS["numpy.round"](b, x, decimals=digits.attr)
    if (
        not is_number(x)
        or (x.type.kind == "b" and not x.type.weak)
        or (digits is not None and not (x.type.weak and digits.type.weak and digits.type.kind == "i"))
    ):
        raise ValueError("numpy's rounding")
    x = x if x.type.weak else b.python(x, _KINDS[x.type.kind])
    return b.element("python.round", x) if digits is None else b.element("python.round", x, digits)


_KINDS = {"b": bool, "i": int, "u": int, "f": float}


def _converting(name: str) -> None:
    dtype = np.dtype(name)

    @numpys(f"numpy.{name}")
    def convert(b, x):
        """The value with this element type."""
        x = b.strong(x)
        return b.ne(x, b.const(x.type.dtype.type(0))) if dtype == BOOL and x.type.kind != "b" else b.cast(x, dtype)


for _name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool_"):
    _converting(_name)


@of_python("whole")
def whole(b, x):
    """A float without a fraction as a whole number: which it is, only the run can tell, and a guess is that there is one."""
    if x.type.weak and x.type.kind == "f" and b.guesses:
        return b.put_in("fraction", (x,), x.type)
    return b.element("python.whole", x) if x.type.weak and x.type.kind in "fO" else x


def _made(name: str) -> None:
    @numpys(f"numpy.{name}")
    def make(b, x, *, dtype=None):
        """The value as an array."""
        if dtype is not None and np.dtype(dtype) != x.type.dtype:
            if x.type.weak and not b.takes_open:
                raise ValueError("a number that may be too large")
            x = b.cast(x, np.dtype(dtype))
        return x if not is_number(x) or x.type.is_array else b.as_array(b.strong(x))


for _name in ("array", "asarray"):
    _made(_name)


def to_onnx(b, x):
    """A value as MDF hands it to an operator of ONNX: 32 bits of 64, whole numbers the other way round.

    It is for ONNX and JAX: machine code adds up the products behind it in another order than MDF's engine.
    """
    if x.type.dtype is None or x.type.kind not in "biuf":
        raise ValueError("the element type is known only when it runs")
    is_one, x = is_number(x) and x.type.weak and x.type.kind != "b", b.strong(x)
    x = b.cast(x, _HANDED[x.type.dtype]) if x.type.dtype in _HANDED else x
    return b.reshape(x, (1,)) if is_one else x if not is_number(x) or x.type.is_array else b.as_array(x)


_HANDED = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.int32): np.dtype(np.int64)}


@of_python("from_onnx")
def from_onnx(b, x):
    """What MDF makes of the result of an operator of ONNX: 64 bits of 32."""
    x = b.strong(x)
    x = b.cast(x, np.dtype(np.float64)) if x.type.dtype == np.float32 else x
    return x if not is_number(x) or x.type.is_array else b.as_array(x)
