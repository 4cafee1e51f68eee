"""A run says where a condition looks inverted: false of the initial values already, so that the first iteration is the last."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import LoopError
from mdf_loop.execute.endless import computing
from mdf_loop.execute.interpret import Arguments, InterpretedBody, InterpretedLoop, truth
from mdf_loop.execute.warnings.run_again import is_inner
from mdf_loop.ir import Loop
from mdf_loop.options import Run
from mdf_loop.plan.invariants import is_pure

INVERTED = "is the condition to go on, and false at the beginning, so only one iteration runs; if it is meant to end the loop, "

_conditions = weakref.WeakKeyDictionary[InterpretedLoop, InterpretedBody | None]()


def warn_of_inverted(
    executor: InterpretedLoop, results: Sequence[Any], given: Arguments, run: Run, drawn: Any, lasted: int
) -> None:
    """Say that a condition ended a loop behind its first iteration, and was false of the initial values too.

    Parameters
    ----------
    executor, results, given, run, drawn, lasted
        As of ``warn_of_new_nan``.
    """
    loop, count = executor.loop, given.trip_count
    if lasted != 1 or loop.body.typed or (count is not None and count <= 1) or loop.scanned or not run.tells:
        return
    if executor not in _conditions:
        _conditions[executor] = _of_carried(loop)
    condition = _conditions[executor]
    if (id(loop.body), "nan") in run.warned:  # for which no comparison holds
        return
    if condition is None or is_inner(executor, run) or _goes_on(condition, loop, given, run):
        return
    what = f"while {INVERTED}write while: not (...)" if loop.body.ends else f"what the body returns first {INVERTED}negate it"
    run.warn_once((id(loop.body), "inverted"), f"{loop.name or loop.body.name}: {loop.body.at(loop.keep_going)}{what}")


def _of_carried(loop: Loop) -> InterpretedBody | None:
    """What computes the condition of carried and captured values; None if there is more that it is computed of."""
    if loop.keep_going is None or loop.keep_going not in loop.body.places:
        return None
    carried = {name for c in loop.carried for name in (c.input, c.output)}
    made = computing(loop.body, [loop.keep_going], carried.union(loop.body.captures))
    reads = {*made.body.inputs}
    is_known = not reads.isdisjoint(carried) and reads <= carried.union(loop.body.captures)
    return made if is_known and all(map(is_pure, made.body.nodes)) else None


def _goes_on(condition: InterpretedBody, loop: Loop, given: Arguments, run: Run) -> bool:
    """Whether the condition is true of the initial values, or not known of them."""
    known = dict(zip(loop.body.captures, given.captured, strict=True))
    known |= {name: value for c, value in zip(loop.carried, given.carried, strict=True) for name in (c.input, c.output)}
    try:
        with np.errstate(all="ignore"):
            return truth(condition([known[name] for name in condition.body.inputs], (), run)[0], "the condition")
    except (LoopError, ValueError, TypeError, ArithmeticError, IndexError):
        return True
