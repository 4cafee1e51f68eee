"""Guesses: what holds nearly always, which a Step may take for granted because its program looks whether it does."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

from mdf_loop.system.threads import holding

_guessing: contextvars.ContextVar[bool] = contextvars.ContextVar("mdf_loop_step_guessing", default=False)

GUESSED = {"window", "fraction"}
"""Operations that stop the program where they do not hold: a part lies inside its array, a float of Python's has a fraction."""


@contextlib.contextmanager
def guessing(wanted: bool) -> Iterator[None]:
    """Let Steps that are built inside a ``with`` block say what holds nearly always, such as that a part lies inside its array.

    A program looks whether it does, and is of no use where it does not.
    """
    with holding(_guessing, wanted):
        yield


def is_guessing() -> bool:
    """Whether Steps that are built now may guess."""
    return _guessing.get()
