"""Machine code for a Step, where there is some; else the reason."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.step.records import Region

log = logging.getLogger(__name__)


def is_installed() -> bool:
    """Whether machine code can be made here."""
    from mdf_loop.backends.llvm import machine

    return machine.is_installed()


def run_many(
    call: Callable[..., Any],
    given: Sequence[Sequence[Any]],
    which: np.ndarray,
    streams: Sequence[np.random.Generator],
    pause: Callable[[], None],
) -> list[np.ndarray] | None:
    """The results of many runs of a program, each as one array; None if each has to be called by itself.

    See :func:`mdf_loop.backends.llvm.many.run_many`.
    """
    from mdf_loop.backends.llvm import many

    return many.run_many(call, given, which, streams, pause) if many.can_run_many(call) else None


def compiled(region: Region) -> tuple[Callable[..., Any] | None, str]:
    """The program ``call(run, *values) -> results`` and an empty text; or None and why there is none."""
    from mdf_loop.backends.llvm.elements import CannotCompile
    from mdf_loop.backends.llvm.program import program

    try:
        return program(region), ""
    except CannotCompile as reason:
        log.debug("not compiled: %s", reason)
        return None, str(reason)
    except Exception as error:  # a defect of ours; the work is done all the same
        log.warning("not compiled: %r", error)
        return None, f"{type(error).__name__} {error}"
