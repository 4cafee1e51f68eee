"""Scheduled MDF graphs to loops: stateful parameters and conditions of graph-scheduler become the body of one Loop.

One iteration is one *pass* of graph-scheduler through the graph.  What lives from pass to pass - stateful parameters,
the values at output ports, counts of calls and passes - are hidden values of the body
(:class:`~mdf_loop.ir.State`).  The first passes are run here, one by one, until every node has run: MDF's engine
evaluates a node's first run differently, and the loop that follows need not know of that.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from mdf_loop.convert.loading import load
from mdf_loop.convert.scheduled.conditions import INSIDE, UPDATES, Key
from mdf_loop.convert.scheduled.lowered_runs import LoopBehind, Lowered, execute
from mdf_loop.convert.scheduled.passes import Pass
from mdf_loop.convert.scheduled.run_order import RunPlan, read_schedule
from mdf_loop.convert.scheduled.slots import (
    FALSE,
    TRUE,
    GivenInput,
    PassBuilder,
    Reading,
    Store,
)
from mdf_loop.errors import ArgumentError, KindError, NotLowered, in_words, malformed
from mdf_loop.ir import Body, Collected, Loop
from mdf_loop.ir.well_formed import check_body
from mdf_loop.kernels import load_kernels
from mdf_loop.readers.expressions.values import NotCompiled, Number, Unavailable, Value, available, literal
from mdf_loop.readers.mdf.body import check_graph
from mdf_loop.readers.mdf.signature import output_ports
from mdf_loop.readers.mdf.typed import is_typed
from mdf_loop.settings.counts import LARGEST, counted

__all__ = ["Lowered", "ScheduledLowering", "check_steps", "execute", "lower"]

MOST_FIRST_PASSES = 20
"""How many passes are run one by one at most: a node that has not run by then has its first run inside the loop."""

MOST_PASSES_WITHOUT_VALUE = 1000
"""The same where outputs are collected and one has no value yet: a loop collects values alone."""


def lower(
    model: Any,
    steps: int = 1,
    time_increment: float | None = None,
    collect: bool = False,
    record: Sequence[Key] = (),
) -> Lowered:
    """Turn a scheduled MDF graph into one loop with the results of MDF's engine.

    Parameters
    ----------
    model : modeci_mdf Model or Graph, str or path-like
    steps : int
        The number of evaluations of the graph.
    time_increment : float, optional
        The time between two evaluations.  The first one has none, as in MDF's examples.
    collect : bool
        Whether the loop collects the outputs of every evaluation.
    record : sequence of Key
        Values that the loop collects in every pass: ``"output"``, ``"parameter"``, ``"function"`` and ``"input"`` of nodes, and
        what is :data:`~mdf_loop.convert.scheduled.conditions.INSIDE` loops of nodes.

    Returns
    -------
    Lowered

    Raises
    ------
    NotLowered
        Part of the graph cannot become part of a loop.  The message names the node or condition, and the reason.
    ArgumentError
        ``steps`` or ``time_increment`` has a wrong value.
    MalformedBody, UnsupportedOp
        The graph is broken.

    Examples
    --------
    >>> import mdf_loop
    >>> from mdf_loop.convert.scheduled.loops import lower
    >>> lowered = lower(mdf_loop.load("examples/oscillator.yaml"), steps=1000, time_increment=0.01)
    >>> lowered.trip_count, lowered.names
    (998, ('count', 'level'))
    """
    return ScheduledLowering(model, steps, time_increment, collect, record).lowered()


class ScheduledLowering:
    """One way of making a scheduled graph a loop, for as often as it is to run: what it takes is what :func:`lower` takes.

    The first passes are run each time, for they may draw random numbers.  The loop behind them is read once for each kind of
    values that it may begin with.
    """

    def __init__(
        self,
        model: Any,
        steps: int = 1,
        time_increment: float | None = None,
        collect: bool = False,
        record: Sequence[Key] = (),
    ) -> None:
        check_steps(steps, time_increment)
        load_kernels()
        self.graph = _only_graph(model)
        if is_typed(self.graph):
            raise NotLowered("it is an ONNX graph, which computes in the types that it says", (self.graph.id,))
        with self.naming_the_graph():
            check_graph(self.graph)
            kept = [("output", *place) for place in output_ports(self.graph).values()] if collect else []
            self.plan = RunPlan(self.graph, read_schedule(self.graph), int(steps), time_increment, (*kept, *record), collect)
        self._read: tuple[Any, LoopBehind] | None = None

    def lowered(self, given: Mapping[GivenInput, Any] = MappingProxyType({})) -> Lowered:
        """The first passes, run now, and the loop behind them; ``given`` are values for places in the graph."""
        with self.naming_the_graph():
            start = _First(self.plan, given).run()
            outputs = tuple(known_value(start.known, ("output", *place)) for place in self.plan.outputs.values())
            _refuse_unavailable((*(() if start.is_settled else (outputs,)), *start.rows))
            sent = {key: value for key, value in start.known.items() if key[0] == "output"}
            made = Lowered(self.plan, None, outputs, tuple(start.rows), tuple(start.ends), sent=sent)
            if not start.is_settled:
                return made
            behind = self._behind(start)
            states = behind.loop.body.state
            hidden = tuple(start.known.get(behind.keys[state.input], state.initial) for state in states)
            return replace(made, loop=behind.loop, hidden=hidden, behind=behind)

    def _behind(self, start: Start) -> LoopBehind:
        kinds, read = _kinds(start.known), self._read
        if read is None or kinds is None or read[0] != kinds:
            read = self._read = kinds, loop_behind(self.plan, start.known)
        return read[1]

    @contextlib.contextmanager
    def naming_the_graph(self) -> Iterator[None]:
        """The error for what cannot be expressed names the graph."""
        try:
            with malformed("this graph cannot become a loop", (str(self.graph.id),), let=(NotCompiled,)):
                yield
        except NotCompiled as reason:
            raise NotLowered(str(reason), (self.graph.id,)) from reason


def check_steps(steps: Any, time_increment: Any) -> None:
    """See that these are numbers that one can go by.

    Raises
    ------
    ArgumentError
    """
    counted("steps", steps, "how many times the graph is evaluated")
    if time_increment is not None and (
        isinstance(time_increment, bool) or not isinstance(time_increment, int | float | np.integer | np.floating)
    ):
        raise KindError(f"time_increment must be a number or None; got {time_increment!r}")
    if isinstance(time_increment, int | np.integer) and abs(int(time_increment)) > LARGEST:
        raise ArgumentError(f"time_increment must be a number that int64 or float64 holds; got {in_words(time_increment)}")


def _only_graph(model: Any) -> Any:
    if isinstance(model, str | os.PathLike):
        model = load(model)
    graphs = getattr(model, "graphs", None)
    if graphs is None:
        return model
    if len(graphs) != 1:
        raise NotLowered(f"the model {model.id!r} has {len(graphs)} graphs, not one")
    return graphs[0]


@dataclass
class Start:
    """What is known after the first passes: what was recorded of each, whether an evaluation was over, whether a loop follows."""

    known: dict[Key, Any]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    ends: list[bool] = field(default_factory=list)
    is_settled: bool = False


class _First:
    """The passes that are run one by one."""

    def __init__(self, plan: RunPlan, given: Mapping[GivenInput, Any]) -> None:
        self.plan, self.known = plan, {each.key: value for each, value in given.items()}

    def run(self) -> Start:
        """Run passes until every node has run; everything, if that is all there is to do."""
        start = Start(self.known)
        while not self._is_over():
            start.is_settled = bool(start.rows) and is_settled(self.plan, self.known, len(start.rows))
            if start.is_settled:
                break
            made = self._pass()
            made.run()
            ended = made.ended()
            self._keep(made)
            start.rows.append(tuple(known_value(self.known, key) for key in self.plan.record))
            start.ends.append(bool(ended.literal))
            if ended.literal:
                made.next_evaluation(ended)
                self._keep(made)
        return start

    def _pass(self) -> Pass:
        return Pass(self.plan, Store(self.known, None, Reading()), PassBuilder())

    def _is_over(self) -> bool:
        return bool(is_over(self.plan, self.known, self._pass()).literal)

    def _keep(self, made: Pass) -> None:
        self.known |= {key: value.literal if isinstance(value, Value) else value for key, value in made.store.now().items()}


def is_over(plan: RunPlan, known: Mapping[Key, Any], before: Pass) -> Value:
    """Whether there is no further pass: an evaluation that ends before its first pass will always do so."""
    if known.get(UPDATES, 0) >= plan.steps:
        return TRUE
    return before.holds(plan.schedule.termination) if plan.schedule.passes is None else FALSE


def is_settled(plan: RunPlan, known: Mapping[Key, Any], passes: int) -> bool:
    """Whether the loop can take over after so many passes."""
    waiting = [key[1] for key in plan.record if key[0] != INSIDE and not known.get(("ran", key[1]))]
    if waiting and passes >= MOST_PASSES_WITHOUT_VALUE:
        raise NotCompiled(f"node {waiting[0]!r} has not run in {passes} passes, and a loop collects values alone")
    if passes >= MOST_FIRST_PASSES and not waiting:
        return True
    if not all(known.get(("ran", node.id)) for node in plan.graph.nodes):
        return False
    return not plan.time_goes_on or plan.schedule.passes != 1 or known.get(UPDATES, 0) > 1


def known_value(known: Mapping[Key, Any], key: Key) -> Any:
    """What there is of a value after a pass, or why that cannot be expressed; None before its node has run."""
    return known.get(key) if key[0] == INSIDE or known.get(("ran", key[1])) else None


def _refuse_unavailable(rows: Iterable[tuple[Any, ...]]) -> None:
    """See that no output is one that operators cannot express.

    Raises
    ------
    NotCompiled
    """
    for row in rows:
        for value in row:
            available(value)


def _kinds(known: Mapping[Key, Any]) -> dict[Key, Any] | None:
    """All of the values at the beginning of a loop that its body depends on; None for values that it may depend on."""
    found: dict[Key, Any] = {}
    for key, value in known.items():
        if key[0] == INSIDE:  # which each pass sets
            continue
        if isinstance(value, list | tuple | dict | str):
            return None
        said = value.reason if isinstance(value, Unavailable) else bool(value) if key[0] == "ran" or key == UPDATES else None
        found[key] = type(value), said
    return found


def loop_behind(plan: RunPlan, begun: Mapping[Key, Any]) -> LoopBehind:
    """The loop over all further passes.  Read again while that finds out something the reading before needed to know."""
    reading, known = Reading(), dict(begun)
    body, keys = reading.settled(lambda: _body(plan, known, reading))
    count = len(plan.outputs)
    last, more = body.outputs[:count], [*body.outputs[count:]]
    keep_going = more.pop(0) if plan.schedule.passes is None else None
    collected = [Collected(more.pop(0))] if plan.tells_ends else []
    collected += [Collected(name, widens=True, ragged=key[0] == INSIDE) for name, key in zip(more, plan.record, strict=True)]
    name = f"passes of {plan.graph.id}"
    loop = Loop(check_body(body, (plan.graph.id,)), last=last, collected=tuple(collected), keep_going=keep_going, name=name)
    return LoopBehind(loop, keys)


def _body(plan: RunPlan, known: dict[Key, Any], reading: Reading) -> tuple[Body, dict[str, Key]]:
    """The body, and whose its hidden values are.

    Its outputs are those of the graph, whether to go on, and whether an evaluation is over, as far as needed.  Of a value that
    cannot be expressed after a pass this is known when the body is read again: it matters where something reads the value.
    """
    builder = PassBuilder(reading)
    store = Store(known, builder, reading)
    made = Pass(plan, store, builder)
    made.run()
    results = [available(store.get(("output", *place)), f"output {name}") for name, place in plan.outputs.items()]
    ended = made.ended()
    made.next_evaluation(ended)
    if plan.schedule.passes is None:
        results.append(goes_on(plan, made, ended))
    if plan.tells_ends:
        results.append(builder.node("builtins.bool", [ended], "evaluation is over", number=Number.BOOL))
    results += [available(store.get(key), f"{key[1]}.{key[2]}") for key in plan.record]
    for key in list(store.carried):
        value = store.peek(key)
        if isinstance(value, Unavailable):
            known[key], reading.changed = value, True
            value = store.carried[key]
        builder.goes_on(key, value)
    keys = {value.name: key for key, value in store.carried.items()}
    return builder.finish(plan.graph.id, results), keys


def goes_on(plan: RunPlan, made: Pass, ended: Value) -> Value:
    """Whether there is a further pass."""
    builder, store = made.builder, made.store
    goes_on = builder.contrary(ended)
    if plan.steps > 1:
        with store.aside():
            for key, scale in plan.counters.items():
                if scale == "ENVIRONMENT_STATE_UPDATE":
                    store.set(key, literal(0))
            idle = made.holds(plan.schedule.termination)
        count = store.get(UPDATES, 0)
        assert isinstance(count, Value)
        another = builder.both(builder.compared("less", count, plan.steps), builder.contrary(idle))
        goes_on = builder.either_of(goes_on, another)
    if goes_on.is_known:  # always: MDF would never end either
        return builder.node("builtins.bool", [goes_on], "goes on", number=Number.BOOL)
    return goes_on
