"""The same body with other names."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from typing import Any

from mdf_loop.ir import Body, Node


def renamed(body: Body, new: Callable[[str], str], known: Container[str], change: Callable[[Node], Node]) -> Body:
    """A body in which each value has its new name.

    Parameters
    ----------
    new : callable
        The new name of a value.
    known : container of str
        Values that have one; what is declared of others is left out.
    change : callable
        The node with whatever else changes in it: its name, and the bodies in it.
    """

    def names(values: Iterable[str]) -> tuple[str, ...]:
        return tuple(new(name) if name else "" for name in values)

    def node_of(node: Node) -> Node:
        values: dict[str, Any] = {"inputs": names(node.inputs), "outputs": names(node.outputs), "captures": names(node.captures)}
        return replace(change(node), **values)

    return replace(
        body,
        inputs=names(body.inputs),
        outputs=names(body.outputs),
        nodes=tuple(map(node_of, body.nodes)),
        constants={new(name): value for name, value in body.constants.items()},
        defaults={new(name): value for name, value in body.defaults.items()},
        captures=names(body.captures),
        types={new(name): kind for name, kind in body.types.items() if name in known},
    )
