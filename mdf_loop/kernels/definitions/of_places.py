"""Elements taken by their places and put there, tensors taken apart, put together, and made larger by borders and copies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place, places
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
    if axis == 0 and rank_of(indices) == 0:
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
    if any(x.op != "const" for x in (starts, ends)) and b.guesses:
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


@definition("GatherND", since=12, why="values")
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


@definition("GatherND", until=12, why="values")
def gather_nd_11(b, data, indices):
    """Entries of the first axis, or one entry of several axes."""
    return gather_nd(b, data, indices)


@definition("GatherElements", since=11, why="values")
def gather_elements(b, data, indices, *, axis=0):
    """Of a vector, what Gather takes."""
    if rank_of(data) != 1 or rank_of(indices) != 1 or axis not in (0, -1):
        raise ValueError("not a vector")
    return gather(b, data, indices)


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


def _marked(b: Any, indices: Any, depth: Any, values: Any, axis: int, from_end: bool) -> Any:
    (length,) = known(b.cast(depth, np.dtype(np.int64)), "the depth")
    shape = _static(indices)
    if values.type.shape != (2,) or not 0 <= length <= MOST_CONSTANT:
        raise ValueError("not [off, on], or too long for a constant")
    axis = place(axis, len(shape) + 1)
    where = b.cast(indices, np.dtype(np.int64))
    if from_end:
        where = b.select(b.lt(where, 0), b.add(where, length), where)
    places_ = np.arange(length).reshape((-1,) + (1,) * (len(shape) - axis))
    found = b.eq(b.reshape(where, (*shape[:axis], 1, *shape[axis:])), b.const(places_))
    off, on = (entry(b, values, b.const(np.int64(k))) for k in range(2))
    return b.select(found, on, off)


@definition("OneHot", since=11, why="speed")
def one_hot(b, indices, depth, values, *, axis=-1):
    """``values[1]`` where the index points to along a new axis, also from its end, and ``values[0]`` elsewhere."""
    return _marked(b, indices, depth, values, axis, from_end=True)


@definition("OneHot", until=11, why="speed")
def one_hot_9(b, indices, depth, values, *, axis=-1):
    """The same; a negative index points nowhere."""
    return _marked(b, indices, depth, values, axis, from_end=False)


@definition("Pad", since=18, why="speed")
def pad(b, data, pads, constant_value=None, axes=None, *, mode="constant"):
    """A border of a constant; negative widths cut off."""
    along = places(None if axes is None else known(axes, "axes"), rank_of(data))
    return _padded(b, data, known(pads, "widths"), along, mode, constant_value)


@definition("Pad", since=11, until=18, why="speed")
def pad_11(b, data, pads, constant_value=None, *, mode="constant"):
    """A border of a constant along all axes."""
    return pad(b, data, pads, constant_value, mode=mode)


@definition("Pad", since=2, until=11, why="speed")
def pad_2(b, data, *, pads, mode="constant", value=0.0):
    """A border whose widths and value are attributes."""
    return _padded(b, data, list(pads), range(rank_of(data)), mode, b.number(value, data))


def _padded(b: Any, data: Any, widths: list[int], along: Any, mode: str, value: Any) -> Any:
    _static(data)
    value = b.number(0, data) if value is None else value
    if mode != "constant" or len(widths) != 2 * len(along) or value.type.rank != 0 or value.type.dtype != data.type.dtype:
        raise ValueError("not a border of one number")
    for axis, before, after in zip(along, widths, widths[len(along) :], strict=False):
        if data.type.shape[axis] + min(before, 0) + min(after, 0) < 0:
            raise ValueError("more cut off than there is")
        data = _framed(b, data, axis, before, after, value)
    return data


def _framed(b: Any, data: Any, axis: int, before: int, after: int, value: Any) -> Any:
    shape = data.type.shape
    kept = slice(-min(before, 0), shape[axis] + min(after, 0))
    if (kept.start, kept.stop) != (0, shape[axis]):
        data = b.slice(data, [kept if k == axis else slice(None) for k in range(len(shape))])
    borders = [b.broadcast(value, (*shape[:axis], n, *shape[axis + 1 :])) if n > 0 else None for n in (before, after)]
    return b.concat([x for x in (borders[0], data, borders[1]) if x is not None], axis)


@definition("Hardmax", since=13, why="speed")
def hardmax(b, x, *, axis=-1):
    """1 at the first largest element along the axis, 0 elsewhere."""
    shape, along = _static(x), place(axis, rank_of(x))
    x.type.count_along([along])
    numbers = np.arange(shape[along]).reshape([-1 if k == along else 1 for k in range(len(shape))])
    return b.cast(b.eq(b.const(numbers), b.reduce(x, "argmax", [along], True)), x.type.dtype)


@definition("Hardmax", until=13, why="speed")
def hardmax_1(b, x, *, axis=1):
    """All axes from ``axis`` on, taken as one."""
    shape, rank = _static(x), rank_of(x)
    if not -rank <= axis <= rank:
        raise ValueError("no such axis")
    axis %= rank + (axis >= 0)
    return b.reshape(hardmax(b, b.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))), shape)
