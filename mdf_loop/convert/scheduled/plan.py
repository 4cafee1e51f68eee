"""What is to be run, looked up once: nodes, edges, outputs, and the counts that conditions look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mdf_loop.convert.scheduled.conditions import SEQUENCE, UPDATE, UPDATES, AllRan, Counted, JustRan, Key, calls
from mdf_loop.convert.scheduled.first_runs import NodeRun
from mdf_loop.convert.scheduled.run_order import Schedule, output_ports


@dataclass(frozen=True)
class RunPlan:
    """A graph, its schedule, how many evaluations there are, the time between them, and what is recorded of each pass."""

    graph: Any
    schedule: Schedule
    steps: int
    time_increment: Any
    record: tuple[Key, ...] = ()

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
        found: dict[tuple[str, str], list[Any]] = {}
        for edge in self.graph.edges:
            found.setdefault((edge.receiver, edge.receiver_port), []).append(edge)
        return found

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
            if isinstance(part, Counted):
                found |= {key: UPDATE if key[0] == "usable" else key[-1] for key in part.keys if key != UPDATES}
            elif isinstance(part, JustRan):
                found["just ran", part.node] = SEQUENCE
        return found

    @cached_property
    def watched(self) -> list[Key]:
        """What is kept of the last set of nodes that ran."""
        return [key for key in self.counters if key[0] == "just ran"]

    @cached_property
    def spent(self) -> Mapping[str, list[Key]]:
        """The counts that start again when a node runs, by the node."""
        return self._by_node(("usable",), 2)

    @cached_property
    def counted(self) -> Mapping[str, list[Key]]:
        """The counts that rise when a node runs, by the node."""
        return self._by_node(("usable", "calls"), 1)

    def _by_node(self, kinds: tuple[str, ...], place: int) -> dict[str, list[Key]]:
        found: dict[str, list[Key]] = {}
        for key in self.counters:
            if key[0] in kinds:
                found.setdefault(key[place], []).append(key)
        return found
