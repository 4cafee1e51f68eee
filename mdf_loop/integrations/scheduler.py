"""Conditions of graph-scheduler on stepped loops: ``LoopFinished``, ``AfterNLoopIterations``, ``EveryNLoopIterations``.

They are conditions like graph-scheduler's own: for nodes and for termination, alone or inside ``All``, ``Any`` and
``Not``, in Python, JSON and YAML::

    conditions:
      termination:
        environment_state_update: {type: LoopFinished, kwargs: {dependency: integrator}}

See :mod:`mdf_loop.integrations.stepped` for what a stepped loop is.
"""

from __future__ import annotations

from typing import Any

from graph_scheduler.condition import Condition
from graph_scheduler.time import TimeScale

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


CONDITIONS = (LoopFinished, AfterNLoopIterations, EveryNLoopIterations)


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
            f"{type(of).__name__} depends on {name!r}, which is no node with a stepped loop: an onnx::Loop in a graph that MDF's "
            f"engine evaluates, with metadata {{{KEY}: {{{ITERATIONS}: <n>}}}}"
        )
    return loop
