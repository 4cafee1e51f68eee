"""The operators that are measured alone: every module here has a function ``cases()`` that yields its rows."""

import importlib
import pkgutil
from collections.abc import Iterator

from operators.record import Case, differences


def every() -> Iterator[Case]:
    """All rows, module by module."""
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        yield from getattr(importlib.import_module(f"{__name__}.{module}"), "cases", tuple)()


__all__ = ["Case", "differences", "every"]
