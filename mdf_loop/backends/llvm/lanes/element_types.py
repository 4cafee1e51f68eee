"""Element types as LLVM has them: in registers, in memory, and as literals."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from mdf_loop.step.records import Type


class CannotCompile(Exception):
    """Something that has no compiled form; says what."""


@dataclass(frozen=True)
class Element:
    """One element type.

    Attributes
    ----------
    register, memory : str
        LLVM's types: a bool is one bit in a register and a byte in memory; a bfloat16 is its bits, as LLVM's own conversions
        would flush what is subnormal.
    size : int
        Bytes in memory.
    kind : str
        ``b`` bool, ``i`` and ``u`` whole numbers, ``f`` floats, ``h`` half precision, which is computed in float32.
    suffix : str
        What LLVM's functions of this type are called by.
    """

    register: str
    memory: str
    size: int
    kind: str
    suffix: str


BOOL, INT64 = np.dtype(np.bool_), np.dtype(np.int64)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
FLOAT16, BFLOAT16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)

ELEMENTS: dict[np.dtype, Element] = {
    BOOL: Element("i1", "i8", 1, "b", "i1"),
    FLOAT16: Element("half", "half", 2, "h", "f16"),
    BFLOAT16: Element("i16", "i16", 2, "h", "i16"),
    FLOAT32: Element("float", "float", 4, "f", "f32"),
    FLOAT64: Element("double", "double", 8, "f", "f64"),
}
ELEMENTS |= {
    np.dtype(f"{kind}{size}"): Element(f"i{8 * size}", f"i{8 * size}", size, kind, f"i{8 * size}")
    for kind in "iu"
    for size in (1, 2, 4, 8)
}
"""All element types there is machine code for."""

DTYPES = tuple(ELEMENTS)
"""The same by the numbers that code names them by, which are the same in every process."""


def element(dtype: np.dtype | None) -> Element:
    """An element type.

    Raises
    ------
    CannotCompile
        There is no machine code for it.
    """
    found = None if dtype is None else ELEMENTS.get(dtype)
    if found is None:
        raise CannotCompile(f"values of {'an unknown type' if dtype is None else dtype.name} have no compiled form")
    return found


def can_hold(type: Type) -> bool:
    """Whether there is machine code for values of a type."""
    return type.is_known and type.dtype in ELEMENTS


def literal(dtype: np.dtype, number: object) -> str:
    """A number of an element type as LLVM reads it."""
    row = element(dtype)
    if row.kind == "b":
        return "true" if number else "false"
    if row.kind in "iu":
        bits = 8 * row.size
        return str((int(number) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))  # type: ignore[call-overload]
    if row.kind == "h":
        bits = int(np.asarray(number).astype(dtype).view(np.uint16))
        return f"0xH{bits:04X}" if dtype == FLOAT16 else str(bits)
    if dtype == FLOAT32 and type(number) is not np.float32:
        with np.errstate(all="ignore"):
            rounded = float(np.float32(number))  # type: ignore[arg-type]
    else:
        rounded = float(number)  # type: ignore[arg-type]
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
