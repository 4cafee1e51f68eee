"""Locks that nobody holds in a copy of the process.

A copy (``os.fork``) has no threads but the one that made it, so that a lock of another one would stay locked for ever.  Whoever
copies the process waits until all of these are free, and what they protect is whole in the copy.  They are for a few lines each.
"""

from __future__ import annotations

import os
import threading
import weakref

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
