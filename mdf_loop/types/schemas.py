"""What ONNX says of its operators."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx

LARGEST_VERSION = (1 << 31) - 1
"""Versions are int32 for onnx."""


@functools.lru_cache(maxsize=4096)
def schema_of(op: str, opset: int, domain: str = "") -> Any:
    """The schema of an operator in a version of its domain; None for what ONNX does not know."""
    try:
        return onnx.defs.get_schema(op, min(max(opset, 0), LARGEST_VERSION), domain)
    except onnx.defs.SchemaError:
        return None


def version_in(said: Any) -> int | None:
    """The version that a model says: a whole number, of Python or numpy; None for anything else."""
    if isinstance(said, float) and said.is_integer():
        said = int(said)
    is_whole = isinstance(said, int | np.integer) and not isinstance(said, bool)
    return int(said) if is_whole and 0 < said <= LARGEST_VERSION else None
