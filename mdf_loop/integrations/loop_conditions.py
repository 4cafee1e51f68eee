"""Conditions on stepped loops, like graph-scheduler's own: for nodes and for termination.

``LoopFinished``, ``AfterNLoopIterations`` and ``EveryNLoopIterations`` can be alone or inside ``All``, ``Any`` and ``Not``, in
Python, JSON and YAML::

    conditions:
      termination:
        environment_state_update: {type: LoopFinished, kwargs: {dependency: integrator}}

Nothing imports this but :mod:`mdf_loop.integrations.registration`, where graph-scheduler is imported.
"""

from __future__ import annotations

from typing import Any

from graph_scheduler.condition import All, Condition
from graph_scheduler.condition import Any as AnyOf
from graph_scheduler.time import TimeScale

from mdf_loop.errors import ArgumentError, KindError
from mdf_loop.integrations.replacements import found

STEPPED_LOOP = "integrations.scheduler.stepped_loop_of"
"""What finds the stepped loop of a node, or None; imported where a condition is looked at."""


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

    def _holds(self, dependency: Any, n: int, scheduler: Any = None) -> bool:
        return _watched(self, dependency, scheduler).since(self.owner) >= n


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
        loop = found(STEPPED_LOOP)(dependency, scheduler)
        if loop is not None:
            return bool(loop.is_finished)
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


def _count(of: Condition, n: Any, least: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int):
        raise KindError(f"{type(of).__name__}: n must be a whole number; got {n!r}")
    if n < least:
        raise ArgumentError(f"{type(of).__name__}: n must be at least {least}; got {n}")
    return n


def _watched(of: Condition, node: Any, scheduler: Any) -> Any:
    """The stepped loop that a condition is about."""
    loop = found(STEPPED_LOOP)(node, scheduler)
    if loop is None:
        raise ArgumentError(found("readers.mdf.stepped_loops.not_stepped")(type(of).__name__, getattr(node, "id", node)))
    return loop
