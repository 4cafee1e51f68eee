"""The vectorising executor: a plan, run in blocks of iterations that are committed completely or not at all.

The first iteration is interpreted, and so are short loops and whatever a block cannot do: a block that fails
changes nothing, the random stream is put back, and the interpreter runs the same iterations and finds out what
is wrong, if anything is.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mdf_loop.backends.python.printer import LEAST
from mdf_loop.errors import IterationError, PartialResults, is_from_outside, let_through
from mdf_loop.execute.block import Batch
from mdf_loop.execute.blocks import AHEAD, FIRST, Blocks, Stage, first_length, next_length
from mdf_loop.execute.calls import Calls
from mdf_loop.execute.collect import NUMBERS, is_number
from mdf_loop.execute.interpret import Arguments, InterpretedLoop, Moment, Progress, Session
from mdf_loop.execute.iteration_columns import parts_of
from mdf_loop.execute.programs import Programs, program_values
from mdf_loop.execute.specialised import Specialised
from mdf_loop.execute.tiers import first_iterations
from mdf_loop.execute.tiers.first_iterations import ENDLESS, room_of
from mdf_loop.execute.tiers.kept_programs import KeptPrograms
from mdf_loop.execute.tiers.paying import INTERPRETED, account_of, lasting
from mdf_loop.execute.warnings import Compared, EndedLoop, refuse_arrays, warn_of, warn_of_shapes_before
from mdf_loop.ir import Loop, Node
from mdf_loop.ops.registry import facts
from mdf_loop.ops.rows import FEW_STEPS
from mdf_loop.options import Options, Run
from mdf_loop.plan.schedule import Batched, Plan, Stepped, all_stepped, is_light, make_plan
from mdf_loop.step.lower import lower_loop
from mdf_loop.step.records import Region, Type
from mdf_loop.system.threads import holding

STEPS_OF_BATCHED, STEPS_OF_NUMBERS, OPEN_STEPS, MANY_STEPS = 576, 1024, 1 << 12, 1 << 14
"""Iterations that are run one by one, together with the nodes that would be batched; where all values are numbers; where the end
is computed, and few would be batched; and where none would be."""

SMALLEST, STEPPED = 32, 1 << 12
"""Iterations of a block that is given up rather than made smaller, and of the first one where each looks at the condition."""

WIDE = 4096
"""Bytes of a value from which on one call of numpy for each iteration costs little beside the work."""

PLAIN = (int, float, np.ndarray, np.generic)
"""What hidden values are of which a program may take care."""

log = logging.getLogger(__name__)

_watching: contextvars.ContextVar[list[NumpyLoop] | None] = contextvars.ContextVar("mdf_loop_watching", default=None)


@contextlib.contextmanager
def watched_loops() -> Iterator[list[NumpyLoop]]:
    """The loops that run inside a ``with`` block, each once, in the order in which they first ran."""
    with holding(_watching, found := list[NumpyLoop]()):
        yield found


class NumpyLoop(InterpretedLoop):
    """A loop that is planned when it is first run for more than a few iterations."""

    def __init__(self, loop: Loop, unseen: int | None = None) -> None:
        self._make_ready(loop, unseen)

    def _make_ready(self, loop: Loop, unseen: int | None) -> None:
        """Look kernels up, now or again; the plan follows when it is needed."""
        super().__init__(loop, unseen)
        for name in ("_worth_of_numbers", "plan", "worth_stepping"):
            self.__dict__.pop(name, None)
        self.calls, self.compared = Calls(self.program), Compared(loop)
        self._blocks: Blocks | None = None
        self._one_by_one: Blocks | None = None
        self._programs: dict[tuple[bool, ...], Programs] = {}
        self.account, self._draws = account_of(loop.body), self.program.draws
        self.latest: Blocks | None = None
        self.last_length, self.last_failure, self.lasted = 0, "", 0
        self.ends: Sequence[Any] = ()  # of hidden values in the last program
        self.last_program: Specialised | None = None

    def begin(self, given: Arguments, run: Run) -> Session:
        """A new execution, before its first iteration."""
        if not self.program.is_current():
            self._make_ready(self.loop, self.unseen)
        self._show()
        return super().begin(given, run)

    def _show(self) -> None:
        """Add it to the loops that are watched."""
        watching = _watching.get()
        if watching is not None and self not in watching:
            watching.append(self)

    @property
    def blocks(self) -> Blocks:
        """The plan, ready to run."""
        if self._blocks is None:
            self.calls.share(self.plan.loop.body.nodes)
            self._blocks = Blocks(self.calls, self.plan)
        return self._blocks

    @functools.cached_property
    def worth_stepping(self) -> int:
        """Iterations up to which running them one by one is no slower than planned blocks."""
        if self.plan.refusal:
            return 0
        batched = [unit for part in self.plan.parts if isinstance(part, Batched) for unit in part.units]
        if not batched:
            return MANY_STEPS
        if self.plan.condition != "given" and self.plan.is_mostly_stepped:
            return OPEN_STEPS
        if any(not isinstance(unit, Node) or facts(unit).multiplies_matrices for unit in batched):
            return FEW_STEPS  # one call for all of them gains most there
        return max(FEW_STEPS, STEPS_OF_BATCHED // len(batched))

    @functools.cached_property
    def _worth_of_numbers(self) -> int:
        """The same where all values are numbers: they cost a program little, where blocks have to be begun."""
        if not 0 < self.worth_stepping < STEPS_OF_NUMBERS or self.loop.scanned:
            return self.worth_stepping
        return MANY_STEPS if self.plan.is_mostly_stepped else STEPS_OF_NUMBERS

    def worth_stepping_of(self, count: int) -> int:
        """The same for a run of so many iterations: few of them are run one by one however the loop is planned."""
        return count if count <= FEW_STEPS else self.worth_stepping

    @property
    def is_written(self) -> bool:
        """Whether it has programs of its own, or its last run had more iterations than it is worth to run one by one."""
        return self.last_program is not None or self._is_good_in_blocks or self.lasted > self.worth_stepping_of(self.lasted)

    @property
    def _is_good_in_blocks(self) -> bool:
        """Whether it has run in blocks that are as good as one program: short loops and nested ones are better as such."""
        return self.latest is not None and self.lasted > FEW_STEPS and not self.program.loops

    def _programs_for(self, given: Arguments, is_compiled: bool) -> Programs:
        """Programs for loops with or without a trip count and a condition that is obeyed, for few iterations or many."""
        is_long = given.trip_count is None or given.trip_count > FEW_STEPS or is_compiled
        form = given.trip_count is not None, given.go is not None, is_long
        if form not in self._programs:

            def lower(types: Sequence[Type], obey: bool, opens: bool, is_many: bool) -> Region:
                loop = self.loop.with_state_carried()
                return lower_loop(loop, types, form[0], form[1] or obey, obey, self.calls.bound, is_long)

            least = 0 if is_long else LEAST  # room made once is worth it from some iterations on
            self._programs[form] = Programs(lower, self._draws, False, self.calls.exact, KeptPrograms(self.loop, form), least)
        return self._programs[form]

    def results(self, given: Arguments, run: Run) -> list[Any]:
        """Run the loop: by a program if it is short, else in blocks."""
        drawn = run.stream.save() if self._draws else None
        refuse_arrays(self, given, run)
        try:
            results = self.account.timed(run.options, self._results, given, run)
        except PartialResults as error:
            warn_of_shapes_before(error, self, given, run, drawn)
            raise
        warn_of(EndedLoop(self, results, given, run, drawn, self.lasted), self.compared)
        return results

    def _results(self, given: Arguments, run: Run) -> list[Any]:
        hidden = self._hidden(given)
        is_compiled = self._is_on_disk(given, hidden, run) or self.account.pays(run.options)
        if not self._is_for_a_program(given, hidden, run, is_compiled):
            return super().results(given, run)
        if not self.program.is_current():
            self._make_ready(self.loop, self.unseen)
        drawn = run.stream.save()
        try:
            found = self._by_program(given, hidden, run, is_compiled)
        except MemoryError:
            run.stream.restore(drawn)
            found = None
        except BaseException as error:
            if isinstance(error, PartialResults) or not is_from_outside(error):
                raise
            run.stream.restore(drawn)
            self.begin(given, run)  # whose first moment is what the run keeps
            raise
        return super().results(given, run) if found is None else found

    def _by_program(self, given: Arguments, hidden: Sequence[Any], run: Run, is_compiled: bool) -> list[Any] | None:
        """The results that a program gives, if there is one; machine code that is there needs nothing around it."""
        values, programs = program_values(given, hidden), self._programs_for(given, is_compiled)
        found = programs.at_once(values, run) if is_compiled else None
        if found is None:
            with np.errstate(all="ignore"):
                found = programs.run(values, run, lambda: True, is_compiled, lambda: self._is_short_work(given, is_compiled))
        if found is None:
            return None
        *results, done = found
        self.ends = ends = results[len(given.carried) : len(given.carried) + len(hidden)]
        del results[len(given.carried) : len(given.carried) + len(hidden)]
        self._show()
        self.lasted = self.last_length = int(done)
        self.last_program = programs.latest
        moment = Moment(self.lasted, (), ends, (), None, self.loop.keep_going is None, run.stream.save())
        run.enter(Progress(self, [], run.stream, moment, run.finish, is_over=True, ended=results))
        self.refuse_undeclared(results)
        return results

    def _is_on_disk(self, given: Arguments, hidden: Sequence[Any], run: Run) -> bool:
        """Whether machine code was on disk when the loop was first run by itself."""
        account, options = self.account, run.options
        if account.was_on_disk is None and account.looks_on_disk(options) and self._is_for_a_program(given, hidden, run, True):
            account.was_on_disk = self._programs_for(given, True).is_kept(program_values(given, hidden), options)
        return bool(account.was_on_disk) and options.how.compiles_what_pays

    def conclude(self, session: Session) -> list[Any]:
        """The results of an execution that is over."""
        if session.results is not None:
            return session.results
        self.lasted = session.moment.iteration
        return super().conclude(session)

    def _hidden(self, given: Arguments) -> Sequence[Any]:
        """What hidden values begin with."""
        return [state.initial for state in self.loop.body.state] if given.hidden is None else given.hidden

    def machine_code(self, given: Arguments, options: Options) -> Specialised | None:
        """What engine ``jit`` runs for such values, called with :func:`program_values`; None if there is none."""
        if not self.program.is_current():
            self._make_ready(self.loop, self.unseen)
        if given.go is False or given.invariant or self.unseen is not None or self.loop.body.state:
            return None
        return self._programs_for(given, True).machine_code(program_values(given), options)

    def _is_for_a_program(self, given: Arguments, hidden: Sequence[Any], run: Run, is_compiled: bool, pays: bool = False) -> bool:
        """Whether it is a short loop that is not watched, bounded or stopped, where a program ``pays``."""
        options, count = run.options, given.trip_count
        if not options.how.plans or options.max_iterations is not None or not self.account.is_unseen(run, given):
            return False
        if given.go is False or given.invariant or self.unseen is not None:
            return False
        if hidden and not all(isinstance(value, PLAIN) for value in hidden):
            return False
        if is_compiled:
            return count is None or count > 0
        if options.how.interprets_first_calls and not pays:
            known = count if count is not None and count < ENDLESS else self.lasted
            if self._is_good_in_blocks or not self.account.pays_writing(options, INTERPRETED * self.account.nodes * known):
                return False
        return _watching.get() is None and self._is_short_work(given)

    def _is_short_work(self, given: Arguments, is_compiled: bool = False) -> bool:
        """Whether running iterations one by one is no slower than planned blocks, the parts of which may be machine code."""
        count = given.trip_count
        if is_compiled and count is not None and count > FEW_STEPS:
            return False
        if count is None and self.loop.scanned:
            return False
        if self.lasted and self.plan.condition != "given":
            count = min(self.lasted, count or self.lasted)
        count = MANY_STEPS if count is None else count
        if 0 < count <= self.worth_stepping:
            return True
        return 0 < count <= self._worth_of_numbers and all(map(is_number, (*given.carried, *given.captured)))

    @property
    def why_not_compiled(self) -> str:
        """Why it is not machine code, if that was asked for last."""
        parts = self._one_by_one.stepped.values() if self._one_by_one is not None else ()
        return next((one.why for one in (*self._programs.values(), *parts) if one.why), "")

    @functools.cached_property
    def plan(self) -> Plan:
        """How the loop is run."""
        plan = make_plan(self.loop)
        log.info("planned %s over %s: %s", self.loop.name or "a loop", self.loop.body.name, plan.summary())
        return plan

    def iterate(self, session: Session, until: int | None) -> None:
        """Run iterations: the first one interpreted, then blocks."""
        is_short = first_iterations.is_short(session, until, len(self.program.steps))
        if is_short or not session.run.options.how.plans or not self.program.is_current():
            first_iterations.with_parts(super().iterate, self.program.loops, session, until)
            return
        begun, first = time.perf_counter(), session.moment
        if first.iteration == 0:
            first_iterations.settle(super().iterate, session, self.calls.type, until)
        if self.latest is None:
            room, loops = functools.partial(room_of, session, until), self.program.loops
            first_iterations.interpret_what_is_cheap(super().iterate, session, room, self.account, loops)
            if until is None and first.iteration == 0 and self._ended_by_program(session, first.drawn):
                return
        if room_of(session, until) <= 0:
            super().iterate(session, until)  # says so if the loop would go on beyond its limit
            return
        if self.plan.refusal or (self.plan.condition != "given" and not session.obeyed):
            super().iterate(session, until)
            return
        done = session.moment.iteration - first.iteration
        self._run_blocks(session, until, (time.perf_counter() - begun) / done if done else AHEAD)

    def _ended_by_program(self, session: Session, drawn: Any) -> bool:
        """Whether a program ran it once more, from the first iteration to the last, where that takes less time than blocks."""
        given, run, hidden = session.given, session.run, self._hidden(session.given)
        if room_of(session, None) <= 0 or not run.options.how.interprets_first_calls:
            return False
        self.lasted = self.lasted or session.moment.iteration  # as far as is known
        if not self._is_for_a_program(given, hidden, run, False, pays=True):
            return False
        if not first_iterations.ended_by(functools.partial(self._by_program, given, hidden, run, False), session, drawn):
            return False
        going = given.trip_count is not None and self.lasted >= given.trip_count
        session.progress.moment = session.moment._replace(iteration=self.lasted, hidden=self.ends, going=going)
        return True

    def _run_blocks(self, session: Session, until: int | None, pace: float) -> None:
        """Run blocks of iterations; ``pace`` is how many seconds one took that was interpreted."""
        if session.stage is None and session.goes_on():
            session.stage = self._stage(session)
            if session.stage is not None:
                pace = min(pace, self.account.expected(session.run, session.given))
                session.stage.begins(pace, room_of(session, until), is_new=not self.account.seconds)
        stage: Stage = session.stage
        while (room := room_of(session, until)) > 0:
            if stage is None or stage.failures > 6:
                super().iterate(session, until)
                return
            length = min(room, stage.length)
            session.run.pause()
            self._see_whether_it_pays(session, stage, room)
            length = stage.at_most(length, session.run)
            is_done = self._try_block(session, stage, length)
            if stage.is_compiled and (why := stage.blocks.why):
                stage.blocks, stage.is_compiled, stage.may_compile = stage.planned, False, False
                stage.blocks.say_why(why)
            if not is_done:
                stage.length = max(length // 8, SMALLEST)
                if length <= SMALLEST:
                    super().iterate(session, session.moment.iteration + length)
                    stage.failures += 1
        super().iterate(session, until)  # says so if the loop would go on beyond its limit

    def _see_whether_it_pays(self, session: Session, stage: Stage, room: int) -> None:
        """Go on in machine code if what is left would take longer otherwise."""
        if stage.is_compiled or not stage.may_compile:
            return
        how, left = session.run.options.how, 0.0
        if session.given.trip_count is not None and stage.is_paced and self.plan.condition == "given":
            left = stage.pace * room
        if not self.account.pays(session.run.options, time.perf_counter() - stage.begun + left):
            return
        blocks = self._stepping("it is compiled", is_wide=False)
        stage.is_waiting = not how.compiles and first_iterations.is_being_compiled(blocks, session, stage)
        is_patient = lasting(self.account.patience(left))
        while stage.is_waiting and is_patient():
            session.run.pause()
            stage.is_waiting = first_iterations.is_being_compiled(blocks, session, stage, AHEAD)
        if stage.is_waiting:
            return
        if why := first_iterations.refusal(blocks, session, stage):
            stage.may_compile = False
            stage.blocks.say_why(why)
        else:
            stage.blocks, stage.is_compiled = blocks, True

    def _stage(self, session: Session) -> Stage | None:
        """Hoist: what the first iteration computed and stays the same, and what stays the same from now on."""
        plan, env, slot = self.plan, session.env, self.program.slot
        names = [name for name in plan.same.always if name in self.program]
        same = {name: env[slot(name)] for name in names}
        same.update((name, self.blocks.now(session, name)) for name in plan.carried if name in plan.same.late)
        late = Batch(1, same, self.calls, session.run)
        try:
            with session.run.computing_ahead():
                for node in plan.late:
                    late.run_node(node)
        except Exception as error:
            let_through(error)
            log.debug("%s: what stays the same cannot be computed ahead (%s)", self.loop.name, error)
            return None
        slices = [parts_of(s, array) for s, array in zip(self.loop.scanned, session.given.scanned, strict=True)]
        values = [env[slot(name)] for node in plan.varying for name in node.outputs if name]
        size = sum(getattr(value, "nbytes", 8) for value in values)
        blocks = self._for_rows(values, size)
        if blocks is self._one_by_one:  # which stops where the loop ends, and if it only steps keeps what is collected alone
            if len(blocks.plan.parts) == 1:
                kept = [env[slot(name)] for part in blocks.stepped.values() for name in part.recorded]
                size = sum(getattr(value, "nbytes", 8) for value in kept)
            length = first_length(session, "given", size)
            length = length if blocks.plan.condition == "given" else min(length, STEPPED)
        else:
            is_stepped = bool(plan.parts) and isinstance(plan.parts[0], Stepped)
            length = first_length(session, plan.condition, size, STEPPED if is_stepped else FIRST)
        return Stage(blocks, {**same, **late.fixed}, slices, length)

    def _for_rows(self, values: list[Any], size: int) -> Blocks:
        """The plan for values such as these: many iterations at once, or all stepped if nothing is gained by that.

        Wide rows would only leave the processor's cache, and Python's numbers (MDF bodies) make no arrays.
        """
        is_wide = size > WIDE * len(values) and all(map(is_light, self.plan.varying))
        if not is_wide and 2 * sum(type(value) in NUMBERS for value in values) <= len(values):
            return self.blocks
        return self._stepping("its values are wide" if is_wide else "its values are Python's numbers", is_wide)

    def _stepping(self, why: str, is_wide: bool) -> Blocks:
        """The plan with everything in one stepped part."""
        if self._one_by_one is None:
            self._one_by_one = Blocks(self.calls, all_stepped(self.plan, why, is_wide))
        return self._one_by_one

    def _try_block(self, session: Session, stage: Stage, length: int) -> bool:
        """Run a block and take it over; False, and nothing happened, if it failed."""
        blocks, plan = stage.blocks, stage.blocks.plan
        saved = session.run.stream.save() if plan.draws else None
        begun, batch = time.perf_counter(), None
        try:
            with session.run.computing_ahead():
                batch, finals, going = stage.run(session, length, saved)
            blocks.commit(session, batch, finals, going)
        except (Exception, PartialResults) as error:
            let_through(error)
            if isinstance(error, MemoryError) and batch is not None and length <= SMALLEST:  # no room for what is collected
                raise IterationError("there is not enough memory for the next iterations") from error
            return self._given_up(session, length, error, saved)
        stage.failures, self.latest, self.last_length, self.last_program = 0, blocks, length, None
        each = max(sum(history.nbytes for history in batch.histories.values()) / batch.length, 1.0)
        most = max(int(session.run.options.block_bytes / each), 1)
        seconds = time.perf_counter() - begun
        stage.took(length, seconds)
        self.account.paced(stage.pace, session.given)
        following = next_length(session, plan, length, seconds)
        if plan.condition == "given":  # a block that was cut short for the sake of the clock does not hold up the next one
            following = max(following, stage.length)
        stage.length = max(min(following, most), 1)
        return True

    def _given_up(self, session: Session, length: int, error: BaseException, saved: Any) -> bool:
        """Put back what a block drew, forget what it may have collected, and say why it failed."""
        log.debug("%s: a block of %d iterations failed (%r)", self.loop.name, length, error)
        self.last_failure = f"{length} iterations were given back to the interpreter: {type(error).__name__} {error}".strip()
        if saved is not None:
            session.run.stream.restore(saved)
        for gathering in session.progress.gatherings:
            gathering.cut(session.moment.iteration)
        return False
