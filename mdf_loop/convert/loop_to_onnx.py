"""One loop as a whole ONNX model: what it has at its end, and what it collects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from mdf_loop.convert.checked import write_checked, written_as_onnx
from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import Body, Loop, Node


def loop_to_onnx(loop: Loop | None, trip_count: int | None, first: Sequence[Any], names: Sequence[str]) -> onnx.ModelProto:
    """A loop that carries only hidden values as a checked ONNX model without inputs.

    Parameters
    ----------
    loop : Loop or None
        Its body has hidden values; ``last`` and then ``collected`` are the outputs of the model.  None is no iteration.
    trip_count : int or None
        How many iterations; None where ``keep_going`` alone ends it.
    first : sequence
        What the last values are without an iteration.
    names : sequence of str
        What the outputs are called.

    Raises
    ------
    UnsupportedOp
        ONNX cannot express something in it, or its hidden values change their rank; or there is no output.
    """
    if not names:
        raise UnsupportedOp("a model without outputs has no ONNX model")
    return write_checked(written_as_onnx(body_around(loop, trip_count, first), {}, names))


def body_around(loop: Loop | None, trip_count: int | None, first: Sequence[Any]) -> Body:
    """The graph with the node of a loop and nothing else."""
    if loop is None or trip_count == 0:
        known = {f"first {k}": np.asarray(value) for k, value in enumerate(first)}
        return Body("loop" if loop is None else loop.body.name, (), tuple(known), constants=known, typed=False)
    inner = loop.body
    if loop.carried or loop.scanned or loop.invariant or inner.captures:
        raise UnsupportedOp(f"loop {loop.name or inner.name!r} needs values from outside")
    if any(c.axis or not c.stack or c.reverse for c in loop.collected):
        raise UnsupportedOp(f"loop {loop.name or inner.name!r} collects along other axes than a new first one")
    outputs = tuple(f"output {k}" for k in range(len(loop.results)))
    count = "" if trip_count is None else "trip count"
    constants = {"go": np.array(True)} | ({} if trip_count is None else {count: np.array(trip_count)})
    node = Node("Loop", (count, "go"), outputs, {"loop": loop}, loop.name or inner.name, inner.opsets.get("", 18))
    return Body(inner.name, (), outputs, (node,), constants, opsets=inner.opsets, typed=False)
