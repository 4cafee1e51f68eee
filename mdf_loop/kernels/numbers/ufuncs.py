"""Declaring element-wise operators in one line, old opsets included.

Two things are gone since the first opsets: ``consumed_inputs`` (1 to 5), a hint about memory that never
changed a result, and ``axis`` with ``broadcast`` (1 to 6), which broadcast the second input to the first
by rules of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mdf_loop.ops.batching import by_step, elementwise
from mdf_loop.ops.registry import kernel, lookup, register, say
from mdf_loop.ops.rows import Call


def from_first_opset(op: str) -> Callable[[Call], Call]:
    """Register an element-wise operator whose only change was to lose ``consumed_inputs`` in opset 6."""

    def decorate(run: Call) -> Call:
        kernel(op, since=6, batch=elementwise)(run)

        def first(*inputs: Any, consumed_inputs: Any = None, **attrs: Any) -> Any:
            return run(*inputs, **attrs)

        entry = lookup(op, 6)
        register(replace(entry, since=1, run=first, parameters=entry.parameters | {"consumed_inputs"}))
        return run

    return decorate


def of_two(op: str) -> Callable[[Call], Call]:
    """Register an element-wise operator of two inputs: numpy's broadcasting from opset 7 on, ``axis`` before."""

    def decorate(run: Call) -> Call:
        @kernel(op, since=1, batch=by_step)
        def before_7(a: Any, b: Any, *, axis: int | None = None, broadcast: int = 0, consumed_inputs: Any = None) -> Any:
            return run(a, fitted(a, b, axis, broadcast))

        say(op, until=7, traced=op != "Pow")  # whose powers are defined, as they are not numpy's
        return kernel(op, since=7, batch=elementwise)(run)

    return decorate


def fitted(a: Any, b: Any, axis: int | None, broadcast: int) -> Any:
    """The second input in the shape with which numpy's broadcasting does what ``axis`` and ``broadcast`` ask.

    The dimensions of ``b`` are those of ``a`` from ``axis`` on, or for its last ones; a single
    element serves all.

    Raises
    ------
    ValueError
        The shapes differ without ``broadcast``, or do not fit with it.
    """
    if a.shape == b.shape:
        return b
    if not broadcast:
        raise ValueError(f"without broadcast=1 the inputs must have one shape; got {list(a.shape)} and {list(b.shape)}")
    if b.size == 1:
        return b.reshape(())
    start = a.ndim - b.ndim if axis is None else axis + a.ndim * (axis < 0)
    covered = a.shape[start : start + b.ndim] if start >= 0 else ()
    if len(covered) != b.ndim or any(n not in (1, m) for n, m in zip(b.shape, covered, strict=True)):
        place = "at the end" if axis is None else f"from axis {axis} on"
        raise ValueError(f"the second input, of shape {list(b.shape)}, does not fit {list(a.shape)} {place}")
    return b.reshape(b.shape + (1,) * (a.ndim - start - b.ndim))
