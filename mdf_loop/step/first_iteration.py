"""The first iteration of a loop in front of the others, where carried values have their types from the second one on.

``where(fired, rest, v)`` is one of numpy's numbers, and the ``rest`` that v begins with is one of Python's: the first iteration
computes with other types than all others, of which everything is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Collected, Loop
from mdf_loop.step.build import CannotLower
from mdf_loop.step.primitives import INT64
from mdf_loop.step.records import Type, Value
from mdf_loop.step.structure import is_always_true

if TYPE_CHECKING:
    from mdf_loop.step.lower import Lowering


def in_front(
    lowering: Lowering,
    record: Loop,
    count: Value | None,
    condition: Value | None,
    obeyed: bool,
    carried: Sequence[Value],
    scope: Mapping[str, Value],
) -> Sequence[Value]:
    """The results of a loop as :meth:`Lowering.loop` gives them; the program ends where it has no iteration.

    Raises
    ------
    CannotLower
        It scans, gives last values, or its first condition is known only when it runs.
    """
    b, body = lowering.b, record.body
    if record.scanned or record.last or any(c.axis or not c.stack or c.reverse or c.widens for c in record.collected):
        raise CannotLower("a carried value has its type from the second iteration on")
    if (condition is not None and not is_always_true(condition)) or (count is not None and count.type.shape):
        raise CannotLower("a loop that may have no iteration, and carries a value that has its type behind the first one")
    values = dict(zip(body.outputs, lowering.body(body, _names(lowering, record, carried, scope)), strict=True))
    stays = values[record.keep_going] if record.keep_going and obeyed else None
    ends = [values[c.output] for c in record.carried]
    if count is not None:
        b.put_in(
            "place_in", (b.const(np.int64(0)), b.cast(count, INT64)), Type(INT64, ())
        )  # there is an iteration, or no program
    left = None if count is None else b.sub(count, 1)

    lowering.begun = 1
    try:
        found = lowering.loop(record, left, stays, obeyed, ends, (), scope)
    finally:
        lowering.begun = 0
    rows = found[len(ends) : len(ends) + len(record.collected)]
    joined = [_joined(lowering, c, values[c.output], x) for c, x in zip(record.collected, rows, strict=True)]
    return [*found[: len(ends)], *joined, b.add(found[-2], 1), found[-1]]


def _names(lowering: Lowering, record: Loop, carried: Sequence[Value], scope: Mapping[str, Value]) -> dict[str, Value]:
    """What the body reads in the first iteration."""
    b, body, names = lowering.b, record.body, {**scope, **dict(zip((c.input for c in record.carried), carried, strict=True))}
    for name, value in ((record.index, np.int64(0)), (record.condition, np.True_)):
        if name:
            shape = body.type_of(name).shape or ()
            names[name] = b.const(np.full((1,) * len(shape), value) if shape else value)
    return names


def _joined(lowering: Lowering, collected: Collected, row: Value, rows: Value) -> Value:
    """The first row and all others."""
    b = lowering.b
    if not row.type.is_static or rows.type.shape is None or row.type.shape != rows.type.shape[1:]:
        raise CannotLower(f"{collected.output} has another shape in the first iteration")
    if row.type.dtype != rows.type.dtype:
        raise CannotLower(f"{collected.output} has another type in the first iteration")
    first = b.reshape(b.strong(row), (1, *(row.type.shape or ())))
    return b.concat([first, rows], 0)
