"""Locks that a copy of the process finds free, context variables that hold a value inside a ``with``, and small caches.

A copy (``os.fork``) has no threads but the one that made it, so that a lock of another one would stay locked for ever.  A thread
that copies the process waits until all of these locks are free, and what they protect is whole in the copy.  They are for a few
lines each.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar
from typing import Generic, TypeVar

_made: list[weakref.ref[threading.RLock]] = []
_held: list[threading.RLock] = []


def lock() -> threading.RLock:
    """A new lock, which one thread may take several times."""
    made = threading.RLock()
    _made.append(weakref.ref(made, _made.remove))
    return made


def _hold_all() -> None:
    """The last one first: of two locks that are held together the outer one is in the module that was imported later."""
    for ref in reversed(_made.copy()):
        found = ref()
        if found is not None:
            found.acquire()
            _held.append(found)


def _release_all() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_all, after_in_parent=_release_all, after_in_child=_release_all)


T = TypeVar("T")


@contextlib.contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[T]:
    """Inside the ``with`` the variable, which has a default, holds the value.

    Ctrl-C may strike between any two instructions.  Where it strikes as the ``with`` begins, this is left only when the error
    is forgotten: what the variable holds by then belongs to other code, and stays.
    """
    before = variable.get()
    try:
        variable.set(value)
        yield value
    finally:
        if variable.get() is value:
            variable.set(before)


class Recent(Generic[T]):
    """What was made last, by what it was made for; several threads may ask at once.

    Parameters
    ----------
    most : int
        How many are kept: the first ones go.
    """

    def __init__(self, most: int) -> None:
        self._most, self._found = most, dict[Hashable, T]()

    def get(self, key: Hashable) -> T | None:
        """What is kept; None if nothing is."""
        return self._found.get(key)

    def of(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is kept, or is made now."""
        try:
            return self._found[key]
        except KeyError:
            pass  # what make() raises stands alone
        found = self._found.setdefault(key, make())
        for old in list(self._found)[: -self._most]:
            self._found.pop(old, None)
        return found

    def __len__(self) -> int:
        return len(self._found)

    def all(self) -> list[T]:
        """All that is kept."""
        return list(self._found.values())
