"""numpy's own functions that draw one number, for programs, and what of them a program may do itself.

A normal number is nearly always one number of the stream times a factor: numpy's ziggurat, whose factors, and up to where
they hold, are asked of numpy here.  What is beyond, and a stream that is no PCG64, is left to numpy's function, so that
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

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
"""Of PCG64: its state times this, plus its increment, is the next one (M. O'Neill)."""

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


FILLS = {"normal": "random_standard_normal_fill", "uniform": "random_standard_uniform_fill"}
"""numpy's functions that draw many numbers of a distribution."""


@functools.cache
def filling(kind: str) -> Any:
    """One of them, to be called with the address of a stream, how many, and where; None where numpy does not offer it."""
    try:
        function = getattr(_library(), FILLS[kind])
    except (AttributeError, OSError) as error:  # pragma: no cover - as on Windows
        let_through(error)
        return None
    function.restype, function.argtypes = None, (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_void_p)
    return function


_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def address_of(generator: Any) -> int:
    """Where a Generator keeps how far its stream has come, as long as it lives."""
    return _pointer(generator.bit_generator.capsule, b"BitGenerator") or 0


class Ziggurat(NamedTuple):
    """For each layer a factor, and the whole number up to which it is all there is to a normal number."""

    factors: np.ndarray
    bounds: np.ndarray


class _Stream(ctypes.Structure):
    """numpy's ``bitgen_t``."""

    _fields_ = (("state", ctypes.c_void_p), *((name, ctypes.c_void_p) for name in ("next64", "next32", "double", "raw")))


@functools.cache
def next_of_pcg() -> int:
    """The function that steps a stream of ``default_rng``, if its state is where programs look for it; else 0."""
    generator = np.random.default_rng(1)
    stream = _Stream.from_address(address_of(generator))
    place = ctypes.c_uint64.from_address(stream.state or 0).value
    known = generator.bit_generator.state
    words = list((ctypes.c_uint64 * 4).from_address(place)) if known["bit_generator"] == "PCG64" else []
    wanted = [known["state"][name] >> shift & (1 << 64) - 1 for name in ("state", "inc") for shift in (0, 64)] if words else [0]
    if words != wanted:  # pragma: no cover - another numpy, or another order of bytes
        return 0
    after = (known["state"]["state"] * MULTIPLIER + known["state"]["inc"]) & (1 << 128) - 1
    high, low = after >> 64, after & (1 << 64) - 1
    mixed, turn = high ^ low, high >> 58
    drawn = (mixed >> turn | mixed << (64 - turn)) & (1 << 64) - 1
    return int(stream.next64 or 0) if int(generator.bit_generator.random_raw()) == drawn else 0


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
