"""What a node does besides computing its outputs: nothing, drawing random numbers, or something unknown."""

from __future__ import annotations

from collections.abc import Iterator

from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import Body, Node
from mdf_loop.ops.registry import lookup


def is_pure(node: Node) -> bool:
    """Whether equal inputs give equal outputs, and nothing else happens."""
    return not draws(node) and is_repeatable(node)


def draws(node: Node) -> bool:
    """Whether the node, or one inside it, takes numbers from the run's random stream."""
    return any("rng" in lookup(inner.op, inner.opset, inner.domain).parameters for inner in _without_bodies(node))


def seeded(node: Node) -> Node | None:
    """The node, or one inside it, that draws random numbers from a seed of its own."""
    return next((inner for inner in _without_bodies(node) if inner.attrs.get("seed") is not None and draws(inner)), None)


def is_repeatable(node: Node) -> bool:
    """Whether running the node once more does no harm, once the random stream is put back."""
    for inner in _without_bodies(node):
        try:
            entry = lookup(inner.op, inner.opset, inner.domain)
        except UnsupportedOp:
            return False
        if not entry.pure and "rng" not in entry.parameters:
            return False
    return not any(body.state for body in _bodies(node))


def _without_bodies(node: Node) -> Iterator[Node]:
    """The node itself if it is not control flow, or else the operators inside it."""
    bodies = [body for _, body in node.bodies]
    if not bodies:
        yield node
    for body in bodies:
        for inner in body.nodes:
            yield from _without_bodies(inner)


def _bodies(node: Node) -> Iterator[Body]:
    for _, body in node.bodies:
        yield body
        for inner in body.nodes:
            yield from _bodies(inner)
