"""What MDF's engine prints, sent to the log instead."""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections.abc import Iterator
from typing import Any

from mdf_loop.system.holding import holding

log = logging.getLogger("mdf_loop.mdf")

_quiet: contextvars.ContextVar[bool] = contextvars.ContextVar("mdf_loop_quiet", default=False)


@contextlib.contextmanager
def quiet_mdf() -> Iterator[None]:
    """Send what MDF's engine prints to the log (level DEBUG) in this thread or task."""
    with holding(_quiet, True):
        yield


def print_or_log(*values: Any, **kwargs: Any) -> None:
    """What MDF's engine calls for ``print``: the same, unless it was asked to be quiet."""
    if _quiet.get():
        log.debug(" ".join(map(str, values)))
    else:
        print(*values, **kwargs)
