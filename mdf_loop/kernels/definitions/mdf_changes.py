"""Elements of arrays that are set: ``x[...] = new`` in traced functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.definitions.mdf_operators import of_python
from mdf_loop.kernels.definitions.mdf_shapes import static
from mdf_loop.kernels.definitions.of_places import from_front
from mdf_loop.kernels.definitions.of_shapes import is_number
from mdf_loop.kernels.mdf.expression_operators import fill_index, fits_in_place


@of_python("setitem")
def setitem(b, x, new, *values, index, in_place=False):
    """An array in which one entry, a part that is known, or what a mask says has another value."""
    shape = static(x)
    filled = fill_index(index, values)
    parts = list(filled) if isinstance(filled, tuple) else [filled]
    new = b.strong(new)
    is_element = len(parts) == len(shape) and all(map(_is_whole, parts))
    if in_place and not is_element and not fits_in_place(new.type.dtype, x.type.dtype):
        raise ValueError("elements that cannot hold what is put in")
    new = b.cast(new, x.type.dtype)
    if len(parts) == 1 and parts[0] is not Ellipsis and getattr(parts[0], "type", None) is not None and parts[0].type.kind == "b":
        return _where(b, x, new, parts[0])
    parts = _of_each_axis(parts, len(shape))
    while parts and parts[-1] == slice(None):
        parts.pop()
    if all(not isinstance(part, slice) for part in parts):
        where = [from_front(b, b.const(p) if type(p) is int else p, n) for p, n in zip(parts, shape, strict=False)]
        row = _fitted(b, new, shape[len(where) :])
        return b.put_in("put", (x, row, *where), x.type) if where else row
    return _with_part(b, x, new, parts)


def _fitted(b: Any, new: Any, shape: Sequence[int]) -> Any:
    """What is put in, repeated to the shape of what it replaces."""
    if not new.type.is_static or np.broadcast_shapes(new.type.shape, shape) != tuple(shape):  # raises where they do not fit
        raise ValueError("more axes than there are")
    return b.broadcast(new, shape)


def _of_each_axis(parts: list[Any], rank: int) -> list[Any]:
    """What an index says of the leading axes: slices, and whole numbers."""
    if Ellipsis in [part for part in parts if not hasattr(part, "type")]:
        at = next(k for k, part in enumerate(parts) if part is Ellipsis)
        parts = [*parts[:at], *[slice(None)] * (rank + 1 - len(parts)), *parts[at + 1 :]]
    if len(parts) > rank or not all(_is_whole(part) or isinstance(part, slice) for part in parts):
        raise ValueError("an index of other things")
    return parts


def _is_whole(part: Any) -> bool:
    """Whether a part of an index is one whole number."""
    return type(part) is int or (hasattr(part, "type") and is_number(part) and part.type.kind in "iu")


def _where(b: Any, x: Any, new: Any, mask: Any) -> Any:
    """One number where a mask of the same shape is true."""
    if mask.type.shape != x.type.shape or new.type.shape != ():
        raise ValueError("as many values as a mask has, which only the run knows")
    return b.select(mask, new, x)


def _with_part(b: Any, x: Any, new: Any, parts: Sequence[Any]) -> Any:
    """The axes one after the other: what is in front of a part, the part, and what is behind it."""
    bounds = []
    for part, length in zip(parts, x.type.shape, strict=False):
        if not isinstance(part, slice) and type(part) is not int:
            raise ValueError("a part that only the run knows")
        first = range(length)[part] if type(part) is int else part.indices(length)[0]
        last = first + 1 if type(part) is int else max(first, part.indices(length)[1])
        if isinstance(part, slice) and (part.step or 1) != 1:
            raise ValueError("steps between elements")
        bounds.append((first, last))
    rest = x.type.shape[len(bounds) :]
    kept = [last - first for part, (first, last) in zip(parts, bounds, strict=True) if isinstance(part, slice)]
    part = b.reshape(_fitted(b, new, (*kept, *rest)), (*(last - first for first, last in bounds), *rest))
    return _put_together(b, x, part, bounds, 0)


def _put_together(b: Any, x: Any, part: Any, bounds: Sequence[tuple[int, int]], axis: int) -> Any:
    if axis == len(bounds):
        return part
    first, last = bounds[axis]

    def between(start: int, stop: int) -> Any:
        return b.slice(x, [slice(start, stop) if k == axis else slice(None) for k in range(len(x.type.shape))])

    inner = _put_together(b, between(first, last), part, bounds, axis + 1)
    return b.concat([between(0, first), inner, between(last, x.type.shape[axis])], axis)
