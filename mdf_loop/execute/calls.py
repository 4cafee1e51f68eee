"""Kernels of nodes, looked up once for each node."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from mdf_loop.execute.program import Program
from mdf_loop.execute.steps_of_many import StepsOfMany
from mdf_loop.ir import Node
from mdf_loop.ops.registry import Kernel, bind, lookup
from mdf_loop.ops.rows import Bound
from mdf_loop.step.build import type_of_value
from mdf_loop.step.records import Type


class Calls:
    """Kernels of nodes, looked up once for each node.

    Nodes of a program keep what they are bound to there: a node with a seed of its own has one random stream.

    Attributes
    ----------
    exact : bool
        Whether an array without dimensions is something else than a scalar of numpy: where a body has no types,
        either may reach code that sees the difference.
    """

    def __init__(self, program: Program) -> None:
        self.exact = not program.body.typed
        self.many = StepsOfMany(self.exact)
        self._program = program
        self._bound = {id(step.node): step.bound for step in program.steps}
        self._found: dict[int, tuple[Bound, Kernel, Node]] = {}

    def share(self, nodes: Iterable[Node]) -> None:
        """Take nodes for those of the program with the same outputs: they only read the same values by other names."""
        known = {step.node.outputs: step.bound for step in self._program.steps if any(step.node.outputs)}
        self._bound.update((id(node), known[node.outputs]) for node in nodes if node.outputs in known)

    def __call__(self, node: Node) -> tuple[Bound, Kernel, Node]:
        """What to call for one iteration, the table's entry with its rule, and the node."""
        found = self._found.get(id(node))
        if found is None:
            bound = self._bound.get(id(node)) or self._inside.get(id(node)) or bind(node)
            found = self._found[id(node)] = bound, lookup(node.op, node.opset, node.domain), node
        return found

    @functools.cached_property
    def _inside(self) -> dict[int, Bound]:
        """What the nodes of loops inside are bound to there."""
        found: dict[int, Bound] = {}
        for loop in self._program.loops:
            found |= loop.calls._inside | loop.calls._bound
        return found

    def bound(self, node: Node) -> Bound:
        """What to call for one iteration."""
        return self(node)[0]

    def type(self, value: Any) -> Type:
        """The type of a value in this body."""
        return type_of_value(value, self.exact)
