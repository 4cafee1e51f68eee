"""Loops in which values change their shape after the first iteration and meet others that are carried."""

from __future__ import annotations

import random

import numpy as np

from . import bodies, contents, ideas_nested, ideas_numbers, ideas_places, ideas_shapes
from .drawing import Drawing, Value, fresh
from .loops import LoopCase, script, smaller
from .target import Target

IDEAS = [
    *[ideas_shapes.folded] * 8,
    *[ideas_numbers.of_two] * 3,
    *(ideas_numbers.decayed, ideas_numbers.of_one, ideas_numbers.chosen, ideas_numbers.summed),
    *(ideas_shapes.of_a_list, ideas_shapes.cut, ideas_shapes.branched_shape, ideas_shapes.moved, ideas_shapes.grown),
    *(ideas_places.sliced, ideas_places.gathered, ideas_places.written),
]
TYPES = [np.dtype(name) for name in ("float64", "float64", "float32", "int64", "int32")]


def make(choose: random.Random) -> LoopCase:
    """A small body of one element type."""
    return bodies.getting_through(choose, _attempt)


def _attempt(choose: random.Random) -> LoopCase:
    d = Drawing(choose, False, choose.choice([2, 3, 5, 9, 20]), choose.choice([0.0, 0.0, 0.1]))
    d.types, d.shapes = [choose.choice(TYPES)], choose.choice(contents.FAMILIES[:-1])
    carried = [bodies.carried_value(d) for _ in range(choose.choice([2, 2, 3]))]
    drivers = set(choose.sample([v.name for v in carried], choose.choice([1, 1, len(carried) - 1, 0])))
    return bodies.loop_over(d, carried, _steps, lambda d, value: _fed(d, value, drivers))


def _steps(d: Drawing, most: int) -> None:
    for _ in range(max(most // 2, 2)):
        if d.choose.random() < 0.05:
            d.choose.choice(ideas_nested.IDEAS)(d, _steps)
        else:
            d.choose.choice(IDEAS)(d)


def _fed(d: Drawing, value: Value, drivers: set[str]) -> Value:
    """A driver by something of another shape that depends on nothing else; others by what was made of drivers and them."""
    if value.name not in drivers or value.dtype is None:
        others = d.any(lambda v: v.dtype == value.dtype and v.shape == value.shape and len(v.roots) > 1 and value.name in v.roots)
        return others or bodies.fed(d, value)
    other = d.capture(fresh(d, None, value.dtype))
    if d.choose.random() < 0.5:
        rows = d.capture(np.stack([other.sample] * (d.count + 1)))
        other = d.add("Gather", [rows, d.index]) or other
    return (ideas_shapes.changing(d, value) or other) if d.choose.random() < 0.3 else other


TARGET = Target(
    "changing",
    "small loops whose values change their shape after the first iteration",
    make,
    bodies.check,
    script,
    smaller,
    in_tests=80,
)
