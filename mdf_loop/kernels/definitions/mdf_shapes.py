"""numpy's functions that arrange, join and repeat elements, put them in and take them out, as MDF's expressions call them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place, places
from mdf_loop.kernels.definitions.mdf_operators import FLOAT64, INT64, of_python
from mdf_loop.kernels.definitions.of_places import gather, places_along
from mdf_loop.kernels.definitions.of_shapes import go_together, in_all, is_number, known, rank_of, squeezed, unsqueeze_1
from mdf_loop.ops.rows import Call, numpys

MOST_PARTS = 64
"""Parts of an array up to which putting them together again is worth a definition."""


def static(x: Any) -> tuple[int, ...]:
    """The shape of an array, if it is known.

    Raises
    ------
    ValueError
        It is not, or the value is a number.
    """
    if not x.type.shape or not x.type.is_static:
        raise ValueError("not an array whose shape is known")
    return x.type.shape


def lengths_of(b: Any, x: Any) -> tuple[Any, ...]:
    """The shape of an array; open lengths, and numbers as arrays without dimensions, where the builder takes them.

    Raises
    ------
    ValueError
        It is not known.
    """
    return x.type.shape if b.takes_open and x.type.is_known else static(x)


def _is_open(b: Any, *inputs: Any) -> bool:
    """Whether not all is known of an array's lengths and the numbers that say how to arrange it; the builder takes those."""
    x, *numbers = inputs
    return b.takes_open and not (x.type.shape and x.type.is_static and all(n.op == "const" for n in numbers))


def _vector(b: Any, x: Any) -> Any:
    """A shape that is computed, as a vector of int64."""
    x = b.cast(b.strong(x), INT64)
    return b.pack([x]) if is_number(x) else x


def _rank_of(b: Any, x: Any) -> int:
    """The number of axes; numbers, of which numpy makes arrays without dimensions, are refused outside of kernels."""
    if is_number(x) and not (b.traces or b.takes_open):
        raise ValueError("not an array")
    return rank_of(x)


def _axes(axis: Any, rank: int) -> list[int]:
    return places(list(axis) if isinstance(axis, tuple) else [axis], rank)


@numpys("numpy.reshape")
def reshape(b, x, shape):
    """The same elements in another shape; -1 is what is left."""
    if _is_open(b, x, shape):
        return b.onnx("Reshape", b.strong(x), _vector(b, shape))
    size, wanted = 1 if is_number(x) and b.traces else math.prod(static(x)), known(shape, "lengths")
    rest = math.prod(n for n in wanted if n != -1)
    if wanted.count(-1) > 1 or min(wanted, default=0) < -1 or not rest or size % rest or (-1 not in wanted and rest != size):
        raise ValueError("another number of elements")
    return b.reshape(x, [size // rest if n == -1 else n for n in wanted])


@numpys("numpy.ravel")
def ravel(b, x):
    """All elements in a row."""
    return b.reshape(x, (in_all(x.type.shape if b.takes_open else static(x)),))


@numpys("numpy.transpose")
def transpose(b, x, *, axes=None):
    """The axes in another order; reversed if none is said."""
    rank = _rank_of(b, x)
    return b.transpose(x, range(rank)[::-1] if axes is None else _axes(axes, rank))


@numpys("numpy.swapaxes")
def swapaxes(b, x, *, axis1, axis2):
    """Two axes change places."""
    order = list(range(_rank_of(b, x)))
    one, other = place(axis1, len(order)), place(axis2, len(order))
    order[one], order[other] = other, one
    return b.transpose(x, order)


@numpys("numpy.moveaxis")
def moveaxis(b, x, *, source, destination):
    """Axes moved to other places."""
    rank = _rank_of(b, x)
    moved = dict(zip(_axes(destination, rank), _axes(source, rank), strict=True))
    others = iter(k for k in range(rank) if k not in moved.values())
    return b.transpose(x, [moved[k] if k in moved else next(others) for k in range(rank)])


@numpys("numpy.expand_dims")
def expand_dims(b, x, *, axis):
    """New axes of length 1."""
    lengths_of(b, x)
    return unsqueeze_1(b, x, axes=axis if isinstance(axis, tuple) else (axis,))


@numpys("numpy.squeeze")
def squeeze(b, x, *, axis=None):
    """Without axes of length 1."""
    if axis is not None and _is_open(b, x):
        return b.onnx("Squeeze", x, np.atleast_1d(axis))
    rank = _rank_of(b, x)
    found = squeezed(b, x, None if axis is None else _axes(axis, rank))
    return b.as_array(found) if is_number(found) and not b.traces else found


@numpys("numpy.flip")
def flip(b, m, *, axis=None):
    """The elements in reversed order."""
    rank = len(lengths_of(b, m))
    turned = range(rank) if axis is None else _axes(axis, rank)
    return b.slice(m, [slice(None, None, -1) if k in turned else slice(None) for k in range(rank)])


@numpys("numpy.roll")
def roll(b, x, shift, *, axis=None):
    """Elements moved on, those that fall off at the end come in at the start."""
    if isinstance(axis, tuple):
        raise ValueError("several distances")
    flat, along = (ravel(b, x), 0) if axis is None else (x, axis)
    if _is_open(b, x, shift) and is_number(shift):
        count = b.length(flat, along)
        moved = take(b, flat, b.mod(b.sub(places_along(b, count), b.strong(shift)), count), axis=along)
        return moved if axis is not None else b.onnx("Reshape", moved, b.onnx("Shape", x))
    whole, (count,), along = static(x), known(shift, "the distance"), place(along, rank_of(flat))
    if not (length := flat.type.shape[along]):
        return x
    cut = -count % length
    parts = [b.slice(flat, [s if k == along else slice(None) for k in range(rank_of(flat))]) for s in _halves(cut)]
    return b.reshape(b.concat(parts, along) if cut else flat, whole)


def _halves(cut: int) -> tuple[slice, slice]:
    return slice(cut, None), slice(0, cut)


@numpys("numpy.tile")
def tile(b, A, reps):
    """The whole array several times."""
    if _is_open(b, A, reps):
        counts = _vector(b, reps)
        if not go_together(b, *counts.type.shape, rank_of(A)):
            raise ValueError("needs a number for each axis")
        return b.onnx("Tile", A, counts)
    shape, counts = static(A), known(reps, "counts")
    rank = max(len(shape), len(counts))
    shape, counts = (1,) * (rank - len(shape)) + shape, [1] * (rank - len(counts)) + counts
    whole, both = [n * length for n, length in zip(counts, shape, strict=True)], list(zip(counts, shape, strict=True))
    if all(1 in pair for pair in both):
        return b.broadcast(b.reshape(A, shape), whole)
    if min(counts) < 1:
        raise ValueError("nothing is left")
    apart = b.reshape(A, [n for _, length in both for n in (1, length)])
    return b.reshape(b.broadcast(apart, [n for pair in both for n in pair]), whole)


@numpys("numpy.repeat")
def repeat(b, x, repeats, *, axis=None):
    """Each element several times."""
    if not b.takes_open and (not static(x) or min(known(repeats, "counts")) < 1):
        raise ValueError("nothing is left")
    flat, along = (ravel(b, x), 0) if axis is None else (x, axis)
    count = b.reshape(b.cast(b.strong(repeats), INT64), ())
    places = b.floordiv(places_along(b, b.mul(b.length(flat, along), count)), count)
    return take(b, flat, places, axis=along)


@numpys("numpy.take")
def take(b, x, indices, *, axis=None):
    """Elements at these places."""
    if b.takes_open:
        x, axis = (ravel(b, x), 0) if axis is None else (x, axis)
        return b.onnx("Gather", x, b.cast(b.strong(indices), INT64), axis=axis)
    shape = static(x)
    if indices.type.kind != "i" or indices.type.weak or not indices.type.shape:
        raise ValueError("places that are no array of whole numbers")
    flat = x if axis is not None else b.reshape(x, (math.prod(shape),))
    return gather(b, flat, indices, axis=0 if axis is None else axis)


# Joining


def _in_one_type(b: Any, inputs: Any) -> list[Any]:
    """Values in the type of all of them together."""
    kinds = "biuf" if len({x.type.dtype for x in inputs}) > 1 else "biufV"
    if not inputs or (len(inputs) > MOST_PARTS and not b.takes_open) or any(x.type.kind not in kinds for x in inputs):
        raise ValueError("not some real numbers")
    dtype = b.common_type(*inputs, as_numpys=True)
    return [b.cast(b.strong(x), dtype) for x in inputs]


@numpys("numpy.concatenate")
def concatenate(b, *arrays, axis=0):
    """Arrays joined along an axis they have."""
    if axis is None:
        return concatenate(b, *(ravel(b, x) for x in arrays))
    if b.takes_open and any(x.type.shape is None for x in arrays):
        return b.concat(_in_one_type(b, arrays), axis)
    ranks = {_rank_of(b, x) for x in arrays}
    if len(ranks) != 1:
        raise ValueError("arrays of several ranks")
    (rank,) = ranks
    axis = place(axis, rank)
    columns = zip(*(x.type.shape for x in arrays), strict=True)
    if not all(k == axis or go_together(b, *lengths) for k, lengths in enumerate(columns)):
        raise ValueError("arrays that do not fit")
    return b.concat(_in_one_type(b, arrays), axis)


@numpys("numpy.stack")
def stack(b, *arrays, axis=0):
    """Arrays put together along a new axis; numbers in a row."""
    parts = _in_one_type(b, arrays)
    if all(map(is_number, parts)) and axis in (0, -1):
        return b.pack(parts)
    ranks = {len(lengths_of(b, x)) for x in parts}
    if len(ranks) != 1 or not all(go_together(b, *lengths) for lengths in zip(*(x.type.shape for x in parts), strict=True)):
        raise ValueError("arrays that do not fit")
    return b.concat([unsqueeze_1(b, x, axes=[axis]) for x in parts], place(axis, ranks.pop() + 1))


def _side_by_side(least: int, axis_of_vectors: int, axis: int) -> Call:
    """numpy's ``hstack`` and ``vstack``: arrays with so many axes at least, joined along one."""

    def joined(b: Any, *arrays: Any) -> Any:
        parts = _in_one_type(b, arrays)
        rows = [b.pack([x]) if is_number(x) else x for x in parts]
        if least == 2:
            rows = [b.reshape(x, (1, *lengths_of(b, x))) if rank_of(x) == 1 else x for x in rows]
        return concatenate(b, *rows, axis=axis_of_vectors if rank_of(rows[0]) == 1 else axis)

    return joined


numpys("numpy.hstack")(_side_by_side(1, 0, 1))
numpys("numpy.vstack")(_side_by_side(2, 0, 0))


@numpys("numpy.atleast_1d")
def atleast_1d(b, x):
    """Numbers as arrays of one element; arrays as they are."""
    return b.pack([b.strong(x)]) if is_number(x) else b.reshape(x, lengths_of(b, x))


# New arrays


def _filled(b: Any, shape: Any, value: Any, dtype: np.dtype) -> Any:
    """One value in all places; the shape is known, or a vector."""
    if hasattr(shape, "type"):
        return b.onnx("Expand", b.cast(b.strong(value), dtype), shape)
    if value.type.weak and dtype.kind in "iu" and dtype != np.int64:
        raise ValueError("a whole number that may be too large")
    return b.broadcast(b.cast(b.strong(value), dtype), shape)


def _filled_like(b: Any, like: Any, value: Any, dtype: Any) -> Any:
    like = b.strong(like) if b.takes_open else like
    wanted = like.type.dtype if dtype is None else np.dtype(dtype)
    if b.takes_open:
        return _filled(b, shape(b, like), value, wanted)
    if is_number(like) and not b.traces:  # of a number numpy makes an array without dimensions
        return b.as_array(_filled(b, (), value, wanted))
    return _filled(b, static(like), value, wanted)


def _like(number: int) -> Call:
    def like(b: Any, a: Any, *, dtype: Any = None) -> Any:
        return _filled_like(b, a, b.const(np.int64(number)), dtype)

    return like


numpys("numpy.zeros_like")(_like(0))
numpys("numpy.ones_like")(_like(1))


@numpys("numpy.full_like")
def full_like(b, a, fill_value, *, dtype=None):
    """An array of the same shape and type, one value in all places."""
    if not b.takes_open and (not is_number(fill_value) or fill_value.type.kind not in "bif"):
        raise ValueError("not one number")
    return _filled_like(b, a, fill_value, dtype)


@numpys("numpy.full")
def full(b, shape, fill_value, *, dtype=None):
    """An array of this shape, one value in all places."""
    wanted = b.strong(fill_value).type.dtype if dtype is None else np.dtype(dtype)
    if b.takes_open:
        return _filled(b, _vector(b, shape), fill_value, wanted)
    lengths = known(shape, "lengths")
    if not is_number(fill_value) or fill_value.type.kind not in "bif" or not lengths or min(lengths) < 0:
        raise ValueError("not one number")
    return _filled(b, lengths, fill_value, wanted)


# Asked for


@numpys("numpy.shape")
def shape(b, a):
    """The length of each axis."""
    if _is_open(b, a):
        return b.onnx("Shape", b.strong(a))
    return b.const(np.array(static(a), np.int64))


@numpys("numpy.size")
def size(b, a):
    """The number of elements."""
    if _is_open(b, a):
        return b.onnx("Size", b.strong(a))
    return b.const(math.prod(static(a)))


@numpys("numpy.ndim")
def ndim(b, a):
    """The number of axes."""
    return b.const(rank_of(a))


@of_python("array")
def array(b, *elements, shape):
    """Numbers in a row, put into a shape; or arrays where the builder takes open lengths."""
    if b.takes_open and not all(map(is_number, elements)):
        joined = stack(b, *elements)
        return b.reshape(joined, (*shape, *joined.type.shape[1:]))
    if not elements or not all(x is not None and is_number(x) for x in elements):
        raise ValueError("no row of numbers")
    dtype = b.common_type(*elements, as_numpys=True)
    row = b.pack([b.cast(b.strong(x), dtype) for x in elements])
    return b.reshape(row, shape)


@of_python("listed")
def listed(b, *elements, place):
    """An element of a list, in the type of them all if they have one shape."""
    if not all(x.type.is_static for x in elements) or not -len(elements) <= place < len(elements):
        raise ValueError("shapes that only the run knows")
    if len({x.type.shape for x in elements}) > 1:
        return elements[place]
    if any(x.type.weak and x.type.kind == "i" and (x.op != "const" or abs(x.attr) >> 63) for x in elements):
        raise ValueError("a whole number without end")
    return b.cast(b.strong(elements[place]), b.common_type(*elements, as_numpys=True))


@of_python("tensor")
def tensor(b, x, *like, floating=False, vector=False):
    """A number of Python's as an array."""
    if not x.type.weak:
        return x
    if any(y is not None and not y.type.weak for y in like):
        raise ValueError("an element type to be found")
    found = b.strong(x, FLOAT64 if floating and x.type.kind == "i" else None)
    return b.pack([found]) if vector else b.as_array(found)


@of_python("dimension")
def dimension(b, x, *, axis):
    """The length of an axis, as a whole number of Python's."""
    if x.type.shape is None or not -len(x.type.shape) <= axis < len(x.type.shape):
        raise ValueError("no such axis")
    return b.python(b.length(x, axis % len(x.type.shape)), int)


@of_python("builtins.len")
def len_(b, x):
    """How many rows there are."""
    if not x.type.shape:
        raise ValueError("a number has no length")
    return dimension(b, x, axis=0)
