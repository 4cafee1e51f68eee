"""Conversions between element types, as numpy's ``astype`` has them on x86.

Floats out of range and nan become the lowest whole number of int32 or int64, on every processor.  numpy on ARM gives other
numbers for an array than for a number, and its build decides which: there is nothing to follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mdf_loop.backends.llvm.lanes.arithmetic import written
from mdf_loop.backends.llvm.lanes.element_types import FLOAT32, FLOAT64, CannotCompile, element
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes


def converted(lanes: Lanes, x: str, source: np.dtype, target: np.dtype) -> str:
    """A value in another element type, as numpy's ``astype`` converts it on x86.

    Raises
    ------
    CannotCompile
        There is no template for it.
    """
    if source == target:
        return x
    kinds = element(source).kind, element(target).kind
    if kinds[0] == "h":
        return converted(lanes, lanes.widened(source, x), FLOAT32, target)
    if kinds[1] == "h":
        if source == FLOAT64 or (kinds[0] in "iu" and source.itemsize > 2):
            raise CannotCompile(f"{source.name} to {target.name} has no compiled form")
        return lanes.narrowed(target, converted(lanes, x, source, FLOAT32))
    return _CONVERTERS[kinds](lanes, x, source, target)


def _changed(lanes: Lanes, name: str, x: str, source: np.dtype, target: np.dtype) -> str:
    return lanes.text.new(f"{name} {lanes.register(source)} {x} to {lanes.register(target)}")


def _float_to_float(lanes: Lanes, x: str, source: np.dtype, target: np.dtype) -> str:
    return _changed(lanes, "fpext" if target == FLOAT64 else "fptrunc", x, source, target)


def _whole_to_float(lanes: Lanes, x: str, source: np.dtype, target: np.dtype) -> str:
    return _changed(lanes, "sitofp" if source.kind == "i" else "uitofp", x, source, target)


def _whole_to_whole(lanes: Lanes, x: str, source: np.dtype, target: np.dtype) -> str:
    if source.itemsize == target.itemsize:
        return x
    if source.itemsize > target.itemsize:
        return _changed(lanes, "trunc", x, source, target)
    return _changed(lanes, "sext" if source.kind == "i" else "zext", x, source, target)


def _to_bool(lanes: Lanes, x: str, source: np.dtype, target: np.dtype) -> str:
    return written(lanes, "ne", source, [x, lanes.number(source, 0)])


def _bool_to_whole(lanes: Lanes, x: str, source: np.dtype, target: np.dtype) -> str:
    return _changed(lanes, "zext", x, source, target)


def _float_to_whole(lanes: Lanes, x: str, source: np.dtype, target: np.dtype) -> str:
    """Small numbers by way of int32, as C compilers do; what is out of range is the lowest number of int32 or int64."""
    if target.kind == "u" and target.itemsize >= 4:
        raise CannotCompile(f"{source.name} to {target.name} has no compiled form")
    wide = target if target.itemsize >= 4 else np.dtype(np.int32)
    return _whole_to_whole(lanes, _in_range(lanes, x, source, wide), wide, target)


def _in_range(lanes: Lanes, x: str, source: np.dtype, target: np.dtype) -> str:
    new, type, bits = lanes.text.new, lanes.register(source), 8 * target.itemsize - 1
    lowest, end = -math.ldexp(1, bits), math.ldexp(1, bits)
    least = lowest - 1 if (source, bits) == (FLOAT64, 31) else lowest  # of int32 in float64, -2147483648.9 is in range
    above = new(f"fcmp {'ogt' if least < lowest else 'oge'} {type} {x}, {lanes.number(source, least)}")
    inside = new(f"and {lanes.of('i1')} {above}, {new(f'fcmp olt {type} {x}, {lanes.number(source, end)}')}")
    safe = lanes.select(source, inside, x, lanes.number(source, 0.0))
    return lanes.select(target, inside, _changed(lanes, "fptosi", safe, source, target), lanes.number(target, lowest))


_CONVERTERS: dict[tuple[str, str], Callable[[Lanes, str, np.dtype, np.dtype], Any]] = {
    **{(kind, "b"): _to_bool for kind in "iuf"},
    **{("f", kind): _float_to_whole for kind in "iu"},
    **{("b", kind): _bool_to_whole for kind in "iu"},
    **{(one, other): _whole_to_whole for one in "iu" for other in "iu"},
    **{(kind, "f"): _whole_to_float for kind in "iub"},
    ("f", "f"): _float_to_float,
}
