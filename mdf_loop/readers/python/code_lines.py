"""Where a function has come to that is being traced: its line, what is written there, and the variable that gets the result."""

from __future__ import annotations

import dis
import itertools
import linecache
import sys
import traceback
from typing import Any

from mdf_loop.readers.python.instead import called_in, instead, instruction, stores
from mdf_loop.readers.python.surroundings import is_library

_NO_LIBRARIES = {"mdf_loop", "numpy", "abc", "typing", "functools", "contextlib", "copy", "collections"}
"""What asks values for something as Python itself does."""


class Traceable:
    """A function with code, which may be running.

    Attributes
    ----------
    code : code object
    """

    code: Any

    def line(self) -> int:
        """The line that the function has come to; the first one where it is not running."""
        frame = self._frame()
        return int(self.code.co_firstlineno if frame is None else frame.f_lineno)

    def place(self, line: int) -> str:
        """A line of the function, with its file and what is written there."""
        text = self.text(line)
        return f"{self.code.co_filename}, line {line}{f': {text!r}' if text else ''}"

    def instead(self) -> str:
        """What to write in the place of what the function, or one of its file that it calls, does now; empty if not known."""
        outer, frame = self._frame(), sys._getframe(1)
        while outer is not None and frame.f_back is not None and frame.f_globals is not outer.f_globals:
            frame = frame.f_back
        return "" if outer is None else instead(frame)

    def returned(self) -> str:
        """The place of what the function returns: that of its last ``return``."""
        ends = [each for each in dis.get_instructions(self.code) if each.opname.startswith("RETURN_")]
        lines = [each.positions.lineno for each in ends if each.positions is not None and each.positions.lineno]
        return self.place(max(lines, default=self.code.co_firstlineno))

    def text(self, line: int) -> str:
        """What is written in a line of the function's file."""
        return linecache.getline(self.code.co_filename, line).strip()

    def calling(self) -> str:
        """The call that the function has come to, up to its bracket; empty where the file does not show it."""
        frame = self._frame()
        return "" if frame is None else called_in(frame)

    def library(self) -> str:
        """The library, other than numpy, that the function, or one that it calls, has handed a value; empty if it is none."""
        frames = (frame for frame, _ in traceback.walk_stack(None)) if self._frame() is not None else ()
        above = itertools.takewhile(lambda frame: frame.f_code is not self.code, frames)
        names = [frame.f_globals.get("__name__", "").partition(".")[0] for frame in above]
        return next((name for name in reversed(names) if is_library(name) and name not in _NO_LIBRARIES), "")

    def _assigned(self) -> str:
        """The variable that gets what is computed now; empty where it is a part of something larger."""
        frame = self._frame()
        return "" if frame is None else stores(frame.f_code).get(instruction(frame), "")

    def _frame(self) -> Any:
        frame: Any = sys._getframe(1)
        while frame is not None and frame.f_code is not self.code:
            frame = frame.f_back
        return frame
