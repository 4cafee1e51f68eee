"""Stepped loops in MDF's engine: some iterations at each execution of the node (:mod:`mdf_loop.readers.mdf.stepped_loops`).

Each evaluation of the graph starts it afresh.  In the first execution of its node a loop takes its inputs and runs
the first iterations; each further execution runs the next ones.  Its value is what the loop would have given if it had
ended there, and the names ``<id>_iteration`` and ``<id>_finished`` can be read by the node's output ports.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdf_loop.calls.calling import alone_or_all, changeable, prepared_loop
from mdf_loop.calls.control_flow import condition
from mdf_loop.convert.scheduled.conditions import name_of
from mdf_loop.errors import MalformedBody
from mdf_loop.execute.interpret import InterpretedLoop, Session
from mdf_loop.execute.partial_results import keeping
from mdf_loop.options import part_of, random_stream, start_run
from mdf_loop.readers.mdf.stepped_loops import Steps, stepped_loop
from mdf_loop.types.fitting import handed_out


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
    steps : Steps
        What the model says of it.
    begun : Begun or None
        The loop since its node ran first.
    calls : callable
        How often each node was called in this evaluation of the graph.
    ran : dict
        For nodes that were called before the loop ran last: how often, and the iteration at which they were called last.
    """

    steps: Steps
    begun: Begun | None = None
    calls: Callable[[], Mapping[Any, int]] = dict
    ran: dict[Any, tuple[int, int]] = field(default_factory=dict)

    @property
    def iteration(self) -> int:
        """How many iterations are complete."""
        return self.begun.session.moment.iteration if self.begun else 0

    @property
    def is_finished(self) -> bool:
        """Whether it has run to its end."""
        return self.begun is not None and self.begun.is_finished

    def restart(self, scheduler: Any) -> None:
        """Forget everything: the next execution begins the loop."""
        self.begun, self.calls = None, _calls_in(weakref.ref(scheduler))
        self.ran.clear()

    def since(self, node: Any) -> int:
        """How many iterations are complete since a node was called last; since the loop began, where it was not."""
        count = self.calls().get(node, 0)
        before, iteration = self.ran.get(node, (0, 0))
        return self.iteration - iteration if count == before else 0

    def execute(self, m: Any, cond: Any, carried: list[Any], body: Any, captured: Mapping[str, Any]) -> Any:
        """Run the next iterations; the value of the loop so far.

        What it is given counts at the beginning; later only ``cond`` does, which ends the loop when it is false.
        """
        for node, count in self.calls().items():
            if self.ran.get(node, (0, 0))[0] != count:
                self.ran[node] = count, self.iteration
        if self.begun is None:
            own = dict(zip(captured, changeable([*captured.values()]), strict=True))
            prepared, given = prepared_loop(m, cond, changeable([*carried]), body, own)
            self.begun = Begun(prepared.execute, prepared.execute.begin(given, start_run()))
        elif condition(cond) is False:
            self.begun.session.end()
        return self.begun.advance(self.steps.iterations)

    def publish(self, known: Any) -> None:
        """Add its iteration and whether it is finished to the values of its node."""
        known.update(zip(self.steps.published, (self.iteration, self.is_finished), strict=True))


def _calls_in(scheduler: weakref.ref[Any]) -> Callable[[], Mapping[Any, int]]:
    """How often nodes were called in the evaluation of a graph that a scheduler is in."""
    from graph_scheduler.time import TimeScale

    def calls() -> Mapping[Any, int]:
        owner = scheduler()
        assert owner is not None  # it runs the nodes and looks at the conditions
        counts: Mapping[Any, int] = owner.counts_total[owner.default_execution_id][TimeScale.ENVIRONMENT_STATE_UPDATE]
        return counts

    return calls


_stepped: weakref.WeakKeyDictionary[Any, SteppedLoop] = weakref.WeakKeyDictionary()
"""The stepped loops of all graphs, by MDF's evaluable parameter or function."""

_graphs: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()
"""The graph that a scheduler schedules."""


def stepped_of(evaluable: Any) -> SteppedLoop | None:
    """The stepped loop that an evaluable parameter or function is, if it is one."""
    return _stepped.get(evaluable)


def mark_stepped(evaluable_node: Any) -> None:
    """Find the stepped loop of a node.

    Raises
    ------
    MalformedBody
        The metadata is not what it must be, or names clash.
    """
    steps = stepped_loop(evaluable_node.node)
    if steps is not None:
        found = evaluable_node.evaluable_parameters.get(steps.id) or evaluable_node.evaluable_functions[steps.id]
        _stepped[found] = SteppedLoop(steps)


def starting_afresh(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """``EvaluableGraph.evaluate``: stepped loops begin again, and conditions can find them."""
    _graphs[self.scheduler] = weakref.ref(self)
    for node in self.enodes.values():
        if (stepped := _stepped_in(node)) is not None:
            stepped.restart(self.scheduler)
    return original(self, *args, **kwargs)


def _stepped_in(evaluable_node: Any) -> SteppedLoop | None:
    things = (*evaluable_node.evaluable_parameters.values(), *evaluable_node.evaluable_functions.values())
    return next((stepped for thing in things if (stepped := stepped_of(thing)) is not None), None)


def stepped_loop_of(node: Any, scheduler: Any) -> SteppedLoop | None:
    """The stepped loop of a node of the graph that a scheduler schedules."""
    found = _graphs.get(scheduler)
    graph = found() if found is not None else None
    evaluable = graph.enodes.get(getattr(node, "id", None)) if graph is not None else None
    return None if evaluable is None else _stepped_in(evaluable)


def reading_names(original: Callable[..., Any], self: Any, condition: Any) -> Any:
    """``EvaluableGraph.parse_condition``: nodes in lists by their ids, and what a Threshold looks at by PsyNeuLink's names."""
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
        place = str(self.graph.id), str(getattr(node, "id", given.get("dependency"))), str(given.get("parameter"))
        made.custom_parameter_getter = _of_one_element(made.custom_parameter_getter, np.size(given.get("indices") or ()), place)
    return made


def _of_one_element(original: Callable[..., Any], indices: int, path: tuple[str, ...]) -> Callable[..., Any]:
    """What a Threshold looks at, with as many axes as its indices take: axes of one element in front are left out or added."""
    what = f"Threshold of {path[1]}.{path[2]}"

    def getter(dependency: Any, parameter: Any) -> Any:
        if (found := original(dependency, parameter)) is None:
            ran = f"{{type: AfterNCalls, kwargs: {{dependency: {path[1]}, n: 1}}}}"
            cure = f"give default_initial_value, or write {{type: All, kwargs: {{dependencies: [{ran}, ...]}}}}"
            raise MalformedBody(f"{what}: it has no value before its node runs; {cure}", path)
        value = np.asarray(found)
        while value.ndim > indices and len(value) == 1:
            value = value[0]
        if value.ndim > indices:
            raise MalformedBody(f"{what}: it has shape {[*value.shape]}; say which element is meant, as in indices: [0]", path)
        return value.reshape((1,) * (indices - value.ndim) + value.shape)

    return getter
