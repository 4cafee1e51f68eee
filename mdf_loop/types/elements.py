"""ONNX element types and their numpy types.

The numbers are those of ``TensorProto.DataType``; types that numpy lacks come from ml_dtypes.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

DTYPES: dict[int, np.dtype] = {
    code: np.dtype(kind)
    for code, kind in {
        1: np.float32,
        2: np.uint8,
        3: np.int8,
        4: np.uint16,
        5: np.int16,
        6: np.int32,
        7: np.int64,
        8: np.object_,
        9: np.bool_,
        10: np.float16,
        11: np.float64,
        12: np.uint32,
        13: np.uint64,
        14: np.complex64,
        15: np.complex128,
        16: ml_dtypes.bfloat16,
        17: ml_dtypes.float8_e4m3fn,
        18: ml_dtypes.float8_e4m3fnuz,
        19: ml_dtypes.float8_e5m2,
        20: ml_dtypes.float8_e5m2fnuz,
        21: ml_dtypes.uint4,
        22: ml_dtypes.int4,
        23: ml_dtypes.float4_e2m1fn,
        24: ml_dtypes.float8_e8m0fnu,
        25: ml_dtypes.uint2,
        26: ml_dtypes.int2,
        27: ml_dtypes.float6_e2m3fn,
        28: ml_dtypes.float6_e3m2fn,
    }.items()
}

CODES: dict[np.dtype, int] = {dtype: code for code, dtype in DTYPES.items()}

NAMES: dict[str, np.dtype] = {
    "float": DTYPES[1],
    "double": DTYPES[11],
    "string": DTYPES[8],
    **{dtype.name: dtype for code, dtype in DTYPES.items() if code != 8},
    "float8e4m3fn": DTYPES[17],
    "float8e4m3fnuz": DTYPES[18],
    "float8e5m2": DTYPES[19],
    "float8e5m2fnuz": DTYPES[20],
    "float4e2m1": DTYPES[23],
    "float8e8m0": DTYPES[24],
    "float6e2m3": DTYPES[27],
    "float6e3m2": DTYPES[28],
}
"""dtype by the name ONNX text and schemas use (``float``, ``bfloat16``) or by numpy's name (``float32``)."""

_FLOATS = {1, 10, 11, 16, 17, 18, 19, 20, 23, 24, 27, 28}
FLOATS = frozenset(DTYPES[code] for code in _FLOATS)
"""Floating-point types."""

_INTEGERS = {2, 3, 4, 5, 6, 7, 12, 13, 21, 22, 25, 26}


def kind_of(dtype: np.dtype) -> str:
    """Return ``"bool"``, ``"integer"``, ``"float"``, ``"complex"``, ``"string"`` or ``"other"``.

    numpy's own ``dtype.kind`` cannot tell: ml_dtypes says "V" for bfloat16 and int4 alike.
    """
    code = CODES.get(dtype)
    if code in _FLOATS:
        return "float"
    if code in _INTEGERS:
        return "integer"
    if dtype.kind in "OUS":
        return "string"
    return {"b": "bool", "c": "complex"}.get(dtype.kind, "other")


def read_only(value: Any) -> Any:
    """A value that cannot be written into: an array that can is looked at by another one."""
    if not isinstance(value, np.ndarray) or not value.flags.writeable:
        return value
    view = value.view()
    view.flags.writeable = False
    return view
