"""Programs of one graph or loop: a Step printed as Python for each combination of types, kept and run.

A program is only a faster way.  It never begins what it cannot take back: where it meets something it was not written for, or a
kernel fails, nothing has happened, the random stream is put back, and whoever asked runs the same work in the ordinary way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.backends.python.printer import LEAST, program
from mdf_loop.backends.python.runtime import Ended, TooLong
from mdf_loop.errors import PartialResults
from mdf_loop.execute.interpret import InterpretedLoop, Moment
from mdf_loop.options import Options, Run
from mdf_loop.registry import changes
from mdf_loop.step.build import type_of_value
from mdf_loop.step.records import Region, Type

MOST_SIGNATURES = 32
"""Combinations of types for which programs are kept."""

MOST_FAILURES = 3
"""How often a program may fall back before it is given up."""

INTERPRETED = 2
"""Short calls with one combination of types that engine ``auto`` interprets: writing a program takes longer."""

log = logging.getLogger(__name__)

Lower = Callable[[Sequence[Type], bool, bool], Region]
"""``lower(types, obey, opens)``: a Step for values of these types; ``opens`` says whether loops become part of it."""


@dataclass
class Entry:
    """What is known for one combination of types; ``why`` says why it is not machine code, where that was asked for."""

    calls: int = 0
    failures: int = 0
    opens: bool = True
    is_refused: bool = False
    careful: bool = False
    call: Callable[..., Any] | None = None
    text: str = ""
    is_compiled: bool = False
    why: str = ""


class Programs:
    """The programs of one graph or loop.

    Attributes
    ----------
    latest : str
        The text of the one that ran last.
    """

    def __init__(self, lower: Lower, draws: bool, has_loops: bool, exact: bool, least: int = LEAST) -> None:
        self._lower, self._draws, self._has_loops, self._exact, self._least = lower, draws, has_loops, exact, least
        self._entries: dict[Any, Entry] = {}
        self.latest = ""
        self._changes = changes()

    def run(self, values: Sequence[Any], run: Run, fits_python: bool = True, is_over_soon: bool = True) -> tuple[Any, ...] | None:
        """The results for these values, or None: the ordinary way has to find them.

        ``fits_python`` says that running it in Python in one go is no slower than a plan, ``is_over_soon`` that it would be
        over before a program is written.
        """
        options = run.options
        if self._changes != changes():  # a user's kernel may have taken the place of one of ours
            self._entries.clear()
            self._changes = changes()
        key = (options.how.compiles, fits_python, options.obey_body_condition, *map(_key_of, values))
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= MOST_SIGNATURES:
                return None
            entry = self._entries[key] = Entry()
        if entry.is_refused:
            return None
        if entry.call is None:
            entry.calls += 1
            if is_over_soon and entry.calls <= INTERPRETED and options.how.interprets_first_calls:
                return None
            self._write(entry, values, options, fits_python)
            if entry.call is None:
                return None
        return self._tried(entry, values, run)

    def _write(self, entry: Entry, values: Sequence[Any], options: Options, fits_python: bool) -> None:
        try:
            types = [type_of_value(value, self._exact) for value in values]
            region = self._lower(types, options.obey_body_condition, entry.opens)
            if options.how.compiles and self._compile(entry, region):
                return
            if not fits_python:
                entry.is_refused = True
                return
            entry.call, entry.text = program(region, least=self._least, careful=entry.careful)
        except Exception as error:  # whatever is the matter with it, the ordinary way finds out
            log.debug("no program: %s", error)
            entry.is_refused = True

    def _compile(self, entry: Entry, region: Region) -> bool:
        """Whether there is machine code for a Step; if not, the reason is kept."""
        from mdf_loop.backends.llvm.elements import CannotCompile
        from mdf_loop.backends.llvm.program import program as compiled

        try:
            entry.call = compiled(region)
        except CannotCompile as reason:
            log.debug("not compiled: %s", reason)
            entry.why = str(reason)
            return False
        except Exception as error:  # a defect of ours; the work is done all the same
            log.warning("not compiled: %r", error)
            entry.why = f"{type(error).__name__} {error}"
            return False
        entry.is_compiled = True
        return True

    def _tried(self, entry: Entry, values: Sequence[Any], run: Run) -> tuple[Any, ...] | None:
        saved = run.stream.save() if self._draws else None
        assert entry.call is not None
        try:
            found = entry.call(run, *values)
            self.latest = entry.text
            return found
        except Ended as error:
            raise error.error from error.error.__cause__
        except PartialResults as error:
            if not entry.opens:
                raise
            self._given_up(entry, error)
        except TooLong:
            entry.call, entry.is_refused, entry.opens = None, not (entry.opens and self._has_loops), False
        except Exception as error:
            self._given_up(entry, error)
        if saved is not None:
            run.stream.restore(saved)
        return None

    @staticmethod
    def _given_up(entry: Entry, error: BaseException) -> None:
        log.debug("a program was given up: %r", error)
        entry.failures += 1
        entry.is_refused = entry.failures >= MOST_FAILURES
        if isinstance(error, ValueError | ArithmeticError) and not entry.careful:  # Python may refuse what is nan to numpy
            entry.careful, entry.call = True, None


def _key_of(value: Any) -> Any:
    """What a program depends on of a value."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape
    if isinstance(value, np.generic):
        return value.dtype, ()
    return type(value)


class Completed:
    """A loop that a program ran to its end, in the place of its progress: for what strikes before the results have left."""

    is_over = True

    def __init__(self, owner: InterpretedLoop, results: list[Any], iterations: int, run: Run) -> None:
        self.owner, self.stream, self.finish, self._results = owner, run.stream, run.finish, results
        self.moment = Moment(iterations, (), (), (), None, False, run.stream.save())

    def partial(self) -> tuple[Any, ...]:
        """The results."""
        return tuple(self.finish(self._results))

    @property
    def name(self) -> str:
        """What messages call the loop."""
        return self.owner.loop.name or self.owner.loop.body.name

    def place(self) -> str:
        """Behind the last iteration, for messages."""
        return f"iteration {self.moment.iteration} of {self.name}"
