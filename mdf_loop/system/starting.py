"""Imports: without a collection of garbage amid them, and without a copy of the process amid those that are made when it runs."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from mdf_loop.system.threads import lock

_importing = lock()


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Modules are imported inside a ``with`` block.  No module does that itself while it is imported.

    A thread that copies the process waits for it: what is imported halfway then can never be imported in the copy.
    """
    with _importing, no_collecting():
        yield


@contextlib.contextmanager
def no_collecting() -> Iterator[None]:
    """No collection of garbage inside a ``with`` block.

    Imports, and the seeds and points of a sweep, make many objects that stay, so that Python collects: it would look at all that
    is there, which takes a third of the time of our own imports and finds nothing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
