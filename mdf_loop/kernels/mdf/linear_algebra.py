"""numpy's functions of square matrices, as expressions call them: ``numpy.linalg.inv`` and its kin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.mdf.expression_operators import DOMAIN
from mdf_loop.ops.batching import Result, all_stacked
from mdf_loop.ops.registry import kernel


def _of_matrices(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    return all_stacked(run(*args, **attrs)) if args[0].ndim > 2 else None


@kernel("numpy.linalg.inv", domain=DOMAIN, batch=_of_matrices)
def inv(a):
    """The inverse of a square matrix."""
    return np.linalg.inv(a)


@kernel("numpy.linalg.det", domain=DOMAIN, batch=_of_matrices)
def det(a):
    """The determinant of a square matrix."""
    return np.linalg.det(a)


@kernel("numpy.linalg.solve", domain=DOMAIN)
def solve(a, b):
    """The x for which a @ x is b."""
    return np.linalg.solve(a, b)
