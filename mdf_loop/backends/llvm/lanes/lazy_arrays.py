"""Array values while code is written: functions of an index, as XLA's elemental emitter has them.

An array is anything that can say the instructions for its element at an index.  What stands in memory, row by row, has a
pointer as well; what has one element is a number in a register.  So may an array of a few elements be, one in each lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.backends.llvm.lanes.element_types import element
from mdf_loop.backends.llvm.lanes.vector_lanes import ZERO, Lanes, Place, first_lanes
from mdf_loop.step.records import Value

if TYPE_CHECKING:
    from mdf_loop.backends.llvm.emitter import Emitter


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


WIDEST = 8
"""Bytes of the largest element, for which a register has to have room whatever an array is computed from."""


def can_hold(e: Emitter, value: Value) -> bool:
    """Whether a value is to stay in a register: it fits, lies along one axis, and is read as a whole."""
    type = value.type
    if type.dtype is None or not type.is_static or type.kind not in "fiu" or type.dtype.itemsize < 4:
        return False
    lengths = [n for n in type.shape or () if n != 1]
    return len(lengths) == 1 and 1 < type.size <= e.register_bytes // WIDEST and value in e.fusion.whole


def lanes_for(e: Emitter, count: int) -> Lanes:
    """Lanes for so many elements: a register as small as they allow."""
    return first_lanes(e.text, 1 << (count - 1).bit_length(), count)


def register_type(e: Emitter, x: Array) -> str:
    """The type of the register that holds an array."""
    return lanes_for(e, x.size).register(x.dtype)


def held(e: Emitter, x: Array) -> Array:
    """An array of a few elements in a register, computed now."""
    if x.register:
        return x
    place = Place("0", 1)
    return in_register(x.dtype, get(lanes_for(e, x.size), x, tuple(ZERO if n == 1 else place for n in x.shape)), x.shape)


def in_register(dtype: np.dtype, register: str, shape: Sequence[Length]) -> Array:
    """What stands in a register, whose last lanes may be nothing."""
    width = 1 << (int(np.prod([int(n) for n in shape])) - 1).bit_length()

    def flat(lanes: Lanes, place: Place) -> str:
        return _read(lanes, dtype, register, width, place)

    def at(lanes: Lanes, index: Index) -> str:
        return flat(lanes, offset(lanes, shape, index))

    return Array(dtype, tuple(shape), at, flat, widest=element(dtype).size, register=register)


def _read(lanes: Lanes, dtype: np.dtype, register: str, width: int, place: Place) -> str:
    """The elements of a register at a place."""
    is_known = not place.vector and place.base.isdigit()
    if lanes.width == 1 or place.is_same:
        found = lanes.text.new(f"extractelement {_type(dtype, width)} {register}, i64 {place.vector or place.base}")
        return lanes.splat(dtype, found)
    if not is_known:
        numbers = [lanes.lane("i64", lanes.number_of(place), k) for k in range(lanes.active or lanes.width)]
        return lanes.together(element(dtype).register, [_one(lanes, dtype, register, width, n) for n in numbers])
    picks = [int(place.base) + k * place.step for k in range(lanes.width)]
    if picks == list(range(width)):
        return register
    chosen = ", ".join(f"i32 {k if 0 <= k < width else width}" for k in picks)  # lanes that do not count are zero
    type = _type(dtype, width)
    return lanes.text.new(f"shufflevector {type} {register}, {type} zeroinitializer, <{lanes.width} x i32> <{chosen}>")


def _one(lanes: Lanes, dtype: np.dtype, register: str, width: int, number: str) -> str:
    return lanes.text.new(f"extractelement {_type(dtype, width)} {register}, i64 {number}")


def _type(dtype: np.dtype, width: int) -> str:
    return f"<{width} x {element(dtype).register}>"
