"""Where numpy and Python keep the numbers of an object: machine code reads them there, so that a call costs little.

An array and a number begin with the head that all of Python's objects have; behind it stand the pointer to an array's elements,
or the number itself.  That is part of what numpy promises to programs in C; it is tried once all the same.
"""

from __future__ import annotations

import ctypes
import functools

import numpy as np

HEAD = object.__basicsize__
"""Bytes of the head of an object, the last of which are its type."""

TYPE = HEAD - ctypes.sizeof(ctypes.c_void_p)
ELEMENTS, RANK, LENGTHS, DTYPE, FLAGS = HEAD, HEAD + 8, HEAD + 16, HEAD + 40, HEAD + 48
"""Where an array has the pointer to its elements, how many axes it has, the pointer to their lengths, its type, and its flags."""

ITEMS = tuple.__basicsize__
"""Where a tuple has the pointers to what is in it, one behind the other."""

PLAIN = 0x101
"""The flags of an array whose elements stand row by row, where its type may stand."""


@functools.cache
def are_as_expected() -> bool:
    """Whether objects look here as they should."""
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for x, flags in ((array, PLAIN), (array.T, 0x100)):
        found = ctypes.c_void_p.from_address(id(x) + ELEMENTS).value, ctypes.c_int.from_address(id(x) + FLAGS).value & PLAIN
        if found != (x.ctypes.data, flags) or ctypes.c_void_p.from_address(id(x) + TYPE).value != id(np.ndarray):
            return False
        lengths = ctypes.c_void_p.from_address(id(x) + LENGTHS).value or 0
        shape = tuple((ctypes.c_int64 * x.ndim).from_address(lengths))
        if shape != x.shape or ctypes.c_int.from_address(id(x) + RANK).value != x.ndim:
            return False
        if ctypes.c_void_p.from_address(id(x) + DTYPE).value != id(x.dtype):
            return False
    pair = array, FLAGS
    if tuple((ctypes.c_void_p * 2).from_address(id(pair) + ITEMS)) != (id(array), id(FLAGS)):
        return False
    number, plain = np.float64(2.5), 3.5
    return (
        ctypes.c_double.from_address(id(number) + HEAD).value == 2.5 == ctypes.c_double.from_address(id(plain) + HEAD).value - 1
    )
