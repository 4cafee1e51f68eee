"""One loop run for many lanes at once: along a leading axis, by the rules that run a kernel for many iterations at once.

A lane is one run of the loop, with values and a random stream of its own.  It ends by its own condition; those that have
ended are left out when there are enough of them.  What comes out has the same bits as each lane alone, or
:class:`~mdf_loop.sweeps.lanes.exact.NotBatched` is raised and nothing has happened.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mdf_loop.execute.interpret import Arguments, numbering, truth
from mdf_loop.ir import Loop, Node
from mdf_loop.kernels import load_kernels
from mdf_loop.options import Deadline
from mdf_loop.plan.invariants import invariants
from mdf_loop.sweeps.lanes.draws import draw_of, moving
from mdf_loop.sweeps.lanes.exact import DRAWS, SHARED, NotBatched, refuse_inexact
from mdf_loop.sweeps.lanes.lane_draws import LaneDraws
from mdf_loop.sweeps.lanes.lane_nodes import Planned, Step, iteration_of
from mdf_loop.sweeps.lanes.lane_values import Columns, LaneTable, stacked
from mdf_loop.sweeps.seeds import Seeds

FEW = 0.75
"""The part of the lanes that still run below which those that have ended are left out."""

FULL = 0.98
"""The same before more random numbers are drawn."""

ANY = 0.4371
"""Stands for a number that is not drawn yet; hardly anything makes 0 of it, by which Python would not divide."""

LEAST, EARLY = 64, 0.05
"""Lanes that are run in any case, for they take hardly longer than one; the part of the time after which their pace is known."""

BYTES, ROWS = 1 << 27, 1 << 13
"""Bytes that more lanes than these may collect, and iterations up to which a trip count says how many are collected."""

SETTLED = 4
"""Iterations after which one is made a function: shorter loops are over by then."""


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
        refuse_inexact(loop.body, () if compiles else SHARED)
        if any(part.part is not None or part.axis for part in loop.scanned) or any(c.axis or not c.stack for c in loop.collected):
            raise NotBatched("its scanned or collected values lie along other axes")
        self.loop, same = loop, invariants(loop)
        self.once = [Planned(node) for node in loop.body.nodes if _is_same(node, same.always)]
        self.varying = [Planned(node) for node in loop.body.nodes if not _is_same(node, same.always)]
        self.draws = [node for node in loop.body.nodes if (node.domain, node.op) in DRAWS]
        self.rounds, self.fixed = loop.goes_round, same.always
        results = {*(c.output for c in loop.carried), *loop.last, *(c.output for c in loop.collected)}
        self.seen = {*results, *self.rounds.values(), loop.keep_going or ""}
        self.passing = {name for each in self.varying for name in each.node.outputs}
        read = {*self.seen, *(name for node in loop.body.nodes for name in node.reads)}
        self.index = loop.index if loop.index in read else ""
        self.number = numbering(loop.body.type_of(loop.index or "").shape)

    def run(
        self,
        given: Sequence[Arguments],
        which: np.ndarray,
        seeds: Seeds | None,
        wanted: Sequence[bool],
        deadline: Deadline | None = None,
        most: int | None = None,
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
        deadline : Deadline, optional
        most : int, optional
            As ``options(max_iterations=)``.
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
        drawing = LaneDraws(self.draws, seeds, limit)
        lanes = self._lanes(given, which)
        out = _Out(len(which), self.loop, wanted)
        patience = _Patience(seconds, limit, bool(self.loop.keep_going) or soonest != limit)
        t = 0
        with np.errstate(all="ignore"):
            while len(lanes.ids):
                if deadline is not None and not t % 16:
                    deadline.check()
                if most is not None and t >= most:
                    raise NotBatched("a lane reaches the limit of iterations")
                self._iterate(lanes, drawing, t)
                t += 1
                ended = self._ended(lanes, counts, soonest, t)
                out.collect(lanes, t)
                if len(ended):
                    out.end(lanes, ended, t)
                self._go_round(lanes)
                if len(ended):
                    self._leave_out(lanes, drawing, ended)
                if lanes.running and (fewer := patience.lanes(t, out, lanes.running)) < out.count:
                    out.keep(fewer)
                    self._keep(lanes, drawing, lanes.alive & (lanes.ids < fewer))
        return out.columns()

    def _lanes(self, given: Sequence[Arguments], which: np.ndarray) -> LaneTable:
        """The values before the first iteration."""
        loop, lanes = self.loop, LaneTable(np.arange(len(which)), np.ones(len(which), bool), len(which))
        lanes.env[""] = None
        for name, value in loop.body.constants.items():
            lanes.env[name] = value
        for state in loop.body.state:
            lanes.env[state.input] = state.initial
        for name, values in self._given(given):
            lanes.set(name, *stacked(values, which, name))
        if loop.condition:
            rank = len(loop.body.type_of(loop.condition).shape or ())
            lanes.env[loop.condition] = np.ones((1,) * rank, bool) if rank else np.True_
        return lanes

    def _given(self, given: Sequence[Arguments]) -> Iterator[tuple[str, list[Any]]]:
        loop = self.loop
        for names, attribute in (
            ([c.input for c in loop.carried], "carried"),
            ([s.input for s in loop.scanned], "scanned"),
            (loop.invariant, "invariant"),
            (loop.body.captures, "captured"),
        ):
            for k, name in enumerate(names):
                yield f"{name} parts" if attribute == "scanned" else name, [getattr(each, attribute)[k] for each in given]

    def _iterate(self, lanes: LaneTable, drawing: LaneDraws, t: int) -> None:
        """Run the body once, for all lanes."""
        if self.index:
            lanes.set(self.index, self.number(t), False)
        for part in self.loop.scanned:
            rows, name = lanes.env[f"{part.input} parts"], f"{part.input} parts"
            is_stacked = name in lanes.stacked
            along = rows if not is_stacked else np.moveaxis(rows, 1, 0)
            lanes.set(part.input, along[part.start :: part.stride][:: -1 if part.reverse else 1][t], is_stacked)
        if not t:
            for each in self.once:
                each.run(lanes, self.fixed)
            if self.draws:
                self._plan_draws(lanes, drawing)
        if self.draws:
            drawing.advance()
        if lanes.iteration is not None and lanes.iteration_version == lanes.version:
            lanes.iteration(lanes.env)
            return
        version, is_noted = lanes.version, t >= SETTLED
        steps = [
            self._draw(each, lanes, drawing) if each.is_draw else each.run(lanes, self.fixed, is_noted) for each in self.varying
        ]
        if lanes.version == version and is_noted:
            self._remember(lanes, steps)

    @staticmethod
    def _draw(each: Planned, lanes: LaneTable, drawing: LaneDraws) -> list[Step]:
        """Run a node that draws - standard numbers, moved to where its inputs want them; what does the same next time."""
        node, draw, (output,) = each.node, drawing.draw(each.node), each.node.outputs
        value, moved = drawing.take(node), moving(draw, lanes)
        standard, inputs = output if moved is None else f"{output} standard", node.inputs[:2]
        steps: list[Step] = [((lambda: drawing.take(node)), (), {}, standard)]
        if moved is not None:
            value = moved(value, *(lanes.env[name] for name in inputs))
            steps.append((moved, (standard, *inputs), {}, output))
        lanes.set(output, value, True, draw.is_weak)
        return steps

    def _remember(self, lanes: LaneTable, steps: Sequence[list[Step] | None]) -> None:
        """Keep the calls of an iteration for the next ones, if they are all there is to do."""
        is_settled = all(
            (name in names) == (output in names) for names in (lanes.stacked, lanes.weak) for name, output in self.rounds.items()
        )
        if is_settled and all(known is not None for known in steps):
            calls = [step for known in steps for step in known or ()]
            lanes.iteration, lanes.iteration_version = iteration_of(calls, self.seen), lanes.version

    def _plan_draws(self, lanes: LaneTable, drawing: LaneDraws) -> None:
        """Find out what is drawn in one iteration: shapes are those of the first one, which is run on any number for that."""
        trial, draws = LaneTable(lanes.ids, lanes.alive, lanes.running, dict(lanes.env), {*lanes.stacked}, {*lanes.weak}), []
        for each in self.varying:
            if each.is_draw:
                draws.append(draw := draw_of(each.node, trial))
                numbers = np.full((len(lanes.ids), *draw.shape), ANY, draw.dtype)
                trial.set(each.node.outputs[0], numbers, True, draw.is_weak)
            else:
                each.run(trial, self.fixed)
        drawing.plan(draws)

    def _ended(self, lanes: LaneTable, counts: np.ndarray, soonest: int, t: int) -> np.ndarray | Sequence[int]:
        """Which lanes end behind this iteration: their places."""
        ended = None
        if self.loop.keep_going:
            value = lanes.env[self.loop.keep_going]
            if self.loop.keep_going in lanes.stacked:
                if value.dtype.kind != "b" or value.size != len(lanes.ids):
                    raise NotBatched("its condition is not one boolean")
                ended = np.greater(lanes.alive, value.reshape(-1))  # alive, and not going on
            elif not truth(value, "the body's condition"):
                ended = lanes.alive.copy()
        if t >= soonest:
            over = lanes.alive & (counts[lanes.ids] == t)
            ended = over if ended is None else ended | over
        return () if ended is None else ended.nonzero()[0]

    def _go_round(self, lanes: LaneTable) -> None:
        """What the next iteration gets: all at once, so that values may change places."""
        if lanes.iteration_version == lanes.version:
            lanes.env.update(zip(self.rounds, [lanes.env[output] for output in self.rounds.values()], strict=True))
            return
        new = [(n, lanes.env[out], out in lanes.stacked, out in lanes.weak) for n, out in self.rounds.items()]
        for each in new:
            lanes.set(*each)
        if self.loop.condition and self.loop.keep_going:
            value, is_stacked = lanes.env[self.loop.keep_going], self.loop.keep_going in lanes.stacked
            shape = np.shape(value)[1:] if is_stacked else np.shape(value)
            lanes.set(self.loop.condition, np.ones(shape, bool) if shape else np.True_, False)

    def _leave_out(self, lanes: LaneTable, drawing: LaneDraws, ended: np.ndarray | Sequence[int]) -> None:
        lanes.alive[ended] = False
        lanes.running -= len(ended)
        part = FULL if self.draws and drawing.is_used_up else FEW
        if lanes.running > part * len(lanes.alive):
            return
        self._keep(lanes, drawing, lanes.alive)

    def _keep(self, lanes: LaneTable, drawing: LaneDraws, which: np.ndarray) -> None:
        left = np.flatnonzero(which)
        if self.draws:
            drawing.keep(left)
        lanes.keep(left, lanes.stacked - self.passing)


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
        self.names = [*(c.output for c in loop.carried), *loop.last]
        self.values: list[np.ndarray | None] = [None] * len(self.names)
        self.wanted = [k for k in range(len(self.names)) if wanted[k]]
        self.collecting = [(k, c.output) for k, c in enumerate(loop.collected) if wanted[len(self.names) + k]]
        self.collected: list[np.ndarray | None] = [None] * len(loop.collected)
        self.lengths = np.zeros(count, np.int64)

    def collect(self, lanes: LaneTable, t: int) -> None:
        """Keep what is collected in iteration ``t - 1``."""
        for k, name in self.collecting:
            rows = lanes.rows(name)
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

    def end(self, lanes: LaneTable, ended: np.ndarray | Sequence[int], t: int) -> None:
        """Keep the values of lanes that have ended."""
        ids = lanes.ids[ended]
        self.lengths[ids] = t
        for k in self.wanted:
            value, is_stacked = lanes.env[self.names[k]], self.names[k] in lanes.stacked
            shape, dtype = np.shape(value)[is_stacked:], value.dtype
            column = self.values[k]
            if column is None:
                column = self.values[k] = np.empty((self.count, *shape), dtype)
            _refuse_change(column, shape, dtype, 1)
            column[ids] = value[ended] if is_stacked else value

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


def _is_same(node: Node, always: frozenset[str]) -> bool:
    return (node.domain, node.op) not in DRAWS and all(name in always for name in node.reads)
