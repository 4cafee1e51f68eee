"""A run says that whole numbers became too large or too small for their type: they wrap around then, and look like any others."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from mdf_loop.errors import LoopInterrupted, let_through
from mdf_loop.execute.collect import is_number
from mdf_loop.execute.warnings.ended_loop import EndedLoop
from mdf_loop.ops.registry import facts

LOOKED_AT = 200
"""Iterations that run again: products leave 64 bits behind 63 of them, Fibonacci's sums behind 92."""

SECONDS = 1.0
"""How long the runs of a loop look, all together: counting leaves 8 or 16 bits behind more iterations."""

LOOKS, MOST = 5, 1000
"""How many runs of a loop are looked at that are alike in length and types and turn out to be right; and how many elements."""

LARGE = 2**40
"""What nearly all numbers that wrapped around are larger than, those of powers of two apart, which are 0."""

NARROW = frozenset(np.dtype(name) for name in ("i1", "i2", "i4", "u1", "u2", "u4", "u8"))
"""Types that hold less than the whole numbers of MDF and Python do here: their numbers may wrap around at any size."""

_LIMITS = {kind: (float(np.iinfo(kind).min), float(np.iinfo(kind).max) + 1) for kind in (*NARROW, np.dtype("i8"))}
"""The smallest number of each, and the first one behind the largest."""


class Beyond(NamedTuple):
    """A value of a body that left its type: which, in which iteration, the type, and whether it became too small."""

    output: str
    iteration: int
    kind: np.dtype
    is_small: bool


def warn_of_wrapped_numbers(ended: EndedLoop) -> None:
    """Say that whole numbers wrapped around: with wider ones in their place they leave the type that they have."""
    kinds = tuple([_narrow_kind(value) for value in ended.values])
    if not any(kinds) and not (ended.lasted > 1 and any(map(_may_have_wrapped, ended.given.carried, ended.results))):
        return
    looks, begun = ended.noted("numbers that did not wrap around"), time.monotonic()
    key, spent = (ended.lasted.bit_length(), *kinds), looks.get("seconds", 0.0)
    if ended.is_inner or spent > SECONDS or looks.get(key, 0) == LOOKS:
        return
    is_of_bits = any(facts(node).of_bits for node in ended.loop.body.nodes)
    if is_of_bits or (found := _first_beyond(ended, begun + SECONDS - spent)) is None:
        looks |= {key: looks.get(key, 0) + 1, "seconds": spent + time.monotonic() - begun}
        return
    loop, name = ended.loop, next((c.input for c in ended.loop.carried if c.output == found.output), "a number")
    names = (*(c.input for c in loop.carried), *loop.body.captures, *(s.input for s in loop.scanned))
    narrow = [f"{each}.astype(float)" for each, kind in zip(names, kinds, strict=False) if kind is not None]
    is_wide = found.kind not in NARROW
    cure = f"Begin with a fraction ({name} = 1.0)" if is_wide or not narrow else f"Give {' and '.join(narrow)}"
    ended.say(
        f"iteration {found.iteration} of {ended.name}: {loop.body.at(found.output)}{name} became "
        f"{'smaller' if found.is_small else 'larger'} than {'64 bits hold' if is_wide else f'{found.kind} holds'}; "
        f"whole numbers wrap around there. {cure} if its size counts, and not each digit",
        "wrapped",
    )


def _first_beyond(ended: EndedLoop, until: float) -> Beyond | None:
    """The first value that leaves its type where the loop is given wider numbers, as far as there is time."""
    given = ended.given
    carried = [
        np.asarray(value, np.float64) if _may_have_wrapped(value, after) else _wider(value)
        for value, after in zip(given.carried, ended.results, strict=False)
    ]
    captured, scanned = ([*map(_wider, values)] for values in (given.captured, given.scanned))
    wide = dataclasses.replace(given, carried=carried, captured=captured, scanned=scanned)
    is_short = any(kind is not None and kind.itemsize < 4 for kind in map(_narrow_kind, given.carried))
    count = ended.lasted if is_short else min(ended.lasted, LOOKED_AT)
    iterations = dataclasses.replace(ended, given=wide).first_iterations(count)
    try:
        kinds = _kinds(ended)
        if NARROW.isdisjoint(kinds.values()) and not any(map(_may_have_wrapped, given.carried, ended.results)):
            return None
        with np.errstate(all="ignore"), closing(iterations):
            for k, (session, program) in enumerate(iterations):
                for output, kind in kinds.items():
                    if is_beyond := _beyond(session.env[program.slot(output)], kind):
                        return Beyond(output, k, kind, is_beyond < 0)
                if time.monotonic() > until:
                    return None
    except LoopInterrupted:
        raise
    except Exception as error:  # what is no fraction: a place in an array, or bits
        let_through(error)
    return None


def _kinds(ended: EndedLoop) -> Mapping[str, np.dtype]:
    """The types of whole numbers in a body, by their names; carried ones first, which have names that users know."""
    body, carried = ended.loop.body, [c.output for c in ended.loop.carried]
    names = dict.fromkeys(name for name in (*carried, *(node.outputs[0] for node in body.nodes if node.outputs)) if name)
    for session, program in ended.first_iterations(1):
        values = {name: session.env[program.slot(name)] for name in names}
        numbers = [(name, np.asarray(x)) for name, x in values.items() if isinstance(x, int | np.integer | np.ndarray)]
        return {name: x.dtype for name, x in numbers if x.dtype in NARROW or x.dtype == np.int64}
    return {}


def _narrow_kind(value: Any) -> np.dtype | None:
    """The type of a value that holds less than 64 bits with a sign, if it is one."""
    kind = getattr(value, "dtype", None)
    return kind if kind in NARROW else None


def _wider(value: Any) -> Any:
    """Narrow whole numbers as wider ones."""
    kind = _narrow_kind(value)
    return value if kind is None else value.astype(np.float64 if kind.itemsize == 8 else np.int64)


def _beyond(value: Any, kind: np.dtype) -> int:
    """Whether a value is too large for a type (1), too small (-1), or neither."""
    low, high = _LIMITS[kind]
    if is_number(value):
        return 1 if value >= high else -1 if value < low else 0
    if not 0 < value.size <= MOST:
        return 0
    return 1 if np.max(value) >= high else -1 if np.min(value) < low else 0


def _may_have_wrapped(before: Any, after: Any) -> bool:
    """Whether whole numbers of 64 bits became large, or some became 0 that were not all 0."""
    if getattr(after, "dtype", np.int64) != np.int64 or type(after) is float:  # nearly always
        return False
    if not all(isinstance(x, int | np.integer | np.ndarray) for x in (before, after)):
        return False
    first, last = np.asarray(before), np.asarray(after)
    if not (first.dtype == last.dtype == np.int64) or last.size > MOST:
        return False
    return bool(looks_wrapped(last).any() or (first.any() and not last.all()))


def looks_wrapped(numbers: np.ndarray) -> np.ndarray:
    """Which whole numbers are as large as most that wrapped around: any of fewer bits than 64."""
    is_large = (numbers >= LARGE) | (numbers <= -LARGE)  # the smallest number has no absolute value
    return is_large | (numbers.dtype in NARROW)
