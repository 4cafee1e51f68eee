"""The interpreter: loops and branches node by node, exactly as the text says.

This is the living definition.  Every faster engine is tested against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.analysis.empty import empty_collected
from mdf_loop.errors import IterationError, IterationLimit, KindError, LoopInterrupted, PartialResults
from mdf_loop.execute.collect import Gathering
from mdf_loop.execute.program import Program, describe_value
from mdf_loop.ir import Body, Loop, Scanned
from mdf_loop.options import Run


@dataclass
class Arguments:
    """What one execution of a loop is given.

    Attributes
    ----------
    trip_count : int or None
        At most so many iterations; None has no limit.
    go : bool or None
        The condition before the first iteration; None if it was omitted.
    carried, scanned, invariant, captured : sequence
        Values in the order of the loop's record, captures in the order of ``body.captures``.
    """

    trip_count: int | None
    go: bool | None = True
    carried: Sequence[Any] = ()
    scanned: Sequence[Any] = ()
    invariant: Sequence[Any] = ()
    captured: Sequence[Any] = ()


@dataclass
class Progress:
    """How far a loop has come: the carried values, what was collected, iterations completed."""

    carried: list[Any]
    gatherings: list[Gathering]
    last: list[Any]
    iteration: int = 0

    def results(self) -> tuple[Any, ...]:
        """Carried values, last values, then collected ones (None where there was no iteration)."""
        return (*self.carried, *self.last, *(g.array(self.iteration) for g in self.gatherings))


@dataclass
class Session:
    """One execution of a loop: what it was given, where it stands, and the values of the iteration that ran last.

    ``obeyed`` says whether the body's condition may end the loop; ``going`` is what it said last, and
    ``condition`` the value that the body will be handed.  ``stage`` is the engine's own.
    """

    given: Arguments
    run: Run
    env: list[Any]
    progress: Progress
    parts: list[Callable[[int], Any]]
    obeyed: bool
    going: bool
    condition: Any
    stage: Any = None

    def goes_on(self) -> bool:
        """Whether there is another iteration to run."""
        count = self.given.trip_count
        return self.going and (count is None or self.progress.iteration < count)


class InterpretedLoop:
    """A loop ready to run, any number of times: at once by calling it, or in steps by ``begin``, ``advance`` and ``conclude``."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.program = Program(loop.body)
        slot = self.program.slot
        self.index = slot(loop.index) if loop.index else self.program.sink()
        self.number = numbering(loop.body.type_of(loop.index or "").shape)
        self.condition = slot(loop.condition) if loop.condition else self.program.sink()
        self.condition_rank = len(loop.body.type_of(loop.condition or "").shape or ())
        self.keep_going = slot(loop.keep_going or "")
        self.invariant = [slot(name) for name in loop.invariant]
        self.carried_in = [slot(c.input) for c in loop.carried]
        self.carried_out = [slot(c.output) for c in loop.carried]
        self.scanned = [slot(s.input) for s in loop.scanned]
        self.collected = [slot(c.output) for c in loop.collected]
        self.last = [slot(name) for name in loop.last]

    def __call__(self, given: Arguments, run: Run) -> tuple[Any, ...]:
        """Run the loop; returns carried, last, then collected values.

        Raises
        ------
        IterationError, CollectedError, IterationLimit, LoopInterrupted
            With the results of the completed iterations in ``.partial``.
        """
        session = self.begin(given, run)
        self.advance(session)
        return self.conclude(session)

    def begin(self, given: Arguments, run: Run) -> Session:
        """A new execution, before its first iteration."""
        env = self.program.environment(given.captured, run)
        for slot, value in zip(self.invariant, given.invariant, strict=True):
            env[slot] = value
        progress = Progress(list(given.carried), [Gathering(c) for c in self.loop.collected], [None] * len(self.last))
        parts = [part_of(s, array) for s, array in zip(self.loop.scanned, given.scanned, strict=True)]
        obeyed = given.go is not None or run.options.obey_body_condition
        condition: Any = np.ones((1,) * self.condition_rank, bool) if self.condition_rank else np.True_
        return Session(given, run, env, progress, parts, obeyed, given.go is not False, condition)

    def advance(self, session: Session, until: int | None = None) -> None:
        """Run iterations until so many are complete, or to the end.

        Raises
        ------
        IterationError, CollectedError, IterationLimit, LoopInterrupted
            With the results of the completed iterations in ``.partial``.
        """
        try:
            with np.errstate(all="ignore"):
                self.iterate(session, until)
        except PartialResults as error:
            self._ended_early(error, session.progress)
            raise
        except KeyboardInterrupt as error:
            interrupted = LoopInterrupted("interrupted")
            self._ended_early(interrupted, session.progress)
            raise interrupted from error

    def conclude(self, session: Session) -> tuple[Any, ...]:
        """What the iterations so far give: carried, last, then collected values."""
        results, given = list(session.progress.results()), session.given
        if session.progress.iteration == 0 and self.loop.collected:
            empty = empty_collected(self.loop, given.carried, given.captured, given.scanned, given.invariant)
            results[len(results) - len(empty) :] = empty
        return tuple(results)

    def iterate(self, session: Session, until: int | None) -> None:
        """Run iterations, one node after the other."""
        program, env, progress = self.program, session.env, session.progress
        guard = session.run.options.max_iterations
        while session.goes_on() and (until is None or progress.iteration < until):
            if guard is not None and progress.iteration >= guard:
                raise IterationLimit(f"the loop would go on; options(max_iterations={guard}) stops it here")
            for slot, value in zip(self.carried_in, progress.carried, strict=True):
                env[slot] = value
            for slot, part in zip(self.scanned, session.parts, strict=True):
                env[slot] = part(progress.iteration)
            env[self.index], env[self.condition] = self.number(progress.iteration), session.condition
            program.run(env)
            if self.keep_going:
                self._decide(session, env[self.keep_going])
            self._store(env, progress)
            program.go_on(env)

    def _decide(self, session: Session, condition: Any) -> None:
        """Take over the condition that the body gave."""
        try:
            stays = truth(condition, f"the body's condition {self.loop.keep_going!r}")
        except KindError as error:
            raise IterationError(str(error)) from error
        session.condition = condition
        if session.obeyed:
            session.going = stays
        elif not stays:
            self.warn_ignored(session, session.progress.iteration)

    def warn_ignored(self, session: Session, iteration: int) -> None:
        """Say once in a run that the body's condition was false and did not count."""
        session.run.warn_once(id(self.loop.body), _IGNORED.format(self._place(iteration)))

    def _store(self, env: list[Any], progress: Progress) -> None:
        """Take over what an iteration produced, all at once: nothing of one that failed is kept."""
        values = [env[slot] for slot in self.collected]
        for gathering, value in zip(progress.gatherings, values, strict=True):
            gathering.check(value)
        for gathering, value in zip(progress.gatherings, values, strict=True):
            gathering.add(value)
        progress.carried = [env[slot] for slot in self.carried_out]
        progress.last = [env[slot] for slot in self.last]
        progress.iteration += 1

    def _ended_early(self, error: PartialResults, progress: Progress) -> None:
        """Tell an error where it happened and what had been computed."""
        error.within(self._place(progress.iteration))
        error.iteration = progress.iteration
        try:
            error.partial = progress.results()
        except MemoryError:  # rather the carried values alone than nothing
            error.partial = (*progress.carried, *progress.last, *(None for _ in progress.gatherings))

    def _place(self, iteration: int) -> str:
        return f"iteration {iteration} of {self.loop.name or self.loop.body.name}"


_IGNORED = (
    "{}: the body's condition turned false, but the loop's own condition was omitted, so the ONNX text "
    "goes on; options(obey_body_condition=True) stops there, as onnxruntime does"
)


def numbering(shape: tuple[Any, ...] | None) -> Callable[[int], Any]:
    """How the iteration number is handed to the body: int64, of the rank the body declares."""
    if not shape:
        return np.int64
    rank = len(shape)
    return lambda i: np.full((1,) * rank, i, np.int64)


def truth(value: Any, what: str) -> bool:
    """A condition as a Python bool.

    Raises
    ------
    KindError
        It is not one boolean (an integer 0 or 1 passes for one).
    """
    if type(value) is np.bool_ or type(value) is bool:
        return bool(value)
    array = np.asarray(value)
    if array.size != 1 or not (array.dtype == bool or (array.dtype.kind in "iu" and array.item() in (0, 1))):
        raise KindError(f"{what} must be one boolean, a scalar or of shape [1]; got {describe_value(array)}")
    return bool(array.item())


def part_of(scanned: Scanned, array: np.ndarray) -> Callable[[int], Any]:
    """The function that gives iteration ``i`` its part of a scanned input."""
    moved = np.moveaxis(array, scanned.axis, 0)
    if scanned.part is None:
        rows = moved[scanned.start :: scanned.stride][:: -1 if scanned.reverse else 1]
        if rows.dtype == object:
            return lambda i: rows[i : i + 1].reshape(rows.shape[1:])
        return lambda i: rows[i]
    starts, size = part_starts(scanned, moved.shape[0]), scanned.part
    return lambda i: np.moveaxis(moved[starts[i] : starts[i] + size], 0, scanned.axis)


def part_starts(scanned: Scanned, length: int) -> Sequence[int]:
    """Where each part of a scanned input begins."""
    part = scanned.part or 1
    starts = range(scanned.start, length - part + 1, scanned.stride)
    return starts[::-1] if scanned.reverse else starts


class InterpretedBody:
    """A graph without a loop: a model's main graph, or a branch of an If."""

    def __init__(self, body: Body) -> None:
        self.program = Program(body)

    def __call__(self, inputs: Sequence[Any], captured: Sequence[Any], run: Run) -> tuple[Any, ...]:
        """Run every node once; returns the body's outputs."""
        if not self.program.is_current():
            self.program = Program(self.program.body)
        env = self.program.environment(captured, run)
        for slot, value in zip(self.program.inputs, inputs, strict=True):
            env[slot] = value
        self.program.run(env)
        return tuple(env[slot] for slot in self.program.outputs)
