"""Imports without a collection of garbage amid them."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


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
