"""Which function writes which primitive, for float32 and float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mdf_loop.backends.llvm.elements import FLOAT32
from mdf_loop.backends.llvm.mathematics.functions import by_double, cos, erf, exp, expm1, log, log1p, sin, tanh
from mdf_loop.backends.llvm.mathematics.power import power, power_by_logarithm

FUNCTIONS: dict[str, Callable[..., str]] = {
    "exp": exp,
    "expm1": expm1,
    "tanh": tanh,
    "log": log,
    "log1p": log1p,
    "sin": sin,
    "cos": cos,
    "erf": erf,
    "pow": power,
}
"""By primitive."""

SHORT: dict[str, Callable[..., str]] = {
    "log1p": by_double(log1p),
    "pow": by_double(power_by_logarithm),
    "sin": by_double(sin),
    "cos": by_double(cos),
}
"""Those that have a form of their own for float32."""


def function_of(name: str, dtype: np.dtype) -> Callable[..., str] | None:
    """How a function of a type is written, if it is."""
    return SHORT.get(name, FUNCTIONS.get(name)) if dtype == FLOAT32 else FUNCTIONS.get(name)
