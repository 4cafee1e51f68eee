"""The parts of a plan, run for a block of iterations; how the session commits what they give; and how long a block is."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mdf_loop.execute.block import Batch
from mdf_loop.execute.calls import Calls
from mdf_loop.execute.interpret import Moment, Session, truth
from mdf_loop.execute.iteration_columns import History
from mdf_loop.execute.specialised import Specialised
from mdf_loop.execute.stepped_part import Given, SteppedPart
from mdf_loop.execute.tiers.paying import WATCHED
from mdf_loop.ir import Node
from mdf_loop.options import Run
from mdf_loop.plan.idioms import DoesNotFit, Idiom
from mdf_loop.plan.schedule import Batched, Plan, Shift, Stepped
from mdf_loop.step.before_lowering import of_constants


class Blocks:
    """A plan made ready to run: its stepped parts know what they read and what is wanted of them."""

    def __init__(self, calls: Calls, plan: Plan) -> None:
        self.loop, self.calls, self.plan = plan.loop, calls, plan
        loop = self.loop
        self.wanted, self.ends = wanted_histories(plan), known_at_the_end(plan)
        self.collected = {what.output: k for k, what in reversed(list(enumerate(loop.collected)))}
        self.places = {carried.input: k for k, carried in enumerate(loop.carried)}
        self.hidden = {state.input: k for k, state in enumerate(loop.body.state)}
        self.body = replace(loop.body, constants=folded(plan.hoisted, loop.body.constants, calls))
        self.stepped = {id(part): self._stepped(part) for part in plan.parts if isinstance(part, Stepped)}

    def now(self, session: Session, name: str) -> Any:
        """A carried value, as the next iteration will get it."""
        if name == self.loop.condition:
            return session.moment.condition
        if name in self.places:
            return session.moment.carried[self.places[name]]
        return session.moment.hidden[self.hidden[name]]

    def run(self, session: Session, same: dict[str, Any], slices: list[Any], length: int) -> tuple[Batch, dict[str, Any], bool]:
        """Compute a block of iterations; nothing is committed yet."""
        plan = self.plan
        batch = self._inputs(session, same, slices, length)
        now = {name: self.now(session, name) for name in plan.carried if name not in plan.same}
        finals: dict[str, Any] = {}
        going = True
        for part in plan.parts:
            ran, has_ended = batch.length, not all(map(callable, finals.values()))
            if isinstance(part, Stepped):
                going = self._run_stepped(session, batch, self.stepped[id(part)], now, finals) and going
            else:
                going = self._batched(session, batch, part, now, finals) and going
                has_ended = not all(map(callable, finals.values()))
            batch.overran |= has_ended and batch.length < ran
        return batch, finals, going

    def following(self, session: Session, same: dict[str, Any], slices: list[Any]) -> Iterator[tuple[SteppedPart, Given]]:
        """The stepped parts, and what they would be given in the next iteration."""
        batch = self._inputs(session, same, slices, 1)
        now = {name: self.now(session, name) for name in self.plan.carried if name not in self.plan.same}
        for stepped in self.stepped.values():
            yield stepped, self._given(batch, stepped, now)

    @staticmethod
    def _given(batch: Batch, stepped: SteppedPart, now: dict[str, Any]) -> Given:
        """What a stepped part reads."""
        return [now[name] for name in stepped.carried], [*map(batch.history, stepped.streams)], [*map(batch.single, stepped.once)]

    def _inputs(self, session: Session, same: dict[str, Any], slices: list[Any], length: int) -> Batch:
        start = session.moment.iteration
        index = np.arange(start, start + length)
        rank = len(self.loop.body.type_of(self.loop.index or "").shape or ())
        index = index.reshape(length, *(1,) * rank) if rank else index
        batch = Batch(length, same, self.calls, session.run, index)
        if self.loop.index:
            batch.histories[self.loop.index] = History.of_index(index)
        for scanned, rows in zip(self.loop.scanned, slices, strict=True):
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
        batch.histories[name] = batch.history(self.plan.carried[name]).shifted(now[name], self.calls.exact)

    def _idiom(self, session: Session, batch: Batch, idiom: Idiom, now: dict[str, Any], finals: dict[str, Any]) -> None:
        try:
            if not idiom.keeps_history and {idiom.name, idiom.output} & self.wanted:
                raise DoesNotFit
            final = idiom.run(batch, now[idiom.name])
            if final is not None:
                finals[idiom.name] = final
        except DoesNotFit:
            key = id(idiom)
            if key not in self.stepped:
                self.stepped[key] = self._stepped(Stepped((idiom.node,), (idiom.name,)))
            self._run_stepped(session, batch, self.stepped[key], now, finals)

    def _run_stepped(
        self, session: Session, batch: Batch, stepped: SteppedPart, now: dict[str, Any], finals: dict[str, Any]
    ) -> bool:
        is_compiled = session.stage is not None and session.stage.is_compiled
        stretch = stepped.run(batch.length, session.run, self._given(batch, stepped, now), is_compiled)
        batch.head(stretch.done)
        batch.histories.update(stretch.histories)
        finals.update(stretch.finals)
        if stepped.condition:
            finals[""] = stretch.condition
        for name in stepped.carried:
            if name in self.wanted and name not in batch.histories:
                self._shift(batch, name, now)
        return stretch.going

    @property
    def why(self) -> str:
        """Why a part has no machine code, though it was asked for; empty if none was asked for, or it is there."""
        return next((part.why for part in self.stepped.values() if part.why), "")

    def say_why(self, why: str) -> None:
        """Let the parts tell why they are no machine code."""
        for part in self.stepped.values():
            part.why = why

    def _most(self, session: Session) -> int | None:
        return session.given.trip_count if self.plan.condition == "given" else None

    def _stop(self, session: Session, batch: Batch) -> bool:
        """End the block behind the first iteration whose condition is false."""
        plan, name = self.plan, self.plan.deciding
        if not session.obeyed:
            return True
        if plan.condition != "batched":
            for bound in plan.bounds:
                self._cut(batch, bound)
            return True
        if name in plan.same.late and not truth(batch.single(name), "the body's condition"):
            batch.head(1)
            return False
        return self._cut(batch, name)

    @staticmethod
    def _cut(batch: Batch, name: str) -> bool:
        """End a block behind the first iteration in which a value is false; whether there is none."""
        if not batch.is_stacked(name):
            if truth(batch.fixed.get(name, True), "the body's condition"):
                return True
            batch.head(1)
            return False
        stays = batch.histories[name].stacked().reshape(batch.length, -1)
        if stays.shape[1] != 1 or stays.dtype != np.bool_:
            raise DoesNotFit
        first = int(np.argmin(stays[:, 0]))
        if stays[first, 0]:
            return True
        batch.head(first + 1)
        return False

    # Committing

    def commit(self, session: Session, batch: Batch, finals: dict[str, Any], going: bool) -> None:
        """Everything that can fail first; then the results of the block are the session's, all at once."""
        progress, loop, fed, before = session.progress, self.loop, self.plan.carried, session.moment
        most = self._most(session)
        gathered = [self._gathered(batch, name) for name in (c.output for c in loop.collected)]
        for gathering, value in zip(progress.gatherings, gathered, strict=True):
            gathering.check_block(value, batch.length)

        def final(name: str, output: str) -> Any:
            value = finals[name] if name in finals else self._last(batch, output)
            return value() if callable(value) else value

        carried = [final(c.input, fed.get(c.input, c.output)) for c in loop.carried]
        hidden = [final(s.input, fed.get(s.input, s.output)) for s in loop.body.state]
        last = [final(self.ends[name], name) if name in self.ends else self._last(batch, name) for name in loop.last]
        condition = before.condition
        if self.plan.deciding:
            condition = finals[""] if "" in finals else self._last(batch, self.plan.deciding)
        for gathering, value in zip(progress.gatherings, gathered, strict=True):
            gathering.add_block(value, batch.length, most)
        count, going = before.iteration + batch.length, before.going and (going or not session.obeyed)
        progress.moment = Moment(count, carried, hidden, last, condition, going, progress.stream.save())

    def _gathered(self, batch: Batch, name: str) -> History | Any:
        return batch.histories[name] if name in batch.histories else batch.single(name)

    @staticmethod
    def _last(batch: Batch, name: str) -> Any:
        return batch.histories[name].last() if name in batch.histories else batch.single(name)

    def latest(self, part: Stepped) -> Specialised | None:
        """The program that ran last for a stepped part."""
        return self.stepped[id(part)].latest

    def _stepped(self, part: Stepped) -> SteppedPart:
        plan = self.plan
        return SteppedPart(part, self.body, self.calls, plan.carried, plan.same, plan.deciding, self.wanted)


def known_at_the_end(plan: Plan) -> dict[str, str]:
    """Values of the last iteration that a stepped part gives as carried values of the next, and under which name."""
    return {plan.carried[name]: name for part in plan.parts if isinstance(part, Stepped) for name in part.carried}


def wanted_histories(plan: Plan) -> set[str]:
    """Values of which more than the last iteration's is needed outside the part that computes them."""
    loop = plan.loop
    if plan.refusal:
        return set()
    wanted = {c.output for c in loop.collected} | (set(loop.last) - known_at_the_end(plan).keys())
    if plan.condition == "batched":
        wanted.add(plan.deciding)
    units = [unit for part in plan.parts if isinstance(part, Batched) for unit in part.units]
    known_at_end = {name for part in plan.parts if isinstance(part, Stepped) for name in part.carried}
    known_at_end |= {unit.name for unit in units if isinstance(unit, Idiom)}
    wanted |= {plan.carried[name] for name in loop.all_carried if name not in known_at_end}
    for unit in units:
        wanted |= {plan.carried[unit.name]} if isinstance(unit, Shift) else set(unit.reads)
    for part in plan.parts:
        if isinstance(part, Stepped):
            written = {name for node in part.nodes for name in node.outputs if name}
            reads = {name for node in part.nodes for name in node.reads} | {plan.carried[name] for name in part.carried}
            wanted |= reads - written - set(part.carried)
    todo = list(wanted & set(plan.carried))
    while todo:
        output = plan.carried[todo.pop()]
        if output in plan.carried and output not in wanted:
            todo.append(output)
        wanted.add(output)
    return wanted


LARGEST = 1 << 12
"""Elements up to which what an operator makes of constants is kept for programs."""


def folded(nodes: Sequence[Node], constants: Mapping[str, Any], calls: Calls) -> dict[str, Any]:
    """Constants, and what nodes make of them."""
    found = dict(constants)
    for node in nodes if not calls.exact else ():
        if all(name in found for name in node.reads):
            bound, entry, _ = calls(node)
            given = [found[name] if name else None for name in node.inputs]
            found.update(zip(node.outputs, of_constants(node, bound, entry, given, LARGEST) or (), strict=False))
    return found


FIRST = 64
"""Iterations of the first block of a loop that may end soon."""

AHEAD = 0.02
"""Seconds that a block may take, as far as one can tell from the one before, where the time of a run is limited."""

SHORT = 1 << 12
"""Iterations up to which it is not worth it to find out how long they will take."""

FEW_BYTES = 1 << 14
"""Bytes of a first block that may be computed in vain."""

LONG = 0.0005
"""Seconds of a block beside which starting one costs little."""

TELLING, TOLD = 1 << 15, 0.0005
"""Iterations, at most, of a block that tells how long others will take, and the least seconds of one if nothing has run before:
smaller ones come first, and in the first of all programs are written."""


@dataclass
class Stage:
    """What a session's blocks share: the plan, values that are the same in all of them, and how large blocks may be.

    ``pace`` is how many seconds an iteration took last, if that is known (``is_paced``); until then blocks have ``telling``
    iterations at most.  ``planned`` are the blocks to go back to where there is no machine code, ``is_waiting`` says that there
    will be some soon.
    """

    blocks: Blocks
    same: dict[str, Any]
    slices: list[Any]
    length: int = FIRST
    pace: float = AHEAD
    telling: int = TELLING
    failures: int = 0
    is_paced: bool = False
    is_new: bool = False
    is_compiled: bool = False
    is_waiting: bool = False
    may_compile: bool = True
    begun: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.planned = self.blocks

    def begins(self, pace: float, room: int, is_new: bool) -> None:
        """An interpreted iteration took ``pace`` seconds; where all ``is_new`` the first blocks of long loops are small."""
        self.pace, self.is_new = pace, is_new and room > SHORT
        if self.is_new:
            self.telling = min(max(int(AHEAD / pace), 1), FIRST)

    def at_most(self, length: int, run: Run) -> int:
        """So many iterations; fewer where the end of a block is waited for, or its time is not known."""
        if not run.is_free or self.is_compiled or self.is_waiting:
            most = WATCHED if run.watch is not None and run.deadline is None else AHEAD
            return max(min(length, int(most / max(self.pace, 1e-9))), 1)
        is_unknown = not self.is_paced and run.options.how.compiles_what_pays
        return min(length, self.telling) if is_unknown else length

    def run(self, session: Session, length: int, saved: Any) -> tuple[Batch, dict[str, Any], bool]:
        """Compute a block, and once more where what was stepped went beyond the end that was found afterwards."""
        plan = self.blocks.plan
        batch, finals, going = self.blocks.run(session, self.same, self.slices, length)
        is_late = plan.condition == "batched" and (plan.draws or not all(map(callable, finals.values())))
        if batch.length < length and (is_late or batch.overran):
            if saved is not None:
                session.run.stream.restore(saved)
            batch, finals, going = self.blocks.run(session, self.same, self.slices, batch.length)
        return batch, finals, going

    def took(self, length: int, seconds: float) -> None:
        """A block of so many iterations took so long."""
        self.pace = max(seconds / length, 1e-9)
        self.is_paced |= self.telling == TELLING or (not self.is_new and seconds >= TOLD)
        self.telling, self.is_new = min(8 * self.telling, TELLING), False


def first_length(session: Session, condition: str, bytes_each: int, longest: int = FIRST) -> int:
    """Iterations of the first block; few, if the loop may end soon and work would be in vain."""
    most = max(session.run.options.block_bytes // max(bytes_each, 1), 1)
    if condition == "given":
        return most
    few = max(FEW_BYTES // max(bytes_each, 1), 1)
    return min(longest, most, few if condition == "batched" else most)


def next_length(session: Session, plan: Plan, length: int, seconds: float) -> int:
    """Larger blocks; if the loop may end in any iteration, what is computed in vain stays a fraction of the work."""
    if plan.condition != "batched":
        return 4 * length
    return 2 * length if seconds < LONG else max(length, session.moment.iteration // 4)
