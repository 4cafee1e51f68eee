"""The first iterations of a loop, interpreted until types hold and while it pays; and whether a block is compiled by then."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mdf_loop.errors import let_through
from mdf_loop.execute.blocks import Blocks, Stage
from mdf_loop.execute.interpret import Session
from mdf_loop.execute.tiers.paying import Account, work_time
from mdf_loop.step.records import Type

SETTLING = 4
"""Iterations interpreted at most before the first block, as long as shapes or types change."""

TELLING, TELLING_NESTED = 4, 2
"""Iterations from which on their pace tells that of others: the first ones of all take several times as long, less so where each
runs a loop."""

FEW, WORTH = 3, 80
"""Iterations, and nodes run in all of them, up to which engine ``auto`` interprets: starting blocks would take longer."""

LARGE = 1 << 19
"""Bytes of a carried value from which on a block is worth starting for two iterations: it is written over itself."""

TRIED = 0.02
"""Seconds that a program may take which is tried before it is known where the loop ends: long loops are machine code soon."""

ENDLESS = 1 << 30
"""Iterations that mean no limit: no run has so many."""


def room_of(session: Session, until: int | None) -> int:
    """How many iterations there may be from here on."""
    if not session.goes_on():
        return 0
    most, given = session.run.options.max_iterations, session.given
    ends = [end for end in (until, given.trip_count, None if most is None else most - given.before) if end is not None]
    return min(ends) - session.moment.iteration if ends else ENDLESS


Interpret = Callable[[Session, int | None], None]


def settle(interpret: Interpret, session: Session, type_of: Callable[[Any], Type], until: int | None) -> None:
    """Interpret the first iteration, and a few more if what is carried becomes something else in them.

    That a value becomes something else later is seen as well: here it is only to spare blocks in vain.
    """

    def types() -> list[Type]:
        return [type_of(value) for value in (*session.moment.carried, *session.moment.hidden)]

    after = types()
    for done in range(1, SETTLING + 1):
        interpret(session, done if until is None else min(done, until))
        before, after = after, types()
        if after == before or not session.goes_on():
            return


def is_short(session: Session, until: int | None, nodes: int) -> bool:
    """Whether so few iterations of so many nodes are left that they are interpreted."""
    ends = [end for end in (until, session.given.trip_count) if end is not None]
    if not ends:
        return False
    left = min(ends) - session.moment.iteration
    if left <= 1:
        return True
    is_large = any(getattr(value, "nbytes", 0) >= LARGE for value in session.moment.carried)
    if is_large or not session.run.options.how.interprets_short_loops:
        return False
    return left <= max(FEW, WORTH // (nodes + 3))


def with_parts(interpret: Interpret, loops: Sequence[Any], session: Session, until: int | None) -> None:
    """Interpret iterations that run such loops, which write no program for past runs: they may become part of a larger one."""
    for loop in loops:
        loop.account.is_waiting = True
    try:
        interpret(session, until)
    finally:
        for loop in loops:
            loop.account.is_waiting = False


def ended_by(program: Callable[[], list[Any] | None], session: Session, drawn: Any) -> bool:
    """Whether a program runs an execution once more from its first iteration, when ``drawn`` was the random stream's state."""
    run = session.run
    now, longest = run.stream.save(), run.longest
    run.stream.restore(drawn)
    run.longest = TRIED
    try:
        with contextlib.suppress(MemoryError):
            session.results = program()
    finally:
        run.longest = longest
    if session.results is None:
        run.stream.restore(now)
    return session.results is not None


def interpret_what_is_cheap(
    interpret: Interpret, session: Session, room: Callable[[], int], account: Account, loops: Sequence[Any] = ()
) -> None:
    """Interpret more, as long as that takes less time than writing programs.

    That is time of the processor: on the wall all takes longer where others work.  ``room`` says how many iterations are left,
    ``loops`` are those that an iteration runs.
    Where that is known, and how long one takes, what is ahead counts, else half of what it has taken so far: it may be over soon.
    """
    length, pace, begun = 1, 0.0, work_time()
    while (left := room()) > 0:
        before = work_time()
        is_told = length >= (TELLING_NESTED if loops else TELLING) and left < ENDLESS
        if account.pays_writing(session.run.options, pace * left if is_told else (before - begun) / 2):
            return
        length = min(2 * length, left)
        with_parts(interpret, loops, session, session.moment.iteration + length)
        pace = (work_time() - before) / length


log = logging.getLogger(__name__)

T = TypeVar("T")


def is_being_compiled(blocks: Blocks, session: Session, stage: Stage, patience: float = 0.0) -> bool:
    """Whether another thread is at it; False as well where only running tells what is to be compiled."""

    def ask() -> bool:
        parts = [part.is_being_compiled(given, patience) for part, given in blocks.following(session, stage.same, stage.slices)]
        return any(parts)  # each was asked, which orders it

    return _asked(session, ask, False)


def refusal(blocks: Blocks, session: Session, stage: Stage) -> str:
    """Why there is none, and all would be stepped through in Python; empty if there is some, or only running tells."""
    following = blocks.following(session, stage.same, stage.slices)
    return _asked(session, lambda: next(filter(None, (part.refusal(given) for part, given in following)), ""), "")


def _asked(session: Session, ask: Callable[[], T], unknown: T) -> T:
    try:
        with session.run.computing_ahead():
            return ask()
    except Exception as error:
        let_through(error)
        log.debug("%s: nothing is compiled ahead (%r)", session.progress.name, error)
        return unknown
