"""Numbers of Python's own (weak ones) beside numpy's, in primitives.

Weak numbers stay so among themselves; what numpy's functions make of them is numpy's.  Where types cannot tell the exact type or
value, ValueError is raised and the kernel is called as a whole: rather that than another number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FLOAT64 = np.dtype(np.float64)

NUMBERS = {np.dtype(kind) for kind in (np.bool_, np.int32, np.int64, np.float64)}
"""Element types of numbers that are Python's own inside a program."""


def is_number(x: Any) -> bool:
    """Whether a value is one number."""
    return x.type.shape == ()


def all_given(*inputs: Any) -> None:
    """Refuse what was omitted."""
    if any(x is None for x in inputs):
        raise ValueError("None is no number")


def strong(b: Any, x: Any, dtype: np.dtype | None = None) -> Any:
    """A value with an element type of numpy's: that which it has, if no other one is said."""
    if (x.type.dtype if dtype is None else dtype).kind == "O":
        raise ValueError("an int or a float")
    return b.cast(x, x.type.dtype if dtype is None else dtype)


def strong_type(*inputs: Any) -> np.dtype:
    """The common element type of values, Python's numbers among them counting as numpy's (as in ``numpy.array([...])``)."""
    dtypes = {x.type.dtype for x in inputs}
    if any(dtype.kind == "O" for dtype in dtypes):
        raise ValueError("an int or a float")
    return np.result_type(*dtypes) if len(dtypes) > 1 else dtypes.pop()


def common_type(*inputs: Any) -> np.dtype:
    """The common element type of values, Python's numbers among them taking that of the others."""
    if any(x.type.kind == "O" for x in inputs):
        raise ValueError("an int or a float")
    if not any(x.type.weak for x in inputs) or all(x.type.weak for x in inputs):
        return strong_type(*inputs)
    return np.result_type(*[x.type.dtype.type(1).item() if x.type.weak else x.type.dtype for x in inputs])


def together(b: Any, dtype: np.dtype, *inputs: Any) -> tuple[Any, ...]:
    """Values in one element type; Python's whole numbers have to be some of numpy's first, if nothing else decides."""
    if all(x.type.weak for x in inputs):
        inputs = tuple(strong(b, x) if x.type.kind != "O" else b.python(x, float) for x in inputs)
    return tuple(strong(b, x, dtype) for x in inputs)


def element(b: Any, *inputs: Any, primitive: str) -> Any:
    """A primitive; numbers are brought to one type before, so that they can be Python's own inside a program."""
    all_given(*inputs)
    if not all(map(is_number, inputs)):
        return b.element(primitive, *inputs)
    found = b.result_type(primitive, *inputs)
    if found.weak or found.dtype is None:
        return b.element(primitive, *inputs)
    dtype = common_type(*inputs) if found.kind == "b" else found.dtype
    if dtype in NUMBERS and not any(x.type.kind in "uc" for x in inputs):
        inputs = together(b, dtype, *inputs)
    return b.element(primitive, *inputs)


def of_numbers(b: Any, *inputs: Any, primitive: str) -> Any:
    """A function of Python's math."""
    all_given(*inputs)
    name = primitive.removeprefix("math.")
    if not all(is_number(x) and x.type.kind in "bifO" for x in inputs):
        raise ValueError("a function of numbers")
    if name == "trunc" and not inputs[0].type.weak and (inputs[0].type.dtype != FLOAT64 or inputs[0].type.is_array):
        raise ValueError("Python does not know it")
    if name == "ldexp" and not inputs[-1].type.weak:
        raise ValueError("Python does not take it")
    return b.element(primitive, *[_pythons(b, x, name in ("gcd", "lcm")) for x in inputs])


def _pythons(b: Any, x: Any, whole: bool) -> Any:
    """A number as Python's math takes it: numpy's are floats for it, where it does not ask for whole ones."""
    if x.type.weak:
        return x
    if whole and x.type.kind != "i":
        raise ValueError("no whole number")
    return b.python(x, int if whole else float)
