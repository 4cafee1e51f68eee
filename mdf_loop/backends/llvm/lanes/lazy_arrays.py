"""Array values while code is written: functions of an index, as XLA's elemental emitter has them.

An array is anything that can say the instructions for its element at an index.  What stands in memory, row by row, has a
pointer as well; what has one element is a number in a register.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mdf_loop.backends.llvm.lanes.element_types import element
from mdf_loop.backends.llvm.lanes.vector_lanes import ZERO, Lanes, Place

Length = int | str
"""A length of an axis: a number, or the name of one that only the run can tell."""

Index = tuple[Place, ...]


@dataclass(eq=False)
class Array:
    """One value.

    Attributes
    ----------
    at : callable
        ``at(lanes, index)``: the elements at an index that has a place for each axis.
    flat : callable or None
        ``flat(lanes, place)``: the same by the number of the element, row by row, where that is as cheap.
    memory : str
        The pointer to its elements, row by row; empty if they are not in memory.
    value : str
        The number, of what has one element.
    const : numpy.ndarray or None
        The elements, where they are known.
    widest : int
        Bytes of the largest element that computing it deals with.
    transposed : tuple or None
        The value of which it is the transpose, and the permutation.
    growing : str
        The growing memory that is its own, at whose end more may be put.
    register : str
        The register that holds all elements, of a few (``registers``).
    """

    dtype: np.dtype
    shape: tuple[Length, ...]
    at: Callable[[Lanes, Index], str]
    flat: Callable[[Lanes, Place], str] | None = None
    memory: str = ""
    value: str = ""
    const: np.ndarray | None = None
    widest: int = 1
    transposed: tuple[Array, tuple[int, ...]] | None = None
    growing: str = ""
    register: str = ""

    @property
    def is_static(self) -> bool:
        """Whether all lengths are known."""
        return all(isinstance(n, int) for n in self.shape)

    @property
    def size(self) -> int:
        """How many elements it has, if all lengths are known."""
        return math.prod(n for n in self.shape if isinstance(n, int))


def number(dtype: np.dtype, value: str, shape: Sequence[Length] = ()) -> Array:
    """A value of one element."""
    return Array(
        dtype,
        tuple(shape),
        lambda lanes, index: lanes.splat(dtype, value),
        lambda lanes, place: lanes.splat(dtype, value),
        value=value,
        widest=element(dtype).size,
    )


def in_memory(dtype: np.dtype, shape: Sequence[Length], pointer: str, const: np.ndarray | None = None) -> Array:
    """What stands in memory, row by row."""
    shape = tuple(shape)

    def at(lanes: Lanes, index: Index) -> str:
        return lanes.load(dtype, pointer, offset(lanes, shape, index))

    def flat(lanes: Lanes, place: Place) -> str:
        return lanes.load(dtype, pointer, place)

    return Array(dtype, shape, at, flat, memory=pointer, const=const, widest=element(dtype).size)


def offset(lanes: Lanes, shape: Sequence[Length], index: Index) -> Place:
    """The number of an element, row by row; what changes least is added first."""
    strides = ["1"]
    for length in reversed(shape[1:]):
        strides.append(lanes.text.mul(strides[-1], length))
    found = ZERO
    for place, stride in zip(index, reversed(strides), strict=False):
        found = lanes.shifted(found, lanes.scaled(place, stride))
    return found


def get(lanes: Lanes, x: Array, index: Index) -> str:
    """The elements of a value that is broadcast to the shape that an index is for."""
    if x.value:
        return lanes.splat(x.dtype, x.value)
    own = index[len(index) - len(x.shape) :]
    own = tuple(ZERO if n == 1 else place for n, place in zip(x.shape, own, strict=True))
    key = (x, own, lanes.width)
    if key not in lanes.memo:
        if lanes.width > 1 and all(place.is_same for place in own):
            lanes.memo[key] = lanes.splat(x.dtype, get(lanes.single(), x, own))
        else:
            lanes.memo[key] = x.at(lanes, own)
    return lanes.memo[key]


def get_flat(lanes: Lanes, x: Array, place: Place) -> str:
    """The elements of a value by their number."""
    if x.value:
        return lanes.splat(x.dtype, x.value)
    assert x.flat is not None
    key = (x, "flat", place, lanes.width)
    if key not in lanes.memo:
        lanes.memo[key] = x.flat(lanes, place)
    return lanes.memo[key]


def mapped(dtype: np.dtype, shape: Sequence[Length], compute: Callable[..., str], args: Sequence[Array]) -> Array:
    """A function of the elements of values that broadcast: ``compute(lanes, *elements)``."""
    shape = tuple(shape)

    def at(lanes: Lanes, index: Index) -> str:
        return compute(lanes, *[get(lanes, x, index) for x in args])

    def flat(lanes: Lanes, place: Place) -> str:
        return compute(lanes, *[get_flat(lanes, x, place) for x in args])

    is_flat = all(x.value or (x.flat is not None and x.shape == shape) for x in args)
    widest = max([element(dtype).size, *(x.widest for x in args)])
    return Array(dtype, shape, at, flat if is_flat else None, widest=widest)


def is_one(shape: Sequence[Length]) -> bool:
    """Whether a shape is that of one element."""
    return all(n == 1 for n in shape)
