"""One loop run for many lanes at once: along a leading axis, which its Step gets (:mod:`mdf_loop.sweeps.lanes.lane_steps`).

A lane is one run of the loop, with values and a random stream of its own.  It ends by its own condition; those that have
ended are left out when there are enough of them.  What comes out has the same bits as each lane alone, or
:class:`~mdf_loop.sweeps.lanes.lane_values.NotBatched` is raised and nothing has happened.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mdf_loop.execute.interpret import Arguments, truth
from mdf_loop.ir import Loop, Scanned
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import bind, changes, lookup
from mdf_loop.options import Run
from mdf_loop.step.before_lowering import of_constants
from mdf_loop.step.build import CannotLower, type_of_value
from mdf_loop.step.records import Type
from mdf_loop.sweeps.lanes.lane_draws import LaneDraws
from mdf_loop.sweeps.lanes.lane_steps import LaneForm, LaneProgram, lane_program
from mdf_loop.sweeps.lanes.lane_values import Columns, LaneColumn, NotBatched, some, stacked
from mdf_loop.sweeps.seeds import Seeds
from mdf_loop.system.threads import Recent

FEW = 0.75
"""The part of the lanes that still run below which those that have ended are left out."""

FULL = 0.98
"""The same before more random numbers are drawn."""

LEAST, EARLY = 64, 0.05
"""Lanes that are run in any case, for they take hardly longer than one; the part of the time after which their pace is known."""

BYTES, ROWS = 1 << 27, 1 << 13
"""Bytes that more lanes than these may collect, and iterations up to which a trip count says how many are collected."""

LARGEST = 1 << 12
"""Elements up to which what a node makes of values that are the same in all lanes is computed in front of them."""

SHORT = 8
"""Whole numbers of a vector up to which a program is made for them."""

MOST = 64
"""Programs of one loop that are kept."""

FORMS = 8
"""How often the types of carried values may change: each time there is another program."""

SETTLED = 4
"""Iterations after which their pace is looked at."""


class BatchedLoop:
    """A loop made ready for many lanes.

    Parameters
    ----------
    loop : Loop
    compiles : bool
        Whether the engine makes machine code of a lane alone.

    Raises
    ------
    NotBatched
        It has to be run lane by lane; says why.
    """

    def __init__(self, loop: Loop, compiles: bool = True) -> None:
        load_kernels()
        if any(part.part is not None or part.axis for part in loop.scanned) or any(c.axis or not c.stack for c in loop.collected):
            raise NotBatched("its scanned or collected values lie along other axes")
        self.loop, self.is_shared = loop, not compiles
        self.record = replace(loop.with_state_carried, scanned=tuple(Scanned(part.input) for part in loop.scanned))
        self._programs = Recent[LaneProgram](MOST)

    def run(
        self,
        given: Sequence[Arguments],
        which: np.ndarray,
        seeds: Seeds | None,
        wanted: Sequence[bool],
        run: Run,
        seconds: float = math.inf,
    ) -> Columns:
        """Run the loop in all lanes, or in the first ones.

        Parameters
        ----------
        given : sequence of Arguments
            Each has an iteration to run.
        which : array of int
            For each lane, which of them are its.
        seeds : Seeds, optional
            Of the random stream of each lane, if the loop draws.
        wanted : sequence of bool
            Which results are wanted: carried, last, then collected ones.
        run : Run
        seconds : float
            Lanes with which it would take much longer are left out, the last ones first.

        Raises
        ------
        NotBatched
            Values differ in type or shape, or something went wrong: run alone, each lane says what.
        LoopTimeout
        """
        counts = np.array([-1 if each.trip_count is None else each.trip_count for each in given])[which]
        limit = None if (counts < 0).any() else int(counts.max())
        soonest = int(counts[counts >= 0].min(initial=1 << 62))
        with np.errstate(all="ignore"):
            lanes = self._lanes(given, which, seeds, limit, run)
            out = _Out(len(which), self.loop, wanted)
            patience = _Patience(seconds, limit, bool(self.loop.keep_going) or soonest != limit)
            t, most = 0, run.options.max_iterations
            while len(lanes.ids):
                if run.deadline is not None and not t % 16:
                    run.deadline.check()
                if most is not None and t >= most:
                    raise NotBatched("a lane reaches the limit of iterations")
                found = lanes.iterate(t)
                t += 1
                ended = self._ended(lanes, found, counts, soonest, t)
                out.collect(lanes, found, t)
                if len(ended):
                    out.end(lanes, found, ended, t)
                    lanes.leave_out(ended)
                if lanes.running and (fewer := patience.lanes(t, out, lanes.running)) < out.count:
                    out.keep(fewer)
                    lanes.keep(lanes.alive & (lanes.ids < fewer))
        return out.columns()

    def _lanes(
        self, given: Sequence[Arguments], which: np.ndarray, seeds: Seeds | None, limit: int | None, run: Run
    ) -> RunningLanes:
        """The lanes before the first iteration."""
        loop, exact = self.loop, not self.loop.body.typed

        def columns(what: str, names: Sequence[str]) -> list[LaneColumn]:
            values = ([getattr(each, what)[k] for each in given] for k in range(len(names)))
            return [LaneColumn(column[0], *stacked(column, which, name)) for name, column in zip(names, values, strict=True)]

        hidden = [LaneColumn(state.initial, state.initial, False) for state in loop.body.state]
        carried = [*columns("carried", [c.input for c in loop.carried]), *hidden]
        parts = columns("scanned", [s.input for s in loop.scanned])
        parts = [column.cut_up(part) for column, part in zip(parts, loop.scanned, strict=True)]
        names = (*loop.body.captures, *loop.invariant)
        outer = dict(zip(names, columns("captured", loop.body.captures) + columns("invariant", loop.invariant), strict=True))
        outer |= self._shared(outer) if self.is_shared else {}
        fixed = {name: x.values for name, x in outer.items() if not x.is_stacked and _says_places(x.values)}
        read = {name: x for name, x in outer.items() if name not in fixed}

        def form(group: Iterable[LaneColumn]) -> LaneForm:
            return LaneForm(tuple(type_of_value(x.first, exact) for x in group), tuple(x.is_stacked for x in group))

        program_for = partial(self._program, parts=form(parts), outer=read.keys(), form=form(read.values()), fixed=fixed)
        groups = (carried, parts, read.values())
        values = [[x.values for x in group] for group in groups]
        flags = [[x.is_stacked for x in group] for group in groups[1:]]
        return RunningLanes(program_for, form(carried), values, flags, np.arange(len(which)), LaneDraws(seeds, limit), run)

    def _shared(self, outer: Mapping[str, LaneColumn]) -> dict[str, LaneColumn]:
        """What nodes make of values that are the same in all lanes and iterations: they are run as those of each lane alone."""
        body, found = self.loop.body, dict[str, LaneColumn]()
        known = {**body.constants, **{name: x.values for name, x in outer.items() if not x.is_stacked}}
        for node in body.nodes:
            if all(name in known for name in node.reads) and not any(True for _ in node.bodies):
                given = [known[name] if name else None for name in node.inputs]
                entry = lookup(node.op, node.opset, node.domain)
                results = of_constants(node, bind(node), entry, given, LARGEST) or ()
                same = {name: value for name, value in zip(node.outputs, results, strict=False) if name}
                known |= same
                found |= {name: LaneColumn(value, value, False) for name, value in same.items()}
        return found

    def _program(
        self, carried: LaneForm, parts: LaneForm, outer: Collection[str], form: LaneForm, fixed: Mapping[str, Any]
    ) -> LaneProgram:
        """The program for values of some types; ``outer`` are those that it is given from outside, ``fixed`` those it knows."""
        key = changes(), carried, parts, *outer, form, *((name, x.dtype, x.tobytes()) for name, x in fixed.items())

        def made() -> LaneProgram:
            body = self.record.body
            nodes = tuple(node for node in body.nodes if {*outer, *fixed}.isdisjoint(node.outputs))
            inner = replace(body, nodes=nodes, constants={**body.constants, **fixed}, captures=tuple(outer))
            return lane_program(replace(self.record, body=inner), carried, parts, form, self.is_shared)

        try:
            return self._programs.of(key, made)
        except (CannotLower, ValueError) as reason:
            raise NotBatched(str(reason)) from reason

    def _ended(
        self, lanes: RunningLanes, found: Sequence[Any], counts: np.ndarray, soonest: int, t: int
    ) -> np.ndarray | Sequence[int]:
        """Which lanes end behind this iteration: their places."""
        ended = None
        if self.loop.keep_going:
            value, is_stacked = found[0], lanes.program.results[0]
            if is_stacked:
                if value.dtype.kind != "b" or value.size != len(lanes.ids):
                    raise NotBatched("its condition is not one boolean")
                ended = np.greater(lanes.alive, value.reshape(-1))  # alive, and not going on
            elif not truth(value, "the body's condition"):
                ended = lanes.alive.copy()
        if t >= soonest:
            over = lanes.alive & (counts[lanes.ids] == t)
            ended = over if ended is None else ended | over
        return () if ended is None else ended.nonzero()[0]


def _says_places(value: Any) -> bool:
    """Whether a value is a short vector of whole numbers: lengths, axes, places, of which a Step knows more than their types."""
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind == "i" and len(value) <= SHORT


class RunningLanes:
    """The lanes that run.

    Attributes
    ----------
    ids : array of int
        Which they are.
    alive : array of bool
        Which have not ended yet, ``running`` of them.
    """

    def __init__(
        self,
        program_for: Callable[[LaneForm], LaneProgram],
        carried: LaneForm,
        values: Sequence[Sequence[Any]],
        flags: Sequence[Sequence[bool]],
        ids: np.ndarray,
        drawing: LaneDraws,
        run: Run,
    ) -> None:
        self.program_for, self.drawing, self.context = program_for, drawing, run
        self.ids, self.alive, self.running = ids, np.ones(len(ids), bool), len(ids)
        self.carried, self.parts, self.outer = map(list, values)
        self.flags, self.forms = flags, 0
        self._take(carried)

    def _take(self, form: LaneForm) -> None:
        """Go on with the program for carried values of some types."""
        self.forms += 1
        if self.forms > FORMS:
            raise NotBatched("its types change again and again")
        self.program = program = self.program_for(form)
        self.drawing.plan(program.drawn)
        self.read = list(program.begin(self.context, self.ids, *self.outer))
        flags = zip(self.carried, form.flags, program.carried.flags, form.types, strict=True)
        self.carried = [self._repeated(x, type) if taken and not flag else x for x, flag, taken, type in flags]

    def _repeated(self, value: Any, type: Type) -> np.ndarray:
        return some(np.asarray(value, type.dtype)[None], np.zeros(len(self.ids), np.intp))

    def iterate(self, t: int) -> tuple[Any, ...]:
        """Run the body once, for all lanes; what it gives."""
        if t and not self.program.is_settled:
            self._take(self.program.following)
        parts, numbers = [rows[t] for rows in self.parts], self.drawing.next()
        found = self.program.iterate(self.context, np.int64(t), *self.carried, *parts, *numbers, *self.read)
        if any(found[len(self.program.results) :]):
            raise NotBatched("something is wrong in a lane")
        self.carried = list(found[1 : 1 + len(self.carried)])
        return found

    def rows(self, found: Sequence[Any], k: int) -> np.ndarray:
        """A result in each lane."""
        value = np.asarray(found[k])
        return value if self.program.results[k] else np.broadcast_to(value, (len(self.ids), *value.shape))

    def leave_out(self, ended: np.ndarray | Sequence[int]) -> None:
        """Forget lanes that have ended, with others before, when there are enough of them."""
        self.alive[ended] = False
        self.running -= len(ended)
        if self.running <= (FULL if self.drawing.is_used_up else FEW) * len(self.alive):
            self.keep(self.alive)

    def keep(self, which: np.ndarray) -> None:
        """Forget all lanes but some."""
        left = np.flatnonzero(which)
        self.drawing.keep(left)

        def kept(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
            return [some(x, left) if flag else x for x, flag in zip(values, flags, strict=True)]

        self.carried, self.read = kept(self.carried, self.program.following.flags), kept(self.read, self.program.read)
        self.outer = kept(self.outer, self.flags[1])
        self.parts = [x.take(left, axis=1) if flag else x for x, flag in zip(self.parts, self.flags[0], strict=True)]
        self.ids, self.alive, self.running = self.ids[left], self.alive[left], len(left)


class _Patience:
    """How many lanes a run goes on with, so that it ends in time.

    Parameters
    ----------
    seconds : float
    limit : int or None
        After how many iterations all have ended.
    is_open : bool
        Whether a lane may end before.
    """

    def __init__(self, seconds: float, limit: int | None, is_open: bool) -> None:
        self.seconds, self.limit, self.is_open = seconds, limit, is_open
        self.begun = self.asked = time.perf_counter()
        self.t = 0

    def lanes(self, t: int, out: _Out, running: int) -> int:
        """How many of the lanes, some of which still run after ``t`` iterations."""
        count = out.count
        if count <= LEAST or self.seconds == math.inf:
            return count
        if (size := out.bytes(min(self.limit or 0, ROWS))) > BYTES:
            return max(count * BYTES // size, LEAST)
        now = time.perf_counter()
        if t < SETTLED or now - self.asked < self.seconds * (1.0 if self.is_open else EARLY):
            return count
        taken = now - self.begun
        whole = taken + (now - self.asked) / (t - self.t) * (self.limit - t) if self.limit else math.inf
        if running < count:  # as many end in a second as did so far
            whole = min(whole, taken * count / (count - running))
        self.asked, self.t = now, t
        return count if whole <= 2 * self.seconds else max(int(count * self.seconds / whole), LEAST)


class _Out:
    """What the lanes give, put together as they end."""

    def __init__(self, count: int, loop: Loop, wanted: Sequence[bool]) -> None:
        self.count, self.loop = count, loop
        carried, states = len(loop.carried), len(loop.all_carried)
        last, first = len(loop.last), 1 + states + len(loop.last)
        self.places = [*range(1, 1 + carried), *range(1 + states, first)]
        self.values: list[np.ndarray | None] = [None] * len(self.places)
        self.wanted = [k for k in range(len(self.places)) if wanted[k]]
        self.collecting = [(k, first + k) for k in range(len(loop.collected)) if wanted[carried + last + k]]
        self.collected: list[np.ndarray | None] = [None] * len(loop.collected)
        self.lengths = np.zeros(count, np.int64)

    def collect(self, lanes: RunningLanes, found: Sequence[Any], t: int) -> None:
        """Keep what is collected in iteration ``t - 1``."""
        for k, place in self.collecting:
            rows = lanes.rows(found, place)
            buffer = self._room(k, rows, t)
            buffer[t - 1, lanes.ids[lanes.alive]] = rows[lanes.alive]

    def _room(self, k: int, rows: np.ndarray, t: int) -> np.ndarray:
        buffer = self.collected[k]
        if buffer is None:
            buffer = self.collected[k] = np.empty((64, self.count, *rows.shape[1:]), rows.dtype)
        _refuse_change(buffer, rows.shape[1:], rows.dtype, 2)
        if t > len(buffer):
            larger = np.empty((2 * len(buffer), *buffer.shape[1:]), buffer.dtype)
            larger[: len(buffer)] = buffer
            buffer = self.collected[k] = larger
        return buffer

    def end(self, lanes: RunningLanes, found: Sequence[Any], ended: np.ndarray | Sequence[int], t: int) -> None:
        """Keep the values of lanes that have ended."""
        ids = lanes.ids[ended]
        self.lengths[ids] = t
        for k in self.wanted:
            rows, column = lanes.rows(found, self.places[k]), self.values[k]
            if column is None:
                column = self.values[k] = np.empty((self.count, *rows.shape[1:]), rows.dtype)
            _refuse_change(column, rows.shape[1:], rows.dtype, 1)
            column[ids] = rows[ended]

    def bytes(self, rows: int) -> int:
        """How large what is collected is at least if there are so many rows."""
        return sum(c.nbytes // len(c) * max(len(c), rows) for c in self.collected if c is not None)

    def keep(self, count: int) -> None:
        """Forget all lanes but the first ones."""
        self.count, self.lengths = count, self.lengths[:count]
        self.values = [None if column is None else column[:count] for column in self.values]
        self.collected = [None if column is None else column[:, :count] for column in self.collected]

    def columns(self) -> Columns:
        """Everything, once all lanes have ended."""
        longest = int(self.lengths.max())
        collected = [None if c is None else np.moveaxis(c[:longest], 0, 1) for c in self.collected]
        return Columns(self.values, collected, self.lengths)


def _refuse_change(column: np.ndarray, shape: tuple[int, ...], dtype: np.dtype, skipped: int) -> None:
    if column.dtype != dtype or column.shape[skipped:] != shape:
        raise NotBatched("a value changes its type or shape")
