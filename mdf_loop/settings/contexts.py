"""What counts inside of a ``with`` alone: a call of it that no ``with`` and no decorator uses would do nothing without a word."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from mdf_loop.errors import warn_user


class OfWith(contextlib._GeneratorContextManager[Any]):
    """A context that warns where it is dropped and was never used, as ``options(seed=1)`` on a line of its own."""

    is_decorator = False

    def __call__(self, function: Any) -> Any:
        """As a decorator: each call of the function enters a context of its own."""
        self.is_decorator = True
        return super().__call__(function)

    def __del__(self) -> None:
        if "kwds" in vars(self) and not self.is_decorator and not sys.is_finalizing():  # entering takes them away
            given = ", ".join(f"{name}=..." for name in self.kwds)
            warn_user(f"options({given}) alone changes nothing; write with mdf_loop.options({given}): and what it is for below")
