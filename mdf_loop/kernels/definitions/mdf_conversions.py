"""Conversions of MDF's expressions: to Python's numbers, to numpy's, and to arrays without dimensions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mdf_loop.kernels.definitions.mdf_operators import BOOL, of_python, truth
from mdf_loop.kernels.definitions.of_shapes import is_number
from mdf_loop.ops.rows import Call, numpys


@of_python("builtins.bool")
def bool_(b, x):
    """Python's ``bool``."""
    return truth(b, x)


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
    """Python's ``round``; without digits it gives a whole number."""
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
            raise ValueError("a conversion")
        return x if not is_number(x) or x.type.is_array else b.as_array(b.strong(x))


for _name in ("array", "asarray"):
    _made(_name)


def to_onnx(b, x):
    """A value as MDF hands it to an operator of ONNX: 32 bits of 64, whole numbers the other way round.

    It is for JAX alone: machine code adds up the products behind it in another order than MDF's engine.
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
