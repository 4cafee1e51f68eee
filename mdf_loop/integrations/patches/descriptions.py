"""Texts that nobody hears: MDF's expressions describe all their values in words, each time they are evaluated.

MDF's engine evaluates them without asking for output, so the words are thrown away; with results of thousands of
elements they cost more than the loop that computed them.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from typing import Any

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
    """A function that describes values, and says nothing where nobody hears it."""

    @functools.wraps(describe)
    def said(*args: Any, **kwargs: Any) -> str:
        return "" if _unheard.get() else describe(*args, **kwargs)

    return said
