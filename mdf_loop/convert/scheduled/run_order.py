"""What is to be run, and when: graph-scheduler's sets of nodes, their conditions, the end of an evaluation, counts.

A *pass* goes through the sets in order; a set holds nodes that do not wait for each other.  Each node of a set runs if
its condition holds.  Before each pass and before each set the condition of termination is looked at; where it holds,
the evaluation of the graph is over.

Nodes of one set stand in a Python ``set``: MDF runs them in no particular order.  Where an edge joins two of them, the sender
runs first here, or in a cycle the one that the model names first, with a warning.  A condition that depends on the order is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError
from typing import Any

from mdf_loop.convert.scheduled.conditions import (
    ALWAYS,
    INSIDE,
    NEVER,
    PASS,
    SEQUENCE,
    SINCE,
    UPDATE,
    UPDATES,
    AllRan,
    Condition,
    ConditionReader,
    Count,
    Every,
    JustRan,
    Key,
    Not,
    Some,
    Threshold,
    called_in,
    calls,
    parts_of,
    simplified,
    usable,
)
from mdf_loop.convert.scheduled.slots import NodeRun
from mdf_loop.convert.scheduled.waiting import refuse_waiting
from mdf_loop.errors import NotLowered, UnknownNode, warn_user
from mdf_loop.ir import record
from mdf_loop.ir.well_formed import reached
from mdf_loop.readers.mdf.input_ports import default_value_of, edges_by_port, sets_of
from mdf_loop.readers.mdf.signature import output_ports
from mdf_loop.readers.mdf.stepped_loops import Steps, stepped_loop
from mdf_loop.readers.mdf.typed import has_conditions


@record
class Schedule:
    """How the nodes of a graph run.

    Attributes
    ----------
    sets : tuple of tuple of str
        Nodes by the sets they are looked at in, each set in the order in which its nodes run.
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
            counted = part.nodes if isinstance(part, Count | AllRan) else ()
            watched = {part.node} if isinstance(part, Threshold) else set(counted)
            watched |= part.loops if isinstance(part, Count) else set()
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
    ordered, conditions = _ordered(graph)
    for _, warning in _left_open(graph, ordered):
        warn_user(warning)
    if not has_conditions(graph):
        return Schedule(ordered, conditions, AllRan(tuple(conditions), UPDATE), 1)
    level = _levels(ordered)
    termination = _termination(graph)
    refuse_waiting(graph, conditions, termination)
    passes = _passes(termination, conditions)
    if passes is None:
        termination = _without_what_follows(termination, conditions, level)
    return Schedule(ordered, conditions, termination, passes)


def refuse_without_end(graph: Any) -> None:
    """See that no nodes wait for each other, and the end for them.

    Raises
    ------
    NeverEnds
    """
    refuse_waiting(graph, _ordered(graph)[1], _termination(graph))


def left_open(graph: Any) -> Iterator[tuple[Any, str]]:
    """The edges on which MDF's results depend on the order of a ``set``, with what to say of each.

    Raises
    ------
    NotLowered
        As :func:`read_schedule`.
    """
    return _left_open(graph, _ordered(graph)[0])


def thresholds(graph: Any) -> list[str]:
    """What nodes, and the end of an evaluation, may wait for, such as ``a.x >= 1``.

    Raises
    ------
    NotLowered
        As :func:`read_schedule`.
    """
    conditions = (*_ordered(graph)[1].values(), _termination(graph))
    return [*dict.fromkeys(str(part) for each in conditions for part in parts_of(each) if isinstance(part, Threshold))]


def _ordered(graph: Any) -> tuple[tuple[tuple[str, ...], ...], dict[str, Condition]]:
    """The nodes in the order in which they run, by sets, and their conditions."""
    waits = _waits(graph)
    sets = _sets(graph, waits)
    conditions: dict[str, Condition] = {**dict.fromkeys(waits, ALWAYS)}  # what waits for nodes that always run always runs
    if has_conditions(graph):
        conditions = _without_what_is_sure(_conditions(graph, waits), _levels(sets), sets)
    return tuple(_order(graph, names, conditions) for names in sets), conditions


def _levels(sets: Sequence[Sequence[str]]) -> dict[str, int]:
    return {name: k for k, names in enumerate(sets) for name in names}


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


def _sets(graph: Any, waits: Mapping[str, list[str]]) -> list[tuple[str, ...]]:
    """The nodes in the sets in which graph-scheduler looks at them."""
    try:
        return sets_of(waits)
    except CycleError as error:
        cycle = ", ".join(map(repr, error.args[1][:-1]))
        raise NotLowered(f"nodes {cycle} wait for each other in a cycle", (graph.id,)) from error


def _conditions(graph: Any, waits: Mapping[str, list[str]]) -> dict[str, Condition]:
    """What is said of each node; else it runs whenever all it waits for have run again."""
    said = dict((graph.conditions.node_specific if graph.conditions is not None else None) or {})
    conditions: dict[str, Condition] = {}
    for name, needs in waits.items():
        if name in said:
            conditions[name] = ConditionReader(graph, name).read(said.pop(name))
        else:
            parts = tuple(usable(other, name, 1) for other in needs)
            conditions[name] = Every(parts) if len(parts) != 1 else parts[0]
    if said:
        raise UnknownNode(f"there is a condition of {next(iter(said))!r}, which is not a node of the graph", (graph.id,))
    return conditions


def _without_what_is_sure(
    conditions: Mapping[str, Condition], level: Mapping[str, int], sets: Sequence[Sequence[str]]
) -> dict[str, Condition]:
    """Nodes that wait once for nodes that run in every pass run in every pass themselves."""
    result: dict[str, Condition] = {}

    def sure(condition: Condition) -> bool:
        if not isinstance(condition, Count) or not condition.waits:
            return False
        dependency, owner = condition.waits
        return level[dependency] < level[owner] and condition.n <= 1 and result.get(dependency) == ALWAYS

    for names in sets:
        result |= {name: simplified(conditions[name], sure) for name in names}
    return result


def _order(graph: Any, names: Sequence[str], conditions: Mapping[str, Condition]) -> tuple[str, ...]:
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
    sent = {name: {edge.sender for edge in graph.edges if edge.receiver == name} & here - {name} for name in names}
    ordered: dict[str, None] = {}
    while len(ordered) < len(names):
        ready = [name for name in names if name not in ordered and needs[name] <= ordered.keys()]
        if not ready:
            cycle = ", ".join(repr(name) for name in names if name not in ordered)
            why = "and nodes that do not wait for each other have no order"
            raise NotLowered(f"the conditions of nodes {cycle} count each other's calls, {why}", (graph.id,))
        before = {name: _before(name, sent, ordered) for name in ready}
        first = next((name for name in ready if all(name in _before(other, sent, ordered) for other in before[name])), ready[0])
        ordered[first] = None
    return tuple(ordered)


def _before(name: str, sent: Mapping[str, set[str]], done: Mapping[str, None]) -> set[str]:
    """The nodes whose values get to a node by edges between nodes of one set, those that are done left out."""
    return reached(sent[name] - done.keys(), lambda other: sent[other] - done.keys())


def _only_rises(condition: Condition, others: set[str]) -> bool:
    """Whether further calls of the others can only make a condition true, so that looking again and again settles it."""
    if isinstance(condition, Every | Some):
        if any(isinstance(part, Count) and others.intersection(part.waits[:1]) for part in parts_of(condition)):
            return False  # who is first decides what is left to count
        return all(_only_rises(part, others) for part in condition.parts)
    if isinstance(condition, Not):
        return not called_in(condition.part) & others
    if isinstance(condition, Count):
        return condition.comparison in ("greater", "greater_equal") or not others.intersection(condition.nodes)
    return True


def _left_open(graph: Any, sets: Sequence[Sequence[str]]) -> Iterator[tuple[Any, str]]:
    place = {name: (k, n) for k, names in enumerate(sets) for n, name in enumerate(names)}
    for edge in graph.edges:
        sender, receiver = place[edge.sender], place[edge.receiver]
        if edge.sender != edge.receiver and sender[0] == receiver[0]:
            first = edge.sender if sender < receiver else edge.receiver
            said = f"edge {edge.id!r} ends in port {edge.receiver}.{edge.receiver_port}, which has a default_value"
            why = f"{edge.receiver!r} does not wait for {edge.sender!r} then, and MDF runs both in no particular order"
            yield edge, f"{said}: {why}; here {first!r} runs first. Without the default_value {edge.receiver!r} waits"


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
    parts = [*parts_of(condition)]
    keys = {key for part in parts if isinstance(part, Count) for key in part.keys if key[0] == "calls"}
    if PASS in {*(key[-1] for key in keys), *(part.scale for part in parts if isinstance(part, AllRan))}:
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
            if isinstance(part, Count) and part.waits and part.n > 0 and level[part.waits[0]] < level[name]:
                follows.add(part.waits[0])
    return AllRan(tuple(name for name in condition.nodes if name not in follows), condition.scale)


def _passes(termination: Condition, conditions: Mapping[str, Condition]) -> int | None:
    """How many passes an evaluation takes, if that depends on nothing that happens in it."""
    if isinstance(termination, AllRan) and termination.scale == UPDATE and set(termination.nodes) == set(conditions):
        return 1 if all(condition == ALWAYS for condition in conditions.values()) else None
    if isinstance(termination, Count) and termination == Count((("passes", UPDATE),), "greater_equal", termination.n):
        return termination.n if isinstance(termination.n, int) and termination.n >= 1 else None
    return None


@dataclass(frozen=True)
class RunPlan:
    """A graph, its schedule, how many evaluations there are, the time between them, and what is recorded of each pass.

    Where ``collect``, the outputs are the first of what is recorded, and they are wanted of the last pass of each evaluation.
    """

    graph: Any
    schedule: Schedule
    steps: int
    time_increment: Any
    record: tuple[Key, ...] = ()
    collect: bool = False

    @property
    def tells_ends(self) -> bool:
        """Whether it has to be known after which passes an evaluation is over; if not, after each or no matter."""
        return self.collect and self.schedule.passes != 1

    @property
    def inside(self) -> list[Key]:
        """What is recorded inside loops of nodes."""
        return [key for key in self.record if key[0] == INSIDE]

    @cached_property
    def nodes(self) -> dict[str, Any]:
        """The nodes by id."""
        return {node.id: node for node in self.graph.nodes}

    @cached_property
    def runs(self) -> dict[str, list[NodeRun | None]]:
        """What nodes compute in the passes that are run one by one, where that was read; None: it depends on the values."""
        return {}

    @cached_property
    def edges(self) -> dict[tuple[str, str], list[Any]]:
        """The edges into each port."""
        return edges_by_port(self.graph)

    @cached_property
    def outputs(self) -> dict[str, tuple[str, str]]:
        """Output ports that no edge reads, by name."""
        return output_ports(self.graph)

    @cached_property
    def time_goes_on(self) -> bool:
        """Whether later evaluations differ from the first by a step of time."""
        derivatives = (p.time_derivative for node in self.graph.nodes for p in node.parameters)
        return self.steps > 1 and self.time_increment is not None and any(d is not None for d in derivatives)

    @cached_property
    def counters(self) -> dict[Key, str]:
        """The counts that conditions look at, and what each is relative to."""
        found: dict[Key, str] = {}
        for part in self.schedule.looks_at:
            part = calls(part.nodes, "greater_equal", 1, part.scale) if isinstance(part, AllRan) else part
            if isinstance(part, Count):
                found |= {key: UPDATE if key[0] in SINCE else key[-1] for key in part.keys if key != UPDATES}
            elif isinstance(part, JustRan):
                found["just ran", part.node] = SEQUENCE
        return found | dict.fromkeys((key for keys in self.of_loops.values() for key in keys), UPDATE)

    @cached_property
    def stepped(self) -> Mapping[str, Steps]:
        """The stepped loops, by their nodes."""
        return {node.id: steps for node in self.graph.nodes if (steps := stepped_loop(node)) is not None}

    @cached_property
    def of_loops(self) -> Mapping[str, tuple[Key, ...]]:
        """What is counted of stepped loops in every case, by their nodes: whether one has begun and ended, iterations."""
        return {name: tuple((kind, name, UPDATE) for kind in ("begun", "ended", "iterations")) for name in self.stepped}

    @cached_property
    def watched(self) -> list[Key]:
        """What is kept of the last set of nodes that ran."""
        return [key for key in self.counters if key[0] == "just ran"]

    @cached_property
    def spent(self) -> Mapping[str, list[Key]]:
        """The counts that start again when a node runs, by the node."""
        return self._by_node(SINCE, 2)

    @cached_property
    def counted(self) -> Mapping[str, list[Key]]:
        """The counts that rise when a node runs, by the node."""
        return self._by_node(("usable", "calls"), 1)

    @cached_property
    def iterated(self) -> Mapping[str, list[Key]]:
        """The counts that rise by iterations of a stepped loop, by its node."""
        return self._by_node(("iterations since",), 1)

    def _by_node(self, kinds: Sequence[str], place: int) -> dict[str, list[Key]]:
        found: dict[str, list[Key]] = {}
        for key in self.counters:
            if key[0] in kinds:
                found.setdefault(key[place], []).append(key)
        return found
