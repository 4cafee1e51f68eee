"""Functions of many numbers that numpy has not, or is slow at: the error function, and the sine.

erf x = tanh (x + x r(x x)) with a polynomial r, as numpy has a fast hyperbolic tangent of float32.  An error of the
tangent's argument enters the result no larger than it is, so the result is right within 2.2 units in the last place
(scipy's within 0.5), in a sixth of the time.  The polynomial grows without an end in both directions, so that nothing need
be kept in bounds.

For a sine of float64 numpy takes 7 to 11 ns, one number after the other, but on processors with AVX-512 only 1 ns for a
tangent.  With t = tan(x / 2), sin x = 2 t / (1 + t t) holds everywhere, and an error of t enters the sine multiplied with
cos x, so never larger: the sine is right within 2.5 units in the last place (numpy's within 0.6).  The cosine has no such
form: near its zeros the digits would be lost.
"""

from __future__ import annotations

import functools
import math
import sys
from typing import Any

import numpy as np
from numpy.lib.introspect import opt_func_info

from mdf_loop.ops.batching import elementwise
from mdf_loop.ops.registry import kernel
from mdf_loop.ops.rows import Call

LEAST_OF_ERF = 64
"""Elements from which on two dozen calls of numpy cost less than one of scipy, which takes 14 ns for each."""

BLOCK = 1 << 16
"""Elements worked on at a time: they, and what comes in between, stay in the cache."""

FLOAT32 = np.dtype(np.float32)

COEFFICIENTS = [
    np.array(value, np.float32)  # as arrays: numpy takes Python's numbers in twice the time
    for value in (
        *(1.8172778139098078e-10, -8.575585470493239e-09, 1.5765618374534777e-07, -1.2996629948468354e-06),
        *(1.368123172739137e-06, 6.923243113003684e-05, -0.0005952098733779257, -0.00020670347914023544),
        *(0.10277217380508834, 0.1283791782074832),
    )
]
"""Of the highest power first; fitted so that the largest relative error of erf is the least."""


def error_function(x: Any) -> Any:
    """erf(x) of float32 or float64."""
    if type(x) is np.ndarray:
        if x.dtype == FLOAT32 and x.size >= LEAST_OF_ERF:
            return _by_tangent(x)
    elif not isinstance(x, np.generic):  # a kernel is traced, which takes no import of scipy
        return _error_function_of_math(x)
    return exact_error_function()(x)


def _by_tangent(x: np.ndarray) -> np.ndarray:
    out = np.empty(x.shape, FLOAT32)
    given, found = np.ascontiguousarray(x).reshape(-1), out.reshape(-1)
    square = np.empty(min(x.size, BLOCK), FLOAT32)
    for start in range(0, x.size, BLOCK):
        part = slice(start, start + BLOCK)
        _of_block(given[part], square[: x.size - start], found[part])
    return out


def _of_block(x: np.ndarray, square: np.ndarray, out: np.ndarray) -> None:
    np.multiply(x, x, square)
    highest, then, *rest = COEFFICIENTS
    np.multiply(square, highest, out)
    np.add(out, then, out)
    for coefficient in rest:
        np.multiply(out, square, out)
        np.add(out, coefficient, out)
    np.multiply(out, x, out)
    np.add(out, x, out)
    np.tanh(out, out)


@functools.cache
def exact_error_function() -> Call:
    """scipy's, found when first used: its import is slow and it may be absent."""
    try:
        from scipy.special import erf
    except ImportError:
        return _error_function_of_math
    return erf


_EACH = np.frompyfunc(math.erf, 1, 1)


def _error_function_of_math(x: Any) -> Any:
    found = _EACH(x)
    return found.astype(x.dtype) if hasattr(found, "astype") else x.dtype.type(found)


LEAST = 256
"""Elements from which on five calls of numpy cost less than one of its sine."""

FLOAT64 = np.dtype(np.float64)
HALF = np.array(0.5)  # as an array: numpy takes Python's numbers in twice the time


def has_fast_tangent() -> bool:
    """Whether numpy runs the tangent of float64 with AVX-512 here; it has the code for Linux alone."""
    found = opt_func_info(func_name="^tan$", signature="float64").get("tan", {})
    return sys.platform == "linux" and any(entry["current"] in ("X86_V4", "AVX512_SKX") for entry in found.values())


FAST = has_fast_tangent()


@kernel("Sin", since=7, batch=elementwise)
def sine(x: Any) -> Any:
    """sin(x)."""
    if FAST and type(x) is np.ndarray and x.size >= LEAST and x.dtype == FLOAT64:
        return by_tangent(x, np.empty_like(x))
    return np.sin(x)


def sine_into(x: np.ndarray, out: np.ndarray) -> None:
    """sin(x), written into ``out``, which may be x."""
    if FAST and out.size >= LEAST and out.dtype == FLOAT64:
        by_tangent(x, out)
    else:
        np.sin(x, out)


def by_tangent(x: np.ndarray, out: np.ndarray) -> np.ndarray:
    """t / (1/2 + t t / 2) where t = tan(x / 2)."""
    np.multiply(x, HALF, out)
    np.tan(out, out)
    below = np.multiply(out, out)
    np.multiply(below, HALF, below)
    np.add(below, HALF, below)
    return np.divide(out, below, out)
