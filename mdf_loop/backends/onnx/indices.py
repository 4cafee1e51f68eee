"""``x[...]`` in operators of ONNX: places that are computed, slices of open lengths, masks, new axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.backends.onnx.graph_printer import FIRST, LAST
from mdf_loop.backends.onnx.rewritten import OnnxBuilder, rewrites, shaped
from mdf_loop.step.primitives import BOOL, INT64
from mdf_loop.step.records import Value


@rewrites("index")
def index(b: OnnxBuilder, x: Value, *, index: Any) -> Value:
    """An index that is known."""
    parts = list(index) if isinstance(index, tuple) else [index]
    return _taken(b, x, [_written(b, part) for part in parts])


@rewrites("getitem")
def getitem(b: OnnxBuilder, x: Value, *values: Value, index: Any) -> Value:
    """An index with values in it; see ``fill_index`` among the kernels for how it is written."""
    parts = list(index[1:]) if isinstance(index, tuple) and index[0] == "tuple" else [index]
    if len(parts) == 1 and isinstance(parts[0], tuple) and parts[0][0] == "value":
        mask = values[parts[0][1]]
        if mask.type.dtype == BOOL and mask.type.rank and mask.type.rank == x.type.rank:
            return b.onnx("Compress", x, shaped(b, mask, -1))
    return _taken(b, x, [_written(b, part, values) for part in parts])


def _written(b: OnnxBuilder, part: Any, values: Sequence[Value] = ()) -> Any:
    """A part of an index: a slice of values, None, ``...``, or a value."""
    if isinstance(part, slice):
        return slice(*(None if p is None else b.const(np.int64(p)) for p in (part.start, part.stop, part.step)))
    if isinstance(part, tuple) and part and part[0] == "slice":
        return slice(*(None if p is None else _written(b, p, values) for p in part[1:]))
    if isinstance(part, tuple) and part and part[0] == "value":
        return values[part[1]]
    if isinstance(part, bool | np.bool_):
        raise ValueError("an index that is True or False")
    return part if part is None or part is Ellipsis else b.const(np.asarray(part))


def _taken(b: OnnxBuilder, x: Value, parts: list[Any]) -> Value:
    """The parts of x, axis by axis."""
    if any(part is Ellipsis for part in parts):
        at = next(k for k, part in enumerate(parts) if part is Ellipsis)
        count = sum(part is not None and part is not Ellipsis for part in parts)
        parts = [*parts[:at], *[slice(None)] * ((x.type.rank or 0) - count), *parts[at + 1 :]]
    if sum(isinstance(part, Value) and bool(part.type.rank) for part in parts) > 1:
        raise ValueError("an index with several arrays")
    axis = 0
    for part in parts:
        if part is None:
            x, axis = b.onnx("Unsqueeze", x, np.array([axis])), axis + 1
        elif isinstance(part, slice):
            x, axis = _sliced(b, x, part, axis), axis + 1
        else:
            x, axis = b.onnx("Gather", x, _place(b, part), axis=axis), axis + (part.type.rank or 0)
    return x


def _place(b: OnnxBuilder, part: Value) -> Value:
    """Places as whole numbers; a single one may be a float without a fraction, which MDF makes of whole numbers."""
    part = b.strong(part)
    if part.type.kind not in "iuf" or (part.type.kind == "f" and part.type.rank):
        raise ValueError(f"an index of type {part.type.dtype}")
    return b.cast(part, INT64)


def _sliced(b: OnnxBuilder, x: Value, part: slice, axis: int) -> Value:
    if part == slice(None):
        return x
    if part.step is not None and part.step.op != "const":
        raise ValueError("the step of a slice must be known")
    step = 1 if part.step is None else int(part.step.attr)
    start = _bound(b, part.start, LAST if step < 0 else 0)
    stop = _bound(b, part.stop, FIRST if step < 0 else LAST)
    return b.onnx("Slice", x, start, stop, np.array([axis]), np.array([step]))


def _bound(b: OnnxBuilder, value: Value | None, default: int) -> Value:
    if value is None:
        return b.const(np.array([default], np.int64))
    return b.pack([_place(b, value)])
