"""Scheduled MDF graphs to loops: stateful parameters and conditions of graph-scheduler become the body of one Loop.

One iteration is one *pass* of graph-scheduler through the graph.  What lives from pass to pass - stateful parameters,
the values at output ports, counts of calls and passes - are hidden values of the body
(:class:`~mdf_loop.ir.State`).  In front of the loop are the first passes: :mod:`~mdf_loop.convert.scheduled.first_passes`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from mdf_loop.convert.loading import load, only_graph
from mdf_loop.convert.scheduled.conditions import INSIDE, UPDATES, Key
from mdf_loop.convert.scheduled.first_passes import FirstPasses
from mdf_loop.convert.scheduled.lowered_runs import LoopBehind, Lowered, execute
from mdf_loop.convert.scheduled.passes import Pass
from mdf_loop.convert.scheduled.run_order import RunPlan, read_schedule
from mdf_loop.convert.scheduled.slots import (
    GivenInput,
    PassBuilder,
    Reading,
    Store,
)
from mdf_loop.errors import ArgumentError, KindError, NotLowered, in_words, malformed
from mdf_loop.ir import Body, Collected, Loop
from mdf_loop.ir.well_formed import check_body
from mdf_loop.kernels import load_kernels
from mdf_loop.options import current_options
from mdf_loop.readers.expressions.values import NotCompiled, Number, Unavailable, available
from mdf_loop.readers.mdf.body import check_graph
from mdf_loop.readers.mdf.signature import output_ports
from mdf_loop.readers.mdf.typed import is_typed
from mdf_loop.settings.counts import LARGEST, counted

__all__ = ["Lowered", "ScheduledLowering", "Stepping", "check_steps", "execute", "lower"]


class Stepping(NamedTuple):
    """How a graph is evaluated many times; see :func:`lower`."""

    steps: int = 1
    time_increment: float | None = None
    collect: bool = False
    record: tuple[Key, ...] = ()


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
    return ScheduledLowering(model, Stepping(steps, time_increment, collect, tuple(record))).lowered()


class ScheduledLowering:
    """One way of making a scheduled graph a loop, for as often as it is to run.

    The first passes are run each time, for they may draw random numbers.  The loop behind them is read once for each kind of
    values that it may begin with.
    """

    def __init__(self, model: Any, how: Stepping) -> None:
        check_steps(how.steps, how.time_increment)
        load_kernels()
        model = load(model) if isinstance(model, str | os.PathLike) else model
        self.graph = only_graph(model) if hasattr(model, "graphs") else model
        if is_typed(self.graph):
            raise NotLowered("it is an ONNX graph, which computes in the types that it says", (self.graph.id,))
        with self.naming_the_graph():
            check_graph(self.graph)
            kept = [("output", *place) for place in output_ports(self.graph).values()] if how.collect else []
            schedule, record = read_schedule(self.graph), (*kept, *how.record)
            self.plan = RunPlan(self.graph, schedule, int(how.steps), how.time_increment, record, how.collect)
        self._read: tuple[Any, LoopBehind] | None = None

    def lowered(self, given: Mapping[GivenInput, Any] = MappingProxyType({})) -> Lowered:
        """The first passes, run now, and the loop behind them; ``given`` are values for places in the graph."""
        with self.naming_the_graph():
            first = FirstPasses(self.plan, {each.key: value for each, value in given.items()})
            most = current_options().max_iterations
            has_loop, outputs = first.run(most), tuple(first.outputs)
            is_cut = (
                has_loop and most is not None and len(first.rows) >= most and not self.plan.record
            )  # rows are kept by the loop
            for value in chain(() if has_loop else outputs, *first.rows):
                available(value)
            rows, ends = tuple(first.rows), tuple(bool(ended.literal) for ended in first.ends)
            if is_cut or not has_loop:
                return Lowered(self.plan, outputs, rows, ends, known=first.known, noted=tuple(first.noted), is_cut=is_cut)
            behind = self._behind(first.known)
            hidden = tuple(first.known.get(behind.keys[state.input], state.initial) for state in behind.loop.body.state)
            return Lowered(self.plan, outputs, rows, ends, behind, hidden, first.known, tuple(first.noted))

    def _behind(self, known: dict[Key, Any]) -> LoopBehind:
        kinds, read = _kinds(known), self._read
        if read is None or kinds is None or read[0] != kinds:
            read = self._read = kinds, loop_behind(self.plan, known)
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
        results.append(made.goes_on(ended))
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
