"""Sums of matrix products regrouped: what does not need the iteration before is added up first, for many iterations at once.

``(W x + R h) + b`` becomes ``(W x + b) + R h``, as onnxruntime's fused RNN has it.  Only sums of two products of matrices are:
those are right but for their last places anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from mdf_loop.ir import Node
from mdf_loop.ops.registry import facts
from mdf_loop.plan.invariants import Invariants


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
