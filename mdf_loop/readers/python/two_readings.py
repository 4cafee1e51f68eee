"""Whether two readings of a function make the same body: what changes from call to call would be frozen in it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import numpy as np

from mdf_loop.errors import LoopError, let_through
from mdf_loop.ir import Body
from mdf_loop.readers.python.instead import in_python
from mdf_loop.readers.python.tracing import Trace

CHANGES = (
    "gives something else in each call, and the body would keep what the first call gave for all iterations; carry it, or give "
    "it by name"
)


def refuse_changing(made: Body, trace: Trace, read_again: Callable[[], Body]) -> None:
    """See that a function that is read again gives the same body.

    Raises
    ------
    TracedBranch
        It does not, or fails.
    """
    try:
        again = read_again()
    except Exception as error:
        let_through(error)
        if isinstance(error, LoopError):
            raise
        raise trace.refused(f"{CHANGES} ({type(error).__name__} in the second call)", line_of(trace, error)) from error
    if not same(made, again):
        line = trace.lines.get(first_difference(made, again), 0)
        raise trace.refused(f"{CHANGES}; for random numbers {in_python(trace.text(line))}", line)


def line_of(trace: Trace, error: Exception) -> int:
    """The line of the function in which an error came up."""
    return reached(trace, error)[1]


def reached(trace: Trace, error: Exception) -> tuple[FrameType | None, int]:
    """Where the function had come to when an error came up: its frame and line."""
    entries = [*traceback.walk_tb(error.__traceback__)][::-1]
    return next((each for each in entries if each[0].f_code is trace.code), (None, 0))


def first_difference(one: Body, other: Body) -> str:
    """What the first node that differs computes; empty where only results differ."""
    for a, b in zip(one.nodes, other.nodes, strict=False):
        if not same(a, b) or not same(*([body.constants.get(name) for name in a.inputs] for body in (one, other))):
            return next(filter(None, a.outputs), "")
    return ""


def same(one: Any, other: Any) -> bool:
    """Whether two things have the same content, bit for bit."""
    if one is other or type(one) is not type(other):
        return one is other
    if isinstance(one, np.ndarray | np.generic):
        is_alike = (one.dtype, one.shape) == (other.dtype, other.shape)
        return is_alike and (same(one.tolist(), other.tolist()) if one.dtype.hasobject else one.tobytes() == other.tobytes())
    if isinstance(one, Mapping):
        return same([*one.items()], [*other.items()])
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if names := getattr(one, "__match_args__", ()):  # a record
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other) or (one != one and other != other)
