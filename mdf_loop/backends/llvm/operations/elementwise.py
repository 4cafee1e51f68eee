"""Values whose elements are computed one by one: primitives, conversions, choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mdf_loop.backends.llvm.emitter import Emitter, type_of, writes
from mdf_loop.backends.llvm.lanes import arithmetic, casts
from mdf_loop.backends.llvm.lanes.element_types import FLOAT32, FLOAT64, CannotCompile
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, get, is_one, mapped, number
from mdf_loop.backends.llvm.lanes.vector_lanes import ZERO, Lanes
from mdf_loop.backends.llvm.operations import python_numbers
from mdf_loop.step.primitives import PRIMITIVES, promoted
from mdf_loop.step.records import Value


def computed(e: Emitter, dtype: np.dtype, args: Sequence[Array], compute: Callable[..., str]) -> Array:
    """A function of elements: now, where there is one, else where it is read."""
    e.element(dtype)
    shape = e.broadcast_shape(args)
    if is_one(shape):
        lanes = Lanes(e.text)
        return number(dtype, compute(lanes, *[get(lanes, x, tuple(ZERO for _ in shape)) for x in args]), shape)
    return mapped(dtype, shape, compute, args)


@writes("")
def primitive(e: Emitter, v: Value) -> Array:
    """A primitive; its arguments are brought to the type that numpy computes in."""
    if v.op not in PRIMITIVES:
        raise CannotCompile(f"{v.op} has no compiled form")
    if python_numbers.is_weak(v):
        return python_numbers.computed(e, v)
    args = [e.of(x) for x in v.args]
    dtype = type_of(v)
    working = promoted([x.type for x in v.args]) if PRIMITIVES[v.op].is_question else dtype
    if working is None or (working == FLOAT64 and {x.dtype.kind for x in args} == {"i", "u"}):
        raise CannotCompile(f"{v.op} of {' and '.join(x.dtype.name for x in args)} has no compiled form")

    known = [_constant(x, working) for x in v.args]

    def compute(lanes: Lanes, *given: str) -> str:
        same = [
            casts.converted(lanes, x, a.dtype, working) if constant is None else lanes.number(working, constant)
            for x, a, constant in zip(given, args, known, strict=True)
        ]
        return arithmetic.written(lanes, v.op, working, same)

    return computed(e, dtype, args, compute)


def _constant(x: Value, dtype: np.dtype) -> float | None:
    """What a constant is in a type of floats: templates know it then (a power of 3 is two products)."""
    if x.op != "const" or dtype not in (FLOAT32, FLOAT64):
        return None
    numbers = set(np.asarray(x.attr).astype(dtype).ravel().tolist())
    return numbers.pop() if len(numbers) == 1 else None


@writes("cast")
def cast(e: Emitter, v: Value) -> Array:
    """Another element type."""
    (x,) = map(e.of, v.args)
    dtype = type_of(v)
    if v.type.weak:
        return python_numbers.converted(e, x, dtype)
    if v.args[0].type.weak:
        x = python_numbers.fitted(e, v.args[0], dtype)
    return computed(e, dtype, [x], lambda lanes, a: casts.converted(lanes, a, x.dtype, dtype))


@writes("as_array")
def as_array(e: Emitter, v: Value) -> Array:
    """An array without dimensions is a number as any other."""
    return e.of(v.args[0])


@writes("select")
def select(e: Emitter, v: Value) -> Array:
    """One of two."""
    args = [e.of(x) for x in v.args]
    dtype = type_of(v)
    if v.type.weak and {x.dtype for x in args[1:]} != {dtype}:
        raise CannotCompile("a choice of Python's own numbers has no compiled form")

    def compute(lanes: Lanes, condition: str, x: str, y: str) -> str:
        both = [casts.converted(lanes, a, given.dtype, dtype) for a, given in zip((x, y), args[1:], strict=True)]
        return lanes.select(dtype, condition, *both)

    return computed(e, dtype, args, compute)
