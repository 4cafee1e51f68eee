"""Programs of one graph or loop: a Step printed as Python for each combination of types, kept and run.

A program is only a faster way.  It never begins what it cannot take back: where it meets something it was not written for, or a
kernel fails, nothing has happened, the random stream is put back, and the caller runs the same work in the ordinary way.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from mdf_loop.backends.llvm.linking.object_code import disk
from mdf_loop.backends.python.printer import LEAST
from mdf_loop.backends.python.runtime import Ended
from mdf_loop.errors import PartialResults, let_through
from mdf_loop.execute.interpret import Arguments
from mdf_loop.execute.signatures import Signature, Signatures, exact_signature, types_of
from mdf_loop.execute.specialised import Specialised, in_machine_code, in_python
from mdf_loop.execute.tiers.background import Order
from mdf_loop.execute.tiers.kept_programs import KeptPrograms, found_on_disk, keep
from mdf_loop.execute.tiers.paying import writing
from mdf_loop.ops.registry import changes
from mdf_loop.options import Options, Run
from mdf_loop.step.failing import GUESSED, TooLong, guessing
from mdf_loop.step.records import Region, Type
from mdf_loop.step.structure import values_in
from mdf_loop.system.threads import Recent, holding

MOST_SIGNATURES = 32
"""Combinations of types for which programs are kept."""

CARE = 10
"""How many times as long as making it took machine code that was made in a hurry runs before it is made with care."""

HELD = 0.1
"""Seconds that a call waits for the machine code it has ordered: two threads of Python are in each other's way, so that going on
meanwhile takes longer."""

MOST_FAILURES = 3
"""How often a program may fall back before it is given up."""

log = logging.getLogger(__name__)

Lower = Callable[[Sequence[Type], bool, bool, bool], Region]
"""``lower(types, obey, opens, is_many)``: a Step for values of these types, of one run or many.

``opens`` says whether loops become part of it.
"""


Write = Callable[["Entry", Region], Specialised | Order | str]
"""Makes a program of a Step, or orders it, or says why it cannot."""


@dataclass
class Entry:
    """What is known for one combination of types.

    Whether it ``is_compiled``, ``why`` it is refused; whether its Step ``guesses`` what a run looks at; whether it ``is_many``
    runs at once; what is being compiled in another thread, in an ``order`` if there is nothing yet, and what is ``better`` than
    what there is and has run for so many ``seconds``; whether it ``is_sought`` on disk, and the ``key`` under which it is kept.
    """

    signature: Signature
    is_compiled: bool
    failures: int = 0
    opens: bool = True
    is_refused: bool = False
    why: str = ""
    careful: bool = False
    guesses: bool = False
    is_many: bool = False
    made: Specialised | None = None
    order: Order | None = None
    better: Order | None = None
    seconds: float = 0.0
    is_sought: bool = False
    key: str = ""


class Ready(NamedTuple):
    """A program that has run, of what form that was which it was given, and whether machine code was wanted."""

    obey: bool
    entry: Entry
    made: Specialised
    form: Any
    is_wanted: bool = True


_watching: contextvars.ContextVar[list[Programs] | None] = contextvars.ContextVar("mdf_loop_programs_watching", default=None)


@contextlib.contextmanager
def watched_programs() -> Iterator[list[Programs]]:
    """The programs of graphs or loops that run inside a ``with`` block, each once, in the order in which they first ran."""
    found: list[Programs] = []
    with holding(_watching, found):
        yield found


class Programs:
    """The programs of one graph or loop.

    Attributes
    ----------
    latest : Specialised or None
        The one that ran last.
    ready : Ready or None
        The program that ran last, if it can be run :meth:`again`.
    why : str
        Why the last one that was asked for is not machine code, where it should have been.
    is_waiting : bool
        Whether the machine code that was asked for last is still being made.
    """

    def __init__(self, lower: Lower, draws: bool, has_loops: bool, exact: bool, kept: KeptPrograms, least: int = LEAST) -> None:
        self._lower, self._draws, self._has_loops, self._exact, self._least = lower, draws, has_loops, exact, least
        self._kept = kept
        self._entries = Recent[Entry](MOST_SIGNATURES)
        self._signatures = Signatures()
        self.latest: Specialised | None = None
        self.why, self.is_waiting = "", False
        self._shared: tuple[Any, Region] | None = None  # what it is for, and the Step: Python and machine code are made of it
        self._changes = changes()
        self._fell_back: Run | None = None  # the run in which machine code was tried in vain
        self._gave_up: Run | None = None  # the run in which Python was
        self.ready: Ready | None = None

    def run(
        self,
        values: Sequence[Any],
        run: Run,
        pays_writing: Callable[[], bool],
        is_compiled: bool,
        fits_python: Callable[[], bool],
    ) -> tuple[Any, ...] | None:
        """The results for these values, or None: the ordinary way has to find them.

        ``pays_writing`` says that a program in Python is to be written if there is none, ``is_compiled`` that it is to be machine
        code if it can be, ``fits_python`` that running it in Python in one go is no slower than a plan: loops of a graph that do
        not fit stay operators.
        """
        self._see_changes()
        self.why, self.is_waiting = "", False
        if self._gave_up is run or not (is_compiled or len(self._entries) or pays_writing()):
            return None  # as in most first calls, which need not know what they were given
        signature = self._signatures.of(values)
        if is_compiled and self._fell_back is not run:
            found = self._by_entry(("jit", signature), values, run, self._compiled if run.options.how.compiles else self._ordered)
            if found is not None:
                return found
        how, fits = ("python", signature), fits_python()
        if not (fits or self._has_loops):
            return None
        entry = self._entry(how, run.options)
        if entry.made is None:
            entry.opens &= fits
            if not pays_writing():
                return None
        found = self._by_entry(how, values, run, self._printed)
        is_settled = not is_compiled or self.why != ""  # no machine code will take its place meanwhile
        if found is not None and is_settled and not self._draws and (self.ready is None or self.ready.made is not entry.made):
            assert entry.made is not None
            self.ready = Ready(run.options.obey_body_condition, entry, entry.made, _form_of(values), is_compiled)
        return found

    def again(self, ready: Ready, values: tuple[Any, ...], run: Run) -> tuple[Any, ...] | None:
        """The results by a program that ran before, if these values are of the same types and lengths; they may be anything.

        Machine code looks itself: nothing in Python depends on how many there are.
        """
        entry = ready.entry
        if entry.is_refused or entry.made is not ready.made or ready.obey != run.options.obey_body_condition:
            return None
        if self._changes != changes():
            return None
        if not ready.made.size:
            return self._python_again(ready, values, run)
        begun = time.perf_counter() if ready.made.is_quick else 0.0
        found = self._drawing(ready, values, run) if self._draws else ready.made.code.run_if(ready.form, run, values)
        if found is not None:
            self._ran(ready.made)
            if begun:
                self._improve(entry, ready.made, time.perf_counter() - begun)
        return found

    def _python_again(self, ready: Ready, values: tuple[Any, ...], run: Run) -> tuple[Any, ...] | None:
        """The same in Python, which is not tried twice in one run."""
        if ready.form is None or _form_of(values) != ready.form:
            return None
        found = self._tried(ready.entry, values, run)
        self._gave_up = run if found is None else None
        return found

    def is_kept(self, values: Sequence[Any], options: Options) -> bool:
        """Whether there is machine code for such values: where none was made, it is looked for on disk, once."""
        if disk() is None:
            return False
        self._see_changes()
        entry = self._entry(("jit", self._signatures.of(values)), options)
        if not entry.is_sought:
            entry.is_sought = True
            if entry.made is None and entry.order is None and not entry.is_refused:
                entry.made = self._on_disk(entry, values, options.obey_body_condition)
        return entry.made is not None

    def _on_disk(self, entry: Entry, values: Sequence[Any], obey: bool) -> Specialised | None:
        types, now = types_of(values, entry.signature, self._exact), replace(entry)
        try:
            entry.key = self._key(entry, types, obey)
            return found_on_disk(entry.key, lambda: self._lowered(now, types, obey))
        except Exception as error:  # it is made when it pays
            let_through(error)
            log.debug("nothing is looked for on disk: %r", error, exc_info=True)
            return None

    def _key(self, entry: Entry, types: Sequence[Type], obey: bool) -> str:
        """The name that a program has on disk."""
        return self._kept.key(types, obey, entry.opens, entry.guesses, entry.is_many)

    @staticmethod
    def _improve(entry: Entry, made: Specialised, seconds: float) -> None:
        """Have what was made in a hurry made with care when it has run for so long that this pays; take it when it is there."""
        entry.seconds += seconds
        if entry.better is None:
            if entry.seconds > CARE * made.seconds:
                entry.better = Order(made.step, keep=functools.partial(keep, entry.key))
        elif (found := entry.better.found) is not None and entry.made is made:
            entry.made = found if isinstance(found, Specialised) else replace(made, is_quick=False)

    def _drawing(self, ready: Ready, values: tuple[Any, ...], run: Run) -> tuple[Any, ...] | None:
        """The same where random numbers are drawn, which are put back if it does not come to its end."""
        saved, found = run.stream.save(), None
        try:
            found = ready.made.code.run_if(ready.form, run, values)
            return found
        finally:
            if found is None:
                run.stream.restore(saved)

    def at_once(self, values: Sequence[Any], run: Run) -> Sequence[Any] | None:
        """The results by machine code that has been made for such values and calls nothing outside; None if there is none."""
        if not len(self._entries) or self._changes != changes():
            return None
        obey, given = run.options.obey_body_condition, tuple(values)
        if self.ready is not None and self.ready.made.size and (found := self.again(self.ready, given, run)) is not None:
            return found
        entry = self._entries.get((obey, ("jit", self._signatures.of(given))))
        if entry is None or entry.made is None or entry.is_refused or not entry.made.is_alone:
            return None
        found = self._tried(entry, given, run)
        if found is None:
            self._fell_back = run
            return None
        self._fell_back = None
        form = entry.made.code.form_of(given)
        self.ready = None if form is None else Ready(obey, entry, entry.made, form)
        return found

    def machine_code(self, values: Sequence[Any], options: Options) -> Specialised | None:
        """Machine code for many runs with values of these types; None if there is none.

        Nothing is guessed: a run in which a guess is wrong would undo all others.
        """
        self._see_changes()
        entry = self._entry(("many", exact_signature(values)), options)
        if entry.is_refused:
            return None
        if entry.made is None:
            self._write(entry, values, options, self._compiled)
        return entry.made

    def _see_changes(self) -> None:
        """Forget everything if a user's kernel may have taken the place of one of ours."""
        if self._changes != changes():
            self._entries = Recent(MOST_SIGNATURES)
            self._shared = None
            self._signatures = Signatures()
            self._changes = changes()

    def _entry(self, how: Any, options: Options) -> Entry:
        """What is known for a combination of types; where there are too many, the oldest is forgotten."""
        key = options.obey_body_condition, how
        known = self._entries.get(key)  # without making a function, in most calls
        is_many = how[0] == "many"
        return known or self._entries.of(key, lambda: Entry(how[1], how[0] != "python", guesses=not is_many, is_many=is_many))

    def _by_entry(self, how: Any, values: Sequence[Any], run: Run, write: Write) -> tuple[Any, ...] | None:
        options = run.options
        entry = self._entry(how, options)
        if entry.is_refused:
            self.why = entry.why or self.why
            self._signatures.refuse(entry.signature)
            return None
        if entry.made is None:
            self._write(entry, values, options, write)
            if entry.made is None:
                return None
        return self._tried(entry, values, run)

    def _write(self, entry: Entry, values: Sequence[Any], options: Options, write: Write) -> None:
        try:
            if write == self._ordered and entry.order is not None:
                made: Specialised | Order | str | None = entry.order
            else:
                types, obey = types_of(values, entry.signature, self._exact), options.obey_body_condition
                with writing():
                    entry.key = self._key(entry, types, obey) if write == self._ordered else ""
                    made = write(entry, self._lowered(entry, types, obey))
        except Exception as error:  # whatever is the matter with it, the ordinary way finds out
            let_through(error)
            log.debug("no program: %s", error)
            made = str(error)
        entry.order, entry.better, entry.seconds = None, None, 0.0
        if isinstance(made, Order):
            entry.order, made = (made, None) if made.found is None else (None, made.found)
            self.is_waiting = entry.order is not None
            if isinstance(made, Specialised) and made.is_idle:
                made = "all of it would be calls of kernels"
        if isinstance(made, str):
            entry.is_refused, entry.why, self.why = True, made, made
        else:
            entry.made = made

    def _lowered(self, entry: Entry, types: Sequence[Type], obey: bool) -> Region:
        """The Step for such types: the one that was made last, if it is for them and no guess makes a difference."""
        wanted = entry.signature, obey, entry.opens, entry.guesses, entry.is_many
        shared = self._shared  # another thread may put its own there
        if shared is not None and shared[0] == wanted:
            return shared[1]
        with guessing(entry.guesses, entry.is_compiled) as guesses:
            region = self._lower(types, obey, entry.opens, entry.is_many)
        if not guesses.were_asked_for:
            self._shared = wanted, region
        return region

    def _printed(self, entry: Entry, region: Region) -> Specialised:
        """A program of Python for a Step."""
        return in_python(region, self._least, entry.careful, self.why)

    @staticmethod
    def _compiled(entry: Entry, region: Region) -> Specialised | str:
        """Machine code for a Step, or the reason why there is none."""
        return in_machine_code(region)

    @staticmethod
    def _ordered(entry: Entry, region: Region) -> Order:
        """The same, compiled in a hurry; where that takes longer than a call waits, the work goes on in another way."""
        order = Order(region, is_quick=True, keep=functools.partial(keep, entry.key))
        order.wait(HELD)
        return order

    def _tried(self, entry: Entry, values: Sequence[Any], run: Run) -> tuple[Any, ...] | None:
        saved = run.stream.save() if self._draws else None
        made = entry.made
        assert made is not None
        begun = time.perf_counter()
        try:
            found = made.call(run, *values)
            self._ran(made)
            if made.is_quick:
                self._improve(entry, made, time.perf_counter() - begun)
            return found
        except Ended as error:
            raise error.error from error.error.__cause__
        except PartialResults as error:
            let_through(error)
            if not entry.opens:
                raise
            self._given_up(entry, error)
        except TooLong:
            entry.made, entry.is_refused, entry.opens = None, not (entry.opens and self._has_loops), False
            entry.is_sought = False
        except Exception as error:
            let_through(error)
            self._given_up(entry, error)
        if saved is not None:
            run.stream.restore(saved)
        return None

    def _ran(self, made: Specialised) -> None:
        """Report the progress."""
        self.latest = made
        if (watching := _watching.get()) is not None and self not in watching:
            watching.append(self)

    @staticmethod
    def _given_up(entry: Entry, error: BaseException) -> None:
        log.debug("a program was given up: %r", error)
        if entry.guesses and entry.made is not None and any(v.op in GUESSED for v in values_in(entry.made.step)):
            entry.guesses, entry.made, entry.is_sought = False, None, False  # a guess was wrong: once more without
            return
        entry.failures += 1
        entry.is_refused = entry.failures >= MOST_FAILURES
        if isinstance(error, ValueError | ArithmeticError) and not entry.careful:  # Python may refuse what is nan to numpy
            entry.careful, entry.made = True, None


def _form_of(values: Sequence[Any]) -> list[Any] | None:
    """What a program of Python is for, of arrays of numbers; None for anything else, which has to be looked at."""
    arrays = [(x.dtype, x.shape) for x in values if type(x) is np.ndarray and not x.dtype.hasobject]
    return arrays if len(arrays) == len(values) else None


def program_values(given: Arguments, hidden: Sequence[Any] = ()) -> list[Any]:
    """What the program of a loop is given; hidden values are carried like others."""
    return [np.int64(given.trip_count or 0), *given.carried, *hidden, *given.scanned, *given.captured]
