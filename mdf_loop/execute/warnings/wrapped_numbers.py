"""A run says that whole numbers became too large for 64 bits: they wrap around then, and look like any others."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np

from mdf_loop.errors import LoopInterrupted, let_through
from mdf_loop.execute.warnings.ended_loop import EndedLoop

LOOKED_AT = 200
"""Iterations that run again: products leave 64 bits behind 63 of them, Fibonacci's sums behind 92."""

LOOKS, MOST = 5, 1000
"""How many runs of a loop are looked at that turn out to be right; and how many elements."""

LARGE, END = 2**40, 2.0**63
"""What nearly all numbers that wrapped around are larger than, those of powers of two apart, which are 0; and where they do."""


def warn_of_wrapped_numbers(ended: EndedLoop) -> None:
    """Say that carried whole numbers wrapped around: with fractions in their place they leave 64 bits."""
    loop, begun = ended.loop, ended.given.carried
    if ended.lasted < 2:
        return
    odd = [k for k, (before, after) in enumerate(zip(begun, ended.results, strict=False)) if _may_have_wrapped(before, after)]
    looks = ended.once(_no_looks)
    if not odd or ended.is_inner or len(looks) == LOOKS:
        return
    carried = [np.asarray(value, np.float64) if k in odd else value for k, value in enumerate(begun)]
    as_fractions = dataclasses.replace(ended, given=dataclasses.replace(ended.given, carried=carried))
    k, count = _first_beyond(as_fractions, odd, min(ended.lasted, LOOKED_AT))
    if k is None:
        looks.append(ended.lasted)
        return
    name, place = loop.carried[k].input, f"iteration {count} of {ended.name}"
    ended.say(
        f"{place}: {loop.body.at(loop.carried[k].output)}{name} became larger than 64 bits hold; whole numbers wrap around "
        f"there. Begin with a fraction ({name} = 1.0) if its size counts, and not each digit",
        "wrapped",
    )


def _no_looks(_: EndedLoop) -> list[int]:
    """Filled with how many iterations each run had that turned out to be right."""
    return []


def _first_beyond(ended: EndedLoop, places: Sequence[int], count: int) -> tuple[int | None, int]:
    """Which value leaves 64 bits first, and in which iteration."""
    iterations = ended.first_iterations(count)
    try:
        with np.errstate(all="ignore"), closing(iterations):
            for k, (session, _) in enumerate(iterations):
                for place in places:
                    if np.any(np.abs(session.moment.carried[place]) >= END):
                        return place, k
    except LoopInterrupted:
        raise
    except Exception as error:  # what is no fraction: a place in an array, or bits
        let_through(error)
    return None, count


def _may_have_wrapped(before: Any, after: Any) -> bool:
    """Whether whole numbers became large, or some became 0 that were not all 0."""
    if not all(isinstance(x, int | np.integer | np.ndarray) for x in (before, after)):
        return False
    first, last = np.asarray(before), np.asarray(after)
    if not (first.dtype == last.dtype == np.int64) or last.size > MOST:
        return False
    is_large = (last >= LARGE) | (last <= -LARGE)  # the smallest number has no absolute value
    return bool(is_large.any() or (first.any() and not last.all()))
