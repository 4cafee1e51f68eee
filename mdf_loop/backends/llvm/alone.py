"""LLVM is used by one thread at a time, and by none while the process is copied or ends.

A copy of a process (``os.fork``) has no threads but the one that made it: what another one had locked stays locked for ever, in
LLVM, in llvmlite and among Python's modules.  And when a process ends LLVM's own data goes, whoever uses it then.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Iterator

PATIENCE = 5.0
"""Seconds that a process waits at its end for what LLVM is at; a step of it takes milliseconds."""

_lock = threading.RLock()


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Inside the ``with`` nobody else uses LLVM, the process is not copied, and does not end."""
    with _lock:
        yield


def _begin() -> None:
    _lock.acquire()


def _end() -> None:
    _lock.release()


def _begin_anew() -> None:
    global _lock
    _lock = threading.RLock()


def _close() -> None:
    """Let nobody else begin anything; a thread that would waits until the process is gone."""
    _lock.acquire(timeout=PATIENCE)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_begin, after_in_parent=_end, after_in_child=_begin_anew)
atexit.register(_close)
