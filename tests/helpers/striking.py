"""Exceptions that strike between any two instructions of the library, as Ctrl-C does."""

import contextvars
import dis
import os
import sys

import mdf_loop
from mdf_loop.execute.partial_results import keeping

HOME = os.path.dirname(mdf_loop.__file__) + os.sep
KEEPING = keeping.__code__
OUTSIDE = {each.offset for each in dis.get_instructions(KEEPING) if each.opname in ("RESUME", "NOP", "RETURN_VALUE")}
"""Instructions of ``keeping`` at which nothing has begun yet, or a signal waits until it has returned."""

LOCKED = os.path.join(HOME, "cache.py")
"""A file whose functions hold a lock: Python looks for signals nowhere between the end of a ``with`` and its release."""


class Strike:
    """Raises an exception at one instruction of the library, counted from where it is armed; counts them all if at none.

    A body calls ``arm`` in its first iteration: what happens before that is no loop yet.
    """

    def __init__(self, at=None, kind=KeyboardInterrupt):
        self.at, self.kind, self.count, self.is_armed, self.depth = at, kind, 0, False, 0
        self.place = None

    def arm(self):
        self.is_armed = True

    def _each(self, frame, event, _):
        if event == "opcode" and self.is_armed and self.depth:
            if frame.f_code is KEEPING and frame.f_lasti in OUTSIDE:
                return self._each
            self.count += 1
            if self.count == self.at:
                sys.settrace(None)
                self.place = f"{frame.f_code.co_filename.removeprefix(HOME)}:{frame.f_lineno}"
                raise self.kind
        elif event in ("return", "exception") and frame.f_code is KEEPING and event == "return":
            self.depth -= 1
        return self._each

    def _call(self, frame, event, _):
        if frame.f_code is KEEPING:
            self.depth += 1
        if not frame.f_code.co_filename.startswith((HOME, "<program")) or frame.f_code.co_filename == LOCKED:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._each

    def __call__(self, function):
        """Call a function while watching, in a context of its own.

        What strikes while a ``with`` ends, before it has restored what a context variable held, leaves that in the context.
        """
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            return contextvars.copy_context().run(function)
        finally:
            sys.settrace(before)


def strikes(function, make_strike, most=100):
    """Where to strike: at equal distances, so that a call is struck so many times, the last instruction among them."""
    watching = make_strike(None)
    watching(function)
    step = max(watching.count // most, 1)
    return range(watching.count, 0, -step)
