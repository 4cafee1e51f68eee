"""A scheduled graph as one graph around a loop, in which some values are open until it runs.

:mod:`~mdf_loop.convert.scheduled.loops` runs the first passes and keeps what comes out.  Here what depends on an open value, or
draws random numbers, is written in front of the loop; all else is still run at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdf_loop.convert.scheduled.conditions import UPDATES, Key
from mdf_loop.convert.scheduled.loops import ScheduledLowering, goes_on, is_over, is_settled, loop_behind
from mdf_loop.convert.scheduled.passes import Pass
from mdf_loop.convert.scheduled.run_order import RunPlan
from mdf_loop.convert.scheduled.slots import TRUE, GivenInput, PassBuilder, Reading, Store
from mdf_loop.ir import Body, Carried, Loop, Node
from mdf_loop.plan.invariants import is_pure
from mdf_loop.readers.expressions.values import NotCompiled, Number, Unavailable, Value, literal
from mdf_loop.readers.onnx.graph import DEFAULT_OPSET

OF_A_KIND: dict[Number, Any] = {Number.BOOL: False, Number.INT: 0, Number.FLOAT: 0.0, Number.COMPLEX: 0j}
"""What an open value might be, for code that asks of which kind it is; an array if it is none of these."""


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
    alone : int
        How many values of an output stand in front of those of the loop.
    has_loop : bool
    tells_ends : bool
        Whether it says after which passes an evaluation was over; if not, after each.
    is_collected : bool
        Whether histories are collected.
    """

    body: Body
    names: tuple[str, ...]
    steps: int
    alone: int = 0
    has_loop: bool = False
    tells_ends: bool = False
    is_collected: bool = False

    @property
    def width(self) -> int:
        """How many outputs of the body one output is made of."""
        return self.alone + self.has_loop if self.is_collected else 1

    def places(self, chosen: Sequence[int]) -> list[int]:
        """The outputs of the body that some outputs are made of."""
        w = self.width
        ends = range(len(self.names) * w, len(self.names) * w + w * self.tells_ends)
        return [k * w + n for k in chosen for n in range(w)] + [*ends]


def open_run(lowering: ScheduledLowering, given: Mapping[GivenInput, Number]) -> OpenRun:
    """All evaluations of a graph, in which places are open for values of these kinds; the inputs are ``node.id`` in this order.

    Raises
    ------
    NotLowered
        As :func:`mdf_loop.convert.scheduled.loops.lower`.
    """
    with lowering.naming_the_graph():
        return _Opened(lowering.plan, given).made()


class _DependsOnValues(Exception):
    """Whether a node runs in a pass depends on open values."""


class _OpenStore(Store):
    """Values of a pass that is written: some are known, others have a name in the graph."""

    def __init__(self, known: dict[Key, Any], named: dict[Key, Value]) -> None:
        super().__init__(known, None, Reading())
        self.named, self.was_open = named, False

    def peek(self, key: Key, default: Any = None) -> Value | Unavailable:
        """A value, as far as the pass has come; the one of the next pass may be another, whatever this one is computed from."""
        found = super().peek(key, default)
        if key in self.named and not any(key in layer for layer in self._layers):
            found = self.named[key]
        if isinstance(found, Unavailable):
            return found
        is_own = len(self._layers) > 1 and key in self._layers[-1]  # of the node that is being written
        self.was_open |= not is_own and not found.is_known and found.items is None
        return replace(found, varies=True)

    def set(self, key: Key, value: Value | Unavailable) -> None:
        """What a value is from now on."""
        super().set(key, value)
        if key not in self._layers[-1]:
            self.named.pop(key, None)

    def given(self, given: GivenInput) -> Value:
        """What a run is given, which no pass changes."""
        self.was_open = True
        return replace(self.named[given.key], varies=False)

    def keep(self, changed: Mapping[Key, Value | Unavailable]) -> None:
        """Know what changed, or what it is called."""
        for key, value in changed.items():
            if isinstance(value, Unavailable) or value.is_known:
                self.named.pop(key, None)
                self.known[key] = value.literal if isinstance(value, Value) else value
            elif value.items is not None:
                raise NotCompiled(f"{'.'.join(key[1:])} is a list of values that are open")
            else:
                self.named[key] = value
                self.known[key] = self._least(key, value)

    def _least(self, key: Key, value: Value) -> Any:
        """What is sure of an open value: a count has not fallen, and that a node ran is known only where it is known."""
        if key[0] == "ran" or key == UPDATES:
            return self.known.get(key, False if key[0] == "ran" else 0)
        return _of_a_kind(value)


class _OpenPass(Pass):
    """A pass whose nodes are run where all their values are known, and written where they are not."""

    store: _OpenStore

    def _node(self, name: str, runs: Value) -> None:
        if not runs.is_known:
            raise _DependsOnValues
        super()._node(name, runs)

    def _run_now(self, name: str) -> None:
        nodes, self.store.was_open = self.builder.nodes, False
        mark = len(nodes)
        with self.store.aside() as changed:
            self._evaluate(name, self.builder)
        if self.store.was_open or not all(map(is_pure, nodes[mark:])):
            self.store.keep(changed)  # at once, for what runs now in this pass reads what is known
            return
        del nodes[mark:]
        super()._run_now(name)
        for key in changed:
            self.store.named.pop(key, None)


class _Opened:
    """The graph under way."""

    def __init__(self, plan: RunPlan, given: Mapping[GivenInput, Number]) -> None:
        self.plan = plan
        self.inputs = {f"{each.node}.{each.id}": each for each in given}
        self.builder = PassBuilder(inputs=tuple(self.inputs))
        self.named = {each.key: Value(name, given[each]) for name, each in self.inputs.items()}
        self.known: dict[Key, Any] = {key: _of_a_kind(value) for key, value in self.named.items()}
        self.rows: list[tuple[Value, tuple[Any, ...]]] = []
        self.passes, self.going = 0, TRUE

    def made(self) -> OpenRun:
        """The whole graph."""
        has_loop = self._first_passes()
        first = [self._output(place) for place in self.plan.outputs.values()]
        loop = self._loop(first) if has_loop else None
        count, names = len(self.plan.outputs), tuple(self.plan.outputs)
        if not self.plan.collect:
            last = [self._there(value, k) for k, value in enumerate(first)] if loop is None else loop[:count]
            return OpenRun(self._finished(last), names, self.plan.steps)
        rows = [(ended, row) for ended, row in self.rows if not ended.is_known or ended.literal]
        if loop is None and len(rows) < self.plan.steps:  # an evaluation without a pass has the values of the one before
            rows.append((TRUE, tuple(first)))
        columns = [[self._there(row[k], k) for _, row in rows] for k in range(count)]
        ends = [ended for ended, _ in rows]
        tells = loop is not None and self.plan.tells_ends
        if loop is not None:
            columns = [[*column, loop[count + tells + k]] for k, column in enumerate(columns)]
            ends += loop[count : count + tells]
        results = [x for column in columns for x in column] + (ends if tells else [])
        return OpenRun(self._finished(results), names, self.plan.steps, len(rows), loop is not None, tells, is_collected=True)

    def _finished(self, results: Sequence[Value]) -> Body:
        return self.builder.finish(self.plan.graph.id, results)

    # Passes in front of the loop

    def _first_passes(self) -> bool:
        """Passes until the loop can take over; whether something is left to it."""
        while not self._is_over():
            if not self.going.is_known:
                return True
            mark, made = len(self.builder.nodes), self._pass()
            try:
                made.run()
            except _DependsOnValues:  # whether a node ran is carried by the loop
                del self.builder.nodes[mark:]
                return True
            self.passes += 1
            ended = made.ended()
            self._keep(made)
            self.rows.append((ended, tuple(map(self._output, self.plan.outputs.values()))))
            if not ended.is_known:
                made.next_evaluation(ended)
                self.going = goes_on(self.plan, made, ended)
                self._keep(made)
                return True
            if ended.literal:
                made.next_evaluation(ended)
                self._keep(made)
            if is_settled(self.plan, self.known, self.passes):
                return not self._is_over()
        return False

    def _is_over(self) -> bool:
        """Whether it is sure that there is no further pass; where open values decide, ``going`` says it."""
        over = is_over(self.plan, self.known, self._pass())
        self.going = self.builder.contrary(over)
        return over.is_known and bool(over.literal)

    def _pass(self) -> _OpenPass:
        store = _OpenStore(dict(self.known), dict(self.named))  # of a pass that is given up nothing stays
        return _OpenPass(self.plan, store, self.builder)

    def _keep(self, made: _OpenPass) -> None:
        """Go on with what a pass changed."""
        made.store.keep(made.store.now())
        self.known, self.named = made.store.known, made.store.named

    def _output(self, place: tuple[str, str]) -> Any:
        """What an output port holds; None before its node has run."""
        key = ("output", *place)
        if not self.known.get(("ran", place[0])):
            return None
        found = self.named.get(key) or self.known.get(key)
        if isinstance(found, Unavailable):
            raise NotCompiled(found.reason)
        return found if isinstance(found, Value) else literal(found)

    def _there(self, value: Any, place: int) -> Value:
        if value is None:
            name = [*self.plan.outputs][place]
            raise NotCompiled(f"output {name!r} has no value in the first evaluation, in which its node does not run")
        return value

    # The loop

    def _loop(self, first: Sequence[Any]) -> list[Value]:
        """The values that the loop gives: last ones, and collected ones behind them."""
        behind, passes = loop_behind(self.plan, self.known), self.plan.schedule.passes
        opened = [state for state in behind.loop.body.state if behind.keys[state.input] in self.named]
        initial = [self.named[behind.keys[state.input]] for state in opened]
        loop = _carrying(behind.loop, [Carried(state.input, state.output) for state in opened])
        order = [*range(len(first))]
        if not self.going.is_known:  # perhaps it has no iteration, and an output the value that it had before
            there = [k for k in order if first[k] is not None]
            order = [*there, *(k for k in order if first[k] is None)]
            loop = _giving(loop, order, there)
            initial += [self._there(first[k], k) for k in there]
        trip_count = None if passes is None else literal(passes * self.plan.steps - self.passes)
        values = [trip_count, self.going, *initial]
        names = [self.builder.name(self.builder.array(x, "first")) if x is not None else "" for x in values]
        outputs = tuple(self.builder.fresh(name) for name in loop.results)
        node = Node("Loop", tuple(names), outputs, {"loop": loop}, loop.name, DEFAULT_OPSET)
        results = self.builder.add(node, varies=True, untouched=True)[len(opened) :]
        return [*(results[order.index(k)] for k in range(len(first))), *results[len(first) :]]


def _of_a_kind(value: Value) -> Any:
    return OF_A_KIND.get(value.number, np.zeros(()))


def _carrying(loop: Loop, carried: Sequence[Carried]) -> Loop:
    """A loop some of whose hidden values are carried."""
    inputs, body = {c.input for c in carried}, loop.body
    state = tuple(s for s in body.state if s.input not in inputs)
    body = replace(body, outputs=(*body.outputs, *(c.output for c in carried)), state=state)
    return _taking(replace(loop, body=body, carried=tuple(carried)), [c.input for c in carried])


def _giving(loop: Loop, order: Sequence[int], carried: Sequence[int]) -> Loop:
    """A loop with its last values in this order, the first ones carried."""
    before = tuple(Carried(f"before {k}", loop.last[k]) for k in carried)
    last = tuple(loop.last[k] for k in order[len(carried) :])
    return _taking(replace(loop, carried=(*loop.carried, *before), last=last), [c.input for c in before])


def _taking(loop: Loop, inputs: Sequence[str]) -> Loop:
    """A loop whose body has more inputs."""
    return replace(loop, body=replace(loop.body, inputs=(*loop.body.inputs, *inputs)))
