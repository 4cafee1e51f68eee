"""What ONNX says of its operators."""

from __future__ import annotations

import functools
from typing import Any

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
