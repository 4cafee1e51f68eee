"""Tensors made larger: borders, copies, and a one among zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MOST_CONSTANT = 1 << 20
"""Elements up to which a table of what is known is made while a graph is compiled."""


def _static(x: Any) -> tuple[int, ...]:
    if not x.type.is_static:
        raise ValueError("an open length")
    return x.type.shape


def tiled(b: Any, data: Any, counts: Sequence[int]) -> Any:
    """So many copies along each axis of an array whose shape is known."""
    both = list(zip(counts, data.type.shape, strict=True))
    apart = b.reshape(data, [n for _, length in both for n in (1, length)])
    return b.reshape(b.broadcast(apart, [n for pair in both for n in pair]), [count * length for count, length in both])
