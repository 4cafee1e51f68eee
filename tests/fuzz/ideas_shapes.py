"""Ideas for a node: values whose shape and rank change from one iteration to the next."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.types.elements import CODES

from . import contents
from .drawing import Drawing, Value, fresh

HOSTILE = [
    sign * n + more for n in (1 << 31, 1 << 40, 1 << 61, 1 << 62, (1 << 63) - 17) for sign in (1, -1) for more in (0, 1, 16)
]
HOSTILE += [-(1 << 63)]
"""Lengths for which there is no memory, some of which are few bytes where 64 bits wrap around; and negative ones."""


def moved(d: Drawing) -> None:
    """The same elements in another shape."""
    if x := d.tensor():
        rank = len(x.shape)
        way = d.choose.choice(["Transpose", "Unsqueeze", "Squeeze", "Reshape", "Flatten"])
        if way == "Transpose" and rank:
            d.add(way, [x], perm=d.choose.sample(range(rank), rank))
        elif way == "Unsqueeze":
            d.add(way, [x, d.constant([d.choose.choice([0, -1])])])
        elif way == "Reshape":
            d.add(way, [x, d.constant(d.choose.choice([[-1], [-1, 1], [1, -1], []]))])
        elif rank:
            d.add(way, [x])


def joined(d: Drawing) -> None:
    """Concat with another of its kind: what is carried grows."""
    if x := d.tensor(ranks=(1, 2)):
        others = [d.like(x, same_shape=d.choose.random() < 0.5) for _ in range(d.choose.randint(1, 2))]
        d.add("Concat", [x, *others], axis=d.choose.randrange(len(x.shape)))


def grown(d: Drawing) -> None:
    """One more element, or one fewer."""
    if x := d.tensor(ranks=(1,)):
        if d.choose.random() < 0.7:
            d.add("Concat", [x, d.constant(fresh(d, (1,), x.dtype), x.dtype)], axis=0)
        else:
            d.add("Slice", [x, d.constant([1]), d.constant([99])])


def cut(d: Drawing) -> None:
    """As many rows as a table says for the iteration."""
    if x := d.tensor(ranks=(1, 2)):
        lengths = d.choose.choice([(0, 1), (1, 2), (0, 1, 2, 3), (2, 3), (0, 3)])
        end = d.by_table([[lengths[k]] for k in contents.timeline(d.choose, len(lengths), max(d.count, 1))])
        if end:
            d.add("Slice", [x, d.constant([0]), end])


def expanded(d: Drawing) -> None:
    """A shape that a table says for the iteration."""
    shapes = d.choose.choice([[(1,), (3,)], [(2, 1), (2, 3)], [(1, 1), (0, 1), (1, 3)], [(1, 1, 1), (2, 2, 3)], [(0,), (1,)]])
    if d.choose.random() < 0.1:
        shapes = [(1,), (d.choose.choice(HOSTILE),)]
    x = d.tensor()
    wanted = d.by_table([shapes[k] for k in contents.timeline(d.choose, len(shapes), max(d.count, 1))])
    if x and wanted:
        d.add(d.choose.choice(["Expand", "Expand", "Reshape"]), [x, wanted])


def of_a_list(d: Drawing) -> None:
    """One of a captured sequence of arrays of any shape."""
    _one_of_a_list(d, [fresh(d, None, d.choose.choice(d.types)) for _ in range(1)])


def _one_of_a_list(d: Drawing, items: list[np.ndarray]) -> Value | None:
    items += [fresh(d, None, items[0].dtype) for _ in range(d.choose.randint(0, 2))]
    place = d.by_table(contents.timeline(d.choose, len(items), max(d.count, 1)))
    return place and d.add("SequenceAt", [d.capture(items), place])


def changing(d: Drawing, value: Value) -> Value | None:
    """A value of the same type whose shape changes from iteration to iteration; that of a Scan cannot know when."""
    if d.index.name and d.choose.random() < 0.6:
        return _one_of_a_list(d, [value.sample])
    if value.shape and d.choose.random() < 0.5:
        return d.add("Slice", [value, d.constant([0]), d.constant([d.choose.choice([-1, 1, 2])])])
    return d.add("Reshape", [value, d.constant(d.choose.choice([[-1], [-1, 1], [1, -1], [1, 1, -1]]))])


def branched_shape(d: Drawing) -> None:
    """An If that gives another shape in one iteration, or from one on."""
    x = d.tensor()
    if x is None:
        return
    flag = d.add(d.choose.choice(["Equal", "Less"]), [d.index, d.constant(d.choose.randint(0, max(d.count, 1)))])
    if flag:
        add_branches(d, flag, [x, _other_shape(d, x)])


def _other_shape(d: Drawing, x: Value) -> Value:
    return d.capture(contents.reshaped(d.choose, x.sample)) if d.choose.random() < 0.5 else d.like(x)


def add_branches(d: Drawing, flag: Value, results: list[Value]) -> None:
    """An If whose branches hand on one value each."""
    graphs: dict[str, Any] = {}
    for name, result in zip(("then_branch", "else_branch"), results, strict=True):
        inner = d.inner()
        inner.outer[result.name] = result.sample
        inner.scope.append(result)
        out = inner.add("Identity", [result]) if d.choose.random() < 0.5 else result
        graphs[name] = inner.finished(name, [], [out or result])
    d.add("If", [flag], exact=all(r.exact for r in results), **graphs)


def sized(d: Drawing) -> None:
    """Range, Shape, Size and NonZero: values that are or have sizes."""
    way = d.choose.choice(["Shape", "Size", "NonZero", "Range", "ConstantOfShape"])
    if way == "Range":
        d.add(way, [d.constant(0), d.index, d.constant(d.choose.choice([1, 1, 2]))])
    elif x := d.tensor(exact=way == "NonZero"):
        if way == "ConstantOfShape":
            shape = d.add("Shape", [x])
            if shape:
                d.add(way, [shape])
        else:
            d.add(way, [x])


def repeated(d: Drawing) -> None:
    """Tile, Pad, Trilu, CumSum of whole numbers, and the like."""
    x = d.tensor(ranks=(1, 2))
    if x is None:
        return
    rank, way = len(x.shape), d.choose.choice(["Tile", "Pad", "Trilu", "Split", "Compress", "Unique"])
    if way == "Tile":
        d.add(way, [x, d.constant([d.choose.randint(0, 2) for _ in range(rank)])])
    elif way == "Pad":
        d.add(way, [x, d.constant([d.choose.randint(-1, 1) for _ in range(2 * rank)])])
    elif way == "Split":
        d.add(way, [x], n_outputs=2, num_outputs=2)
    elif way == "Compress":
        flag = d.tensor("b", ranks=(1,), exact=True)
        if flag:
            d.add(way, [x, flag], axis=0)
    elif way == "Unique" and x.exact:
        d.add(way, [x], n_outputs=1)
    elif way == "Trilu" and np.ndim(x.sample) == 2:
        d.add(way, [x], upper=d.choose.randint(0, 1))


def folded(d: Drawing) -> None:
    """Two values that are carried, in one array, and of that one number or row: it may hide what shape the array has."""
    x = d.any(lambda v: v.roots and v.dtype is not None)
    y = x and d.any(lambda v: v.roots and v.dtype == x.dtype)
    both = y and d.add(d.choose.choice(["Add", "Mul", "Sub", "Max", "Or"]), [x, y])
    if not both:
        return
    if d.choose.random() < 0.3:
        both = d.add("Add", [both, d.like(both)]) or both
    way = d.choose.choice(["ReduceMax", "ReduceSum", "ReduceSum", "Slice", "Gather", "Size"])
    if way == "Slice":
        d.add(way, [both, d.constant([-1]), d.constant([99])])
    elif way == "Gather":
        d.add(way, [both, d.constant(d.choose.choice([0, -1]))])
    elif way == "Size":
        d.add("Cast", [d.add(way, [both])], to=CODES[both.dtype])
    else:
        exact = way != "ReduceSum" or both.dtype.kind in "iu"
        if exact or not d.exact:
            d.add(way, [both], exact, keepdims=d.choose.choice([0, 0, 1]))


IDEAS = [
    folded,
    folded,
    folded,
    moved,
    moved,
    joined,
    grown,
    cut,
    cut,
    expanded,
    of_a_list,
    branched_shape,
    branched_shape,
    sized,
    repeated,
]
