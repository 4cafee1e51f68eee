"""A loop that has run, for what a run says when it is over; iterations of it run again without a word."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mdf_loop.errors import LoopInterrupted, PartialResults
from mdf_loop.execute.interpret import Arguments, InterpretedLoop, Session
from mdf_loop.execute.program import Program
from mdf_loop.ir import Loop
from mdf_loop.options import Run
from mdf_loop.plan.invariants import is_repeatable
from mdf_loop.settings.random_streams import RandomStream

T = TypeVar("T")


@dataclass(slots=True)
class EndedLoop:
    """A loop that has run.

    Attributes
    ----------
    executor : InterpretedLoop
        What ran it; one like it runs again as far as is needed.
    results : sequence
        What it gave, its carried values first.
    given : Arguments
    run : Run
    drawn : object
        How far the random stream had come before, if the loop draws.
    lasted : int
        How many iterations there were.
    """

    executor: InterpretedLoop
    results: Sequence[Any]
    given: Arguments
    run: Run
    drawn: Any
    lasted: int

    @property
    def loop(self) -> Loop:
        """Its record."""
        return self.executor.loop

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.loop.name or self.loop.body.name

    @property
    def values(self) -> tuple[Any, ...]:
        """All that its iterations begin with: on the kinds and shapes of these depends what many of its values are."""
        hidden = self.given.hidden or [state.initial for state in self.loop.body.state]
        return (*self.given.carried, *self.given.captured, *self.given.scanned, *hidden)

    @property
    def is_inner(self) -> bool:
        """Whether it is inside another one, which says what became of its values."""
        return getattr(self.run.outermost, "owner", None) is not self.executor

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of numpy's types of what it was given."""
        return tuple(map(value_kind, self.values))

    def once(self, make: Callable[[EndedLoop], T], *of: Hashable) -> T:
        """What a function makes of the loop: made when a run of it ends the first time, or the first time with such values."""
        known, key = self.executor.noticed, (make, *of)
        if key not in known:
            known[key] = make(self)
        found: T = known[key]
        return found

    def noted(self, what: str) -> dict[Any, Any]:
        """What runs of the loop have noted for later ones."""
        found: dict[Any, Any] = self.executor.noticed.setdefault(what, {})
        return found

    def say(self, said: str, *about: Hashable) -> None:
        """Warn, once in a run of all that is about the same in the body."""
        self.run.warn_once((id(self.loop.body), *about), said)

    def begun_again(self, again: InterpretedLoop) -> Session:
        """A new execution with the same random numbers, which is shown to no one who watches and warns of nothing."""
        silent = Run(self.run.options, RandomStream(self.run.stream.seed), tells=False)
        if self.drawn is not None:
            silent.stream.restore(self.drawn)
        return InterpretedLoop.begin(again, self.given, silent)

    def first_iterations(self, count: int) -> Generator[tuple[Session, Program]]:
        """The state behind each of its first iterations, interpreted again; none if they cannot be had twice."""
        if not all(map(is_repeatable, self.loop.body.nodes)):
            return
        again = InterpretedLoop(self.loop, self.executor.unseen)
        try:
            session = self.begun_again(again)
            for k in range(count):
                again.advance(session, k + 1)
                if session.moment.iteration <= k:
                    return
                yield session, again.program
        except LoopInterrupted:
            raise
        except PartialResults:
            return


def value_kind(value: Any) -> str:
    """The kind of numpy's type of a value; empty for what has none."""
    dtype = getattr(value, "dtype", None)
    return _KINDS.get(type(value), "") if dtype is None else str(dtype.kind)


_KINDS = {bool: "b", int: "i", float: "f", complex: "c"}
