"""Ideas for a node: reading and writing at places, which stay or move with the iteration number or with what is carried."""

from __future__ import annotations

import numpy as np

from .drawing import Drawing, Value, fresh


def place(d: Drawing, length: int) -> Value | None:
    """A place of an axis: constant, the iteration number, one that is carried, or one of a table; sometimes outside."""
    way = d.choose.choice(["constant", "number", "round", "table", "any"])
    if way == "constant" or not length:
        return d.constant(d.choose.randint(-length, max(length - 1, 0)))
    if way == "number":
        return d.index
    if way == "table":
        rows = [d.choose.randint(-length, length - 1) for _ in range(max(d.count, 1))]
        return d.by_table(rows)
    number = d.any(lambda v: v.dtype == np.int64 and v.shape == ()) if way == "any" else d.index
    return d.add("Mod", [number or d.index, d.constant(length)])


def as_vector(d: Drawing, at: Value | None) -> Value | None:
    """A place as a vector of one."""
    return at and d.add("Reshape", [at, d.constant([-1])])


def gathered(d: Drawing) -> None:
    """An entry or row of a value or of a captured table."""
    x = d.tensor(ranks=(1, 2, 3))
    if x is None or d.choose.random() < 0.4:
        shape = d.choose.choice([(), (), (2,), (3,), (1,)])
        x = d.capture(fresh(d, (max(d.count, 1) + d.choose.choice([0, 0, 0, -1, 2]), *shape)))
    axis = d.choose.randrange(len(x.shape))
    at = place(d, x.shape[axis])
    if at and d.choose.random() < 0.3:
        at = as_vector(d, at)
    if at:
        d.add("Gather", [x, at], axis=axis)


def written(d: Drawing) -> None:
    """A row or entry written in place, so to speak: ScatterND or ScatterElements, with a reduction now and then."""
    x = d.tensor(ranks=(1, 2, 3))
    if x is None:
        return
    at = as_vector(d, place(d, x.shape[0]))
    if at is None:
        return
    reduction = d.choose.choice(["none", "none", "none", "add", "max", "mul"])
    exact = reduction == "none" or x.dtype.kind in "biu"
    if not exact and d.exact:
        reduction = "none"
    if len(x.shape) == 1 and d.choose.random() < 0.4:
        d.add("ScatterElements", [x, at, _row(d, x, (1,))], exact, reduction=reduction)
    elif to := d.add("Reshape", [at, d.constant([1, 1])]):
        d.add("ScatterND", [x, to, _row(d, x, (1, *x.shape[1:]))], exact, reduction=reduction)


def _row(d: Drawing, x: Value, shape: tuple[int, ...]) -> Value:
    found = d.any(lambda v: v.dtype == x.dtype and v.shape == shape)
    other = d.any(lambda v: v.dtype == x.dtype and v.shape == shape[1:])
    if found is None and other is not None:
        found = d.add("Unsqueeze", [other, d.constant([0])])
    return found or d.constant(fresh(d, shape, x.dtype), x.dtype)


def sliced(d: Drawing) -> None:
    """A slice, forwards or backwards, with constant ends or ends that move."""
    x = d.tensor(ranks=(1, 2, 3))
    if x is None:
        return
    axis, step = d.choose.randrange(len(x.shape)), d.choose.choice([1, 1, 1, -1, 2])
    ends = []
    for _ in range(2):
        moving = d.choose.random() < 0.4
        ends.append(as_vector(d, place(d, x.shape[axis])) if moving else d.constant([d.choose.randint(-3, 4)]))
    if None not in ends:
        d.add("Slice", [x, *ends, d.constant([axis]), d.constant([step])])


def window(d: Drawing) -> None:
    """A slice of a captured table that moves with the iteration number, of one width."""
    width, shape = d.choose.randint(1, 3), d.choose.choice([(), (2,)])
    table = d.capture(fresh(d, (max(d.count, 1) + width, *shape)))
    if start := as_vector(d, d.index):
        end = d.add("Add", [start, d.constant([width])])
        if end:
            d.add("Slice", [table, start, end])


def replaced(d: Drawing) -> None:
    """The end or beginning of a value replaced: a queue of fixed length."""
    x = d.tensor(ranks=(1, 2))
    if x is None or not x.shape[0]:
        return
    ends = [d.constant([1]), d.constant([np.iinfo(np.int64).max])]
    front = d.choose.random() < 0.5
    if front:
        ends = [d.constant([0]), d.constant([-1])]
    if rest := d.add("Slice", [x, *ends]):
        row = _row(d, x, (1, *x.shape[1:]))
        d.add("Concat", [row, rest] if front else [rest, row], axis=0)


def elements(d: Drawing) -> None:
    """GatherElements or GatherND with places of a table."""
    x = d.tensor(ranks=(1, 2))
    if x is None or 0 in x.shape:
        return
    if d.choose.random() < 0.5:
        places = d.choose.choices(range(-x.shape[0], x.shape[0]), k=int(np.prod(x.shape)))
        d.add("GatherElements", [x, d.constant(np.reshape(places, x.shape))], axis=0)
    else:
        d.add("GatherND", [x, d.constant([[d.choose.randrange(x.shape[0])]])])


IDEAS = [gathered, gathered, gathered, written, written, written, sliced, sliced, window, replaced, elements]
