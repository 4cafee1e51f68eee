"""Guesses: what holds nearly always, which a Step may take for granted because its program looks whether it does."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass

from mdf_loop.system.threads import holding


@dataclass
class Guesses:
    """Whether Steps may guess, which who builds them asks only where it makes a difference.

    Attributes
    ----------
    are_allowed : bool
    were_asked_for : bool
        If not, the same Step would have been built either way.
    """

    are_allowed: bool = False
    were_asked_for: bool = False

    def __bool__(self) -> bool:
        self.were_asked_for = True
        return self.are_allowed


_guessing: contextvars.ContextVar[Guesses] = contextvars.ContextVar("mdf_loop_step_guessing", default=Guesses())  # noqa: B039

GUESSED = {"window", "fraction"}
"""Operations that stop the program where they do not hold: a part lies inside its array, a float of Python's has a fraction."""


@contextlib.contextmanager
def guessing(wanted: bool) -> Iterator[Guesses]:
    """Let Steps that are built inside a ``with`` block say what holds nearly always, such as that a part lies inside its array.

    A program looks whether it does, and is of no use where it does not.
    """
    with holding(_guessing, Guesses(wanted)) as guesses:
        yield guesses


def current_guesses() -> Guesses:
    """Whether Steps that are built now may guess."""
    return _guessing.get()
