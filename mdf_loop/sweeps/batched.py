"""One loop run for many lanes at once: along a leading axis, by the rules that run a kernel for many iterations at once.

A lane is one run of the loop, with values and a random stream of its own.  It ends by its own condition; those that have
ended are left out when there are enough of them.  What comes out has the same bits as each lane alone, or
:class:`~mdf_loop.sweeps.exact.NotBatched` is raised and nothing has happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdf_loop.analysis.invariants import invariants
from mdf_loop.batching import elementwise
from mdf_loop.execute.interpret import Arguments, numbering, truth
from mdf_loop.ir import Loop, Node
from mdf_loop.kernels import load_kernels
from mdf_loop.options import Deadline
from mdf_loop.registry import bind, lookup
from mdf_loop.sweeps.drawing import Lanes, draw_of
from mdf_loop.sweeps.exact import DRAWS, NotBatched, refuse_inexact

FEW = 0.75
"""The part of the lanes that still run below which those that have ended are left out."""


@dataclass
class Columns:
    """What a loop gave in all lanes.

    Attributes
    ----------
    values : list of array
        Carried, then last values, one row a lane.
    collected : list of array or None
        Collected values: lanes, iterations, then the value's own axes; None where nobody wants them.
    lengths : array
        How many iterations each lane ran.
    stopped : array of bool
        Whether it was the condition that ended each.
    """

    values: list[np.ndarray]
    collected: list[np.ndarray | None]
    lengths: np.ndarray

    def results(self, lane: int) -> list[Any]:
        """The results of one lane, as the loop itself gives them."""
        length = self.lengths[lane]
        rows = [None if column is None else column[lane, :length].copy() for column in self.collected]
        return [*(column[lane, ...].copy() for column in self.values), *rows]


@dataclass
class _Lanes:
    """Values of the lanes that run: those that are the same in all, and those that are stacked.

    ``version`` changes whenever a value becomes stacked, or the same in all.
    """

    ids: np.ndarray
    alive: np.ndarray
    env: dict[str, Any] = field(default_factory=dict)
    stacked: set[str] = field(default_factory=set)
    version: int = 0

    def set(self, name: str, value: Any, is_stacked: bool) -> None:
        """Give a name a value."""
        self.env[name] = value
        if is_stacked != (name in self.stacked):
            self.version += 1
            (self.stacked.add if is_stacked else self.stacked.remove)(name)

    def rows(self, name: str) -> np.ndarray:
        """A value of each lane."""
        value = self.env[name]
        return value if name in self.stacked else np.broadcast_to(value, (len(self.ids), *np.shape(value)))

    def keep(self, lanes: np.ndarray, names: Sequence[str]) -> None:
        """Forget all lanes but some."""
        for name in names:
            if name in self.stacked:
                self.env[name] = self.env[name][lanes]
        self.ids, self.alive = self.ids[lanes], self.alive[lanes]


class BatchedLoop:
    """A loop made ready for many lanes.

    Raises
    ------
    NotBatched
        It has to be run lane by lane; says why.
    """

    def __init__(self, loop: Loop) -> None:
        load_kernels()
        refuse_inexact(loop.body)
        if any(part.part is not None or part.axis for part in loop.scanned) or any(c.axis or not c.stack for c in loop.collected):
            raise NotBatched("its scanned or collected values lie along other axes")
        self.loop, same = loop, invariants(loop)
        self.once = [_Planned(node) for node in loop.body.nodes if _is_same(node, same.always)]
        self.varying = [_Planned(node) for node in loop.body.nodes if not _is_same(node, same.always)]
        self.draws = [node for node in loop.body.nodes if (node.domain, node.op) in DRAWS]
        self.rounds = loop.goes_round
        self.number = numbering(loop.body.type_of(loop.index or "").shape)

    def run(
        self,
        given: Sequence[Arguments],
        generators: Sequence[np.random.Generator],
        wanted: Sequence[bool],
        deadline: Deadline | None = None,
        most: int | None = None,
    ) -> Columns:
        """Run the loop in all lanes.

        Parameters
        ----------
        given : sequence of Arguments
            Those of each lane; each has an iteration to run.
        generators : sequence of numpy Generator
            The random stream of each.
        wanted : sequence of bool
            Which collected values are wanted.
        deadline : Deadline, optional
        most : int, optional
            As ``options(max_iterations=)``.

        Raises
        ------
        NotBatched
            Values differ in type or shape, or something went wrong: run alone, each lane says what.
        LoopTimeout
        """
        counts = np.array([-1 if each.trip_count is None else each.trip_count for each in given])
        limit = None if (counts < 0).any() else int(counts.max())
        drawing = Lanes(self.draws, generators if self.draws else [], limit)
        lanes = self._lanes(given)
        out = _Out(len(given), self.loop, wanted)
        t = 0
        with np.errstate(all="ignore"):
            while len(lanes.ids):
                if deadline is not None and not t % 16:
                    deadline.check()
                if most is not None and t >= most:
                    raise NotBatched("a lane reaches the limit of iterations")
                self._iterate(lanes, given, drawing, t)
                t += 1
                ended = self._ended(lanes, counts, t)
                out.collect(lanes, t)
                if ended is not None:
                    out.end(lanes, ended, t)
                self._go_round(lanes)
                if ended is not None:
                    self._leave_out(lanes, drawing, ended)
        return out.columns()

    def _lanes(self, given: Sequence[Arguments]) -> _Lanes:
        """The values before the first iteration."""
        loop, lanes = self.loop, _Lanes(np.arange(len(given)), np.ones(len(given), bool))
        lanes.env[""] = None
        for name, value in loop.body.constants.items():
            lanes.env[name] = value
        for state in loop.body.state:
            lanes.env[state.input] = state.initial
        for name, column in self._given(given):
            lanes.set(name, *stacked(column, name))
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

    def _iterate(self, lanes: _Lanes, given: Sequence[Arguments], drawing: Lanes, t: int) -> None:
        """Run the body once, for all lanes."""
        if self.loop.index:
            lanes.set(self.loop.index, self.number(t), False)
        for part in self.loop.scanned:
            rows, name = lanes.env[f"{part.input} parts"], f"{part.input} parts"
            is_stacked = name in lanes.stacked
            along = rows if not is_stacked else np.moveaxis(rows, 1, 0)
            lanes.set(part.input, along[part.start :: part.stride][:: -1 if part.reverse else 1][t], is_stacked)
        if not t:
            for each in self.once:
                each.run(lanes)
            if self.draws:
                self._plan_draws(lanes, drawing)
        if self.draws:
            drawing.advance()
        for each in self.varying:
            if each.is_draw:
                lanes.set(each.node.outputs[0], drawing.take(each.node), True)
            else:
                each.run(lanes)

    def _plan_draws(self, lanes: _Lanes, drawing: Lanes) -> None:
        """Find out what is drawn in one iteration: shapes are those of the first one, which is run on zeros for that."""
        trial, draws = _Lanes(lanes.ids, lanes.alive, dict(lanes.env), set(lanes.stacked)), []
        for each in self.varying:
            if each.is_draw:
                like = each.node.inputs[0] if each.node.inputs else ""
                draws.append(draw_of(each.node, trial.env[like] if like else None, like in trial.stacked))
                trial.set(each.node.outputs[0], np.zeros((len(lanes.ids), *draws[-1].shape), draws[-1].dtype), True)
            else:
                each.run(trial)
        for each in self.varying:
            each.direct_in = -1
        drawing.plan(draws)

    def _ended(self, lanes: _Lanes, counts: np.ndarray, t: int) -> np.ndarray | None:
        """Which lanes end behind this iteration; None if none does."""
        ended = None
        if self.loop.keep_going:
            value = lanes.env[self.loop.keep_going]
            if self.loop.keep_going in lanes.stacked:
                if value.dtype != np.bool_ or value.size != len(lanes.ids):
                    raise NotBatched("its condition is not one boolean")
                ended = ~value.reshape(-1)
            elif not truth(value, "the body's condition"):
                ended = np.ones(len(lanes.ids), bool)
        over = counts[lanes.ids] == t
        if over.any():
            ended = over if ended is None else ended | over
        if ended is None or not (ended := ended & lanes.alive).any():
            return None
        return ended

    def _go_round(self, lanes: _Lanes) -> None:
        """What the next iteration gets: all at once, so that values may change places."""
        new = [(name, lanes.env[output], output in lanes.stacked) for name, output in self.rounds.items()]
        for name, value, is_stacked in new:
            lanes.set(name, value, is_stacked)
        if self.loop.condition and self.loop.keep_going:
            value, is_stacked = lanes.env[self.loop.keep_going], self.loop.keep_going in lanes.stacked
            shape = np.shape(value)[1:] if is_stacked else np.shape(value)
            lanes.set(self.loop.condition, np.ones(shape, bool) if shape else np.True_, False)

    def _leave_out(self, lanes: _Lanes, drawing: Lanes, ended: np.ndarray) -> None:
        lanes.alive &= ~ended
        if lanes.alive.sum() > FEW * len(lanes.alive):
            return
        left = np.flatnonzero(lanes.alive)
        if self.draws:
            drawing.keep(left)
        lanes.keep(left, list(lanes.stacked))


class _Planned:
    """A node, its kernel and its rule."""

    def __init__(self, node: Node) -> None:
        self.node, self.is_draw = node, (node.domain, node.op) in DRAWS
        entry = lookup(node.op, node.opset, node.domain)
        self.call, self.rule, self.keywords = entry.run, entry.batch, bind(node).keywords
        self.direct_in = -1  # the version of the lanes in which the kernel itself runs all of them

    def run(self, lanes: _Lanes) -> None:
        """Run the node for all lanes."""
        node, env = self.node, lanes.env
        args = [env[name] for name in node.inputs]
        if self.direct_in == lanes.version:
            env[node.outputs[0]] = self.call(*args, **self.keywords)
            return
        flags = [name in lanes.stacked for name in node.inputs]
        if not any(flags):
            result: Any = self.call(*args, **self.keywords)
            results, are_stacked = (result if type(result) is tuple else (result,)), (False,) * len(node.outputs)
        else:
            results, are_stacked = self._by_rule(args, flags)
        for name, value, is_stacked in zip(node.outputs, results, are_stacked, strict=False):
            if name:
                lanes.set(name, value, is_stacked)
        self.direct_in = lanes.version if any(flags) and self._is_plain(args, flags) else -1

    def _is_plain(self, args: list[Any], flags: list[bool]) -> bool:
        """Whether the values broadcast as they are."""
        if self.rule is not elementwise or len(self.node.outputs) != 1:
            return False
        ranks = {np.ndim(a) - 1 for a, s in zip(args, flags, strict=True) if s}
        others = max((np.ndim(a) for a, s in zip(args, flags, strict=True) if a is not None and not s), default=0)
        return len(ranks) == 1 and others <= min(ranks)

    def _by_rule(self, args: list[Any], flags: list[bool]) -> tuple[tuple[Any, ...], tuple[bool, ...]]:
        assert self.rule is not None
        try:
            found = self.rule(self.call, args, flags, self.keywords)
        except Exception as error:  # of one lane; each alone says which
            raise NotBatched(f"{self.node}: {error}") from error
        if found is None:
            raise NotBatched(f"no rule runs {self.node} for many lanes at once")
        return found


class _Out:
    """What the lanes give, put together as they end."""

    def __init__(self, count: int, loop: Loop, wanted: Sequence[bool]) -> None:
        self.count, self.loop = count, loop
        self.names = [*(c.output for c in loop.carried), *loop.last]
        self.values: list[np.ndarray | None] = [None] * len(self.names)
        self.collecting = [(c, wanted[k]) for k, c in enumerate(loop.collected)]
        self.collected: list[np.ndarray | None] = [None] * len(loop.collected)
        self.lengths = np.zeros(count, np.int64)

    def collect(self, lanes: _Lanes, t: int) -> None:
        """Keep what is collected in iteration ``t - 1``."""
        for k, (what, is_wanted) in enumerate(self.collecting):
            if is_wanted:
                rows = lanes.rows(what.output)
                buffer = self._room(k, rows, t)
                buffer[t - 1, lanes.ids[lanes.alive]] = rows[lanes.alive]

    def _room(self, k: int, rows: np.ndarray, t: int) -> np.ndarray:
        buffer = self.collected[k]
        if buffer is None:
            buffer = self.collected[k] = np.empty((64, self.count, *rows.shape[1:]), rows.dtype)
        _see_same(buffer, rows, 2)
        if t > len(buffer):
            larger = np.empty((2 * len(buffer), *buffer.shape[1:]), buffer.dtype)
            larger[: len(buffer)] = buffer
            buffer = self.collected[k] = larger
        return buffer

    def end(self, lanes: _Lanes, ended: np.ndarray, t: int) -> None:
        """Keep the values of lanes that have ended."""
        ids = lanes.ids[ended]
        self.lengths[ids] = t
        for k, name in enumerate(self.names):
            rows = lanes.rows(name)
            if self.values[k] is None:
                self.values[k] = np.empty((self.count, *rows.shape[1:]), rows.dtype)
            column = self.values[k]
            assert column is not None
            _see_same(column, rows, 1)
            column[ids] = rows[ended]

    def columns(self) -> Columns:
        """Everything, once all lanes have ended."""
        longest = int(self.lengths.max())
        collected = [None if c is None else np.moveaxis(c[:longest], 0, 1) for c in self.collected]
        return Columns([value for value in self.values if value is not None], collected, self.lengths)


def _see_same(column: np.ndarray, rows: np.ndarray, skipped: int) -> None:
    if column.dtype != rows.dtype or column.shape[skipped:] != rows.shape[1:]:
        raise NotBatched("a value changes its type or shape")


def _is_same(node: Node, always: frozenset[str]) -> bool:
    return (node.domain, node.op) not in DRAWS and all(name in always for name in node.reads)


def stacked(column: Sequence[Any], name: str) -> tuple[Any, bool]:
    """The values of one name in all lanes: one that is the same in all, or a row for each.

    Raises
    ------
    NotBatched
        They differ in type or shape.
    """
    unique: dict[int, int] = {}
    values: list[Any] = []
    places = np.empty(len(column), np.intp)
    for k, value in enumerate(column):
        at = unique.setdefault(id(value), len(values))
        if at == len(values):
            values.append(value)
        places[k] = at
    first = values[0]
    if len(values) == 1 or all(_is_equal(first, value) for value in values[1:]):
        return first, False
    if not all(isinstance(value, np.ndarray | np.generic) for value in values):
        raise NotBatched(f"{name!r} is no array")
    if len({(value.dtype, value.shape) for value in values}) > 1 or first.dtype.hasobject:
        raise NotBatched(f"{name!r} differs in type or shape")
    return np.stack(values)[places], True


def _is_equal(one: Any, other: Any) -> bool:
    if not isinstance(one, np.ndarray | np.generic) or not isinstance(other, np.ndarray | np.generic):
        return one is other
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
