"""Carried values that become nan although a loop begins with finite numbers: a run says which and when.

Infinity is left alone: it compares, a running maximum begins with it, and what overflows in a feedback is nan soon after.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import LoopError
from mdf_loop.execute.interpret import Arguments, InterpretedLoop, Session
from mdf_loop.options import Run
from mdf_loop.plan.comparisons import has_nan, shows_nan, writes_nan
from mdf_loop.plan.invariants import is_repeatable
from mdf_loop.settings.random_streams import RandomStream

SECONDS = 1.0
"""How long the runs of a loop look for the iteration in which a value became nan, all together."""

_spent = weakref.WeakKeyDictionary[InterpretedLoop, float]()


def warn_of_new_nan(
    executor: InterpretedLoop, results: Sequence[Any], given: Arguments, run: Run, drawn: Any, lasted: int
) -> None:
    """Say that carried values became nan, if all that the loop was given is finite.

    Parameters
    ----------
    executor : InterpretedLoop
        What ran the loop; one like it runs again as far as is needed to find the iteration.
    results : sequence
        What the loop gave, its carried values first.
    given : Arguments
    run : Run
    drawn : object
        How far the random stream had come before, if the loop draws.
    lasted : int
        How many iterations there were.
    """
    for value in results[: len(given.carried)]:
        if shows_nan(value):
            break
    else:
        return
    loop, key = executor.loop, (id(executor.loop.body), "nan")
    everything = (*given.carried, *given.captured, *given.scanned, *given.invariant)
    is_inner = getattr(run.outermost, "owner", None) is not executor  # the loop around it says so
    if is_inner or key in run.warned or not all(map(_is_finite, everything)) or writes_nan(loop.body):
        return
    found = [k for k, value in enumerate(results[: len(given.carried)]) if shows_nan(value)]
    first, behind = _first(executor, found, given, run, drawn, lasted) if run.tells else (0, lasted)
    names = ", ".join(loop.carried[k].input for k in found)
    when = f"iteration {first}" if behind - first == 1 else f"between iterations {first} and {behind - 1}"
    place, causes = f"{when} of {loop.name or loop.body.name}", "a division by zero (a time constant of 0), the root or logarithm"
    run.warn_once(
        key,
        f"{place}: {names} became nan, though the loop was given finite numbers; look for {causes} of a negative number, and "
        "steps (dt) that are too long",
    )


def _first(
    executor: InterpretedLoop, found: Sequence[int], given: Arguments, run: Run, drawn: Any, lasted: int
) -> tuple[int, int]:
    """Behind how many iterations there is no nan, and behind how many there is: as close as the time allows."""
    begun, low, high = time.monotonic(), 0, lasted
    end = begun + SECONDS - _spent.get(executor, 0.0)
    if begun >= end or not all(map(is_repeatable, executor.loop.body.nodes)):
        return low, high
    again = type(executor)(executor.loop, executor.unseen)

    def begin() -> Session:
        silent = Run(run.options, RandomStream(run.stream.seed), tells=False)
        if drawn is not None:
            silent.stream.restore(drawn)
        return InterpretedLoop.begin(again, given, silent)  # which is shown to no one who watches

    def is_nan_after(session: Session, count: int) -> bool:
        again.advance(session, count)
        return any(has_nan(session.moment.carried[k]) for k in found)

    with contextlib.suppress(LoopError):
        session, ahead = begin(), 1
        while ahead < high and time.monotonic() < end:
            if is_nan_after(session, ahead):
                high = ahead
            else:
                low, ahead = ahead, 2 * ahead
        while high - low > 1 and time.monotonic() < end:
            middle = (low + high) // 2
            low, high = (low, middle) if is_nan_after(begin(), middle) else (middle, high)
    _spent[executor] = _spent.get(executor, 0.0) + time.monotonic() - begun
    return low, high


def _is_finite(value: Any) -> bool:
    array = np.asarray(value) if isinstance(value, float | np.ndarray | np.generic) else None
    return array is None or array.dtype.kind not in "fc" or bool(np.isfinite(array).all())
