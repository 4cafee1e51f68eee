"""A run says where nan came up: a condition that compares it, which looks like an end, or a carried value that became it.

No comparison holds for nan, so a loop ends there.  Infinity compares, and a running maximum begins with it, so only one that was
made of finite numbers is reported.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import LoopError
from mdf_loop.execute.endless import computed, computing
from mdf_loop.execute.interpret import Arguments, InterpretedBody, Session
from mdf_loop.execute.program import Hidden
from mdf_loop.execute.warnings.ended_loop import EndedLoop
from mdf_loop.ir import Loop
from mdf_loop.plan.comparisons import FEW, MOST, compared, has_inf, has_nan, is_nan, shows_inf, shows_nan, shows_odd, writes_nan
from mdf_loop.plan.invariants import is_pure, is_repeatable


class Compared:
    """The values that the condition of a loop compares, as far as they are known when it is over.

    Parameters
    ----------
    loop : Loop
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop

    @functools.cached_property
    def _names(self) -> tuple[set[str], set[str]]:
        """What comparisons compare, and all that this is computed of; no loop that counts to its end is asked."""
        return compared(self.loop)

    @functools.cached_property
    def carried(self) -> list[tuple[int, str]]:
        """The carried values that are compared, or of which what is compared is computed: places and names."""
        return [(k, c.input) for k, c in enumerate(self.loop.carried) if self._names[1] & {c.input, c.output}]

    @functools.cached_property
    def captured(self) -> list[tuple[int, str]]:
        """The same of captured values."""
        return [(k, name) for k, name in enumerate(self.loop.body.captures) if name in self._names[1]]

    @functools.cached_property
    def _before(self) -> set[int]:
        return {k for k, c in enumerate(self.loop.carried) if c.output not in self._names[1]}

    @property
    def may_be_nan(self) -> bool:
        """Whether there are such values."""
        return not self.loop.scanned and bool(self.carried or self.captured)

    @functools.cached_property
    def _computed(self) -> InterpretedBody | None:
        """What computes the values that are compared; None where they are there, or cannot be had twice."""
        loop = self.loop
        known = {c.output for c in loop.carried}.union(loop.body.captures, loop.body.constants)
        made = None if self._names[0] <= known else computing(loop.body, sorted(self._names[0]), known)
        return made if made is not None and all(map(is_pure, made.body.nodes)) else None

    def warn_of_nan(self, ended: EndedLoop) -> None:
        """Say that the condition compared nan, if that ended the loop."""
        results, given, lasted = ended.results, ended.given, ended.lasted
        count = given.trip_count
        if not lasted or (count is not None and lasted >= count) or not self.may_be_nan:
            return
        if given.go is None and not ended.run.options.obey_body_condition:
            return
        ends = self._ends(results, given, lasted)
        if (lasted > 1 or self._computed is None) and self._are_usual(ends, given):
            return
        values = {name: ends[k] for k, name in self.carried} | {name: given.captured[k] for k, name in self.captured}
        found = [name for name, value in values.items() if shows_nan(_plain(value))]
        if not found and self._has_computed_nan(ended):
            found = [f"what is computed of {', '.join(values)}"]
        if found:
            ended.say(
                f"iteration {lasted - 1} of {ended.name}: the condition compares {', '.join(found)}, which "
                f"{'is' if len(found) == 1 else 'are'} nan: no comparison with nan holds, and the loop ended there",
                "nan",
            )

    def _ends(self, results: Sequence[Any], given: Arguments, lasted: int) -> Sequence[Any]:
        """Carried values as the condition read them.

        One that it read before the iteration changed it is known in the first iteration alone; later it is taken for what it
        became, as what is computed of nan is nan.
        """
        if lasted > 1 or not self._before:
            return results
        return [given.carried[k] if k in self._before else value for k, value in enumerate(results[: len(self.loop.carried)])]

    def _are_usual(self, results: Sequence[Any], given: Arguments) -> bool:
        """Whether hardly any operator makes nan of the values: looking closer takes longer than a short loop."""
        for places, values in ((self.carried, results), (self.captured, given.captured)):
            for k, _ in places:
                if not _is_usual(values[k]) and (self._computed is not None or shows_nan(_plain(values[k]))):
                    return False
        return True

    def _has_computed_nan(self, ended: EndedLoop) -> bool:
        """Whether what is compared was computed as nan of values that are none."""
        if self._computed is None:
            return False
        known = {c.output: value for c, value in zip(self.loop.carried, ended.results, strict=False)}
        known |= dict(zip(self.loop.body.captures, ended.given.captured, strict=True))
        small = {name: known[name] for name in self._computed.body.inputs if name in known and np.size(known[name]) <= MOST}
        return any(map(shows_nan, map(_plain, computed(self._computed, small, ended.run) or ())))


def _plain(value: Any) -> Any:
    """A number as Python's: a tenth of the time that numpy takes for it."""
    return value.item() if isinstance(value, _OF_NUMPY) and value.size == 1 else value


_OF_NUMPY, _WHOLE, _NUMBERS = (np.ndarray, np.generic), (int, np.integer), (int, float)


def _is_usual(value: Any) -> bool:
    """Whether a value is a finite number but zero, or an array without nan."""
    if isinstance(value, _WHOLE):
        return bool(value)
    if not isinstance(value, float):  # as those of numpy are
        value = _plain(value)
        if not isinstance(value, _NUMBERS):
            return not shows_nan(value)
    return 0 < value < math.inf or -math.inf < value < 0


SECONDS = 1.0
"""How long the runs of a loop look for the iteration in which a value became nan, all together."""


def warn_of_new_nan(ended: EndedLoop) -> None:
    """Say that carried values became nan, if all that the loop was given is finite.

    Also that carried or collected values became infinite, or collected ones are nan in all iterations, but of a body of ONNX:
    those count with the logarithm of 0.
    """
    loop, given, run, results = ended.loop, ended.given, ended.run, ended.results
    count, sees_inf = sum(not isinstance(value, Hidden) for value in given.carried), not loop.body.typed
    for k, value in enumerate(results):
        if (k < count or sees_inf) and shows_odd(value, MOST if k < count else FEW):
            break
    else:
        return
    everything = (*given.carried, *given.captured, *given.scanned, *given.invariant)
    if ended.is_inner or (id(loop.body), "nan") in run.warned or not all(map(_is_finite, everything)):
        return
    odd = next((each for each in _odd_values(results, count, sees_inf) if each[-1]), None)
    if odd is None:
        return
    of_carried, what, is_odd, found = odd
    if writes_nan(loop.body) or writes_nan(loop.body, is_odd):
        return
    first, behind = 0, ended.lasted
    if of_carried and run.tells:
        first, behind = _first(ended, found, is_odd)
    elif not of_carried and all(np.ndim(results[k]) and len(results[k]) == behind for k in found):
        first = min(next(row for row, value in enumerate(results[k]) if is_odd(value)) for k in found)
        behind = first + 1
    names = ", ".join(_name(loop, k, count) for k in found)
    when = f"iteration {first}" if behind - first == 1 else f"between iterations {first} and {behind - 1}"
    place, causes = f"{when} of {ended.name}", "a division by zero (a time constant of 0), the root or logarithm"
    ended.say(
        f"{place}: {names} became {what}, though the loop was given finite numbers; look for {causes} of a negative number, and "
        "steps (dt) that are too long",
        "nan",
    )


def _name(loop: Loop, k: int, count: int) -> str:
    """What a result is called; what a Python function collects has a place and no name."""
    if k >= count and len(loop.carried) > count:
        return f"collected value {k - count}"
    name = loop.results[k]
    return next((carried.input for carried in loop.carried if carried.output == name), name)


def _odd_values(
    results: Sequence[Any], count: int, sees_inf: bool
) -> Iterator[tuple[bool, str, Callable[[Any], bool], list[int]]]:
    """Carried values that are nan, those that are infinite, and those with infinity that were collected."""
    yield True, "nan", has_nan, [k for k, value in enumerate(results[:count]) if shows_nan(value)]
    if not sees_inf:
        return
    yield True, "infinite", has_inf, [k for k, value in enumerate(results[:count]) if shows_inf(value)]
    yield False, "infinite", has_inf, [k for k, value in enumerate(results) if k >= count and shows_inf(value)]
    yield False, "nan", has_nan, [k for k, value in enumerate(results) if k >= count and is_nan(value)]


def _first(ended: EndedLoop, found: Sequence[int], is_odd: Callable[[Any], bool]) -> tuple[int, int]:
    """Behind how many iterations no value is odd, and behind how many one is: as close as the time allows."""
    executor, begun, low, high, spent = ended.executor, time.monotonic(), 0, ended.lasted, ended.noted("search for nan")
    end = begun + SECONDS - spent.get("seconds", 0.0)
    if begun >= end or not all(map(is_repeatable, ended.loop.body.nodes)):
        return low, high
    again = type(executor)(ended.loop, executor.unseen)

    def is_odd_after(session: Session, count: int) -> bool:
        again.advance(session, count)
        return any(is_odd(session.moment.carried[k]) for k in found)

    with contextlib.suppress(LoopError):
        session, ahead = ended.begun_again(again), 1
        while ahead < high and time.monotonic() < end:
            if is_odd_after(session, ahead):
                high = ahead
            else:
                low, ahead = ahead, 2 * ahead
        while high - low > 1 and time.monotonic() < end:
            middle = (low + high) // 2
            low, high = (low, middle) if is_odd_after(ended.begun_again(again), middle) else (middle, high)
    spent["seconds"] = spent.get("seconds", 0.0) + time.monotonic() - begun
    return low, high


def _is_finite(value: Any) -> bool:
    array = np.asarray(value) if isinstance(value, float | np.ndarray | np.generic) else None
    return array is None or array.dtype.kind not in "fc" or bool(np.isfinite(array).all())
