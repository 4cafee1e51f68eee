"""Elements taken by their places, put there, and tensors put together and taken apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place
from mdf_loop.kernels.arrays.indexing import sliced
from mdf_loop.kernels.definitions.of_shapes import known, rank_of
from mdf_loop.ops.registry import definition


def from_front(b: Any, index: Any, length: Any) -> Any:
    """A place counted from the front; one that is out of range stops the program."""
    if not isinstance(length, int):
        raise ValueError("an open length")
    if index.op == "const":
        return b.const(np.int64(place(int(index.attr), length)))
    return b.put_in("place_in", (b.cast(index, np.dtype(np.int64)), b.const(np.int64(length))), b.const(np.int64(0)).type)


def places_along(b: Any, length: Any) -> Any:
    """All places along an axis of some length."""
    if length.op == "const":
        return b.const(np.arange(length.attr))
    return b.onnx("Range", np.array(0), length, np.array(1))


FEW = 4
"""Places up to which they are read one by one out of an array that holds them."""


def numbers_of(b: Any, x: Any) -> Any:
    """The numbers of a short vector, one by one.

    Raises
    ------
    ValueError
        They are not known one by one, or too many.
    """
    known_ones = b.unpacked(x)
    if known_ones is not None:
        return known_ones
    if x.type.rank != 1 or not x.type.is_static or x.type.shape[0] > FEW:
        raise ValueError("places that are not known one by one")
    return [entry(b, x, b.const(np.int64(k))) for k in range(x.type.shape[0])]


def entry(b: Any, data: Any, index: Any) -> Any:
    """``data[index]`` for one number."""
    if data.op == "pack" and index.op == "const":
        return data.args[int(index.attr)]
    if data.op == "const" and index.op == "const":
        return b.const(data.attr[int(index.attr)])
    type = data.type.__class__(data.type.dtype, data.type.shape[1:])
    return b.put_in("place", (data, index), type)


@definition("Gather", why="values")
def gather(b, data, indices, *, axis=0):
    """The entries of an axis that the indices name."""
    axis = place(axis, rank_of(data))
    length = data.type.shape[axis]
    if axis == 0 and rank_of(indices) == 0 and isinstance(length, int):
        return entry(b, data, from_front(b, indices, length))
    if axis == 0 and indices.type.shape == (1,):
        found = entry(b, data, from_front(b, numbers_of(b, indices)[0], length))
        return b.reshape(found, (1, *found.type.shape))
    shape = (*data.type.shape[:axis], *indices.type.shape, *data.type.shape[axis + 1 :])
    return b.put_in("gather", (data, indices), data.type.__class__(data.type.dtype, shape), axis)


def moving(b, data, starts, ends, axes, steps):
    """Parts of a known length from a place on that is computed, if they lie inside; where they do not stops the program.

    ``x[i : i + 3]`` has three elements but at the end of x, where it has fewer.

    Raises
    ------
    ValueError
        The ends are not so many behind the starts.
    """
    shape, rank = data.type.shape, rank_of(data)
    firsts, lasts = numbers_of(b, starts), numbers_of(b, ends)
    along = [place(axis, rank) for axis in (range(len(firsts)) if axes is None else known(axes, "axes"))]
    if (steps is not None and set(known(steps, "steps")) != {1}) or len(set(along)) < len(along):
        raise ValueError("steps, or an axis cut twice")
    whole, begins, lengths = [slice(None)] * rank, [b.const(np.int64(0))] * rank, list(shape)
    for axis, first, last in zip(along, firsts, lasts, strict=True):
        if first.op == last.op == "const":
            whole[axis] = slice(int(first.attr), int(last.attr))
            continue
        (base, before), (other, behind) = _distance(first), _distance(last)
        if base is not other or behind <= before:
            raise ValueError("a length that is computed")
        begins[axis], lengths[axis] = _inside(b, first, b.length(data, axis), behind - before), behind - before
    part = b.slice(data, whole)
    lengths = [m if cut != slice(None) else n for m, n, cut in zip(part.type.shape, lengths, whole, strict=True)]
    return b.put_in("window", (part, *begins), data.type.__class__(data.type.dtype, tuple(lengths)))


def _distance(x: Any) -> tuple[Any, int]:
    """A number as another one and what is added to it."""
    added = 0
    while x.op in ("add", "sub"):
        one, other = x.args
        if other.op == "const":
            x, added = one, added + (1 if x.op == "add" else -1) * int(other.attr)
        elif one.op == "const" and x.op == "add":
            x, added = other, added + int(one.attr)
        else:
            break
    return x, added


def _inside(b: Any, first: Any, length: Any, count: int) -> Any:
    """Where a part begins; one that does not lie inside stops the program."""
    first, room = b.cast(first, np.dtype(np.int64)), b.max(b.sub(length, count - 1), 0)
    return b.put_in("place_in", (b.select(b.lt(first, 0), length, first), room), b.const(np.int64(0)).type)


@definition("Slice", since=10, why="values")
def slice_10(b, data, starts, ends, axes=None, steps=None):
    """Parts of axes that are known."""
    shape = data.type.shape
    rank_of(data)
    if any(x.op != "const" for x in (starts, ends)) and b.guesses.parts:
        return moving(b, data, starts, ends, axes, steps)
    given = [None if x is None else np.array(known(x, "bounds")) for x in (starts, ends, axes, steps)]
    if not all(isinstance(n, int) for n in shape):
        raise ValueError("an open length")
    return b.slice(
        data, [slice(*s.indices(n)) if (s.step or 1) > 0 else s for s, n in zip(sliced(shape, *given), shape, strict=True)]
    )


@definition("ScatterND", since=11, why="values")
def scatter_nd(b, data, indices, updates, *, reduction="none"):
    """One entry replaced."""
    shape, width = indices.type.shape, indices.type.shape[-1] if indices.type.shape else 0
    if reduction != "none" or not shape or any(n != 1 for n in shape[:-1]) or not isinstance(width, int):
        raise ValueError("not one entry")
    numbers = numbers_of(b, b.reshape(indices, (width,)))
    if not 1 <= width <= rank_of(data) or updates.type.shape != (*shape[:-1], *data.type.shape[width:]):
        raise ValueError("places that are not known one by one")
    where = [from_front(b, number, length) for number, length in zip(numbers, data.type.shape, strict=False)]
    return b.put_in("put", (data, b.reshape(updates, data.type.shape[width:]), *where), data.type)


@definition("GatherND", why="values")
def gather_nd(b, data, indices, *, batch_dims=0):
    """Entries of the first axis, or one entry of several axes."""
    shape = indices.type.shape
    if batch_dims or not rank_of(indices) or not isinstance(shape[-1], int) or not 1 <= shape[-1] <= rank_of(data):
        raise ValueError("batches, or places that do not fit")
    if shape[-1] == 1 and indices.type.is_static:
        return gather(b, data, b.reshape(indices, shape[:-1]))
    if any(n != 1 for n in shape[:-1]):
        raise ValueError("more than one entry of several axes")
    numbers = numbers_of(b, b.reshape(indices, shape[-1:]))
    where = [from_front(b, number, length) for number, length in zip(numbers, data.type.shape, strict=False)]
    rest = data.type.shape[len(where) :]
    if not all(isinstance(n, int) for n in rest):
        raise ValueError("an open length")
    return b.reshape(b.put_in("place", (data, *where), data.type.__class__(data.type.dtype, rest)), (*shape[:-1], *rest))


@definition("GatherElements", since=11, why="values")
def gather_elements(b, data, indices, *, axis=0):
    """Of a vector, what Gather takes."""
    if rank_of(data) != 1 or rank_of(indices) != 1 or axis not in (0, -1):
        raise ValueError("not a vector")
    return gather(b, data, indices)
