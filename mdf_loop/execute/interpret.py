"""The interpreter: loops and branches node by node, exactly as the ONNX standard says.

This is the living definition.  Every faster engine is tested against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mdf_loop.errors import KindError, LoopInterrupted, MalformedBody, PartialResults
from mdf_loop.execute.collect import Gathered, Gathering, Types, gathering_of, named_for_people
from mdf_loop.execute.partial_results import limit_reached
from mdf_loop.execute.program import RUN, Program, no_boolean, refused_condition
from mdf_loop.ir import Body, Loop, Scanned
from mdf_loop.options import Options, Run
from mdf_loop.plan.empty import empty_collected
from mdf_loop.settings.random_streams import RandomStream
from mdf_loop.types.elements import read_only
from mdf_loop.types.fitting import other_kind

T = TypeVar("T")


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
    hidden : sequence or None
        What hidden values (``body.state``) begin with; None for what the record says.
    before : int
        How many iterations were run elsewhere, which ``options(max_iterations=)`` counts as well.
    """

    trip_count: int | None
    go: bool | None = True
    carried: Sequence[Any] = ()
    scanned: Sequence[Any] = ()
    invariant: Sequence[Any] = ()
    captured: Sequence[Any] = ()
    hidden: Sequence[Any] | None = None
    before: int = 0


class Moment(NamedTuple):
    """Where a loop stands after so many iterations.

    An iteration, or a block of them, is committed by putting a new moment in the place of the one before, in a single
    assignment.  So whatever strikes, and wherever - Ctrl-C may do so between any two instructions - there is the old
    moment or the new one, never parts of both.  Of what was collected the first ``iteration`` values count.

    Attributes
    ----------
    iteration : int
        How many iterations are complete.
    carried, hidden, last : sequence
        Carried values and hidden ones (``body.state``), as the next iteration gets them; last values.
    condition : value
        The condition that the body will be handed.
    going : bool
        What the condition says.
    drawn : object
        How far the random stream has come.
    """

    iteration: int
    carried: Sequence[Any]
    hidden: Sequence[Any]
    last: Sequence[Any]
    condition: Any
    going: bool
    drawn: Any


@dataclass
class Progress:
    """How far a loop has come, and what makes results of that: all that is needed when the loop ends early.

    Attributes
    ----------
    owner : InterpretedLoop
        The loop.
    gatherings : list of Gathering
        What was collected; there may be more than the moment says.
    stream : RandomStream
        What the body draws from.
    finish : callable
        Makes what leaves of partial results.
    total : int or None
        How many iterations there will be at most.
    is_over : bool
        Whether another loop of the run may be the outermost one from now on.
    """

    owner: InterpretedLoop
    gatherings: list[Gathering]
    stream: RandomStream
    moment: Moment
    finish: Callable[[list[Any]], Sequence[Any]]
    is_over: bool = False
    total: int | None = None
    ended: list[Any] | None = None

    def results(self) -> list[Any]:
        """Carried values, last values, then collected ones (None where there was no iteration)."""
        return self._put_together(lambda gathering, iterations: gathering.array(iterations))

    def end(self, results: list[Any]) -> None:
        """The loop gives its results: there is no need for what they were made of, whose memory may be theirs."""
        self.ended = results
        self.gatherings, self.is_over = [], True
        self.moment = self.moment._replace(carried=(), last=())

    def partial(self) -> tuple[Any, ...]:
        """What leaves if the loop ends early: None where there is no memory for what was collected, and nothing unseen."""
        found = self.ended
        if found is None:
            found = self._put_together(lambda gathering, iterations: gathering.kept(iterations))
        return tuple(self.finish([value for k, value in enumerate(found) if k != self.owner.unseen]))

    def _put_together(self, array: Callable[[Gathering, int], Any]) -> list[Any]:
        """What a Python body gathered is a carried value until now; its arrays are the last results."""
        moment = self.moment
        carried = [value for value in moment.carried if type(value) is not Gathered]
        gathered = [g for value in moment.carried if type(value) is Gathered for g in value if moment.iteration]
        return [*carried, *moment.last, *(array(g, moment.iteration) for g in (*self.gatherings, *gathered))]

    @property
    def name(self) -> str:
        """What messages call the loop."""
        return self.owner.loop.name or self.owner.loop.body.name

    def place(self) -> str:
        """The iteration that is under way, for messages."""
        return f"iteration {self.moment.iteration} of {self.name}"


@dataclass
class Session:
    """One execution of a loop: what it was given, where it stands, and the values of the iteration that ran last.

    ``obeyed`` says whether the body's condition may end the loop.  ``stage`` and ``results`` are the engine's own.
    """

    given: Arguments
    run: Run
    env: list[Any]
    progress: Progress
    parts: list[Callable[[int], Any]]
    obeyed: bool
    stage: Any = None
    results: list[Any] | None = None

    @property
    def moment(self) -> Moment:
        """Where it stands."""
        return self.progress.moment

    def goes_on(self) -> bool:
        """Whether there is another iteration to run."""
        count, moment = self.given.trip_count, self.progress.moment
        return moment.going and (count is None or moment.iteration < count)

    def end(self) -> None:
        """Run no further iteration."""
        self.progress.moment = self.progress.moment._replace(going=False)


class InterpretedLoop:
    """A loop ready to run, any number of times: at once by calling it, or in steps by ``begin``, ``advance`` and ``conclude``.

    ``unseen`` is the place of a result that the loop was given for its runner's sake: partial results leave it out.
    """

    def __init__(self, loop: Loop, unseen: int | None = None) -> None:
        self.loop, self.unseen, self.noticed = loop, unseen, dict[Any, Any]()
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
        self.gathered = named_for_people(loop)
        self._types = Types(loop)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its record; it is planned again when it is unpickled."""
        return type(self), (self.loop, self.unseen)

    def __call__(self, given: Arguments, run: Run) -> tuple[Any, ...]:
        """Run the loop; returns carried, last, then collected values.

        Raises
        ------
        IterationError, CollectedError, IterationLimit, LoopTimeout, LoopInterrupted
            They know how far the outermost loop had come; :func:`~mdf_loop.execute.partial_results.keeping` makes its results
            part of them.
        """
        return tuple(self.results(given, run))

    def results(self, given: Arguments, run: Run) -> list[Any]:
        """The same as a list, which the run keeps as the results of its outermost loop."""
        session = self.begin(given, run)
        self.advance(session)
        session.progress.end(results := self.conclude(session))
        return results

    def begin(self, given: Arguments, run: Run) -> Session:
        """A new execution, before its first iteration."""
        env = self.program.environment(given.captured, run)
        for slot, value in zip(self.invariant, given.invariant, strict=True):
            env[slot] = value
        hidden = [env[slot] for slot in self.program.state_in] if given.hidden is None else [*map(read_only, given.hidden)]
        condition: Any = np.ones((1,) * self.condition_rank, bool) if self.condition_rank else np.True_
        moment = Moment(0, given.carried, hidden, [None] * len(self.last), condition, given.go is not False, run.stream.save())
        gatherings = [gathering_of(*said) for said in self.gathered]
        progress = Progress(self, gatherings, run.stream, moment, run.finish, total=given.trip_count)
        parts = [part_of(s, array) for s, array in zip(self.loop.scanned, given.scanned, strict=True)]
        run.enter(progress)
        return Session(given, run, env, progress, parts, given.go is not None or run.options.obey_body_condition)

    def advance(self, session: Session, until: int | None = None) -> None:
        """Run iterations until so many are complete, or to the end; errors are those of a call."""
        try:
            if session.run.is_interrupted:
                raise KeyboardInterrupt
            with np.errstate(all="ignore"):
                self.iterate(session, until)
        except PartialResults as error:
            error.passes(session.progress)
            raise
        except KeyboardInterrupt as error:
            interrupted = LoopInterrupted("interrupted")
            interrupted.passes(session.progress)
            raise interrupted from error

    def conclude(self, session: Session) -> list[Any]:
        """What the iterations so far give: carried, last, then collected values."""
        results, given = session.progress.results(), session.given
        if session.moment.iteration == 0 and self.loop.collected:
            empty = empty_collected(self.loop, given.carried, given.captured, given.scanned, given.invariant, self._types)
            results[len(results) - len(empty) :] = empty
        self.refuse_undeclared(results)
        return results

    def refuse_undeclared(self, results: list[Any]) -> None:
        """See that what an MDF body gave is what its ports declare: nothing is known of its types before it has run.

        Raises
        ------
        MalformedBody
        """
        loop = self.loop
        if not loop.body.typed and loop.body.types:
            names = [*(c.output for c in loop.carried), *loop.last, *(c.output for c in loop.collected)]
            _refuse_undeclared(loop.body, names, results)

    def iterate(self, session: Session, until: int | None) -> None:
        """Run iterations, one node after the other."""
        program, env, run = self.program, session.env, session.run
        guard, deadline, watch = run.options.max_iterations, run.deadline, run.watch
        while session.goes_on() and (until is None or session.moment.iteration < until):
            moment = session.moment
            if guard is not None and moment.iteration + session.given.before >= guard:
                raise limit_reached(guard)
            if deadline is not None:
                deadline.check()
            for slot, value in zip(self.carried_in, moment.carried, strict=True):
                env[slot] = value
            for slot, value in zip(program.state_in, moment.hidden, strict=True):
                env[slot] = value
            for slot, part in zip(self.scanned, session.parts, strict=True):
                env[slot] = part(moment.iteration)
            env[self.index], env[self.condition] = self.number(moment.iteration), moment.condition
            program.run(env)
            self._commit(session, env)
            if watch is not None:  # counted here: a call in each iteration would be the larger part of what watching costs
                watch.countdown -= 1
                if watch.countdown <= 0:
                    watch.look()

    def _commit(self, session: Session, env: list[Any]) -> None:
        """Commit what an iteration produced, all at once: nothing of one that failed is kept."""
        progress, before = session.progress, session.moment
        condition, going = self._decided(session, env[self.keep_going]) if self.keep_going else (before.condition, before.going)
        values = [env[slot] for slot in self.collected]
        for gathering, value in zip(progress.gatherings, values, strict=True):
            gathering.check(value)
        for gathering, value in zip(progress.gatherings, values, strict=True):
            gathering.add(value)
        carried = [env[slot] for slot in self.carried_out]
        hidden = [env[slot] for slot in self.program.state_out]
        last = [env[slot] for slot in self.last]
        progress.moment = Moment(before.iteration + 1, carried, hidden, last, condition, going, progress.stream.save())

    def _decided(self, session: Session, condition: Any) -> tuple[Any, bool]:
        """The condition that the body gave, and whether the loop goes on."""
        try:
            said = "while" if self.loop.body.ends else f"the body's condition {self.loop.keep_going!r}"
            stays = truth(condition, said)
        except KindError as error:
            raise refused_condition(self.loop.body, self.loop.keep_going, error) from error
        if session.obeyed:
            return condition, stays
        if not stays:
            self.warn_ignored(session)
        return condition, session.moment.going

    def warn_ignored(self, session: Session) -> None:
        """Say once in a run that the body's condition was false and did not count."""
        session.run.warn_once(id(self.loop.body), _IGNORED.format(session.progress.place()))


_IGNORED = (
    "{}: the body's condition became false, but the loop goes on: its own condition is omitted, and then the ONNX "
    "standard ignores the body's. To stop there, give True as the condition: loop(30, True, ...), or cond: true in MDF. For "
    "files whose exporter wrote break in this way: options(obey_body_condition=True), on the command line --obey-body-condition"
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
        raise no_boolean(what, array)
    return bool(array.item())


def part_of(scanned: Scanned, array: np.ndarray) -> Callable[[int], Any]:
    """The function that gives iteration ``i`` its part of a scanned input."""
    if scanned.part is None:
        rows = np.moveaxis(array, scanned.axis, 0)[scanned.start :: scanned.stride][:: -1 if scanned.reverse else 1]
        if rows.dtype == object:
            return lambda i: rows[i : i + 1].reshape(rows.shape[1:])
        return lambda i: rows[i]
    axis, size = scanned.axis % array.ndim, scanned.part
    starts, before = part_starts(scanned, array.shape[axis]), (slice(None),) * axis
    return lambda i: array[(*before, slice(starts[i], starts[i] + size))]


def part_starts(scanned: Scanned, length: int) -> Sequence[int]:
    """Where each part of a scanned input begins."""
    part = scanned.part or 1
    starts = range(scanned.start, length - part + 1, scanned.stride)
    return starts[::-1] if scanned.reverse else starts


def _refuse_undeclared(body: Body, names: Sequence[str], values: Sequence[Any]) -> None:
    """See that what a body of MDF gave has the types that its ports declare."""
    if body.typed or not body.types:
        return
    for name, value in zip(names, values, strict=False):
        declared = body.type_of(name)
        if (dtype := other_kind(value, declared)) is not None:
            raise MalformedBody(f"{body.name}: output {name!r} is declared {declared.dtype}, but is computed as {dtype.name}")


class InterpretedBody:
    """A graph without a loop: a model's main graph, or a branch of an If."""

    def __init__(self, body: Body) -> None:
        self.body, self.program = body, Program(body)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its record."""
        return type(self), (self.body,)

    def __call__(self, inputs: Sequence[Any], captured: Sequence[Any], run: Run) -> tuple[Any, ...]:
        """Run every node once; returns the body's outputs."""
        return self.finish(self.begin(inputs, captured, run))

    def again(self, inputs: tuple[Any, ...], run: Run) -> tuple[Any, ...] | None:
        """The outputs, fit to leave, for inputs like those before, in a way that takes them as they come, if there is one."""
        return None

    def at_once(self, env: list[Any], run: Run) -> Sequence[Any] | None:
        """The outputs, where something is ready that gives them without a step in between; None where nothing is."""
        return None

    def timed(self, options: Options, call: Callable[[], T]) -> T:
        """What a call gives that runs it and copies results, which other ways would write where they stay."""
        return call()

    def begin(self, inputs: Sequence[Any], captured: Sequence[Any], run: Run) -> list[Any]:
        """The values before the first node."""
        if not self.program.is_current():
            self.program = Program(self.program.body)
        env = self.program.environment(captured, run)
        for slot, value in zip(self.program.inputs, inputs, strict=True):
            env[slot] = value
        return env

    def finish(self, env: list[Any]) -> tuple[Any, ...]:
        """Run every node once on such values; returns the body's outputs."""
        self.program.run(env)
        results = tuple(env[slot] for slot in self.program.outputs)
        _refuse_undeclared(self.body, self.body.outputs, results)
        return results

    def interrupt(self, env: list[Any]) -> None:
        """Run every node up to the first loop, which keeps its initial values as the results of what was interrupted."""
        env[RUN].is_interrupted = True
        InterpretedBody.finish(self, env)

    def known(self, env: list[Any], run: Run, partial: Sequence[Any] | None) -> dict[str, Any]:
        """The outputs as far as they are there after a run that ended early, by name.

        ``partial`` is what the outermost loop had computed; it takes the place of the outputs of that loop's node.
        """
        values = dict(zip(self.body.outputs, (env[slot] for slot in self.program.outputs), strict=True))
        for step in self.program.steps:
            if partial is not None and run.outermost is not None and any(run.outermost.owner is loop for loop in step.loops):
                values |= {name: value for name, value in zip(step.node.outputs, partial, strict=False) if name in values}
        return {name: value for name, value in values.items() if value is not None}
