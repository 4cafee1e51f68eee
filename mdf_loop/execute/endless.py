"""Loops that provably never end: nothing counts their iterations, and each one gives the same true condition."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Container, Iterable, Mapping
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, LoopError
from mdf_loop.execute.interpret import Arguments, InterpretedBody, truth
from mdf_loop.ir import Body, Loop
from mdf_loop.options import Run
from mdf_loop.plan.comparisons import part_computing
from mdf_loop.plan.invariants import lasting
from mdf_loop.progress import ENDLESS


class Endless:
    """What there is to say about the end of a loop before it runs.

    Parameters
    ----------
    loop : Loop
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._goes_on: bool | None = None  # whatever the loop is given

    @functools.cached_property
    def may_be_sure(self) -> bool:
        """Whether the condition might be the same in every iteration."""
        return self.loop.keep_going is None or self.loop.keep_going in lasting(self.loop)

    @functools.cached_property
    def _condition(self) -> InterpretedBody | None:
        """What computes the condition, if it may be the same in every iteration."""
        loop = self.loop
        return computing(loop.body, [loop.keep_going]) if loop.keep_going is not None and self.may_be_sure else None

    def is_sure(self, values: Mapping[str, Any], run: Run) -> bool:
        """Whether each iteration gives a true condition; ``values`` are those that do not change, as far as they are known."""
        if self.loop.keep_going is None:
            return True
        if self._condition is None:
            return False
        known = {name: value for name, value in values.items() if value is not None}
        return bool(holds(self._condition, {**known, self.loop.condition or "": np.True_}, run))

    def goes_on(self, given: Arguments, run: Run) -> bool:
        """Whether each iteration gives a true condition, so that it does not matter whether it counts."""
        if self._goes_on is None:
            self._goes_on = self.is_sure({}, run)
        return self._goes_on or self.is_sure(self._lasting_values(given), run)

    def refuse(self, given: Arguments, run: Run) -> None:
        """See that something ends a loop.

        Raises
        ------
        ArgumentError
            Nothing does, and no option either.
        """
        count, is_omitted = given.trip_count, given.go is None
        if count is not None and count < 0 and run.outermost is None and not self.loop.unlimited:
            run.warn_once("M", f"the trip count M is {count}, so no iteration runs")
        if (count is not None and count < ENDLESS) or not (is_omitted or self.may_be_sure):
            return
        loop, options = self.loop, run.options
        if given.go is False or options.max_iterations is not None or loop.scanned:
            return
        is_ignored = is_omitted and not options.obey_body_condition
        if count is None and is_ignored:
            raise ArgumentError(
                f"{loop.name}: both M and cond are omitted, so this loop would never end. Give M or cond (in equations "
                "while: ...), or set options(max_iterations=...) to stop it there, "
                "or options(obey_body_condition=True) to let the body end it"
            )
        if options.timeout is not None:
            return
        if is_ignored or self.is_sure(self._lasting_values(given), run):
            raise ArgumentError(
                f"{loop.name}: {_limit(loop, count)} and {_condition(loop, is_ignored)}, so this loop would never end. Give "
                f"{'a trip count' if loop.unlimited else 'M'}, a condition that the body computes (in equations while: ...), or "
                "set options(max_iterations=...) or options(timeout=...) to stop it there"
            )

    def _lasting_values(self, given: Arguments) -> dict[str, Any]:
        loop = self.loop
        carried = zip(loop.carried, given.carried, strict=True)
        values = {c.input: value for c, value in carried if c.input == c.output}
        values |= dict(zip(loop.invariant, given.invariant, strict=True))
        return values | dict(zip(loop.body.captures, given.captured, strict=True))


def _limit(loop: Loop, count: int | None) -> str:
    if count is not None:
        return f"M is {count}"
    return "the trip count is -1" if loop.unlimited else "M is omitted"


def _condition(loop: Loop, is_ignored: bool) -> str:
    if is_ignored:
        return "cond is omitted"
    passed = loop.keep_going is not None and loop.keep_going == loop.condition
    return "the body hands the condition on as it is" if passed else "the body's condition is always true"


def computing(body: Body, outputs: Iterable[str], known: Container[str] = ()) -> InterpretedBody:
    """What computes some values: a body of the nodes that it takes, whose inputs are what it reads from outside, or is known."""
    return InterpretedBody(part_computing(body, outputs, known))


def computed(part: InterpretedBody, known: Mapping[str, Any], run: Run) -> tuple[Any, ...] | None:
    """The values that a part of a body computes of known ones; None if it reads others, or fails, which an iteration says."""
    inputs = part.body.inputs
    if known.keys() >= {*inputs}:
        errors = LoopError, ValueError, TypeError, ArithmeticError, IndexError
        with contextlib.suppress(*errors), np.errstate(all="ignore"):
            return part([known[name] for name in inputs], (), run)
    return None


def holds(part: InterpretedBody, known: Mapping[str, Any], run: Run) -> bool | None:
    """Whether the condition that a part of a body computes is true; None if that is not known."""
    found = computed(part, known, run)
    with contextlib.suppress(LoopError):
        return None if found is None else truth(found[0], "the condition")
    return None
