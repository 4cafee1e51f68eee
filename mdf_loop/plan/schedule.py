"""How a loop will be run: what once, what for many iterations at once, what one iteration after the other, and why.

The plan starts at the second iteration: the first is interpreted, so that what is hoisted has run exactly when the
text runs it, and so that types and shapes are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mdf_loop.ir import Loop, Node, record
from mdf_loop.ir.well_formed import reached
from mdf_loop.ops.batching import elementwise
from mdf_loop.ops.registry import facts, lookup
from mdf_loop.plan.aliases import without_aliases
from mdf_loop.plan.dependence import Component, components
from mdf_loop.plan.idioms import Idiom, find_idiom
from mdf_loop.plan.invariants import Invariants, carried_from, draws, invariants, is_pure, is_repeatable


@record
class Shift:
    """A carried value that is fed from outside the recurrence: what it was fed one iteration before."""

    name: str


@record
class Batched:
    """Work for a whole block of iterations at once: nodes, shifted values and recurrences with an idiom."""

    units: tuple[Node | Shift | Idiom, ...]


@record
class Stepped:
    """Work for one iteration after the other; ``decides`` says that the condition is among it."""

    nodes: tuple[Node, ...]
    carried: tuple[str, ...]
    decides: bool = False


@dataclass(frozen=True)
class Plan:
    """What :func:`make_plan` found.

    Attributes
    ----------
    refusal : str
        Why the whole loop is interpreted; empty if it is not.
    hoisted : tuple of Node
        Run once; what the first iteration computed is kept.
    late : tuple of Node
        Run once, for the second iteration: they need a carried value that changes only once.
    varying : tuple of Node
        The others.
    parts : tuple of (Batched or Stepped)
        In the order in which a block runs them.
    carried : mapping
        Carried values -> the value that feeds each.
    condition : str
        How the trip count is known: ``"given"``, ``"batched"`` or ``"stepped"``.
    deciding : str
        The value that ends the loop when it is false; empty if the trip count is given.
    bounds : tuple of str
        Values computed for a block one of which is false in the last iteration: the condition, or parts of it.
    draws : bool
        Whether random numbers are drawn.
    reasons : mapping
        Why a node is stepped, by its first output.
    aliases : tuple of Node
        Nodes that only give a value a second name: they are not in ``loop``, which is planned without them.
    """

    loop: Loop
    refusal: str = ""
    hoisted: tuple[Node, ...] = ()
    late: tuple[Node, ...] = ()
    varying: tuple[Node, ...] = ()
    parts: tuple[Batched | Stepped, ...] = ()
    carried: Mapping[str, str] = field(default_factory=dict)
    same: Invariants = field(default_factory=lambda: Invariants(frozenset(), frozenset()))
    condition: str = "given"
    deciding: str = ""
    bounds: tuple[str, ...] = ()
    draws: bool = False
    reasons: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[Node, ...] = ()

    def summary(self) -> str:
        """How many nodes run in which way, in a line."""
        if self.refusal:
            return f"interpreted: {self.refusal}"
        hoisted = len(self.hoisted) + len(self.late)
        return f"{hoisted} nodes hoisted, {len(self.varying) - self._stepped} batched, {self._stepped} stepped"

    @property
    def is_mostly_stepped(self) -> bool:
        """Whether few of the nodes of an iteration can be run for many iterations at once."""
        return 2 * sum(len(part.units) for part in self.parts if isinstance(part, Batched)) <= self._stepped

    @property
    def _stepped(self) -> int:
        """How many nodes are stepped."""
        return sum(len(part.nodes) for part in self.parts if isinstance(part, Stepped))


def make_plan(loop: Loop) -> Plan:
    """Find out how a loop is run best.

    >>> from mdf_loop.readers.onnx.loop_records import loop_record
    >>> from mdf_loop.readers import read
    >>> text = "b (int64 i, bool c, double s) => (bool c, double t, double d) { x = Gather (w, i) t = Add (s, x) d = Mul (t, k) }"
    >>> plan = make_plan(loop_record(read(text, 1), 1))
    >>> [unit.op if isinstance(unit, Node) else type(unit).__name__ for unit in plan.parts[0].units]
    ['Gather', 'Accumulate', 'Mul']
    """
    stubborn = [node for node in loop.body.nodes if not is_repeatable(node)]
    if stubborn:
        return Plan(loop, refusal=f"{_called(stubborn[0])} may do more than compute, so it runs exactly once an iteration")
    unaliased = without_aliases(loop)
    loop = unaliased.loop
    nodes, same, carried = loop.body.nodes, invariants(loop), carried_from(loop)
    known = same.always | same.late
    lasting = {id(node): node for node in nodes if known.issuperset(node.reads) and is_pure(node)}
    varying = [node for node in nodes if id(node) not in lasting]
    deciding = _deciding(loop, same)
    moving = _moving(loop, varying, carried, same)
    varying = regrouped(varying, moving, same, {*loop.body.outputs, *loop.last, *carried.values(), deciding})
    tied = [node for node in varying if draws(node)]
    found = components(varying, moving, tied)
    scheduled = _Schedule(loop, varying, found, moving, deciding)
    return Plan(
        loop,
        hoisted=tuple(node for node in lasting.values() if _is_hoisted(node, same)),
        late=tuple(node for node in lasting.values() if not _is_hoisted(node, same)),
        varying=tuple(varying),
        parts=tuple(scheduled.parts()),
        carried=carried,
        same=same,
        deciding=deciding,
        bounds=tuple(scheduled.bounds),
        condition="given" if not deciding else "stepped" if scheduled.decider is not None else "batched",
        draws=bool(tied),
        reasons=scheduled.reasons,
        aliases=unaliased.nodes,
    )


def all_stepped(plan: Plan, why: str, are_wide: bool = False) -> Plan:
    """The same loop with everything that varies stepped, where nothing is gained by batching.

    Rows that are wide may be read as they are from a table.
    """
    names = {name for part in plan.parts for name in _names_of(part)}
    rows = [node for node in plan.varying if _is_row(plan, node)] if are_wide else []
    rest = tuple(node for node in plan.varying if node not in rows)
    part = Stepped(rest, tuple(name for name in plan.carried if name in names), bool(plan.deciding))
    parts = (*((Batched(tuple(rows)),) if rows else ()), part)
    reasons = {_first(node): plan.reasons.get(_first(node), why) for node in rest}
    return replace(plan, parts=parts, condition="stepped" if plan.deciding else "given", reasons=reasons)


def _is_row(plan: Plan, node: Node) -> bool:
    """``data[i]`` by the iteration number."""
    picks = facts(node).picks_rows
    return picks is not None and picks(**node.attrs) and node.inputs[0] in plan.same and node.inputs[1] == plan.loop.index


def _names_of(part: Batched | Stepped) -> set[str]:
    """Carried values of a part."""
    if isinstance(part, Stepped):
        return set(part.carried)
    return {unit.name for unit in part.units if not isinstance(unit, Node)}


def is_light(node: Node) -> bool:
    """Whether a node costs about as much as reading its inputs once."""
    if node.bodies or draws(node):
        return False
    entry = lookup(node.op, node.opset, node.domain)
    return entry.batch is elementwise or entry.facts.light


def _deciding(loop: Loop, same: Invariants) -> str:
    """The value that ends the loop; empty if it is the same from the start."""
    output = loop.keep_going or ""
    return "" if output in same.always or output == loop.condition else output


def _moving(loop: Loop, varying: Sequence[Node], carried: Mapping[str, str], same: Invariants) -> dict[str, str]:
    """Carried values that change and are read."""
    read = {name for node in varying for name in node.reads} | {c.output for c in loop.collected} | set(loop.last)
    read |= set(carried.values()) | {_deciding(loop, same)}
    return {name: output for name, output in carried.items() if name not in same and name in read}


def _is_hoisted(node: Node, same: Invariants) -> bool:
    """Whether all that it gives is the same from the first iteration on."""
    return same.always.issuperset(filter(None, node.outputs))


class _Schedule:
    """Components put into parts: batched ones as early as possible, then all stepped ones that are ready, and so on."""

    def __init__(
        self,
        loop: Loop,
        nodes: Sequence[Node],
        found: Sequence[Component],
        moving: Mapping[str, str],
        deciding: str,
    ) -> None:
        self.found, self.moving, self.deciding = found, moving, deciding
        self.index = loop.index
        self.wanted = {*loop.body.outputs, *loop.last, deciding, *moving.values()}
        self.recurrent = {id(node) for component in found if component.cyclic for node in component.nodes}
        self.readers: dict[str, list[int]] = {}
        for node in nodes:
            for name in node.reads:
                self.readers.setdefault(name, []).append(id(node))
        self.reasons: dict[str, str] = {}
        self.order = {id(node): k for k, node in enumerate(nodes)}
        self.units = [self._unit(component) for component in found]
        self.writers = {name: k for k, component in enumerate(found) for node in component.nodes for name in node.outputs if name}
        self.writers |= {name: k for k, component in enumerate(found) for name in component.carried}
        self.bounds = list(self._bounds(deciding))
        self.needed_for_bounds = frozenset[int]().union(*map(self._needed_for, self.bounds))
        self.decider = self._decider()

    def parts(self) -> Iterable[Batched | Stepped]:
        """The parts, in order."""
        done: set[int] = set()
        waiting = [k for k in range(len(self.found)) if k not in (self.decider or ())]
        while len(done) < len(self.found):
            batched = []
            for k in waiting:  # they stand in an order in which they can run
                if self.units[k] is not None and self.found[k].needs <= done:
                    batched.append(k)
                    done.add(k)
            stepped, ready = list[int](), set(done)
            for k in waiting:
                if k not in done and self.units[k] is None and self.found[k].needs <= ready:
                    stepped.append(k)
                    ready.add(k)
            decides = self.decider is not None and self._needs_of(self.decider) <= ready and not self.decider <= done
            first = [k for k in batched if k in self.needed_for_bounds]  # all others then end where the loop does
            for chosen in (first, [k for k in batched if k not in self.needed_for_bounds]):
                if chosen:
                    yield Batched(tuple(unit for k in chosen for unit in self.units[k] or ()))
            if decides:
                assert self.decider is not None
                stepped = [*stepped, *self.decider]
            if stepped:
                done.update(stepped)
                yield self._stepped(stepped, decides)
            waiting = [k for k in waiting if k not in done]

    def _stepped(self, chosen: Iterable[int], decides: bool) -> Stepped:
        nodes = [node for k in chosen for node in self.found[k].nodes]
        names = [name for k in chosen for name in self.found[k].carried]
        return Stepped(tuple(sorted(nodes, key=lambda node: self.order[id(node)])), tuple(names), decides)

    def _only_a_place(self, node: Node) -> bool:
        """Whether it makes an array of the iteration number for a place in something that is stepped."""
        if not facts(node).reshapes or node.inputs[0] != self.index or node.outputs[0] in self.wanted:
            return False
        return all(reader in self.recurrent for reader in self.readers.get(node.outputs[0], ()))

    def _unit(self, component: Component) -> tuple[Node | Shift | Idiom, ...] | None:
        """What a component is as batched work; None if it has to be stepped."""
        if not component.cyclic:
            if not component.nodes:
                return (Shift(component.carried[0]),)
            node = component.nodes[0]
            if self._only_a_place(node):
                self.reasons[_first(node)] = "the iteration number, for something that is stepped"
            elif draws(node):
                self.reasons[_first(node)] = "draws random numbers, in order"
            elif not _has_rule(node):
                self.reasons[_first(node)] = "no rule runs it for many iterations at once"
            else:
                return (node,)
            return None
        idiom = find_idiom(component, self.moving)
        if idiom is not None:
            return (idiom,)
        for node in component.nodes:
            drawing = draws(node) and not component.carried
            self.reasons[_first(node)] = "draws random numbers, in order" if drawing else self._needs_itself(component)
        return None

    def _needs_itself(self, component: Component) -> str:
        return f"{' and '.join(component.carried)} of the iteration before {'are' if len(component.carried) > 1 else 'is'} needed"

    def _needed_for(self, name: str) -> frozenset[int]:
        """Components that a value needs, and its own."""
        first = [self.writers[name]] if name in self.writers else []
        return frozenset(reached(first, lambda k: self.found[k].needs))

    def _bounds(self, name: str) -> Iterator[str]:
        """Batched values with which a condition is false: itself, or what it is true together with."""
        needed = self._needed_for(name)
        if needed and all(self.units[k] is not None for k in needed):
            yield name
        elif needed:
            nodes = [node for node in self.found[self.writers[name]].nodes if name in node.outputs]
            for node in nodes if len(nodes) == 1 and facts(nodes[0]).accumulates == "logical_and" else ():
                for part in node.inputs:
                    yield from self._bounds(part)

    def _decider(self) -> frozenset[int] | None:
        """Stepped components that the condition needs, with all between them and it: they run up to the last iteration."""
        chosen: set[int] = set()
        for k in sorted(self._needed_for(self.deciding)):  # what a component needs has a lower number
            if self.units[k] is None or self.found[k].needs & chosen:
                chosen.add(k)
        for k in chosen:
            for node in self.found[k].nodes:
                self.reasons.setdefault(_first(node), "the condition needs it, and it needs what is stepped")
        return frozenset(chosen) or None

    def _needs_of(self, group: Iterable[int]) -> set[int]:
        group = set(group)
        return {other for k in group for other in self.found[k].needs} - group


def _has_rule(node: Node) -> bool:
    entry = lookup(node.op, node.opset, node.domain)
    return entry.batch is not None or entry.facts.chooses


def _first(node: Node) -> str:
    return next(filter(None, node.outputs), node.name)


def _called(node: Node) -> str:
    return f"{node.called} {node.name!r}" if node.name else f"{node.called} -> {_first(node)}"


def regrouped(nodes: Sequence[Node], moving: Collection[str], same: Invariants, kept: Collection[str]) -> list[Node]:
    """The nodes, with biases added to the product that is known before the recurrence runs.

    Parameters
    ----------
    nodes : sequence of Node
        Those that are not the same in every iteration, in order.
    moving : collection of str
        Carried values that change.
    same : Invariants
        Values that are the same in every iteration.
    kept : collection of str
        Values that are wanted besides those that nodes read.
    """
    if sum(facts(node).multiplies_matrices for node in nodes) < 2:
        return list(nodes)
    writer = {name: node for node in nodes for name in node.outputs if name}
    place_of = {id(node): place for place, node in enumerate(nodes)}
    late = _late(nodes, moving)
    reads = Counter(name for node in nodes for name in node.reads)
    found = list(nodes)
    for place, outer in enumerate(nodes):
        inner = next((writer[name] for name in outer.inputs if name in writer), None)
        if inner is None or not _is_sum(outer) or not _is_sum(inner) or inner.outputs[0] in kept:
            continue
        (total,) = inner.outputs
        bias = outer.inputs[1 - outer.inputs.index(total)]
        early, other = sorted(inner.inputs, key=late.__contains__)
        if bias not in same or reads[total] > 1 or early in late or other not in late:
            continue
        if all(name in writer and facts(writer[name]).multiplies_matrices for name in (early, other)):
            found[place_of[id(inner)]] = replace(inner, inputs=(early, bias))
            found[place] = replace(outer, inputs=(total, other))
    return found


def _is_sum(node: Node) -> bool:
    return facts(node).accumulates == "add" and not node.attrs and len(node.inputs) == 2


def _late(nodes: Sequence[Node], moving: Collection[str]) -> set[str]:
    """Values that need one of the iteration before."""
    late = set(moving)
    for node in nodes:
        if late.intersection(node.reads):
            late.update(filter(None, node.outputs))
    return late
