"""When the nodes of a graph run: graph-scheduler's sets of nodes, their conditions, the end of an evaluation.

A *pass* goes through the sets in order; a set holds nodes that do not wait for each other.  Each node of a set runs if
its condition holds.  Before each pass and before each set the condition of termination is looked at; where it holds,
the evaluation of the graph is over.

Nodes of one set stand in a Python ``set``: MDF runs them in no particular order.  What would depend on that order is
refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from mdf_loop.convert.scheduled.conditions import (
    ALWAYS,
    NEVER,
    PASS,
    UPDATE,
    AllRan,
    CallsSoFar,
    Condition,
    ConditionReader,
    Every,
    JustRan,
    Not,
    Passes,
    Some,
    Threshold,
    Usable,
    called_in,
    parts_of,
    simplified,
)
from mdf_loop.errors import NotLowered, UnknownNode
from mdf_loop.ir import record
from mdf_loop.readers.mdf.input_ports import default_value_of


@record
class Schedule:
    """How the nodes of a graph run.

    Attributes
    ----------
    sets : tuple of tuple of str
        Nodes by the sets they are looked at in, each set in an order that gives what any order gives.
    conditions : mapping of str to Condition
        When each node runs.
    termination : Condition
        When an evaluation of the graph ends.
    passes : int or None
        How many passes an evaluation takes, where that is known beforehand.
    """

    sets: tuple[tuple[str, ...], ...]
    conditions: Mapping[str, Condition]
    termination: Condition
    passes: int | None

    @property
    def looks_at(self) -> tuple[Condition, ...]:
        """All conditions that are looked at, and the conditions in them."""
        conditions = (*self.conditions.values(), *(() if self.passes == 1 else (self.termination,)))
        return tuple(part for condition in conditions for part in parts_of(condition))

    def may_end_before(self, place: int) -> bool:
        """Whether the evaluation may be over before a set, because of what ran in the set before it."""
        if place == 0 or self.passes is not None:
            return False
        ran = set(self.sets[place - 1])
        for part in parts_of(self.termination):
            watched = (
                {part.node}
                if isinstance(part, Threshold)
                else set(part.nodes)
                if isinstance(part, CallsSoFar | AllRan)
                else set()
            )
            if isinstance(part, JustRan) or watched & ran:
                return True
        return False


def read_schedule(graph: Any) -> Schedule:
    """The schedule of a graph.

    Raises
    ------
    NotLowered
        A condition has no counterpart in a loop, or MDF's own order is not determined.
    """
    waits = _waits(graph)
    sets = _sets(graph, waits)
    level = {name: k for k, names in enumerate(sets) for name in names}
    conditions = _conditions(graph, waits)
    conditions = _without_what_is_sure(conditions, level, sets)
    ordered = tuple(_order(graph, names, conditions) for names in sets)
    _refuse_side_by_side(graph, level)
    termination = _termination(graph)
    passes = _passes(termination, conditions)
    if passes is None:
        termination = _without_what_follows(termination, conditions, level)
    return Schedule(ordered, conditions, termination, passes)


def _waits(graph: Any) -> dict[str, list[str]]:
    """The nodes each node waits for: not those whose edges end in a port with a default value."""
    default = {(node.id, port.id): default_value_of(port) for node in graph.nodes for port in node.input_ports}
    waits: dict[str, dict[str, None]] = {node.id: {} for node in graph.nodes}
    for edge in graph.edges:
        if default[edge.receiver, edge.receiver_port] is not None:
            continue
        if edge.sender == edge.receiver:
            raise NotLowered(
                f"node {edge.sender!r} waits for itself: edge {edge.id!r} ends in a port without default_value", (graph.id,)
            )
        waits[edge.receiver][edge.sender] = None
    return {name: list(needs) for name, needs in waits.items()}


def _sets(graph: Any, waits: Mapping[str, list[str]]) -> list[list[str]]:
    """The nodes in the sets in which graph-scheduler looks at them."""
    missing = {name: len(needs) for name, needs in waits.items()}
    waiting: dict[str, list[str]] = {name: [] for name in waits}
    for name, needs in waits.items():
        for other in needs:
            waiting[other].append(name)
    sets: list[list[str]] = []
    ready = [name for name, count in missing.items() if count == 0]
    while ready:
        sets.append(ready)
        freed = []
        for name in ready:
            for other in waiting[name]:
                missing[other] -= 1
                if missing[other] == 0:
                    freed.append(other)
        ready = freed
    if any(missing.values()):
        cycle = ", ".join(repr(name) for name, count in missing.items() if count)
        raise NotLowered(f"nodes {cycle} wait for each other in a cycle", (graph.id,))
    return sets


def _conditions(graph: Any, waits: Mapping[str, list[str]]) -> dict[str, Condition]:
    """What is said of each node; else it runs whenever all it waits for have run again."""
    said = dict((graph.conditions.node_specific if graph.conditions is not None else None) or {})
    conditions: dict[str, Condition] = {}
    for name, needs in waits.items():
        if name in said:
            conditions[name] = ConditionReader(graph, name).read(said.pop(name))
        else:
            parts = tuple(Usable(other, name, 1) for other in needs)
            conditions[name] = Every(parts) if len(parts) != 1 else parts[0]
    if said:
        raise UnknownNode(f"there is a condition of {next(iter(said))!r}, which is not a node of the graph", (graph.id,))
    return conditions


def _without_what_is_sure(
    conditions: Mapping[str, Condition], level: Mapping[str, int], sets: list[list[str]]
) -> dict[str, Condition]:
    """Nodes that wait once for nodes that run in every pass run in every pass themselves."""
    result: dict[str, Condition] = {}

    def sure(condition: Condition) -> bool:
        if not isinstance(condition, Usable):
            return False
        ahead = level[condition.dependency] < level[condition.owner]
        return ahead and condition.n <= 1 and result.get(condition.dependency) == ALWAYS

    for names in sets:
        result |= {name: simplified(conditions[name], sure) for name in names}
    return result


def _order(graph: Any, names: list[str], conditions: Mapping[str, Condition]) -> tuple[str, ...]:
    """The nodes of a set, each behind those of them whose calls its condition counts."""
    here = set(names)
    needs = {name: (called_in(conditions[name]) & here) - {name} for name in names}
    for name in names:
        if needs[name] and not _only_rises(conditions[name], needs[name]):
            others = ", ".join(map(repr, sorted(needs[name])))
            raise NotLowered(
                f"the condition of node {name!r} depends on whether MDF looks at {others} before or after it, and nodes that do "
                "not wait for each other have no order",
                (graph.id,),
            )
    ordered = {name: None for name in names if not needs[name]}
    while len(ordered) < len(names):
        ready = [name for name in names if name not in ordered and needs[name] <= ordered.keys()]
        if not ready:
            cycle = ", ".join(repr(name) for name in names if name not in ordered)
            why = "and nodes that do not wait for each other have no order"
            raise NotLowered(f"the conditions of nodes {cycle} count each other's calls, {why}", (graph.id,))
        ordered |= dict.fromkeys(ready)
    return tuple(ordered)


def _only_rises(condition: Condition, others: set[str]) -> bool:
    """Whether further calls of the others can only make a condition true, so that looking again and again settles it."""
    if isinstance(condition, Usable):
        return True  # alone: with more conditions around it, who is first decides what is left to count
    if isinstance(condition, Every | Some):
        if any(isinstance(part, Usable) and part.dependency in others for part in parts_of(condition)):
            return False
        return all(_only_rises(part, others) for part in condition.parts)
    if isinstance(condition, Not):
        return not called_in(condition.part) & others
    if isinstance(condition, CallsSoFar):
        return condition.comparison in ("greater", "greater_equal") or not others.intersection(condition.nodes)
    return True


def _refuse_side_by_side(graph: Any, level: Mapping[str, int]) -> None:
    for edge in graph.edges:
        if edge.sender != edge.receiver and level[edge.sender] == level[edge.receiver]:
            raise NotLowered(
                f"edge {edge.id!r} joins nodes {edge.sender!r} and {edge.receiver!r}, which do not wait for each other: MDF runs "
                "them in no particular order, so that the value may be of this pass or of the one before",
                (graph.id,),
            )


def _termination(graph: Any) -> Condition:
    """When an evaluation ends: one condition out of those for the evaluation and for everything."""
    said = dict((graph.conditions.termination if graph.conditions is not None else None) or {})
    found: dict[str, Condition] = {UPDATE: AllRan(tuple(node.id for node in graph.nodes), UPDATE), "ENVIRONMENT_SEQUENCE": NEVER}
    for key, source in said.items():
        name = str(getattr(key, "name", key)).rpartition(".")[2].upper()
        if name not in found:
            raise NotLowered(f"there is a condition of termination of {key!r}; MDF looks at {' and '.join(found)}", (graph.id,))
        found[name] = ConditionReader(graph, "").read(source)
    condition: Condition = Some(tuple(found.values()))
    condition = simplified(condition, lambda part: False)
    if any(isinstance(part, CallsSoFar | AllRan) and part.scale == PASS for part in parts_of(condition)):
        raise NotLowered("the condition of termination counts calls in one pass", (graph.id,))
    return condition


def _without_what_follows(condition: Condition, conditions: Mapping[str, Condition], level: Mapping[str, int]) -> Condition:
    """``AllHaveRun`` of fewer nodes: a node that waits for another one has run only if that one has."""
    if isinstance(condition, Not):
        return Not(_without_what_follows(condition.part, conditions, level))
    if isinstance(condition, Every | Some):
        return type(condition)(tuple(_without_what_follows(part, conditions, level) for part in condition.parts))
    if not isinstance(condition, AllRan):
        return condition
    follows: set[str] = set()
    last = max((name for name in condition.nodes if conditions[name] == ALWAYS), key=level.__getitem__, default=None)
    follows.update(name for name in condition.nodes if conditions[name] == ALWAYS and name != last)
    for name in condition.nodes:
        own = conditions[name]
        for part in own.parts if isinstance(own, Every) else (own,):
            if isinstance(part, Usable) and part.n > 0 and level[part.dependency] < level[name]:
                follows.add(part.dependency)
    return AllRan(tuple(name for name in condition.nodes if name not in follows), condition.scale)


def _passes(termination: Condition, conditions: Mapping[str, Condition]) -> int | None:
    """How many passes an evaluation takes, if that depends on nothing that happens in it."""
    if isinstance(termination, AllRan) and termination.scale == UPDATE and set(termination.nodes) == set(conditions):
        return 1 if all(condition == ALWAYS for condition in conditions.values()) else None
    if isinstance(termination, Passes) and termination.comparison == "greater_equal" and termination.scale == UPDATE:
        return termination.n if isinstance(termination.n, int) and termination.n >= 1 else None
    return None


def output_ports(graph: Any) -> dict[str, tuple[str, str]]:
    """Output ports that no edge reads, by name: their id, with the node's in front where several share one."""
    read = {(edge.sender, edge.sender_port) for edge in graph.edges}
    ports = [(node.id, port.id) for node in graph.nodes for port in node.output_ports if (node.id, port.id) not in read]
    count = Counter(port for _, port in ports)
    return {port if count[port] == 1 else f"{node}.{port}": (node, port) for node, port in ports}
