"""What may go wrong in a Step: values that are computed for that even without readers, how programs give up, and guesses.

A guess holds nearly always; a Step may rely on it because its program looks whether it does, and gives up if not.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass

from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import Value
from mdf_loop.system.threads import holding


class FallBack(Exception):
    """Something a program was not written for: the interpreter runs the same work."""


class TooLong(FallBack):
    """A loop has more iterations than one program runs without a pause."""


_HARMLESS_PLACES = {"item", "rows", "length", "insert", "erase"}
"""What cannot go wrong: places of rows are looked at before."""


def may_refuse(value: Value) -> bool:
    """Whether Python may raise an error for it, so that it must be computed where it stands, read or not."""
    if value.type.dtype is None or not any(x.type.weak for x in value.args):
        return False
    refuses = PRIMITIVES[value.op].refuses if value.op in PRIMITIVES else value.op not in ("cast", "select")
    if value.op == "cast" or (value.type.kind == "f" and value.op != "select"):
        return refuses or any(x.type.weak and x.type.kind != value.type.kind != "b" for x in value.args)
    return value.type.weak and (refuses or (value.op == "mul" and value.type.kind in "iO"))


def may_fail(value: Value) -> bool:
    """Whether something may go wrong with a value, so that it is computed even if it has no readers."""
    if value.op in ("apply", "loop", "branch", "place_in", "gather", "no_nan") or may_refuse(value):
        return True
    return value.op not in _HARMLESS_PLACES and not all(x.type.is_static for x in (value, *value.args))  # shapes may not fit


@dataclass
class Guesses:
    """Whether Steps may guess, which who builds them asks only where it makes a difference.

    Attributes
    ----------
    are_allowed : bool
        Also what only machine code is faster by: lists as rows, recurrent nets as loops.
    parts : bool
        That a part whose place is computed lies inside its array.
    were_asked_for : bool
        If not, the same Step would have been built for machine code and for Python.
    """

    are_allowed: bool = False
    parts: bool = False
    were_asked_for: bool = False

    def __bool__(self) -> bool:
        self.were_asked_for = True
        return self.are_allowed


_guessing: contextvars.ContextVar[Guesses] = contextvars.ContextVar("mdf_loop_step_guessing", default=Guesses())  # noqa: B039

GUESSED = {"window", "fraction"}
"""Operations that stop the program where they do not hold: a part lies inside its array, a float of Python's has a fraction."""


@contextlib.contextmanager
def guessing(wanted: bool, is_compiled: bool = True) -> Iterator[Guesses]:
    """Let Steps that are built inside a ``with`` block say what holds nearly always, such as that a part lies inside its array.

    A program looks whether it does, and is of no use where it does not.  Without ``is_compiled`` they are for Python.
    """
    with holding(_guessing, Guesses(wanted and is_compiled, wanted)) as guesses:
        yield guesses


def current_guesses() -> Guesses:
    """Whether Steps that are built now may guess."""
    return _guessing.get()
