"""numpy's own functions that draw one number, for programs, and what of them a program may do itself.

A normal number is nearly always one number of the stream times a factor: numpy's ziggurat, whose factors, and up to where
they hold, are asked of numpy here.  What is beyond is left to numpy's function, which draws from the program's stream, so that
the numbers are those of its methods whatever it does.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from mdf_loop.errors import let_through

PREFIX = "random_"

NAMES = ("random_normal", "random_uniform")
"""Functions that numpy's documents offer to others (``c_distributions.pxd``), each of a stream and two parameters."""

LAYERS, BITS = 256, 52
"""Of the ziggurat, and of the whole number that a factor is for."""


@functools.cache
def _library() -> Any:
    from numpy.random import _generator

    return ctypes.CDLL(_generator.__file__)


@functools.cache
def addresses() -> Mapping[str, int]:
    """Where the functions are; empty where numpy was built without offering them."""
    try:
        return {name: ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value or 0 for name in NAMES}
    except (AttributeError, OSError) as error:  # pragma: no cover - as on Windows
        let_through(error)
        return {}


@functools.cache
def drawing(name: str) -> Any:
    """One of the functions, to be called with the address of a stream and two parameters."""
    function = getattr(_library(), name)
    function.restype, function.argtypes = ctypes.c_double, (ctypes.c_void_p, ctypes.c_double, ctypes.c_double)
    return function


class Ziggurat(NamedTuple):
    """For each layer a factor, and the whole number up to which it is all there is to a normal number."""

    factors: np.ndarray
    bounds: np.ndarray


class _Stream(ctypes.Structure):
    """numpy's ``bitgen_t``, which it documents for streams of others (``numpy/random/bitgen.h``)."""

    _fields_ = (("state", ctypes.c_void_p), *((name, ctypes.c_void_p) for name in ("next64", "next32", "double", "raw")))


@functools.cache
def ziggurat() -> Ziggurat:
    """What numpy does with one number of a stream, found by giving it such numbers.

    That takes callbacks, in which nothing may be raised: handlers of signals run in the main thread alone, so this does not.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_ziggurat).result()


def _ziggurat() -> Ziggurat:
    draw = drawing("random_normal")
    given, asked = [0], [0]

    def following(state: int | None) -> int:
        asked[0] += 1
        return given[0] if asked[0] == 1 else 1 << 62

    def fraction(state: int | None) -> float:
        asked[0] += 1
        return 0.5

    next64 = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(following)
    double = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)(fraction)
    stream = _Stream(next64=ctypes.cast(next64, ctypes.c_void_p), double=ctypes.cast(double, ctypes.c_void_p))

    def drawn(layer: int, number: int) -> float | None:
        """The normal number for a number of a layer, if it takes no more than that."""
        given[0], asked[0] = number << 9 | layer, 0
        found = float(draw(ctypes.addressof(stream), 0.0, 1.0))
        return found if asked[0] == 1 else None

    factors = np.array([drawn(layer, 1) or 0.0 for layer in range(LAYERS)])
    bounds = np.zeros(LAYERS, np.int64)
    for layer in range(LAYERS):
        low, high = 0, 1 << BITS
        while high - low > 1 << 20:  # a bound that is a little low only asks numpy more often
            middle = (low + high) // 2
            low, high = (middle, high) if drawn(layer, middle) == middle * factors[layer] else (low, middle)
        bounds[layer] = low
    return Ziggurat(factors, bounds)
