"""Loops whose carried values keep their types and shapes, of up to hundreds of iterations: what compiles, and runs in blocks."""

from __future__ import annotations

import random

import numpy as np

from . import bodies, contents, ideas_nested, ideas_numbers, ideas_places, ideas_shapes
from .drawing import Drawing, Value, fresh
from .loops import LoopCase, script, smaller
from .target import Target

TYPES = [np.dtype(name) for name in ("float64", "float64", "float64", "float32", "int64", "int32", "uint8", "bool")]
NESTED = [ideas_nested.branched, ideas_nested.looped, ideas_nested.random_numbers]


def make(choose: random.Random) -> LoopCase:
    """A body of one or two element types."""
    return bodies.getting_through(choose, _attempt)


def _attempt(choose: random.Random) -> LoopCase:
    exact = choose.random() < 0.6
    d = Drawing(choose, exact, choose.choice([0, 1, 2, 7, 33, 300]), 0.0)
    d.types, d.shapes = [choose.choice(TYPES) for _ in range(2)], choose.choice(contents.FAMILIES[:4])
    carried = [_carried(d) for _ in range(choose.choice([1, 1, 2, 3]))]
    return bodies.loop_over(d, carried, _steps, _fed)


def _carried(d: Drawing) -> Value:
    name, sample = next(d.names), fresh(d, d.choose.choice(d.shapes), d.choose.choice(d.types))
    return Value(name, sample, d.exact or sample.dtype.kind != "f", frozenset({name}))


def _steps(d: Drawing, most: int) -> None:
    numbers = ideas_numbers.EXACT if d.exact else ideas_numbers.SMOOTH
    ideas = [*numbers, *numbers, *ideas_places.IDEAS, ideas_shapes.moved, ideas_shapes.joined]
    for _ in range(d.choose.randint(most // 2, most)):
        if d.choose.random() < 0.1:
            d.choose.choice(NESTED)(d, _steps)
        else:
            d.choose.choice(ideas)(d)


def _fed(d: Drawing, value: Value) -> Value:
    """Something of its type and shape; if it is not exact, half of itself and something bounded, so that no difference grows."""
    if value.exact:
        return d.any(lambda v: v.dtype == value.dtype and v.shape == value.shape and v.exact) or value
    half = d.add("Mul", [value, d.constant(0.5, value.dtype)])
    other = d.any(lambda v: v.dtype == value.dtype and v.shape == value.shape and not v.roots)
    bounded = other and d.add("Tanh", [other], exact=False)
    return (half and bounded and d.add("Add", [half, bounded])) or value


TARGET = Target(
    "plain",
    "loops whose carried values keep their types and shapes, of up to hundreds of iterations",
    make,
    bodies.check,
    script,
    smaller,
    in_tests=30,
)
