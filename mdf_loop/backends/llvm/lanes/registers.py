"""Arrays of a few elements that stay in one register: written to memory and read back, a step would wait for its own numbers.

A processor forwards what was stored only to a load of the same bytes; an array stored element by element, or with a mask, and
read as a whole, costs tens of cycles in each iteration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.backends.llvm.lanes.element_types import element
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Index, Length, get, offset
from mdf_loop.backends.llvm.lanes.vector_lanes import ZERO, Lanes, Place
from mdf_loop.step.records import Value

if TYPE_CHECKING:
    from mdf_loop.backends.llvm.emitter import Emitter

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
    width = 1 << (count - 1).bit_length()
    mask = f"<{', '.join(f'i1 {str(k < count).lower()}' for k in range(width))}>" if count < width else ""
    return Lanes(e.text, width, count if mask else None, mask)


def register_type(e: Emitter, x: Array) -> str:
    """The type of the register that holds an array."""
    return lanes_for(e, x.size).register(x.dtype)


def held(e: Emitter, x: Array) -> Array:
    """An array of a few elements in a register, computed now."""
    if x.register:
        return x
    place = Place("0", 1)
    return in_register(x.dtype, x.shape, get(lanes_for(e, x.size), x, tuple(ZERO if n == 1 else place for n in x.shape)))


def in_register(dtype: np.dtype, shape: tuple[Length, ...], register: str) -> Array:
    """What stands in a register, whose last lanes may be nothing."""
    width = 1 << (int(np.prod([int(n) for n in shape])) - 1).bit_length()

    def flat(lanes: Lanes, place: Place) -> str:
        return _read(lanes, dtype, register, width, place)

    def at(lanes: Lanes, index: Index) -> str:
        return flat(lanes, offset(lanes, shape, index))

    return Array(dtype, shape, at, flat, widest=element(dtype).size, register=register)


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
