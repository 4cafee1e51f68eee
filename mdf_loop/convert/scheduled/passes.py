"""One pass of graph-scheduler through a graph: with values that are known, run at once, or as operators of a body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.convert.inner_values import NOTHING, with_value_in_loop
from mdf_loop.convert.scheduled.conditions import (
    COMPARISONS,
    PASS,
    SEQUENCE,
    UPDATE,
    UPDATES,
    AllRan,
    Condition,
    Constant,
    Count,
    JustRan,
    Not,
    Some,
    Threshold,
    calls,
    parts_of,
    way_inside,
)
from mdf_loop.convert.scheduled.nodes import PassMoment, ScheduledNode, Sent, port_value
from mdf_loop.convert.scheduled.run_order import RunPlan
from mdf_loop.convert.scheduled.slots import (
    FALSE,
    TRUE,
    GivenInput,
    Key,
    NodeRun,
    PassBuilder,
    Slots,
    Store,
    read_run,
)
from mdf_loop.errors import LoopError, NotLowered
from mdf_loop.execute.interpret import InterpretedBody
from mdf_loop.ir import Node
from mdf_loop.options import start_run
from mdf_loop.plan.invariants import is_pure, seeded
from mdf_loop.readers.expressions.values import NotCompiled, Number, Unavailable, Value, literal
from mdf_loop.readers.mdf.input_ports import default_value_of, is_plain, unsent_in_words

MOST_RUNS = 8
"""For how many kinds of values it is known what a node computes."""

UNREAD: Any = object()
"""In place of what a node computes, where that was not read yet."""


class DependsOnValues(Exception):
    """Whether a node runs in a pass depends on values that are open until the graph runs."""


class Pass:
    """One pass, in the making.

    Parameters
    ----------
    plan : RunPlan
    store : Store
    builder : PassBuilder
        Where conditions and counts are computed, and nodes whose values are open.
    """

    def __init__(self, plan: RunPlan, store: Store, builder: PassBuilder) -> None:
        self.plan, self.store, self.builder = plan, store, builder
        store.recorded = frozenset(plan.record)
        self.is_known = store.is_known
        self.anything = FALSE

    def run(self) -> None:
        """Make the pass."""
        schedule = self.plan.schedule
        for key in (key for keys in (*self.plan.of_loops.values(), *self.plan.iterated.values()) for key in keys):
            self.store.set(key, self._count(key))
        for key in self.plan.inside:
            self.store.set(key, literal(NOTHING))
        self._restart(PASS)
        if schedule.passes == 1:
            self._restart(UPDATE)
        going = TRUE
        for k, names in enumerate(schedule.sets):
            if schedule.may_end_before(k):
                going = self.builder.both(going, self.builder.contrary(self.holds(schedule.termination)))
            self._run_set(names, going)
        for scale in (UPDATE, SEQUENCE):
            if ("passes", scale) in self.plan.counters:
                self._add(("passes", scale), TRUE)
        for key in self.plan.watched:
            self.store.set(key, self._chosen_count(self.builder.contrary(self.anything), FALSE, key))

    def ended(self) -> Value:
        """Whether the evaluation of the graph is over, between two passes."""
        if self.plan.schedule.passes == 1:
            return TRUE
        return self.holds(self.plan.schedule.termination)

    def next_evaluation(self, ended: Value) -> None:
        """Where an evaluation is over, the next one counts from 0."""
        if self.is_known or self.plan.schedule.passes != 1:
            self._restart(UPDATE, ended)
        self.store.set(UPDATES, self.builder.chosen(ended, self._counted(UPDATES, TRUE), self._count(UPDATES), "evaluations"))

    def is_over(self) -> Value:
        """Whether there is no further pass: an evaluation that ends before its first pass will always do so."""
        if self.store.known.get(UPDATES, 0) >= self.plan.steps:
            return TRUE
        return self.holds(self.plan.schedule.termination) if self.plan.schedule.passes is None else FALSE

    def goes_on(self, ended: Value) -> Value:
        """Whether there is a further pass."""
        builder, store, plan = self.builder, self.store, self.plan
        goes_on = builder.contrary(ended)
        if plan.steps > 1:
            with store.aside():
                for key, scale in plan.counters.items():
                    if scale == UPDATE:
                        store.set(key, literal(0))
                idle = self.holds(plan.schedule.termination)
            another = builder.both(builder.compared("less", self._count(UPDATES), plan.steps), builder.contrary(idle))
            goes_on = builder.either_of(goes_on, another)
        if goes_on.is_known:  # always: MDF would never end either
            return builder.node("builtins.bool", [goes_on], "goes on", number=Number.BOOL)
        return goes_on

    def _restart(self, scale: str, when: Value = TRUE) -> None:
        for key, relative in self.plan.counters.items():
            if relative == scale:
                value = literal(0) if when.is_known and when.literal else self._chosen_count(when, literal(0), key)
                self.store.set(key, value)

    def _count(self, key: Key) -> Value:
        value = self.store.get(key, False if key[0] == "just ran" else 0)
        assert isinstance(value, Value)
        return value

    def _chosen_count(self, when: Value, value: Value, key: Key) -> Value:
        return self.builder.chosen(when, value, self._count(key), " ".join(key))

    def _counted(self, key: Key, when: Value) -> Value:
        """A count, one higher where something happened."""
        more = self.builder.added(self._count(key), literal(1), " ".join(key))
        return self._chosen_count(when, more, key)

    def _add(self, key: Key, when: Value) -> None:
        self.store.set(key, self._counted(key, when))

    def _run_set(self, names: tuple[str, ...], going: Value) -> None:
        runs: dict[str, Value] = {}
        for name in names:
            runs[name] = self._then(going, self.plan.schedule.conditions[name], FALSE)
            self._call(name, runs[name])
        for name in names:
            self._node(name, runs[name])
        self._remember_set(names, runs)

    def _call(self, name: str, runs: Value) -> None:
        """Count a node that is about to run."""
        for key in self.plan.spent.get(name, ()):
            self.store.set(key, self._chosen_count(runs, literal(0), key))
        for key in self.plan.counted.get(name, ()):
            self._add(key, runs)

    def _remember_set(self, names: tuple[str, ...], runs: Mapping[str, Value]) -> None:
        some = FALSE
        for value in runs.values():
            some = self.builder.either_of(some, value)
        self.anything = self.builder.either_of(self.anything, some)
        for key in self.plan.watched:
            self.store.set(key, self._chosen_count(some, runs.get(key[1], FALSE), key))

    def _node(self, name: str, runs: Value) -> None:
        """Run a node where its condition holds."""
        if runs.is_known and not runs.literal:
            return
        if self.is_known and not runs.is_known:
            raise DependsOnValues
        try:
            if self.is_known:
                self._run_now(name)
            elif runs.is_known:
                self._evaluate(name, self.builder)
            else:
                self._run_perhaps(name, runs)
        except NotCompiled as reason:
            raise NotLowered(str(reason), (self.plan.graph.id, name)) from reason

    def _run_now(self, name: str) -> None:
        """Run a node whose values are known, and know its new ones; one with values that are open is written."""
        self._note_unsent(name)
        made = self._node_run(name) if self.store.named is None else None
        try:
            with np.errstate(all="ignore"):
                self.store.keep(self._of_these_values(name) if made is None else made(self.store))
        except LoopError as error:
            error.add_note(f"in node {name!r} of {self.plan.graph.id!r}, in one of its first runs")
            raise

    def _note_unsent(self, name: str) -> None:
        """Keep what to say of ports of a node that nothing has been sent to, and that have no value of their own."""
        for port in self.plan.nodes[name].input_ports:
            edges = [edge for edge in self.plan.edges.get((name, port.id), ()) if edge.sender != name]
            if edges and default_value_of(port) is None and not any(self._ran(edge.sender).literal for edge in edges):
                self.store.noted[unsent_in_words(edges[0], port)] = None

    def _node_run(self, name: str) -> NodeRun | None:
        """What a node computes for values such as these."""
        runs, known = self.plan.runs.setdefault(name, []), self.store.known
        made = next((run for run in runs if run is None or run.fits(known)), UNREAD)
        if made is not UNREAD:
            return made

        def evaluate(store: Slots, builder: PassBuilder) -> dict[Key, Value | Unavailable]:
            once = Pass(self.plan, store, builder)
            with store.aside() as changed:
                once._evaluate(name, builder)
            return changed

        runs.append(made := read_run(known, evaluate, name))
        del runs[:-MOST_RUNS]
        return made

    def _of_these_values(self, name: str) -> dict[Key, Any]:
        """What a node makes of its values, read for these: new values, or what they are called in the graph that is written."""
        with self.builder.branch() as nodes, self.store.aside() as changed:
            self._evaluate(name, self.builder)
        values = {key: value for key, value in changed.items() if isinstance(value, Value)}
        body = self.builder.part(nodes, [*values.values()], name)
        if self.store.named is not None and (body.captures or not all(map(is_pure, nodes))):
            self.builder.nodes += nodes
            return changed
        return {**changed, **dict(zip(values, InterpretedBody(body)((), (), start_run()), strict=True))}

    def _run_perhaps(self, name: str, runs: Value) -> None:
        """Run a node, or let it keep what it had."""
        with self.builder.branch() as nodes, self.store.aside() as changed:
            self._evaluate(name, self.builder)
        kept: list[tuple[Key, Value, Value]] = []
        for key in changed:
            if key not in self.store.reading.live:
                continue  # a later reader reads this again
            old, new = self.store.peek(key), changed[key]
            if isinstance(old, Value) and isinstance(new, Value):
                kept.append((key, new, old))
            else:
                self.store.set(key, new if isinstance(new, Unavailable) else old)
        merged = self.builder.selected(runs, (nodes, [new for _, new, _ in kept]), ([], [old for *_, old in kept]), name)
        for (key, *_), value in zip(kept, merged, strict=True):
            self.store.set(key, value)

    def _evaluate(self, name: str, builder: PassBuilder) -> None:
        """Make one run of a node."""
        node, path = self.plan.nodes[name], (self.plan.graph.id, name)
        ran, iterations = self._ran(name), self._iterations(name)
        moment = PassMoment(ran, self._begun(name), self._later(), self.plan.time_increment)
        ports = {
            port.id: port_value(self.store, builder, node, port, self._sent(node, port), ran, path) for port in node.input_ports
        }
        before = len(builder.nodes)
        ScheduledNode(node, ports, builder, path, self.store, moment).run()
        _refuse_seeds(builder.nodes[before:])
        for key in self.plan.inside:
            if (
                key[1] == name
                and (found := with_value_in_loop(builder.nodes[before:], way_inside(key), builder.fresh)) is not None
            ):
                builder.nodes[before:] = found[0]
                self.store.set(key, Value(found[1]))
        self.store.set(("ran", name), TRUE)
        for key in self.plan.iterated.get(name, ()):
            done = builder.node("subtract", [self._iterations(name), iterations], "iterations", number=Number.INT)
            self.store.set(key, builder.added(self._count(key), done, "iterations"))

    def _begun(self, name: str) -> Value:
        """Whether a stepped loop has begun in this evaluation of the graph; once it has, in the only one, it stays so."""
        if name not in self.plan.stepped:
            return FALSE
        key = ("begun", name, UPDATE)
        if self.plan.steps == 1 and not self.is_known and self.store.known.get(key):
            return TRUE
        return self.builder.compared("equal", self._count(key), 1)

    def _iterations(self, name: str) -> Value:
        return self._count(("iterations", name, UPDATE)) if name in self.plan.stepped else literal(0)

    def _ran(self, name: str) -> Value:
        if not self.is_known and self.store.known.get(("ran", name)):
            return TRUE
        value = self.store.get(("ran", name), False)
        assert isinstance(value, Value)
        return value

    def _later(self) -> Value:
        """Whether this is not the first evaluation of the graph, where time goes on."""
        plan = self.plan
        if not plan.time_goes_on:
            return FALSE
        if self.store.known.get(UPDATES, 0) > 0:
            return TRUE
        return self.builder.compared("greater", self._count(UPDATES), 0)

    def _sent(self, node: Any, port: Any) -> list[Sent]:
        """What the edges into a port bring."""
        sent = []
        for edge in self.plan.edges.get((node.id, port.id), ()):
            key = ("output", edge.sender, edge.sender_port)
            if edge.sender == edge.receiver and not is_plain(edge):
                raise NotCompiled(f"edge {edge.id!r} has a weight and no value to weigh before its node has run: MDF fails there")
            value = self.store.get(key)
            is_array = isinstance(self.store.known.get(key, getattr(value, "literal", None)), np.ndarray)
            sent.append(Sent(edge, value, self._ran(edge.sender), is_array))
        return sent

    def holds(self, condition: Condition) -> Value:
        """Whether a condition holds now."""
        builder = self.builder
        if isinstance(condition, Constant):
            return literal(condition.value)
        if isinstance(condition, Count):
            return self._counts(condition)
        if isinstance(condition, JustRan):
            return self._just_ran(condition)
        if isinstance(condition, Threshold):
            return self._beyond(condition)
        if isinstance(condition, Not):
            return builder.contrary(self.holds(condition.part))
        if isinstance(condition, AllRan):
            return self._joined(tuple(calls((name,), "greater_equal", 1, condition.scale) for name in condition.nodes), FALSE)
        return self._joined(condition.parts, TRUE if isinstance(condition, Some) else FALSE)

    def _joined(self, parts: tuple[Condition, ...], end: Value) -> Value:
        """Several conditions: any of them if ``end`` is true, else all."""
        value = self.builder.contrary(end)
        for part in parts:
            value = self._then(value, part, end)
            if value.is_known and value.literal is end.literal:
                break
        return value

    def _then(self, value: Value, condition: Condition, end: Value) -> Value:
        """A value joined with a condition that is looked at only where the value is not ``end``: a threshold may fail."""
        join = self.builder.either_of if end.literal else self.builder.both
        if value.is_known or not any(isinstance(part, Threshold) for part in parts_of(condition)):
            return value if value.is_known and value.literal is end.literal else join(value, self.holds(condition))
        decided, looked = (lambda: end), (lambda: self.holds(condition))
        then, otherwise = (decided, looked) if end.literal else (looked, decided)
        return self.builder.computed(value, then, otherwise, "condition")

    def _counts(self, condition: Count) -> Value:
        total = literal(0)
        for key in condition.keys:
            total = self.builder.added(total, self._count(key), "calls")
        if condition.comparison == "remainder":
            return self.builder.divides(total, condition.n)
        return self.builder.compared(condition.comparison, total, condition.n)

    def _just_ran(self, condition: JustRan) -> Value:
        key = ("just ran", condition.node)
        if self.is_known and key not in self.store.known and key not in self.store.now():
            raise NotLowered("a condition is JustRan, which MDF cannot answer before anything ran", (self.plan.graph.id,))
        return self._count(key)

    def _beyond(self, condition: Threshold) -> Value:
        """A parameter or output port compared with a number."""
        ran = self._ran(condition.node)
        return self.builder.computed(
            ran,
            lambda: self._compared(condition, self._threshold_value(condition)),
            lambda: self._compared(condition, self._value_at_first(condition)),
            "condition",
        )

    def _threshold_value(self, condition: Threshold) -> Value:
        """What a condition compares, once its node has run."""
        kind = "parameter" if condition.kind == "parameters" else "output"
        value = self.store.get((kind, condition.node, condition.name))
        if isinstance(value, Unavailable):
            where = f"{condition.node}.{condition.name}"
            raise NotLowered(f"a condition is a Threshold of {where}: {value.reason}", (self.plan.graph.id,))
        return value

    def _value_at_first(self, condition: Threshold) -> Value:
        """What MDF finds before the node has run: zeros at an output port, the initial value of a parameter."""
        node = self.plan.nodes[condition.node]
        thing = next(thing for thing in getattr(node, condition.kind) if thing.id == condition.name)
        value = _zeros_at(thing, condition.indices) if condition.kind == "output_ports" else thing.default_initial_value
        if isinstance(value, GivenInput):
            return self.store.given(value)
        if not isinstance(value, bool | int | float | list | np.ndarray):
            raise NotLowered(
                f"a condition is a Threshold of {condition.node}.{condition.name}, which MDF looks at before it has a value",
                (self.plan.graph.id,),
            )
        return literal(np.asarray(value) if isinstance(value, list) else value)

    def _compared(self, condition: Threshold, value: Value) -> Value:
        """Whether a value is beyond the threshold of a condition."""
        builder, where = self.builder, f"{condition.node}.{condition.name}"
        if value.is_known:
            return literal(_is_beyond(value.literal, condition))
        for index in condition.indices:
            value = builder.node("index", [value], where, index=index)
        value = builder.node("builtins.float", [value], where, number=Number.FLOAT)
        if condition.comparison not in ("equal", "not_equal") or not (condition.atol or condition.rtol):
            return builder.compared(condition.comparison, value, condition.threshold)
        distance = builder.node("subtract", [value, literal(condition.threshold)], where, number=Number.FLOAT)
        distance = builder.node("absolute", [distance], where, number=Number.FLOAT)
        close = builder.compared("less_equal", distance, condition.atol + condition.rtol * abs(condition.threshold))
        return close if condition.comparison == "equal" else builder.contrary(close)


def _zeros_at(port: Any, indices: tuple[int, ...]) -> np.ndarray:
    """What a port has before its node runs; PsyNeuLink declares its shape without the first axis that indices count."""
    shape = tuple(port.shape or ())
    return np.zeros((1,) * (len(indices) - len(shape)) + shape)


def _refuse_seeds(nodes: Sequence[Node]) -> None:
    """See that nothing draws from a seed of its own: what it draws next depends on how often its node was made.

    Raises
    ------
    NotCompiled
    """
    found = next(filter(None, map(seeded, nodes)), None)
    if found is not None:
        raise NotCompiled(
            f"{found.op} has a seed of its own, from which a loop over steps would not draw as MDF's engine does; "
            "without it, it draws from the stream of the run"
        )


def _is_beyond(value: Any, condition: Threshold) -> bool:
    """As graph-scheduler compares a value that is known."""
    for index in condition.indices:
        value = value[index]
    if value is None or np.size(value) != 1:
        raise NotLowered(f"a condition is a Threshold of {condition.node}.{condition.name}, which has no single number yet")
    number = float(np.asarray(value).reshape(()))
    if condition.comparison not in ("equal", "not_equal"):
        return COMPARISONS[condition.comparison](number, condition.threshold)
    close = bool(np.isclose(number, condition.threshold, atol=condition.atol, rtol=condition.rtol))
    return close if condition.comparison == "equal" else not close
