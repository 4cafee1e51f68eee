"""Notes that a run takes: values written down one behind the other, of any type and shape, wherever they are computed.

A trace is carried by loops and passed through branches like any other value.  It is never changed: a note makes a new one that
knows the one before, so each takes the same time however long it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mdf_loop.ops.registry import kernel

ABSENT = object()
"""What is noted where a value was not computed."""


@dataclass(frozen=True, eq=False)
class ValueTrace:
    """What was noted so far: the last note, and the trace before it."""

    before: ValueTrace | None = None
    noted: Any = None

    def __iter__(self) -> Iterator[Any]:
        notes, trace = [], self
        while trace.before is not None:
            notes.append(trace.noted)
            trace = trace.before
        return reversed(notes)


@kernel("NoteNothing", domain="record")
def note_nothing():
    """A trace without a note."""
    return ValueTrace()


@kernel("Note", domain="record")
def note(trace, value):
    """A value, behind what was noted before."""
    return ValueTrace(trace, value)


@kernel("NoteAbsent", domain="record")
def note_absent(trace):
    """That there is no value."""
    return ValueTrace(trace, ABSENT)
