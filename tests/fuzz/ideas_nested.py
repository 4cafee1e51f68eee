"""Ideas for a node: loops, scans, branches, sequences and random numbers inside a body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .drawing import Drawing, Value, fresh

Steps = Callable[[Drawing, int], None]
DEEPEST = 2


def branched(d: Drawing, steps: Steps) -> None:
    """An If with a few nodes in each branch, and one or two results."""
    flag = d.any(lambda v: v.dtype == np.bool_ and v.shape in ((), (1,)) and v.exact)
    if flag is None or d.depth >= DEEPEST:
        return
    wanted = [v for v in (d.any(), d.any()) if v][: d.choose.randint(1, 2)]
    graphs: dict[str, Any] = {}
    exact = True
    for name in ("then_branch", "else_branch"):
        inner = d.inner()
        steps(inner, 3)
        results = [_result(inner, value) for value in wanted]
        exact = exact and all(v.exact for v in results)
        graphs[name] = inner.finished(name, [], results)
    d.add("If", [flag], exact, len(wanted), **graphs)


def _result(inner: Drawing, like: Value) -> Value:
    if inner.choose.random() < 0.7:
        return inner.like(like, same_shape=True)
    return inner.like(like)


def looped(d: Drawing, steps: Steps) -> None:
    """A Loop of a few iterations: it carries and collects, and may end by itself."""
    if d.depth >= DEEPEST:
        return
    start = [v for v in (d.any(), d.any()) if v][: d.choose.randint(0, 2)]
    inner = d.inner()
    inner.index = Value(next(d.names), np.array(0))
    go = Value(next(d.names), np.array(True))
    carried = [Value(next(d.names), v.sample, inner.exact or not v.sample_rounds, v.roots) for v in map(_Start, start)]
    inner.scope += [inner.index, go, *carried]
    steps(inner, 4)
    outs = [_result(inner, v) for v in carried]
    rows = [v for v in (inner.any(lambda v: v.dtype is not None), inner.tensor()) if v][: d.choose.randint(0, 2)]
    ends = inner.any(lambda v: v.dtype == np.bool_ and v.shape == () and v.exact) if d.choose.random() < 0.4 else go
    body = inner.finished("inner", [inner.index, go, *carried], [ends or go, *outs, *rows])
    if outs or rows:
        count = d.constant(d.choose.randint(0, 3)) if d.choose.random() < 0.7 else _number(d)
        first = None if d.choose.random() < 0.5 else d.constant(d.choose.random() < 0.9, np.bool_)
        exact = all(v.exact for v in [*outs, *rows])
        d.add("Loop", [count, first, *start], exact, len(outs) + len(rows), body=body)


class _Start:
    """What an inner loop starts with."""

    def __init__(self, value: Value) -> None:
        self.sample, self.roots = value.sample, value.roots
        self.sample_rounds = isinstance(value.sample, list) or value.sample.dtype.kind in "fcV"


def _number(d: Drawing) -> Value:
    return d.add("Mod", [d.index, d.constant(3)]) or d.index


def scanned(d: Drawing, steps: Steps) -> None:
    """A Scan over the rows of one value, with another that is carried."""
    x = d.tensor(ranks=(1, 2, 3))
    if x is None or not x.shape[0] or d.depth >= DEEPEST:
        return
    start = d.tensor()
    if start is None:
        return
    inner = d.inner()
    rounds = _Start(start).sample_rounds
    state = Value(next(d.names), start.sample, inner.exact or not rounds, start.roots)
    row = Value(next(d.names), np.asarray(x.sample[0, ...]), x.exact)
    inner.scope += [state, row]
    steps(inner, 4)
    out, seen = _result(inner, state), inner.tensor() or row
    body = inner.finished("inner", [state, row], [out, seen])
    attrs = {"num_scan_inputs": 1, "scan_input_directions": [d.choose.randint(0, 1)]}
    d.add("Scan", [start, x], out.exact and seen.exact, 2, body=body, **attrs)


def random_numbers(d: Drawing, steps: Steps) -> None:
    """Numbers of the run's stream, or of a seed of its own."""
    attrs: dict[str, Any] = {"seed": 3.0} if d.choose.random() < 0.2 else {}
    op = d.choose.choice(["RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"])
    if op in ("RandomNormal", "RandomUniform"):
        shape = d.choose.choice([[1], [3], [2, 3]])
        d.add(op, [], shape=shape, dtype=d.choose.choice([1, 11]), **attrs)
    elif x := d.tensor("f", exact=True):
        d.add(op, [x], **attrs)


def sequences(d: Drawing, steps: Steps) -> None:
    """A sequence made, grown, read or put together."""
    found = d.any(lambda v: v.dtype is None)
    if found is None:
        if x := d.tensor():
            d.add("SequenceConstruct", [x, d.like(x)])
        return
    op = d.choose.choice(
        ["SequenceInsert", "SequenceInsert", "SequenceAt", "SequenceLength", "SequenceErase", "ConcatFromSequence"]
    )
    if op == "SequenceInsert":
        kind = found.sample[0].dtype if found.sample else np.dtype(np.float32)
        x = d.any(lambda v: v.dtype == kind) or d.constant(fresh(d, (), kind), kind)
        d.add(op, [found, x] + ([d.constant(0)] if d.choose.random() < 0.3 else []))
    elif op == "ConcatFromSequence":
        d.add(op, [found], axis=0, new_axis=d.choose.randint(0, 1))
    else:
        d.add(op, [found] + ([d.constant(d.choose.choice([0, -1]))] if op != "SequenceLength" else []))


IDEAS = [branched, branched, looped, looped, scanned, random_numbers, sequences]
