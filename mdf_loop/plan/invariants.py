"""What is the same in every iteration, and what a node does besides computing: nothing, random numbers, or something unknown.

A carried value whose body output is that carried value again never changes.  One whose body output is the same
in every iteration changes once, after the first: a reader that starts at the second iteration may take it as the same
too.  That is what ``late`` is for: the condition that most bodies set to true is one of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import Loop, Node, record
from mdf_loop.ops.registry import lookup


def is_pure(node: Node) -> bool:
    """Whether equal inputs give equal outputs, and nothing else happens."""
    return not draws(node) and is_repeatable(node)


def draws(node: Node) -> bool:
    """Whether the node, or one inside it, takes numbers from the run's random stream."""
    if bodies := node.bodies:
        return any(draws(inner) for _, body in bodies for inner in body.nodes)
    return "rng" in lookup(node.op, node.opset, node.domain).parameters


def seeded(node: Node) -> Node | None:
    """The node, or one inside it, that draws random numbers from a seed of its own."""
    return next((inner for inner in _without_bodies(node) if inner.attrs.get("seed") is not None and draws(inner)), None)


def is_repeatable(node: Node) -> bool:
    """Whether running the node once more does no harm, once the random stream is put back."""
    if bodies := node.bodies:
        return all(not body.state and all(map(is_repeatable, body.nodes)) for _, body in bodies)
    try:
        entry = lookup(node.op, node.opset, node.domain)
    except UnsupportedOp:
        return False
    return entry.pure or "rng" in entry.parameters


def _without_bodies(node: Node) -> Sequence[Node]:
    """The node itself if it is not control flow, or else the operators inside it."""
    bodies = node.bodies
    return [found for _, body in bodies for inner in body.nodes for found in _without_bodies(inner)] if bodies else (node,)


@record
class Invariants:
    """Names of values that are the same in every iteration, and of those that are from the second one on."""

    always: frozenset[str]
    late: frozenset[str]

    def __contains__(self, name: str) -> bool:
        return name in self.always or name in self.late


def carried_from(loop: Loop) -> dict[str, str]:
    """Carried body inputs, hidden ones and the condition among them, with the value that feeds each."""
    found = dict(loop.all_carried)
    if loop.condition and loop.keep_going:
        found[loop.condition] = loop.keep_going
    return found


def invariants(loop: Loop) -> Invariants:
    """Follow constants, captures and carried values that never change through all pure nodes."""
    body, carried = loop.body, carried_from(loop)
    same = {*body.constants, *body.captures, *loop.invariant} | {name for name, output in carried.items() if name == output}
    if loop.condition and not loop.keep_going:
        same.add(loop.condition)
    always = _closed(body.nodes, same)
    later = {name for name, output in carried.items() if output in always}
    return Invariants(frozenset(always), frozenset(_closed(body.nodes, always | later) - always))


def lasting(loop: Loop) -> set[str]:
    """What is the same in every iteration as long as each one gives a true condition."""
    body = loop.body
    unchanged = {name for name, output in loop.all_carried.items() if name == output}
    return _closed(body.nodes, {*body.constants, *body.captures, *loop.invariant, *unchanged, loop.condition or ""})


def _closed(nodes: Iterable[Node], same: set[str]) -> set[str]:
    """With the outputs of pure nodes that read nothing else."""
    same = set(same)
    for node in nodes:
        if same.issuperset(node.reads) and is_pure(node):
            same.update(filter(None, node.outputs))
    return same
