"""Context variables that hold a value inside a ``with``, whatever ends it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextlib.contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[T]:
    """Inside the ``with`` the variable, which has a default, holds the value.

    Ctrl-C may strike between any two instructions.  Where it strikes as the ``with`` begins, this is left only when the error
    is forgotten: what the variable holds by then is somebody else's, and stays.
    """
    before = variable.get()
    try:
        variable.set(value)
        yield value
    finally:
        if variable.get() is value:
            variable.set(before)
