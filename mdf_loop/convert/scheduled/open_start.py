"""A scheduled graph as one graph around a loop, in which some values are open until it runs.

Of the first passes, what depends on an open value or draws random numbers is written in front of the loop; all else is run at
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdf_loop.convert.scheduled.first_passes import FirstPasses
from mdf_loop.convert.scheduled.loops import ScheduledLowering, loop_behind
from mdf_loop.convert.scheduled.run_order import RunPlan
from mdf_loop.convert.scheduled.slots import NUMBERS, TRUE, GivenInput, PassBuilder, might_be
from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import Body, Carried, Loop, Node
from mdf_loop.readers.expressions.values import NotCompiled, Number, Unavailable, Value, available, literal
from mdf_loop.readers.onnx.graph import DEFAULT_OPSET


@dataclass(frozen=True)
class OpenRun:
    """All evaluations of a scheduled graph as a graph that runs once.

    Attributes
    ----------
    body : Body
        Its outputs are those of the last evaluation; or, where histories are collected, for each output in turn its values in the
        passes in front of the loop and those in the loop, and behind them whether an evaluation was over after each of these.
    names : tuple of str
        The outputs.
    steps : int
        How many evaluations of the graph this is.
    passes : int
        How many passes are in front of the loop.
    alone : int
        How many values of an output stand in front of those of the loop.
    width : int
        How many outputs of the body one output is made of, those of the loop too; 0 where histories are not collected.
    tells_ends : bool
        Whether it says after which passes an evaluation was over; if not, after each.
    """

    body: Body
    names: tuple[str, ...]
    steps: int
    passes: int
    alone: int = 0
    width: int = 0
    tells_ends: bool = False

    def places(self, chosen: Sequence[int]) -> list[int]:
        """The outputs of the body that some outputs are made of."""
        w = self.width or 1
        ends = range(len(self.names) * w, len(self.names) * w + w * self.tells_ends)
        return [k * w + n for k in chosen for n in range(w)] + [*ends]

    def evaluations(self, names: Sequence[str], found: Sequence[Any], xp: Any = np, axis: int = 0) -> list[Any]:
        """Outputs in all evaluations: an evaluation without a pass has the values of the one before.

        Parameters
        ----------
        names : sequence of str
            The outputs that are wanted.
        found : sequence of array
            What the body gives in their places, and behind them which passes end an evaluation.
        xp : module
            numpy, or one that has its functions.
        axis : int
            That of the passes.

        Raises
        ------
        UnsupportedOp
            An output changes its shape.
        """
        w, ends = self.width, ["ends"] * self.tells_ends
        columns = [self._passes(name, found[k * w : (k + 1) * w], xp, axis) for k, name in enumerate([*names, *ends])]
        wanted = xp.arange(self.steps)
        if self.tells_ends:  # behind how many passes so many evaluations are over; nan in JAX if none ever is
            over = xp.cumsum(columns.pop()[(0,) * axis])
            at = xp.searchsorted(over, xp.minimum(wanted + 1, xp.maximum(over[-1], 1)))
        else:
            at = xp.minimum(wanted, columns[0].shape[axis] - 1)
        return [xp.take(column, at, axis=axis) for column in columns]

    def _passes(self, name: str, parts: Sequence[Any], xp: Any, axis: int) -> Any:
        """The values of an output in all passes, in the type that holds them all."""
        rows = [xp.expand_dims(xp.asarray(part), axis) for part in parts[: self.alone]]
        rows += map(xp.asarray, parts[self.alone :])
        if len({row.shape[axis + 1 :] for row in rows}) > 1:
            before, behind = ([*row.shape[axis + 1 :]] for row in (rows[0], rows[-1]))
            raise UnsupportedOp(f"output {name!r} changes its shape, from {before} to {behind}")
        dtype = np.result_type(*(row.dtype for row in rows))
        return xp.concatenate([row.astype(dtype) for row in rows], axis)


def open_run(lowering: ScheduledLowering, given: Sequence[GivenInput] = ()) -> OpenRun:
    """All evaluations of a graph, in which places are open for values of these kinds; the inputs are ``node.id`` in this order.

    Raises
    ------
    NotLowered
        As :func:`mdf_loop.convert.scheduled.loops.lower`.
    """
    with lowering.naming_the_graph():
        return _Opened(lowering.plan, given).made()


class _Opened(FirstPasses):
    """The graph under way."""

    def __init__(self, plan: RunPlan, given: Sequence[GivenInput]) -> None:
        named = {each.key: Value(f"{each.node}.{each.id}", Number(each.number)) for each in given}
        super().__init__(plan, {key: might_be(value) for key, value in named.items()})
        self.named, self.builder = named, PassBuilder(inputs=[value.name for value in named.values()])

    def made(self) -> OpenRun:
        """The whole graph."""
        has_loop, first = self.run(), self.outputs
        loop = self._loop(first) if has_loop else None
        graph, count, names = self.plan.graph.id, len(self.plan.outputs), tuple(self.plan.outputs)
        if not self.plan.collect:
            last = [self._there(value, k) for k, value in enumerate(first)] if loop is None else loop[:count]
            return OpenRun(self.builder.finish(graph, last), names, self.plan.steps, len(self.rows))
        rows = [(ended, row) for ended, row in zip(self.ends, self.rows, strict=True) if not ended.is_known or ended.literal]
        if loop is None and len(rows) < self.plan.steps:  # an evaluation without a pass has the values of the one before
            rows.append((TRUE, tuple(first)))
        columns = [[self._there(row[k], k) for _, row in rows] for k in range(count)]
        ends = [ended for ended, _ in rows]
        tells = loop is not None and self.plan.tells_ends
        if loop is not None:
            columns = [[*column, loop[count + tells + k]] for k, column in enumerate(columns)]
            ends += loop[count : count + tells]
        results = [x for column in columns for x in column] + (ends if tells else [])
        body = self.builder.finish(graph, results)
        return OpenRun(body, names, self.plan.steps, len(self.rows), len(rows), len(rows) + has_loop, tells)

    def _there(self, value: Any, place: int) -> Value:
        if value is None:
            name = [*self.plan.outputs][place]
            raise NotCompiled(f"output {name!r} has no value in the first evaluation, in which its node does not run")
        return available(value if isinstance(value, Value | Unavailable) else literal(value))

    def _loop(self, first: Sequence[Any]) -> list[Value]:
        """The values that the loop gives: last ones, and collected ones behind them."""
        behind, passes, named = loop_behind(self.plan, self.known), self.plan.schedule.passes, self.named or {}
        states = [state for state in behind.loop.body.state if isinstance(state.initial, NUMBERS)]
        initial = [named.get(behind.keys[state.input], literal(state.initial)) for state in states]
        loop = behind.loop.with_state_carried(states)
        order = [*range(len(first))]
        if not self.going.is_known:  # perhaps it has no iteration, and an output the value that it had before
            there = [k for k in order if first[k] is not None]
            order = [*there, *(k for k in order if first[k] is None)]
            loop = _giving(loop, order, there)
            initial += [self._there(first[k], k) for k in there]
        trip_count = None if passes is None else literal(passes * self.plan.steps - len(self.rows))
        values = [trip_count, self.going, *initial]
        names = [self.builder.name(self.builder.array(x, "first")) if x is not None else "" for x in values]
        outputs = tuple(self.builder.fresh(name) for name in loop.results)
        node = Node("Loop", tuple(names), outputs, {"loop": loop}, loop.name, DEFAULT_OPSET)
        results = self.builder.add(node, varies=True, untouched=True)[len(states) :]
        return [*(results[order.index(k)] for k in range(len(first))), *results[len(first) :]]


def _giving(loop: Loop, order: Sequence[int], carried: Sequence[int]) -> Loop:
    """A loop with its last values in this order, the first ones carried."""
    before = tuple(Carried(f"before {k}", loop.last[k]) for k in carried)
    last = tuple(loop.last[k] for k in order[len(carried) :])
    body = replace(loop.body, inputs=(*loop.body.inputs, *(c.input for c in before)))
    return replace(loop, body=body, carried=(*loop.carried, *before), last=last)
