"""What is to be run, looked up once: nodes, edges, outputs, and the counts that conditions look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from mdf_loop.convert.scheduled.conditions import SEQUENCE, UPDATE, UPDATES, AllRan, Counted, JustRan, Key, calls
from mdf_loop.convert.scheduled.first_runs import NodeRun
from mdf_loop.convert.scheduled.run_order import Schedule, output_ports
from mdf_loop.ir import Loop, record

T = TypeVar("T")


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


@dataclass
class LoopBehind:
    """The loop behind the first passes, what its hidden values are by their names in the body, and what runs it."""

    loop: Loop
    keys: dict[str, Key]
    made: Any = None


@record
class Lowered:
    """A scheduled graph as a loop.

    Attributes
    ----------
    loop : Loop or None
        The loop; None if no pass is left to it.  Its ``last`` values are the outputs, in the order of ``names``; what
        is carried is hidden (``loop.body.state``), with its initial values.  It carries nothing else and captures nothing.
    trip_count : int or None
        How many iterations; None where ``loop.keep_going`` alone ends it.
    names : tuple of str
        The outputs: every output port that no edge reads.
    first : tuple
        The outputs after the passes that were run one by one: the result, if the loop has no iteration.
    evaluations : tuple of tuple
        The outputs after each evaluation of the graph that was over by then; None where a node had not run.
    steps : int
        How many evaluations of the graph this is.
    passes : int or None
        How many passes, which are iterations, an evaluation has; None if that is found out by running.
    is_collecting : bool
        Whether the loop collects the outputs of each pass; and behind them, unless each pass is an evaluation, whether
        the pass was the last one of its evaluation.
    before : int
        How many passes were run one by one.
    recorded : int
        How many values are recorded in each pass: the last collected ones of the loop.
    rows : tuple of tuple
        What was recorded of the passes that were run one by one.
    hidden : tuple or None
        What the hidden values of the loop begin with, where that may be something else than ``loop.body.state`` says.
    behind : LoopBehind or None
        Where the loop comes from, which others may share.
    """

    loop: Loop | None
    trip_count: int | None
    names: tuple[str, ...]
    first: tuple[Any, ...]
    evaluations: tuple[tuple[Any, ...], ...]
    steps: int
    passes: int | None
    is_collecting: bool = False
    before: int = 0
    recorded: int = 0
    rows: tuple[tuple[Any, ...], ...] = ()
    hidden: tuple[Any, ...] | None = None
    behind: LoopBehind | None = None

    def made_of(self, make: Callable[[Loop], T]) -> T:
        """What is made of the loop: once for all that share it."""
        assert self.loop is not None
        behind = self.behind
        if behind is None or behind.loop is not self.loop:
            return make(self.loop)
        if behind.made is None:
            behind.made = make(self.loop)
        made: T = behind.made
        return made
