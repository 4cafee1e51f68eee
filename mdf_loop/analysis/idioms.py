"""Recurrences that numpy or scipy can run in one call: running sums and their kin, first-order filters, growing sequences."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mdf_loop.analysis.dependence import Component
from mdf_loop.analysis.invariants import Invariants
from mdf_loop.ir import Node
from mdf_loop.registry import facts

IN_ORDER = {"subtract"}
"""Ufuncs to which it makes a difference which input is the first one."""


@dataclass(frozen=True)
class Idiom:
    """A recurrence of one value: ``name`` goes in, ``output`` comes out, ``value`` comes from outside the recurrence."""

    name: str
    node: Node
    value: str

    @property
    def output(self) -> str:
        """What feeds the value in the next iteration."""
        return self.node.outputs[0]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All its nodes, in order."""
        return (self.node,)

    @property
    def nodes_between(self) -> tuple[Node, ...]:
        """Nodes of the recurrence besides the last; they can run for a block of iterations once the recurrence has."""
        return ()


@dataclass(frozen=True)
class Accumulate(Idiom):
    """``acc = op(acc, value)``: ``ufunc.accumulate``."""

    ufunc: str = "add"


@dataclass(frozen=True)
class Filter(Idiom):
    """``y = y * coefficient + value``: a first-order recursive filter."""

    product: Node | None = None
    coefficient: str = ""
    needed: bool = True

    @property
    def nodes_between(self) -> tuple[Node, ...]:
        """The product, if anybody reads it besides."""
        return (self.product,) if self.product is not None and self.needed else ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The product and the sum."""
        return (self.product, self.node) if self.product is not None else (self.node,)


@dataclass(frozen=True)
class Building(Idiom):
    """``sequence = SequenceInsert(sequence, value)``: a list that grows at its end."""


def find_idiom(component: Component, moving: Mapping[str, str], same: Invariants, read: Collection[str]) -> Idiom | None:
    """The idiom of a recurrence, if it is one; ``read`` are values with more than one reader."""
    if len(component.rounds) != 1:
        return None
    (name,) = component.rounds
    if len(component.nodes) == 1 and moving[name] == component.nodes[0].outputs[0]:
        return _of_one(name, component.nodes[0])
    if len(component.nodes) == 2:
        return _filter(name, *component.nodes, moving[name], same, read)
    return None


def _of_one(name: str, node: Node) -> Idiom | None:
    if len(node.inputs) != 2 or node.inputs.count(name) != 1 or node.attrs:
        return None
    place = node.inputs.index(name)
    value = node.inputs[1 - place]
    known = facts(node)
    if known.appends and place == 0:
        return Building(name, node, value)
    if known.accumulates and (place == 0 or known.accumulates not in IN_ORDER):
        return Accumulate(name, node, value, known.accumulates)
    return None


def _filter(name: str, product: Node, total: Node, output: str, same: Invariants, read: Collection[str]) -> Filter | None:
    if (facts(product).accumulates, facts(total).accumulates) != ("multiply", "add"):
        return None
    if total.outputs[0] != output or any(node.attrs or len(node.inputs) != 2 for node in (product, total)):
        return None
    scaled = product.outputs[0]
    if product.inputs.count(name) != 1 or total.inputs.count(scaled) != 1 or name in total.inputs:
        return None
    coefficient = product.inputs[1 - product.inputs.index(name)]
    if coefficient not in same:
        return None
    return Filter(name, total, total.inputs[1 - total.inputs.index(scaled)], product, coefficient, scaled in read)
