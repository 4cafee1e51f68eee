"""Sequences that loops make, in programs that hold them as the rows of an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.axes import place
from mdf_loop.kernels.definitions.places import entry, numbers_of
from mdf_loop.kernels.definitions.shapes import rank_of
from mdf_loop.ops.registry import definition


@definition("SequenceEmpty", since=11)
def sequence_empty(b, *, dtype=1):
    """A sequence without elements, which a loop may fill."""
    if not b.guesses:
        raise ValueError("a sequence")
    return b.rows()


def _rows(x: Any) -> Any:
    """The array whose rows a sequence is."""
    if x.op != "rows" or not x.args:
        raise ValueError("a sequence that no loop made")
    return x.args[0]


@definition("SequenceLength", since=11)
def sequence_length(b, input_sequence):
    """The number of elements."""
    return b.length(_rows(input_sequence), 0)


@definition("SequenceAt", since=11)
def sequence_at(b, input_sequence, position):
    """One element; a place out of range stops the program."""
    rows = _rows(input_sequence)
    if position.type.shape not in ((), (1,)):
        raise ValueError("a place that is no number")
    index = b.cast(numbers_of(b, position)[0] if position.type.shape else position, np.dtype(np.int64))
    return entry(b, rows, b.put_in("place_in", (index, b.length(rows, 0)), index.type))


@definition("ConcatFromSequence", since=11)
def concat_from_sequence(b, input_sequence, *, axis, new_axis=0):
    """The elements one behind the other along an axis, or along a new one."""
    rows = _rows(input_sequence)
    rank = rank_of(rows)
    axis = place(axis, rank if new_axis else rank - 1)
    moved = b.transpose(rows, [*range(1, axis + 1), 0, *range(axis + 1, rank)])
    if new_axis:
        return moved
    if not all(isinstance(n, int) for n in rows.type.shape[1:]):
        raise ValueError("an open length")
    return b.merged(moved, axis)
