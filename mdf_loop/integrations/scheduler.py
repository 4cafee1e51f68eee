"""Conditions of graph-scheduler on stepped loops: ``LoopFinished``, ``AfterNLoopIterations``, ``EveryNLoopIterations``.

They are conditions like graph-scheduler's own: for nodes and for termination, alone or inside ``All``, ``Any`` and
``Not``, in Python, JSON and YAML::

    conditions:
      termination:
        environment_state_update: {type: LoopFinished, kwargs: {dependency: integrator}}

See :mod:`mdf_loop.integrations.stepped` for what a stepped loop is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from graph_scheduler.condition import All, Condition
from graph_scheduler.condition import Any as AnyOf
from graph_scheduler.time import TimeScale

from mdf_loop.convert.scheduled.conditions import name_of
from mdf_loop.errors import ArgumentError, KindError
from mdf_loop.integrations.stepped import ITERATIONS, KEY, SteppedLoop, stepped_loop_of


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
