"""Values between untyped bodies and typed ones, and between MDF's engine and ONNX operators, which compute in 32 bits there."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.mdf.expression_operators import DOMAIN
from mdf_loop.ops.registry import kernel
from mdf_loop.types.fitting import fit_values


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


@kernel("fit", domain=DOMAIN)
def fit(*values, names, asked):
    """The values with the element types that a body asks of its inputs and captures of these names."""
    return tuple(fit_values(asked, dict(zip(names, values, strict=True))).values())
