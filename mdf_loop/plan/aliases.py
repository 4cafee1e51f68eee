"""Second names for the same values, taken out of a loop before it is planned, so that no later step has to follow them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mdf_loop.ir import Body, Loop, Node, State, record
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
        nodes=tuple(_renamed(node, found.names) for node in loop.body.nodes if node not in found),
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
        self._found: set[int] = set()
        self._values = body.constants
        self._dtypes = _known_types(body) | ({loop.index: np.dtype(np.int64)} if loop.index and body.typed else {})
        captured = {name for node in body.nodes for name in node.captures}
        for node in body.nodes:
            if node.outputs and node.outputs[0] and node.outputs[0] not in captured and self._is_alias(node):
                self.nodes.append(node)
                self._found.add(id(node))
                self.names[node.outputs[0]] = self.name(node.inputs[0])

    def __contains__(self, node: Node) -> bool:
        return id(node) in self._found

    def name(self, name: str) -> str:
        """The value behind a name."""
        return self.names.get(name, name)

    def _is_alias(self, node: Node) -> bool:
        if not node.inputs or not node.inputs[0] or any(node.outputs[1:]):
            return False
        alias = lookup(node.op, node.opset, node.domain).facts.alias
        return alias is not None and alias(*[self._known(self.name(n)) if n else None for n in node.inputs], **node.attrs)

    def _known(self, name: str) -> Known:
        return Known(self._dtypes.get(name), self._values.get(name))


def _known_types(body: Body) -> dict[str, np.dtype]:
    """Element types that are sure, whatever a body declares: those of constants, and those that attributes say."""
    found = {name: value.dtype for name, value in body.constants.items() if isinstance(value, np.ndarray | np.generic)}
    for node in body.nodes if body.typed else ():
        if node.outputs and node.outputs[0] and lookup(node.op, node.opset, node.domain).built_in:
            dtype = said_type(node)
            if dtype is not None:
                found[node.outputs[0]] = dtype
    return found if body.typed else {}


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    """A node that reads values by the names they have."""
    inputs = tuple(names.get(name, name) for name in node.inputs)
    return node if inputs == node.inputs else replace(node, inputs=inputs)
