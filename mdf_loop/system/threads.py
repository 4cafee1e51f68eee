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
from collections import OrderedDict
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


class KeptBySize(Generic[T]):
    """What was used last, by key, up to so many bytes; several threads may use it at once.

    Parameters
    ----------
    most : int
        How many are kept.
    most_bytes : int
        How many bytes they may have together; one that has more alone is not kept.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self.most, self.most_bytes, self.size = most, most_bytes, 0
        self._entries: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._lock = lock()

    def get(self, key: Hashable) -> T | None:
        """What is kept; None if nothing is."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def keep(self, key: Hashable, value: T, size: int) -> None:
        """Keep something of so many bytes, in the place of what has this key."""
        if size > self.most_bytes:
            return
        with self._lock:
            self._drop(key)
            self._entries[key] = value, size
            self.size += size
            while len(self._entries) > self.most or self.size > self.most_bytes:
                self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self.size = 0

    def _drop(self, key: Hashable) -> None:
        _, size = self._entries.pop(key, (None, 0))
        self.size -= size
