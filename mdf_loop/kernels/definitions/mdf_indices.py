"""Indices: ``x[...]``, and elements that are set, ``x[...] = new`` in traced functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place
from mdf_loop.kernels.definitions.mdf_operators import INT64, of_python
from mdf_loop.kernels.definitions.mdf_shapes import static
from mdf_loop.kernels.definitions.of_places import entry, from_front
from mdf_loop.kernels.definitions.of_shapes import is_number, rank_of
from mdf_loop.kernels.mdf.expression_operators import fill_index, fits_in_place


@of_python("index")
def index(b, x, *, index):
    """``x[index]`` with an index that is known."""
    return _taken(b, x, list(index) if type(index) is tuple else [index])


@of_python("getitem")
def getitem(b, x, *values, index):
    """``x[...]`` with values in the index that only the run knows."""
    filled = fill_index(index, values)
    return _taken(b, x, list(filled) if type(filled) is tuple else [filled])


def _each_axis(x: Any, parts: Sequence[Any]) -> list[Any]:
    """What an index says of the leading axes, and where it puts new ones: ``...`` is as many slices as there are axes left."""
    at = next((k for k, part in enumerate(parts) if part is Ellipsis), len(parts))
    front, behind = parts[:at], parts[at + 1 :]
    count = rank_of(x) - sum(part is not None for part in (*front, *behind)) if behind else 0
    return [*front, *[slice(None)] * count, *behind]


def _taken(b: Any, x: Any, parts: Sequence[Any]) -> Any:
    """The part of an array that an index says."""
    plain = _each_axis(x, parts)
    try:
        found = _of_known_lengths(b, x, plain)
    except ValueError:
        if not b.takes_open:
            raise
        return _along_axes(b, x, plain)
    if not is_number(found) or not any(part is Ellipsis for part in parts):
        return found
    if b.traces:
        raise ValueError("an array without dimensions")
    return b.as_array(found)


def _of_known_lengths(b: Any, x: Any, parts: Sequence[Any]) -> Any:
    """The same by whole numbers, of the leading axes, or by places that are known."""
    if not x.type.is_static or not (x.type.shape or b.traces) or len([p for p in parts if p is not None]) > rank_of(x):
        raise ValueError("lengths that only the run knows, or more places than axes")
    if all(map(_is_place, parts)):
        for part in parts:
            x = entry(b, x, from_front(b, b.const(part) if type(part) is int else part, x.type.shape[0]))
        return x
    if not all(part is None or type(part) is int or _is_known_slice(part) for part in parts):
        raise ValueError("an index of other things")
    return _cut_out(b, x, parts)


def _is_mask(part: Any, x: Any) -> bool:
    return hasattr(part, "type") and part.type.kind == "b" and bool(part.type.rank) and part.type.rank == x.type.rank


def _is_place(part: Any) -> bool:
    """Whether a part of an index is one whole number."""
    return type(part) is int or (hasattr(part, "type") and is_number(part) and part.type.kind in "iu")


def _is_known_slice(part: Any) -> bool:
    return isinstance(part, slice) and not any(hasattr(n, "type") for n in (part.start, part.stop, part.step))


def _cut_out(b: Any, x: Any, parts: Sequence[Any]) -> Any:
    """The part that slices, whole numbers and None say, all of them known."""
    axes = [part for part in parts if part is not None]
    parts, axes = ([*some, *[slice(None)] * (rank_of(x) - len(axes))] for some in (parts, axes))
    places_of = [place(part, n) if type(part) is int else part for part, n in zip(axes, x.type.shape, strict=True)]
    found = b.slice(x, [slice(part, part + 1) if type(part) is int else part for part in places_of])
    lengths = iter(found.type.shape)
    shape = [(1 if part is None else next(lengths), part) for part in parts]
    return b.reshape(found, [n for n, part in shape if type(part) is not int])


FIRST, LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def _along_axes(b: Any, x: Any, parts: Sequence[Any]) -> Any:
    """The same axis by axis, of lengths, and by places, that only the run knows."""
    if len(parts) == 1 and _is_mask(parts[0], x):
        return b.onnx("Compress", x, b.reshape(parts[0], (-1,)))
    if sum(hasattr(part, "type") and not is_number(part) for part in parts) > 1:
        raise ValueError("an index of other things")
    axis = 0
    for part in parts:
        if part is None:
            x, axis = b.onnx("Unsqueeze", x, np.array([axis])), axis + 1
        elif isinstance(part, slice):
            x, axis = _sliced(b, x, part, axis), axis + 1
        else:
            where = _whole(b, part)
            x, axis = b.onnx("Gather", x, where, axis=axis), axis + rank_of(where)
    return x


def _sliced(b: Any, x: Any, part: slice, axis: int) -> Any:
    if part == slice(None):
        return x
    if hasattr(part.step, "type"):
        raise ValueError("the step of a slice must be known")
    step = part.step or 1
    usual = ((part.start, LAST if step < 0 else 0), (part.stop, FIRST if step < 0 else LAST))
    bounds = [np.array([other]) if bound is None else b.pack([_whole(b, bound)]) for bound, other in usual]
    return b.onnx("Slice", x, *bounds, np.array([axis]), np.array([step]))


def _whole(b: Any, part: Any) -> Any:
    """Places as whole numbers; a single one may be a float without a fraction, which MDF makes of whole numbers."""
    part = b.strong(part if hasattr(part, "type") else b.const(np.asarray(part)))
    if part.type.kind not in ("iuf" if is_number(part) else "iu"):
        raise ValueError(f"an index of type {part.type.dtype}")
    return b.cast(part, INT64)


@of_python("setitem")
def setitem(b, x, new, *values, index, in_place=False):
    """An array in which one entry, a part that is known, or what a mask says has another value."""
    shape = static(x)
    filled = fill_index(index, values)
    parts = list(filled) if isinstance(filled, tuple) else [filled]
    new = b.strong(new)
    is_element = len(parts) == len(shape) and all(map(_is_place, parts))
    if in_place and not is_element and not fits_in_place(new.type.dtype, x.type.dtype):
        raise ValueError("elements that cannot hold what is put in")
    new = b.cast(new, x.type.dtype)
    if len(parts) == 1 and parts[0] is not Ellipsis and getattr(parts[0], "type", None) is not None and parts[0].type.kind == "b":
        return _where(b, x, new, parts[0])
    parts = _each_axis(x, parts)
    if len(parts) > len(shape) or not all(_is_place(part) or isinstance(part, slice) for part in parts):
        raise ValueError("an index of other things")
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
