"""What MDF's engine prints goes to the log; the descriptions that it makes for that are not made."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import io
import logging
from collections.abc import Callable, Iterator
from typing import Any

from modeci_mdf import execution_engine

from mdf_loop.system.threads import holding

log = logging.getLogger("mdf_loop.mdf")

_quiet: contextvars.ContextVar[bool] = contextvars.ContextVar("mdf_loop_quiet", default=False)


@contextlib.contextmanager
def quiet_mdf() -> Iterator[None]:
    """Send what MDF's engine prints to the log (level DEBUG).

    Where mdf_loop is registered with MDF the engine's own ``print`` does it, for this thread or task; otherwise all that is
    printed meanwhile goes there.
    """
    if "print" in vars(execution_engine):
        with holding(_quiet, True):
            yield
        return
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        yield
    for line in printed.getvalue().splitlines():
        log.debug(line)


def print_or_log(*values: Any, **kwargs: Any) -> None:
    """What MDF's engine calls for ``print``: the same, unless it was asked to be quiet."""
    if _quiet.get():
        log.debug(" ".join(map(str, values)))
    else:
        print(*values, **kwargs)


_unheard: contextvars.ContextVar[bool] = contextvars.ContextVar("mdf_loop_unheard", default=False)


def unheard_inside(evaluate_expr: Callable[..., Any]) -> Callable[..., Any]:
    """``evaluate_expr`` of MDF's engine: unless it is asked for output, what it calls need not describe anything."""

    @functools.wraps(evaluate_expr)
    def evaluate(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("verbose") or args[4:5] == (True,):
            return evaluate_expr(*args, **kwargs)
        token = _unheard.set(True)
        try:
            return evaluate_expr(*args, **kwargs)
        finally:
            _unheard.reset(token)

    return evaluate


def silent(describe: Callable[..., str]) -> Callable[..., str]:
    """A function that describes values, and says nothing where it is not printed."""

    @functools.wraps(describe)
    def said(*args: Any, **kwargs: Any) -> str:
        return "" if _unheard.get() else describe(*args, **kwargs)

    return said
