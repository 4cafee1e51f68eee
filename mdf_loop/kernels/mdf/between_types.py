"""What MDF's engine does with values in front of an ONNX operator and behind it: there, operators compute in 32 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.ops.registry import kernel

DOMAIN = "mdf"


@kernel("to_onnx", domain=DOMAIN)
def to_onnx(x):
    """A value as MDF hands it to an operator: numbers of Python as arrays of one, float64 as float32, int32 as int64."""
    array = np.atleast_1d(x) if type(x) in (int, float) else np.asarray(x)
    return array.astype(_HANDED.get(array.dtype, array.dtype), copy=False)


_HANDED: dict[Any, Any] = {np.dtype(np.float64): np.float32, np.dtype(np.int32): np.int64}


@kernel("from_onnx", domain=DOMAIN)
def from_onnx(y):
    """What MDF makes of the only result of an operator: float32 as float64."""
    array = np.asarray(y)
    return array.astype(np.float64) if array.dtype == np.float32 else array


@kernel("flattened", domain=DOMAIN)
def flattened(x):
    """A shape as MDF hands it to Reshape."""
    return np.asarray(x).flatten()
