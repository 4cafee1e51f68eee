"""Sequences that a loop makes from nothing, one value behind the other: the rows of a collected array.

TorchScript writes a list that way, and puts its elements together behind the loop.  A sequence that anybody else looks at,
inside the loop or behind it, stays one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mdf_loop.ir import Body, Carried, Collected, Loop, Node
from mdf_loop.ops.registry import facts
from mdf_loop.step.records import Value


def is_empty(value: Value) -> bool:
    """Whether a value is a sequence without elements."""
    return value.op == "rows" and not value.args


def with_rows(record: Loop, carried: Sequence[Value]) -> tuple[Loop, list[Value], list[int]]:
    """The loop that collects what it put behind sequences, last of all.

    Returns
    -------
    tuple of (Loop, list of Value, list of int)
        The loop, what it still carries, and the places that the sequences had among carried values.
    """
    found, places = record, []
    for k, (value, initial) in enumerate(zip(record.carried, carried, strict=True)):
        node = _appending(record.body, value) if is_empty(initial) else None
        if node is not None:
            body = found.body
            body = replace(
                body,
                inputs=tuple(name for name in body.inputs if name != value.input),
                outputs=(*(name for name in body.outputs if name != value.output), node.inputs[1]),
                nodes=tuple(other for other in body.nodes if other is not node),
            )
            rest = tuple(other for other in found.carried if other is not value)
            found = replace(found, body=body, carried=rest, collected=(*found.collected, Collected(node.inputs[1])))
            places.append(k)
    return found, [x for k, x in enumerate(carried) if k not in places], places


def _appending(body: Body, value: Carried) -> Node | None:
    """The node that puts a value behind a sequence, if nobody else looks at the sequence."""
    readers = [node for node in body.nodes if {value.input, value.output} & set(node.reads)]
    if len(readers) != 1 or body.outputs.count(value.output) != 1 or value.input in body.outputs:
        return None
    (node,) = readers
    appends = facts(node).appends and len(node.inputs) == 2 and node.inputs[0] == value.input != node.inputs[1]
    return node if appends and node.outputs == (value.output,) else None
