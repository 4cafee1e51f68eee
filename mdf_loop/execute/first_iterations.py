"""The first iterations of a loop, interpreted: until types hold, and as long as that costs less than anything else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from mdf_loop.execute.interpret import Session
from mdf_loop.step.records import Type

SETTLING = 4
"""Iterations interpreted at most before the first block, as long as shapes or types change."""

ENDLESS = 1 << 30
"""Iterations that stand for no limit: nobody waits for so many."""

Interpret = Callable[[Session, int | None], None]


def settle(interpret: Interpret, session: Session, type_of: Callable[[Any], Type], until: int | None) -> None:
    """Interpret the first iteration, and a few more if what goes round becomes something else in them.

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


def interpret_what_is_cheap(
    interpret: Interpret, session: Session, room: Callable[[], int], pays: Callable[[float], bool], begun: float
) -> None:
    """Interpret more, as long as that has taken, or will take, less time than writing programs for blocks.

    ``pays`` is asked about seconds of this run, which ``begun`` then; ``room`` says how many iterations are left, as far as
    anybody knows.
    """
    length, pace = 1, 0.0
    while (left := room()) > 0:
        if pays(time.perf_counter() - begun + (pace * left if left < ENDLESS else 0.0)):
            return
        length, before = min(2 * length, left), time.perf_counter()
        interpret(session, session.moment.iteration + length)
        pace = (time.perf_counter() - before) / length
