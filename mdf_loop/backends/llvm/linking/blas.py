"""Products of large matrices by BLAS, as scipy offers its functions to others; without scipy they stay our own.

A program names the function; its address is looked for when the program is loaded, so that it may be kept on disk.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.backends.llvm.lanes.element_types import FLOAT32, FLOAT64

if TYPE_CHECKING:
    from mdf_loop.backends.llvm.lanes.instructions import Text

PREFIX = "blas_"

FUNCTIONS = {FLOAT32: "sgemm", FLOAT64: "dgemm"}
"""By element type, as ``scipy.linalg.cython_blas`` calls them."""

LEAST, LEAST_ROWS = 1 << 27, 64
"""Products of two numbers from which on calling it is faster, and rows and columns that both matrices have to have."""

SIGNATURE = "void (char *, char *, int *, int *, int *, "
"""What a function begins with that takes lengths of 32 bits, as it is called here."""


@functools.cache
def addresses() -> Mapping[str, int]:
    """Where the functions are, by the names that programs have for them; empty without scipy."""
    if importlib.util.find_spec("scipy") is None:
        return {}
    try:
        from scipy.linalg import cython_blas

        found = {PREFIX + name: _address(cython_blas.__pyx_capi__[name]) for name in FUNCTIONS.values()}
    except (ImportError, AttributeError, KeyError):  # pragma: no cover - a scipy that offers none
        return {}
    return found if all(found.values()) else {}


def _address(capsule: object) -> int:
    """What a capsule points to; 0 if it says to be another kind of function."""
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))(capsule)
    if name is None or not name.startswith(SIGNATURE.encode()):
        return 0
    point = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return point(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, name) or 0


def is_worth_it(dtype: np.dtype, m: int | str, k: int | str, n: int | str) -> bool:
    """Whether a product of m x k by k x n is to be computed there, if it can be."""
    if isinstance(m, str) or isinstance(k, str) or isinstance(n, str) or dtype not in FUNCTIONS:
        return False
    return min(m, k, n) >= LEAST_ROWS and m * k * n >= LEAST and bool(addresses())


def write(
    text: Text, dtype: np.dtype, lengths: tuple[int, int, int], a: str, b: str, out: str, turned: tuple[bool, bool]
) -> None:
    """A call for matrices row by row, or transposed where ``turned`` says so: to BLAS, which has columns, it is b a = out."""
    m, k, n = lengths
    name, type = FUNCTIONS[dtype], "float" if dtype == FLOAT32 else "double"
    columns, rows = (_room(text, "i32", str(x)) for x in (n, m))
    terms = _room(text, "i32", str(k))
    one, zero = (_room(text, type, x) for x in ("1.0", "0.0"))
    ways = [_room(text, "i8", str(ord("T" if x else "N"))) for x in turned]
    step_b, step_a = terms if turned[1] else columns, rows if turned[0] else terms
    given = [ways[1], ways[0], columns, rows, terms, one, b, step_b, a, step_a, zero, out, columns]
    call = text.declare(PREFIX + name, "void", *["ptr"] * len(given), pure=False)
    text.line(f"{call}({', '.join(f'ptr {x}' for x in given)})")


def _room(text: Text, type: str, value: str) -> str:
    """A place with a number, as Fortran wants its arguments."""
    slot = text.slot(type)
    text.line(f"store {type} {value}, ptr {slot}")
    return slot
