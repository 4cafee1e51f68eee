"""LLVM is used by one thread at a time, and by none while the process is copied or ends.

A copy of a process (``os.fork``) has no threads but the one that made it: what another one had locked stays locked for ever, in
LLVM, in llvmlite and among Python's modules.  And when a process ends LLVM's own data goes, even if a thread uses it then.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

PATIENCE = 5.0
"""Seconds that a process waits at its end for what LLVM is at; a step of it takes milliseconds."""

_lock = threading.RLock()


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Inside the ``with`` no other thread uses LLVM, the process is not copied, and does not end.

    As a decorator it holds until what the function made of LLVM's is gone as well: that is released with its frame.
    """
    with _lock:
        _give_back()
        yield


class Linked:
    """Code that is linked, by name of its functions.  LLVM gets it back alone as well, wherever its last user goes."""

    def __init__(self, tracker: Any) -> None:
        self._held = [tracker]
        # what is held there is no part of the circles that this may be in, where the collector would take it first
        weakref.finalize(self, _leave, self._held).atexit = False

    def __getitem__(self, name: str) -> int:
        """The address of a function."""
        return int(self._held[0][name])


def _leave(held: list[Any]) -> None:
    _gone.append(held.pop())
    if _lock.acquire(blocking=False):
        try:
            _give_back()
        finally:
            _lock.release()


_gone: deque[Any] = deque()
"""What the next user of LLVM gives back."""


def _give_back() -> None:
    while _gone:
        _gone.popleft()


_held: list[threading.RLock] = []
"""The lock while the process is copied; nothing where another thread imported this module meanwhile."""


def _begin() -> None:
    _lock.acquire()
    _held.append(_lock)


def _end() -> None:
    while _held:
        _held.pop().release()


def _begin_anew() -> None:
    global _lock
    _lock = threading.RLock()
    _held.clear()


def _close() -> None:
    """Let no other thread begin anything; one that would waits until the process is gone."""
    _lock.acquire(timeout=PATIENCE)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_begin, after_in_parent=_end, after_in_child=_begin_anew)
atexit.register(_close)
