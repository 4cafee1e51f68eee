"""``x[...]``: indices, slices and new axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.convert.expressions.table import Emitter, Traced, lowered
from mdf_loop.convert.expressions.tracing import BOOL, INT64
from mdf_loop.errors import UnsupportedOp

_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@lowered("index")
def index(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, index: Any) -> str:
    """An index that is known."""
    parts = list(index) if isinstance(index, tuple) else [index]
    return _taken(emitter, inputs[0], [_written(part) for part in parts])


@lowered("getitem")
def getitem(emitter: Emitter, inputs: Sequence[Traced], sample: Any, *, index: Any) -> str:
    """An index with values in it; see ``fill_index`` among the kernels for how it is written."""
    parts = list(index[1:]) if isinstance(index, tuple) and index[0] == "tuple" else [index]
    x, values = inputs[0], inputs[1:]
    if len(parts) == 1 and _is_mask(parts[0], values, x):
        mask = emitter.shaped(emitter.typed(values[parts[0][1]]), (-1,))
        return emitter.op("Compress", emitter.typed(x), mask)
    return _taken(emitter, x, [_written(part, values) for part in parts])


def _is_mask(part: Any, values: Sequence[Traced], x: Traced) -> bool:
    is_value = isinstance(part, tuple) and part[0] == "value"
    return is_value and values[part[1]].dtype == BOOL and np.shape(values[part[1]].value) == np.shape(x.value)


def _written(part: Any, values: Sequence[Traced] = ()) -> Any:
    """A part of an index: a slice of (start, stop, step), None, ``...``, or an integer value."""
    if isinstance(part, slice):
        return slice(*(None if p is None else Traced("", int(p), is_known=True) for p in (part.start, part.stop, part.step)))
    if isinstance(part, tuple) and part and part[0] == "slice":
        return slice(*(None if p is None else _written(p, values) for p in part[1:]))
    if isinstance(part, tuple) and part and part[0] == "value":
        return values[part[1]]
    if isinstance(part, bool | np.bool_):
        raise UnsupportedOp("an index that is True or False has no ONNX operator")
    if part is None or part is Ellipsis:
        return part
    return Traced("", np.asarray(part), is_known=True)


def _taken(emitter: Emitter, x: Traced, parts: list[Any]) -> str:
    """The parts of x, axis by axis."""
    count = sum(part is not None and part is not Ellipsis for part in parts)
    if Ellipsis in [part for part in parts if not isinstance(part, Traced)]:
        place = next(k for k, part in enumerate(parts) if part is Ellipsis)
        parts = [*parts[:place], *[slice(None)] * (x.rank - count), *parts[place + 1 :]]
    if sum(isinstance(part, Traced) and part.rank > 0 for part in parts) > 1:
        raise UnsupportedOp(f"{'/'.join(emitter.path)}: an index with several arrays has no ONNX operator")
    name, axis = emitter.typed(x), 0
    for part in parts:
        if part is None:
            name = emitter.op("Unsqueeze", name, np.array([axis]))
            axis += 1
        elif isinstance(part, slice):
            name = _sliced(emitter, name, part, axis)
            axis += 1
        else:
            if part.dtype.kind not in "iuf" or (part.dtype.kind == "f" and part.rank):
                raise UnsupportedOp(f"{'/'.join(emitter.path)}: an index of type {part.dtype} has no ONNX operator")
            name = emitter.op("Gather", name, emitter.typed(part, INT64), axis=axis)
            axis += part.rank
    return name


def _sliced(emitter: Emitter, name: str, part: slice, axis: int) -> str:
    if part == slice(None):
        return name
    step = 1 if part.step is None else part.step.value
    if part.step is not None and not part.step.is_known:
        raise UnsupportedOp(f"{'/'.join(emitter.path)}: the step of a slice must be known")
    is_back = int(step) < 0
    start = _bound(emitter, part.start, _LAST if is_back else 0)
    stop = _bound(emitter, part.stop, _FIRST if is_back else _LAST)
    return emitter.op("Slice", name, start, stop, np.array([axis]), np.array([int(step)]))


def _bound(emitter: Emitter, value: Traced | None, default: int) -> str:
    if value is None:
        return emitter.constant(np.array([default], np.int64))
    if value.is_known:
        return emitter.constant(np.array([int(value.value)], np.int64))
    return emitter.shaped(emitter.typed(value, INT64), (1,))
