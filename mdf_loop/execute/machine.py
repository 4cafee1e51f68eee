"""Machine code for a Step, where there is some; else the reason."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from mdf_loop.step.records import Region

log = logging.getLogger(__name__)


def compiled(region: Region, is_block: bool = False) -> tuple[Callable[..., Any] | None, str]:
    """The program ``call(run, *values) -> results`` and an empty text; or None and why there is none.

    It raises :class:`~mdf_loop.backends.python.runtime.TooLong` after about a tenth of a second, so that longer work is done in
    a way that can be watched; not if it ``is_block``, whose length others have chosen.
    """
    from mdf_loop.backends.llvm.elements import CannotCompile
    from mdf_loop.backends.llvm.program import program

    try:
        return program(region, is_block), ""
    except CannotCompile as reason:
        log.debug("not compiled: %s", reason)
        return None, str(reason)
    except Exception as error:  # a defect of ours; the work is done all the same
        log.debug("not compiled: %r", error, exc_info=True)
        return None, f"{type(error).__name__} {error}"
