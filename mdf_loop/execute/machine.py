"""Machine code for a Step, where there is some; else the reason."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from mdf_loop.step.records import Region

log = logging.getLogger(__name__)


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
