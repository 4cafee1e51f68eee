"""Iterations that run again for what a run says when it is over: with the same random numbers, and without a word."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from mdf_loop.errors import LoopInterrupted, PartialResults
from mdf_loop.execute.interpret import Arguments, InterpretedLoop, Session
from mdf_loop.execute.program import Program
from mdf_loop.options import Run
from mdf_loop.plan.invariants import is_repeatable
from mdf_loop.settings.random_streams import RandomStream


def is_inner(executor: InterpretedLoop, run: Run) -> bool:
    """Whether a loop is inside another one, which says what became of its values."""
    return getattr(run.outermost, "owner", None) is not executor


def begun_again(again: InterpretedLoop, given: Arguments, run: Run, drawn: Any) -> Session:
    """A new execution with the same random numbers, which is shown to no one who watches and warns of nothing."""
    silent = Run(run.options, RandomStream(run.stream.seed), tells=False)
    if drawn is not None:
        silent.stream.restore(drawn)
    return InterpretedLoop.begin(again, given, silent)


def first_iterations(
    executor: InterpretedLoop, given: Arguments, run: Run, drawn: Any, count: int
) -> Generator[tuple[Session, Program]]:
    """The state of a loop behind each of its first iterations, interpreted again; none if they cannot be had twice."""
    if not all(map(is_repeatable, executor.loop.body.nodes)):
        return
    again = InterpretedLoop(executor.loop, executor.unseen)
    try:
        session = begun_again(again, given, run, drawn)
        for k in range(count):
            again.advance(session, k + 1)
            if session.moment.iteration <= k:
                return
            yield session, again.program
    except LoopInterrupted:
        raise
    except PartialResults:
        return
