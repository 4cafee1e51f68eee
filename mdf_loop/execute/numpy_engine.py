"""The vectorising executor: a plan, run in blocks of iterations that are taken over whole or not at all.

The first iteration is interpreted, and so are short loops and whatever a block cannot do: a block that fails
changes nothing, the random stream is put back, and the interpreter runs the same iterations and finds out what
is wrong, if anything is.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdf_loop.analysis.idioms import Building, Idiom
from mdf_loop.errors import PartialResults
from mdf_loop.execute.block import Batch
from mdf_loop.execute.calls import Calls
from mdf_loop.execute.histories import History
from mdf_loop.execute.interpret import InterpretedLoop, Session
from mdf_loop.execute.recurrences import DoesNotFit, built, run_idiom
from mdf_loop.execute.slices import parts_of
from mdf_loop.execute.specialise import SteppedPart
from mdf_loop.ir import Loop, Node
from mdf_loop.plan import Batched, Plan, Shift, Stepped, make_plan

FEW = 3
"""Loops of so few iterations are interpreted: planning would take longer."""

SMALLEST, FIRST = 32, 64
"""Iterations of a block that is given up rather than tried in halves, and of the first block."""

log = logging.getLogger(__name__)


class TooLong(Exception):
    """The loop ends inside a block that drew random numbers for what follows; it must be run again, to its end alone."""


@dataclass
class Stage:
    """What a session's blocks share: values that are the same in all of them, and how large blocks may be."""

    same: dict[str, Any]
    length: int = FIRST
    failures: int = 0
    bytes_each: float = 0.0
    slices: list[Any] = field(default_factory=list)


class NumpyLoop(InterpretedLoop):
    """A loop that is planned when it is first run for more than a few iterations."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop)
        self._plan: Plan | None = None
        self.calls = Calls(self.program)
        self.stepped: dict[int, SteppedPart] = {}
        self.wanted: set[str] = set()
        self.last_length = 0

    @property
    def plan(self) -> Plan:
        """How the loop is run."""
        if self._plan is None:
            plan = make_plan(self.loop)
            self.wanted = wanted_histories(plan)
            for part in plan.parts:
                if isinstance(part, Stepped):
                    self.stepped[id(part)] = self._stepped(part, plan)
            self._plan = plan
        return self._plan

    def iterate(self, session: Session, until: int | None) -> None:
        """Run iterations: the first one interpreted, then blocks."""
        if session.run.options.engine == "interpret" or self._is_short(session, until):
            super().iterate(session, until)
            return
        if session.progress.iteration == 0:
            super().iterate(session, 1)
        if self.plan.refusal or (self.plan.condition != "given" and not session.obeyed):
            super().iterate(session, until)
            return
        self._run_blocks(session, until)

    @staticmethod
    def _is_short(session: Session, until: int | None) -> bool:
        ends = [end for end in (until, session.given.trip_count) if end is not None]
        return bool(ends) and min(ends) - session.progress.iteration <= FEW

    def _run_blocks(self, session: Session, until: int | None) -> None:
        if session.stage is None and session.goes_on():
            session.stage = self._stage(session)
        stage: Stage = session.stage
        while (room := self._room(session, until)) > 0:
            if stage is None or stage.failures > 6:
                super().iterate(session, until)
                return
            length = min(room, stage.length)
            if not self._try_block(session, stage, length):
                stage.length = max(length // 8, SMALLEST)
                if length <= SMALLEST:
                    super().iterate(session, session.progress.iteration + length)
                    stage.failures += 1
        super().iterate(session, until)  # says so if the loop would go on beyond its limit

    def _room(self, session: Session, until: int | None) -> int:
        """How many iterations there may be from here on."""
        if not session.goes_on():
            return 0
        ends = [end for end in (until, session.given.trip_count, session.run.options.max_iterations) if end is not None]
        return min(ends) - session.progress.iteration if ends else 1 << 30

    def _stage(self, session: Session) -> Stage | None:
        """Hoist: what the first iteration computed and stays the same, and what stays the same from now on."""
        plan, env, slot = self.plan, session.env, self.program.slot
        names = [name for name in plan.same.always if name in self.program]
        same = {name: env[slot(name)] for name in names}
        same.update((name, self._now(session, name)) for name in plan.rounds if name in plan.same.late)
        late = Batch(1, same, self.calls)
        try:
            for node in plan.late:
                late.run_node(node)
        except Exception as error:
            log.debug("%s: what stays the same cannot be computed ahead (%s)", self.loop.name, error)
            return None
        slices = [parts_of(s, array) for s, array in zip(self.loop.scanned, session.given.scanned, strict=True)]
        each = sum(getattr(env[slot(name)], "nbytes", 8) for node in plan.varying for name in node.outputs if name)
        return Stage({**same, **late.fixed}, slices=slices, length=self._first_length(session, each))

    def _first_length(self, session: Session, bytes_each: int) -> int:
        """Iterations of the first block; few, if the loop may end soon and an iteration is much work."""
        most = max(session.run.options.block_bytes // max(bytes_each, 1), 1)
        return min(FIRST, most, max(1 << 14, bytes_each) // max(bytes_each, 1) if self.plan.condition == "batched" else most)

    def _now(self, session: Session, name: str) -> Any:
        """A value that goes round, as the next iteration will get it."""
        if name == self.loop.condition:
            return session.condition
        for value, pair in zip(session.progress.carried, self.loop.carried, strict=True):
            if pair.input == name:
                return value
        return session.env[self.program.slot(name)]

    def _try_block(self, session: Session, stage: Stage, length: int) -> bool:
        """Run a block and take it over; False, and nothing happened, if it failed."""
        saved = session.run.stream.save() if self.plan.draws else None
        try:
            batch, finals, going = self._block(session, stage, length)
            if self.plan.draws and batch.length < length and self.plan.condition == "batched":
                session.run.stream.restore(saved)
                batch, finals, going = self._block(session, stage, batch.length)
            self._take_over(session, batch, finals, going)
        except (KeyboardInterrupt, MemoryError, RecursionError):
            raise
        except (Exception, PartialResults) as error:
            log.debug("%s: a block of %d iterations failed (%r)", self.loop.name, length, error)
            if saved is not None:
                session.run.stream.restore(saved)
            for part in self.stepped.values():
                part.forget()
            return False
        stage.failures, self.last_length = 0, length
        each = max(sum(history.nbytes for history in batch.histories.values()) / batch.length, 1.0)
        most = max(int(session.run.options.block_bytes / each), 1)
        growth = 2 if self.plan.condition == "batched" else 4
        stage.length = max(min(growth * length, most), 1)
        return True

    def emitted(self, part: Stepped) -> str:
        """The Python that was emitted last for a stepped part; empty if there is none yet."""
        latest = self.stepped[id(part)].latest
        return latest.source.text if latest is not None else ""

    # One block

    def _block(self, session: Session, stage: Stage, length: int) -> tuple[Batch, dict[str, Any], bool]:
        start, plan = session.progress.iteration, self.plan
        batch = self._inputs(session, stage, start, length)
        now = {name: self._now(session, name) for name in plan.rounds if name not in plan.same}
        finals: dict[str, Any] = {}
        going = True
        for part in plan.parts:
            if isinstance(part, Stepped):
                going = self._step(session, batch, part, now, finals) and going
            else:
                going = self._batched(session, batch, part, now, finals) and going
        return batch, finals, going

    def _inputs(self, session: Session, stage: Stage, start: int, length: int) -> Batch:
        index = np.arange(start, start + length)
        rank = len(self.loop.body.type_of(self.loop.index or "").shape or ())
        index = index.reshape(length, *(1,) * rank) if rank else index
        batch = Batch(length, stage.same, self.calls, index)
        if self.loop.index:
            batch.histories[self.loop.index] = History.of_array(index)
        for scanned, rows in zip(self.loop.scanned, stage.slices, strict=True):
            batch.histories[scanned.input] = rows(start, length)
        return batch

    def _batched(self, session: Session, batch: Batch, part: Batched, now: dict[str, Any], finals: dict[str, Any]) -> bool:
        for unit in part.units:
            if isinstance(unit, Node):
                batch.run_node(unit)
            elif isinstance(unit, Shift):
                self._shift(batch, unit.name, now)
            else:
                self._idiom(session, batch, unit, now, finals)
        return self._stop(session, batch)

    def _shift(self, batch: Batch, name: str, now: dict[str, Any]) -> None:
        """A value fed from outside its own recurrence: what it was fed one iteration before."""
        batch.histories[name] = batch.history(self.plan.rounds[name]).shifted(now[name])

    def _idiom(self, session: Session, batch: Batch, idiom: Idiom, now: dict[str, Any], finals: dict[str, Any]) -> None:
        needs_history = isinstance(idiom, Building) and {idiom.name, idiom.output} & self.wanted
        try:
            if needs_history:
                raise DoesNotFit
            run_idiom(idiom, batch, now[idiom.name])
            if isinstance(idiom, Building):
                finals[idiom.name] = lambda: built(idiom, batch, now[idiom.name])
        except DoesNotFit:
            key = id(idiom)
            if key not in self.stepped:
                self.stepped[key] = self._stepped(Stepped(idiom.nodes, (idiom.name,)), self.plan, all_wanted=True)
            self._run_stepped(session, batch, self.stepped[key], now, finals)

    def _step(self, session: Session, batch: Batch, part: Stepped, now: dict[str, Any], finals: dict[str, Any]) -> bool:
        return self._run_stepped(session, batch, self.stepped[id(part)], now, finals)

    def _run_stepped(
        self, session: Session, batch: Batch, stepped: SteppedPart, now: dict[str, Any], finals: dict[str, Any]
    ) -> bool:
        streams = {name: batch.history(name) for name in stepped.streams}
        slot, env = self.program.slot, session.env
        same = {name: batch.single(name) for name in stepped.once}
        stretch = stepped.run(batch.length, session.run, same, streams, now, lambda name: env[slot(name)])
        batch.head(stretch.done)
        batch.histories.update(stretch.histories)
        finals.update(stretch.finals)
        for name in stepped.rounds:
            if name in self.wanted and name not in batch.histories:
                self._shift(batch, name, now)
        return stretch.going

    def _stop(self, session: Session, batch: Batch) -> bool:
        """End the block behind the first iteration whose condition is false."""
        name = self.plan.deciding
        if self.plan.condition != "batched" or not batch.is_stacked(name) or not session.obeyed:
            return True
        stays = batch.histories[name].stacked().reshape(batch.length, -1)
        if stays.shape[1] != 1 or stays.dtype != np.bool_:
            raise DoesNotFit
        first = int(stays[:, 0].argmin())
        if stays[first, 0]:
            return True
        batch.head(first + 1)
        return False

    # Taking over

    def _take_over(self, session: Session, batch: Batch, finals: dict[str, Any], going: bool) -> None:
        """Everything that can fail first; then the results of the block are the session's."""
        progress, loop, rounds = session.progress, self.loop, self.plan.rounds
        gathered = [self._gathered(batch, name) for name in (c.output for c in loop.collected)]
        for gathering, value in zip(progress.gatherings, gathered, strict=True):
            gathering.check_block(value, batch.length)

        def final(name: str, output: str) -> Any:
            value = finals[name] if name in finals else self._last(batch, output)
            return value() if callable(value) else value

        carried = [final(c.input, rounds.get(c.input, c.output)) for c in loop.carried]
        hidden = [final(s.input, rounds.get(s.input, s.output)) for s in loop.body.state]
        last = [self._last(batch, name) for name in loop.last]
        condition = session.condition
        if self.plan.deciding:
            condition = final(self.plan.deciding, self.plan.deciding)
        for gathering, value in zip(progress.gatherings, gathered, strict=True):
            gathering.add_block(value, batch.length)
        for slot, value in zip(self.program.state_in, hidden, strict=True):
            session.env[slot] = value
        progress.carried, progress.last, session.condition = carried, last, condition
        progress.iteration += batch.length
        if session.obeyed and not going:
            session.going = False

    def _gathered(self, batch: Batch, name: str) -> History | Any:
        return batch.histories[name] if name in batch.histories else batch.single(name)

    @staticmethod
    def _last(batch: Batch, name: str) -> Any:
        return batch.histories[name].last() if name in batch.histories else batch.single(name)

    def _stepped(self, part: Stepped, plan: Plan, all_wanted: bool = False) -> SteppedPart:
        wanted = self.wanted | {plan.rounds[name] for name in part.rounds} if all_wanted else self.wanted
        return SteppedPart(part, self.loop.body, self.calls, plan.rounds, plan.same, plan.deciding, wanted)


def wanted_histories(plan: Plan) -> set[str]:
    """Values of which more than the last iteration's is needed outside the part that computes them."""
    loop = plan.loop
    wanted = {c.output for c in loop.collected} | set(loop.last)
    if plan.condition == "batched":
        wanted.add(plan.deciding)
    units = [unit for part in plan.parts if isinstance(part, Batched) for unit in part.units]
    known_at_end = {name for part in plan.parts if isinstance(part, Stepped) for name in part.rounds}
    known_at_end |= {unit.name for unit in units if isinstance(unit, Idiom)}
    wanted |= {plan.rounds[name] for name in loop.goes_round if name not in known_at_end}
    wanted |= {plan.rounds[unit.name] for unit in units if isinstance(unit, Shift)}
    for part in plan.parts:
        if isinstance(part, Batched):
            for unit in part.units:
                wanted |= set(unit.reads) if isinstance(unit, Node) else {unit.value} if isinstance(unit, Idiom) else set()
        else:
            written = {name for node in part.nodes for name in node.outputs if name}
            reads = {name for node in part.nodes for name in node.reads} | {plan.rounds[name] for name in part.rounds}
            wanted |= reads - written - set(part.rounds)
    todo = list(wanted & set(plan.rounds))
    while todo:
        output = plan.rounds[todo.pop()]
        if output in plan.rounds and output not in wanted:
            todo.append(output)
        wanted.add(output)
    return wanted
