"""Stepped loops: an ``onnx::Loop`` of an MDF node that runs some iterations at each execution of the node.

A loop is stepped if the metadata of its node, or of the parameter or function itself, say so::

    metadata: {loop: {iterations_per_execution: 10}}

Each evaluation of the graph starts it afresh.  In the first execution of its node a loop takes its inputs and runs
the first iterations; each further execution runs the next ones.  Its value is what the loop would have given if it had
ended there, and the names ``<id>_iteration`` and ``<id>_finished`` can be read by the node's output ports.

``LoopFinished``, ``AfterNLoopIterations`` and ``EveryNLoopIterations`` are conditions on them like graph-scheduler's own: for
nodes and for termination, alone or inside ``All``, ``Any`` and ``Not``, in Python, JSON and YAML::

    conditions:
      termination:
        environment_state_update: {type: LoopFinished, kwargs: {dependency: integrator}}
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from graph_scheduler.condition import All, Condition
from graph_scheduler.condition import Any as AnyOf
from graph_scheduler.time import TimeScale

from mdf_loop.calls.calling import alone_or_all, changeable, prepared_loop
from mdf_loop.calls.control_flow import condition
from mdf_loop.convert.scheduled.conditions import name_of
from mdf_loop.errors import ArgumentError, KindError, MalformedBody, in_words
from mdf_loop.execute.interpret import InterpretedLoop, Session
from mdf_loop.execute.partial_results import keeping
from mdf_loop.options import part_of, random_stream, start_run
from mdf_loop.readers.mdf.control_functions import STEPPED
from mdf_loop.types.fitting import handed_out

KEY, ITERATIONS = STEPPED, "iterations_per_execution"


@dataclass
class Begun:
    """A loop that has begun: its execution so far."""

    loop: InterpretedLoop
    session: Session

    @property
    def is_finished(self) -> bool:
        """Whether there is no further iteration."""
        return not self.session.goes_on()

    def advance(self, iterations: int) -> Any:
        """Run so many further iterations, or to the end; what the loop gives if it ends here."""
        session, run = self.session, self.session.run
        session.progress.is_over = False
        run.enter(session.progress)

        def call() -> Any:
            if not self.is_finished:
                with random_stream(run.stream), part_of(run):  # loops that a Python body starts belong to this run
                    self.loop.advance(session, session.moment.iteration + iterations)
            return self._value()

        value = keeping(run, call)
        session.progress.is_over = True
        return value

    def _value(self) -> Any:
        results = self.loop.conclude(self.session)
        return alone_or_all(handed_out([*results]))


@dataclass
class SteppedLoop:
    """A loop of one node of one graph that is being evaluated.

    Attributes
    ----------
    name : str
        Id of its parameter or function.
    iterations : int
        How many run at each execution.
    begun : Begun or None
        The loop since its node ran first.
    watched : dict
        What conditions keep of it: the iteration at which their node ran last.
    """

    name: str
    iterations: int
    begun: Begun | None = None
    watched: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    @property
    def iteration(self) -> int:
        """How many iterations are complete."""
        return self.begun.session.moment.iteration if self.begun else 0

    @property
    def is_finished(self) -> bool:
        """Whether it has run to its end."""
        return self.begun is not None and self.begun.is_finished

    def restart(self) -> None:
        """Forget everything: the next execution begins the loop."""
        self.begun = None
        self.watched.clear()

    def execute(self, m: Any, cond: Any, carried: list[Any], body: Any, captured: Mapping[str, Any]) -> Any:
        """Run the next iterations; the value of the loop so far.

        What it is given counts at the beginning; later only ``cond`` does, which ends the loop when it is false.
        """
        if self.begun is None:
            own = dict(zip(captured, changeable([*captured.values()]), strict=True))
            prepared, given = prepared_loop(m, cond, changeable([*carried]), body, own)
            self.begun = Begun(prepared.execute, prepared.execute.begin(given, start_run()))
        elif condition(cond) is False:
            self.begun.session.end()
        return self.begun.advance(self.iterations)

    def publish(self, known: Any) -> None:
        """Add its iteration and whether it is finished to the values of its node."""
        known[f"{self.name}_iteration"] = self.iteration
        known[f"{self.name}_finished"] = self.is_finished


_stepped: weakref.WeakKeyDictionary[Any, SteppedLoop] = weakref.WeakKeyDictionary()
"""The stepped loops of all graphs, by MDF's evaluable parameter or function."""

_graphs: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()
"""The graph that a scheduler schedules."""


def stepped_of(evaluable: Any) -> SteppedLoop | None:
    """The stepped loop that an evaluable parameter or function is, if it is one."""
    return _stepped.get(evaluable)


def mark_stepped(evaluable_node: Any) -> None:
    """Find the stepped loops of a node.

    Raises
    ------
    MalformedBody
        The metadata is not what it must be, or names clash.
    """
    node = evaluable_node.node
    found = []
    for evaluable, thing in _loops(evaluable_node):
        iterations = _iterations(thing, (node.id, thing.id)) or _iterations(node, (node.id,))
        if iterations is not None:
            _stepped[evaluable] = SteppedLoop(thing.id, iterations)
            found.append(thing.id)
    if len(found) > 1:
        raise MalformedBody(f"loops {' and '.join(map(repr, found))} are both stepped; a node has one stepped loop", (node.id,))
    ids = {thing.id for thing in (*node.input_ports, *node.parameters, *node.functions)}
    for name in found:
        if clash := ids & {f"{name}_iteration", f"{name}_finished"}:
            raise MalformedBody(
                f"{clash.pop()!r} is what the stepped loop {name!r} publishes; call the other thing otherwise", (node.id,)
            )


def _loops(evaluable_node: Any) -> Iterator[tuple[Any, Any]]:
    for evaluable in evaluable_node.evaluable_parameters.values():
        if evaluable.parameter.function == "onnx::Loop" and evaluable.parameter.value is None:
            yield evaluable, evaluable.parameter
    for evaluable in evaluable_node.evaluable_functions.values():
        if evaluable.function.function == "onnx::Loop":
            yield evaluable, evaluable.function


def _iterations(thing: Any, path: tuple[str, ...]) -> int | None:
    """How many iterations an execution runs, as the metadata of something says."""
    said = (thing.metadata or {}).get(KEY)
    if said is None:
        return None
    if not isinstance(said, Mapping) or set(said) != {ITERATIONS}:
        raise MalformedBody(f"metadata {KEY} must be {{{ITERATIONS}: <whole number>}}; got {said!r}", path)
    count = said[ITERATIONS]
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise MalformedBody(f"metadata {KEY}: {ITERATIONS} must be a whole number from 1 on; got {in_words(count)}", path)
    return count


def starting_afresh(original: Callable[..., Any]) -> Callable[..., Any]:
    """``EvaluableGraph.evaluate``: stepped loops begin again, and conditions can find them."""

    @functools.wraps(original)
    def evaluate(self: Any, *args: Any, **kwargs: Any) -> Any:
        _graphs[self.scheduler] = weakref.ref(self)
        for node in self.enodes.values():
            for evaluable, _ in _loops(node):
                if stepped := stepped_of(evaluable):
                    stepped.restart()
        return original(self, *args, **kwargs)

    return evaluate


def stepped_loop_of(node: Any, scheduler: Any) -> SteppedLoop | None:
    """The stepped loop of a node of the graph that a scheduler schedules."""
    found = _graphs.get(scheduler)
    graph = found() if found is not None else None
    evaluable = graph.enodes.get(getattr(node, "id", None)) if graph is not None else None
    if evaluable is None:
        return None
    return next((stepped for e, _ in _loops(evaluable) if (stepped := stepped_of(e)) is not None), None)


class LoopFinished(Condition):
    """Holds when the stepped loop of a node has run to its end.

    Parameters
    ----------
    dependency : modeci_mdf Node
        The node; its id in a file.
    """

    def __init__(self, dependency: Any) -> None:
        super().__init__(self._holds, dependency)

    def _holds(self, dependency: Any, scheduler: Any = None) -> bool:
        return _watched(self, dependency, scheduler).is_finished


class AfterNLoopIterations(Condition):
    """Holds when the stepped loop of a node has completed at least ``n`` iterations in this evaluation of the graph.

    Parameters
    ----------
    dependency : modeci_mdf Node
        The node; its id in a file.
    n : int
    """

    def __init__(self, dependency: Any, n: int) -> None:
        super().__init__(self._holds, dependency, _count(self, n, 0))

    def _holds(self, dependency: Any, n: int, scheduler: Any = None) -> bool:
        return _watched(self, dependency, scheduler).iteration >= n


class EveryNLoopIterations(Condition):
    """Holds when the stepped loop of a node has completed at least ``n`` iterations since the condition's node ran.

    Before that node has run, and as a condition of termination, it is since the loop began.  As with ``EveryNCalls``
    further iterations do not count towards the next time: the count starts at 0 again.

    Parameters
    ----------
    dependency : modeci_mdf Node
        The node; its id in a file.
    n : int
    """

    def __init__(self, dependency: Any, n: int) -> None:
        super().__init__(self._holds, dependency, _count(self, n, 1))

    def _holds(self, dependency: Any, n: int, scheduler: Any = None, execution_id: Any = None) -> bool:
        loop = _watched(self, dependency, scheduler)
        calls = scheduler.counts_total[execution_id][TimeScale.LIFE].get(self.owner, 0)
        before, since, last = loop.watched.get(id(self), (calls, 0, 0))
        if calls != before:  # the node ran when it was looked at last
            since = last
        loop.watched[id(self)] = (calls, since, loop.iteration)
        return loop.iteration - since >= n


class WhenFinished(Condition):
    """graph-scheduler's condition of this name, also for nodes of MDF, which cannot say that they are finished.

    A node with a stepped loop is finished when the loop has ended.  Any other node is finished once it has run in this
    evaluation.

    Parameters
    ----------
    dependency : modeci_mdf Node
        The node; its id in a file.
    """

    def __init__(self, dependency: Any) -> None:
        super().__init__(self._holds, dependency)

    def _holds(self, dependency: Any, scheduler: Any = None, execution_id: Any = None) -> bool:
        if hasattr(dependency, "is_finished"):
            return dependency.is_finished(execution_id)
        loop = stepped_loop_of(dependency, scheduler)
        if loop is not None:
            return loop.is_finished
        return scheduler.counts_total[execution_id][TimeScale.ENVIRONMENT_STATE_UPDATE].get(dependency, 0) > 0


class WhenFinishedAny(AnyOf):
    """Holds when any of several nodes is finished."""

    def __init__(self, *dependencies: Any) -> None:
        super().__init__(*map(WhenFinished, dependencies))


class WhenFinishedAll(All):
    """Holds when all of several nodes are finished."""

    def __init__(self, *dependencies: Any) -> None:
        super().__init__(*map(WhenFinished, dependencies))


CONDITIONS = (LoopFinished, AfterNLoopIterations, EveryNLoopIterations, WhenFinished, WhenFinishedAny, WhenFinishedAll)


def reading_names(original: Callable[..., Any]) -> Callable[..., Any]:
    """``EvaluableGraph.parse_condition``: nodes in lists by their ids, and what a Threshold looks at by PsyNeuLink's names."""

    @functools.wraps(original)
    def parse_condition(self: Any, condition: Any) -> Any:
        is_plain = isinstance(condition, dict)
        kind = condition.get("type") if is_plain else getattr(condition, "type", None)
        given = condition.get("kwargs") if is_plain else getattr(condition, "kwargs", None)
        if not isinstance(kind, str) or not isinstance(given, dict):
            return original(self, condition)
        given = dict(given)
        for key, value in given.items():
            if isinstance(value, list) and value and all(isinstance(name, str) and self.graph.get_node(name) for name in value):
                given[key] = [self.graph.get_node(name) for name in value]
        if kind.startswith("WhenFinished") and not given.get("dependencies", given.get("dependency")):
            given["dependencies"] = list(self.graph.nodes)
        node = self.graph.get_node(given.get("dependency")) if kind == "Threshold" else None
        if node is not None and "parameter" in given:
            given["parameter"] = name_of(node, given["parameter"])
        made = original(self, {"type": kind, "kwargs": given})
        if kind == "Threshold":
            made.custom_parameter_getter = _of_one_element(made.custom_parameter_getter, np.size(given.get("indices") or ()))
        return made

    return parse_condition


def _of_one_element(original: Callable[..., Any], indices: int) -> Callable[..., Any]:
    """What a Threshold looks at, without axes of one element in front of those that its indices take."""

    def getter(dependency: Any, parameter: Any) -> Any:
        value = np.asarray(original(dependency, parameter))
        while value.ndim > indices and len(value) == 1:
            value = value[0]
        return value

    return getter


def _count(of: Condition, n: Any, least: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int):
        raise KindError(f"{type(of).__name__}: n must be a whole number; got {n!r}")
    if n < least:
        raise ArgumentError(f"{type(of).__name__}: n must be at least {least}; got {n}")
    return n


def _watched(of: Condition, node: Any, scheduler: Any) -> SteppedLoop:
    """The stepped loop that a condition is about."""
    loop = stepped_loop_of(node, scheduler)
    if loop is None:
        name = getattr(node, "id", node)
        raise ArgumentError(
            f"{type(of).__name__} depends on {name!r}, which is not a node with a stepped loop: an onnx::Loop in a graph that "
            f"MDF's engine evaluates, with metadata {{{KEY}: {{{ITERATIONS}: <n>}}}}"
        )
    return loop
