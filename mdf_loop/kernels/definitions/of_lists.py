"""Lists in programs that hold them as the rows of an array: all elements have one type and one shape that is known.

What is out of range stops a program, and so does putting together a list without elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place
from mdf_loop.kernels.arrays.reshaping import chunks
from mdf_loop.kernels.definitions.of_places import entry, numbers_of
from mdf_loop.kernels.definitions.of_shapes import rank_of
from mdf_loop.ops.registry import definition

INT64 = np.dtype(np.int64)


@definition("SequenceEmpty", since=11, why="lists")
def sequence_empty(b, *, dtype=1):
    """A list without elements."""
    _look(b)
    return b.rows()


@definition("SequenceConstruct", since=11, why="lists")
def sequence_construct(b, *inputs):
    """The inputs as a list."""
    _look(b)
    if len({(x.type.dtype, x.type.shape) for x in inputs}) > 1 or not all(map(_fits, inputs)):
        raise ValueError("elements of several types, or of an unknown one")
    return b.rows(b.concat([b.reshape(x, (1, *x.type.shape)) for x in inputs], 0))


@definition("SplitToSequence", since=11, why="lists")
def split_to_sequence(b, input, split=None, *, axis=0, keepdims=1):
    """Single slices, or parts of one length."""
    _look(b)
    shape = input.type.shape
    axis = place(axis, rank_of(input))
    if not input.type.is_static or (split is not None and (split.op != "const" or split.type.shape != ())):
        raise ValueError("parts whose lengths are not known")
    size = 1 if split is None else int(split.attr)
    if size < 1 or shape[axis] % size or not shape[axis]:
        raise ValueError("parts of several lengths, or none")
    parts = b.reshape(input, (*shape[:axis], len(chunks(shape[axis], size, shape[axis] // size)), size, *shape[axis + 1 :]))
    rows = b.transpose(parts, [axis, *range(axis), *range(axis + 1, len(shape) + 1)])
    return b.rows(rows if split is not None or keepdims else b.reshape(rows, (shape[axis], *shape[:axis], *shape[axis + 1 :])))


def _look(b: Any) -> None:
    """Lists are rows where that is worth it."""
    if not b.guesses:
        raise ValueError("a list")


def _fits(x: Any) -> bool:
    """Whether a value may be a row: all is known of it, and it is the same as what numpy makes a row of."""
    return x.type.is_static and not x.type.weak and not x.type.is_array


def _is_empty(x: Any) -> bool:
    """Whether a value is a list without elements, of which nothing else is known."""
    return x.op == "rows" and not x.args


def _rows(x: Any) -> Any:
    """The array whose rows a list is."""
    if x.op != "rows" or not x.args:
        raise ValueError("a list of which nothing is known")
    return x.args[0]


def _number(b: Any, position: Any) -> Any:
    """A position, as a number of int64."""
    if position.type.shape not in ((), (1,)) or position.type.kind not in "iu":
        raise ValueError("a place that is no number")
    return b.cast(numbers_of(b, position)[0] if position.type.shape else position, INT64)


def _in_range(b: Any, index: Any, length: Any) -> Any:
    """A place counted from the front."""
    return b.put_in("place_in", (index, length), b.const(np.int64(0)).type)


def _last(b: Any) -> Any:
    return b.const(np.int64(-1))


@definition("SequenceInsert", since=11, why="lists")
def sequence_insert(b, input_sequence, tensor, position=None):
    """An element more, in front of a place or at the end."""
    if input_sequence.op != "rows" or not _fits(tensor):
        raise ValueError("a list, or an element, of which nothing is known")
    if not input_sequence.args and input_sequence.attr is not None:
        input_sequence.attr.note(tensor.type)
    rows = input_sequence.args[0] if input_sequence.args else b.no_rows(tensor.type)
    if (rows.type.dtype, rows.type.shape[1:]) != (tensor.type.dtype, tensor.type.shape):
        raise ValueError("elements of several types")
    count = b.length(rows, 0)
    if position is None and rows.type.shape[0] == 0:
        return b.rows(b.reshape(tensor, (1, *tensor.type.shape)))
    if position is None:
        return b.rows(b.insert(rows, tensor, count))
    index = _number(b, position)
    return b.rows(_replaced(b, rows, tensor, index) or b.insert(rows, tensor, _between(b, index, count)))


def _replaced(b: Any, rows: Any, tensor: Any, index: Any) -> Any:
    """``list[index] = tensor``, which TorchScript writes as taking out and putting in; None if it is something else.

    From the end it would be another place.
    """
    if rows.op != "erase" or rows.args[1].op != "place_in":
        return None
    whole, taken = rows.args[0], rows.args[1].args[0]
    is_same = taken is index or (taken.op == index.op == "const" and taken.attr == index.attr)
    if not is_same or (index.op == "const" and index.attr < 0):
        return None
    count = b.length(whole, 0)
    place = _in_range(b, b.select(b.lt(index, 0), count, index), count)
    return b.put_in("put", (whole, tensor, place), whole.type)


def _between(b: Any, index: Any, count: Any) -> Any:
    """A place in front of an element, or behind all."""
    index, places = b.select(b.lt(index, 0), b.add(index, count), index), b.add(count, 1)
    return _in_range(b, b.select(b.lt(index, 0), places, index), places)


@definition("SequenceErase", since=11, why="lists")
def sequence_erase(b, input_sequence, position=None):
    """An element less: the one at a place, or the last."""
    index = _last(b) if position is None else _number(b, position)
    if _is_empty(input_sequence):
        _in_range(b, index, b.const(np.int64(0)))
        return input_sequence
    rows = _rows(input_sequence)
    return b.rows(b.erase(rows, _in_range(b, index, b.length(rows, 0))))


@definition("SequenceLength", since=11, why="lists")
def sequence_length(b, input_sequence):
    """The number of elements."""
    if _is_empty(input_sequence):
        return b.const(np.int64(0))
    return b.length(_rows(input_sequence), 0)


@definition("SequenceAt", since=11, why="lists")
def sequence_at(b, input_sequence, position):
    """One element."""
    rows = _rows(input_sequence)
    return entry(b, rows, _in_range(b, _number(b, position), b.length(rows, 0)))


@definition("ConcatFromSequence", since=11, why="lists")
def concat_from_sequence(b, input_sequence, *, axis, new_axis=0):
    """The elements one behind the other along an axis, or along a new one."""
    rows = _rows(input_sequence)
    rank = rank_of(rows)
    axis = place(axis, rank if new_axis else rank - 1)
    if not isinstance(rows.type.shape[0], int) or rows.type.shape[0] == 0:
        _in_range(b, b.const(np.int64(0)), b.length(rows, 0))
    moved = b.transpose(rows, [*range(1, axis + 1), 0, *range(axis + 1, rank)])
    if new_axis:
        return moved
    if not all(isinstance(n, int) for n in rows.type.shape[1:]):
        raise ValueError("an open length")
    return b.merged(moved, axis)
