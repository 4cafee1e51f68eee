"""Nodes that never run, since they wait for each other, and schedules that never end because of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from mdf_loop.convert.scheduled.conditions import (
    ALWAYS,
    COMPARISONS,
    AllRan,
    Condition,
    Constant,
    Count,
    Every,
    JustRan,
    Not,
    Some,
    Threshold,
    parts_of,
)
from mdf_loop.errors import NeverEnds


def refuse_waiting(graph: Any, conditions: Mapping[str, Condition], termination: Condition) -> None:
    """See that the end of an evaluation depends on nodes that run, and is not ruled out.

    Raises
    ------
    NeverEnds
        It never comes, for whatever values.
    """
    nodes, running = {node.id: node for node in graph.nodes}, set[str]()
    while new := {name for name, each in conditions.items() if name not in running and _may_hold(each, running, nodes)}:
        running |= new
    if _may_hold(termination, running, nodes):
        return
    if len(running) == len(conditions):
        path = graph.id, "conditions", "termination", "environment_state_update"
        raise NeverEnds("an evaluation of the model never ends: this condition never holds; change it, or leave it out", path)
    waits = [f"{name!r} {_for_whom(conditions[name], running)}" for name in conditions if name not in running]
    raise NeverEnds(f"an evaluation of the model never ends: {', '.join(waits)}; change a condition of these nodes", (graph.id,))


def _may_hold(condition: Condition, running: Collection[str], nodes: Mapping[str, Any]) -> bool:
    """Whether a condition may ever hold if only some nodes run."""
    if isinstance(condition, Constant):
        return condition.value
    if isinstance(condition, Not):
        return condition.part != ALWAYS
    if isinstance(condition, Every | Some):
        joined = all if isinstance(condition, Every) else any
        return joined(_may_hold(part, running, nodes) for part in condition.parts)
    if isinstance(condition, AllRan):
        return {*condition.nodes} <= {*running}
    if isinstance(condition, JustRan):
        return condition.node in running
    if isinstance(condition, Threshold) and condition.node not in running:
        return _may_begin(condition, nodes[condition.node])
    if isinstance(condition, Count) and condition.comparison in COMPARISONS:
        if condition.comparison == "less" and condition.n <= 0:
            return False
        is_fixed = condition.nodes | condition.loops and not (condition.nodes | condition.loops) & {*running}
        if is_fixed and all(key[1:] and key[1] in nodes for key in condition.keys):
            return COMPARISONS[condition.comparison](0, condition.n)
    return True


def _may_begin(condition: Threshold, node: Any) -> bool:
    """Whether a condition may hold with the value that is there before its node runs."""
    thing = next((each for each in getattr(node, condition.kind) if each.id == condition.name), None)
    value = getattr(thing, "default_initial_value", None)
    is_number = isinstance(value, int | float) and not condition.indices and condition.comparison not in ("equal", "not_equal")
    return not is_number or COMPARISONS[condition.comparison](value, condition.threshold)


def _for_whom(condition: Condition, running: Collection[str]) -> str:
    """For which nodes one waits that never runs."""
    found = list[str]()
    for part in parts_of(condition):
        found += part.nodes if isinstance(part, Count | AllRan) else [part.node] if isinstance(part, JustRan | Threshold) else []
    found = [repr(name) for name in dict.fromkeys(found) if name not in running]
    return f"waits for {' and '.join(found)}" if found else "never runs"
