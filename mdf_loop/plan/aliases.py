"""Second names for the same values, taken out of a loop before it is planned, so that no later step has to follow them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mdf_loop.ir import Loop, Node, State, record
from mdf_loop.ops.registry import lookup
from mdf_loop.ops.rows import Known
from mdf_loop.types.required import said_type


@record
class Unaliased:
    """A loop in which every value has one name, and the nodes that only gave others: they compute nothing."""

    loop: Loop
    nodes: tuple[Node, ...]


def without_aliases(loop: Loop) -> Unaliased:
    """The same loop without nodes whose output is their first input as it is.

    A name that the body of a node captures is left: it is read there by that name.
    """
    found = _Aliases(loop)
    if not found.nodes:
        return Unaliased(loop, ())
    name = found.name
    body = replace(
        loop.body,
        nodes=tuple([_renamed(node, found.names) for node in loop.body.nodes if id(node) not in found.places]),
        outputs=tuple(map(name, loop.body.outputs)),
        state=tuple(State(s.input, name(s.output), s.initial) for s in loop.body.state),
    )
    simpler = replace(
        loop,
        body=body,
        carried=tuple(replace(c, output=name(c.output)) for c in loop.carried),
        collected=tuple(replace(c, output=name(c.output)) for c in loop.collected),
        last=tuple(map(name, loop.last)),
        keep_going=loop.keep_going and name(loop.keep_going),
    )
    return Unaliased(simpler, tuple(found.nodes))


class _Aliases:
    """The nodes of a body that give a second name to a value; ``names`` says of each such name which value it is."""

    def __init__(self, loop: Loop) -> None:
        body = loop.body
        self.nodes: list[Node] = []
        self.names: dict[str, str] = {}
        self.places: set[int] = set()
        self._body, self._index = body, loop.index
        self._writers = {node.outputs[0]: node for node in body.nodes if node.outputs}
        captured = {name for node in body.nodes for name in node.captures}
        for node in body.nodes:
            if node.outputs and node.outputs[0] and node.outputs[0] not in captured and self._is_alias(node):
                self.nodes.append(node)
                self.places.add(id(node))
                self.names[node.outputs[0]] = self.name(node.inputs[0])

    def name(self, name: str) -> str:
        """The value behind a name."""
        return self.names.get(name, name)

    def _is_alias(self, node: Node) -> bool:
        if not node.inputs or not node.inputs[0] or any(node.outputs[1:]):
            return False
        alias = lookup(node.op, node.opset, node.domain).facts.alias
        return alias is not None and alias(*[self._known(self.name(n)) if n else None for n in node.inputs], **node.attrs)

    def _known(self, name: str) -> Known:
        return Known(self._sure_type(name) if self._body.typed else None, self._body.constants.get(name))

    def _sure_type(self, name: str) -> np.dtype | None:
        """The element type of a value, whatever a body declares: that of a constant, or what an attribute of its node says."""
        if name in self._body.constants:
            return getattr(self._body.constants[name], "dtype", None)
        if name == self._index:
            return np.dtype(np.int64)
        node = self._writers.get(name)
        return said_type(node) if node is not None and lookup(node.op, node.opset, node.domain).built_in else None


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    """A node that reads values by the names they have."""
    if names.keys().isdisjoint(node.inputs):
        return node
    return replace(node, inputs=tuple([names.get(name, name) for name in node.inputs]))
