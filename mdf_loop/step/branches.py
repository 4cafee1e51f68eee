"""If: what its sides give, and what they compute where that has several types.

A value that is a number after one side and a vector after the other has no type.  What stands behind the If is then computed in
both sides, each of which knows the type, up to where they give the same types again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from mdf_loop.ir import Body, Node
from mdf_loop.ops.rows import Bound
from mdf_loop.step.build import Builder
from mdf_loop.step.loop_types import as_declared, joined
from mdf_loop.step.primitives import BOOL
from mdf_loop.step.records import UNKNOWN, BranchRegion, Region, Value
from mdf_loop.step.sequences import alike

MOST_COPIED = 32
"""Nodes behind branches that are lowered in both sides."""

Names = dict[str, Value]

Behind = Callable[[Sequence[Value]], list[Value]]
"""What is computed of the results of a side."""


class OfBranches:
    """The part of a lowering that makes branches.

    Attributes
    ----------
    has_copies : bool
        Whether both sides of a branch may compute what stands behind it.
    scopes : dict
        Nodes that were lowered, by their first one, and the names of values there.
    """

    b: Builder
    body: Callable[[Body, Mapping[str, Value]], list[Value]]
    node: Callable[[Node, Names], Sequence[Value]]
    bound: Callable[[Node], Bound]
    scopes: dict[int, tuple[Sequence[Node], Names, str]]
    has_copies, copies = True, 0

    def _computed(self, nodes: Sequence[Node], outputs: Sequence[str], names: Names) -> list[Value]:
        """What nodes compute."""
        if nodes:
            self.scopes[id(nodes[0])] = nodes, names, ""
        k = 0
        while k < len(nodes):
            node, k = nodes[k], k + 1
            bodies = self.bound(node).branches if node.attrs and self.has_copies else None  # its bodies are attributes
            mark = self.b.mark() if bodies else ()
            results = self.node(node, names)
            if bodies and any(map(gives_several_types, results)):
                written, n = self._in_both_sides(node, bodies, nodes[k:], outputs, names, mark)
                names |= written
                k += n
                continue
            for name, x in zip(node.outputs, results, strict=False):
                if name:
                    names[name] = x
        return [names[name] for name in outputs]

    def _branch(self, bodies: Sequence[Body], condition: Value, names: Names, behind: Behind | None = None) -> list[Value]:
        """An If: what its sides give, or what each computes of that."""
        regions = self._sides(bodies, names) if behind is None else [self._side(body, names, (), behind) for body in bodies]
        if condition.op == "const" and condition.type.dtype == BOOL and np.size(condition.attr) == 1:
            chosen = regions[0 if np.asarray(condition.attr).item() else 1]
            self.b.inline(chosen)
            return list(chosen.results)
        then, other, lists = alike(self.b, *regions)
        types = [joined(a.type, b.type) for a, b in zip(then.results, other.results, strict=False)]
        items = self.b.items(self.b.put_in("branch", (condition,), UNKNOWN, BranchRegion(then, other)), types)
        return [lists[k](x) if k in lists else x for k, x in enumerate(items)]

    def _sides(self, bodies: Sequence[Body], names: Names) -> list[Region]:
        """The branches of an If."""
        return [self._side(body, names) for body in bodies]

    def _side(self, body: Body, names: Names, dtypes: Sequence[np.dtype | None] = (), behind: Behind | None = None) -> Region:
        """One branch; where element types are given, its results have those."""
        with self.b.region(is_loop=False) as close:
            results = self.body(body, {name: names[name] for name in body.captures})
            as_declared(body, body.outputs, [result.type for result in results])
            if dtypes:
                results = [x if d is None else self.b.cast(x, d) for x, d in zip(results, dtypes, strict=True)]
            return close(results if behind is None else behind(results))

    def _in_both_sides(
        self,
        node: Node,
        bodies: Sequence[Body],
        nodes: Sequence[Node],
        outputs: Sequence[str],
        names: Names,
        mark: Sequence[int],
    ) -> tuple[Names, int]:
        """An If whose sides compute what stands behind it as well, up to where they give the same types: with how many nodes."""
        n = 0
        while True:
            inside, behind = nodes[:n], nodes[n:]
            read = {*outputs, *(name for later in behind for name in later.reads)}
            wanted = [name for one in (node, *inside) for name in one.outputs if name in read]
            self.b.rewind(mark)
            self.copies += n
            values = self._branch(bodies, names[node.inputs[0]], names, partial(self._behind, node, inside, wanted, names))
            self.copies -= n
            further = min(max(2 * n, 1), len(nodes))
            if further == n or self.copies + further > MOST_COPIED or not any(map(gives_several_types, values)):
                return dict(zip(wanted, values, strict=True)), n
            n = further

    def _behind(
        self, branch: Node, nodes: Sequence[Node], wanted: Sequence[str], names: Names, given: Sequence[Value]
    ) -> list[Value]:
        """What nodes behind a branch compute of what one of its sides gives."""
        return self._computed(nodes, wanted, {**names, **dict(zip(branch.outputs, given, strict=False))})


def gives_several_types(x: Value) -> bool:
    """Whether a value is what one of two branches gave, which is known of both, but not what they have in common."""
    if x.op != "item" or x.args[0].op != "branch" or _is_clear(x):
        return False
    sides = (side.results[x.attr] for side in (x.args[0].attr.then, x.args[0].attr.other))
    return all(_is_clear(y) or gives_several_types(y) for y in sides)


def _is_clear(x: Value) -> bool:
    """Whether element type and number of axes are known, those of its elements, or that there is no value."""
    return x.type.is_known or x.op == "rows" or (x.op == "const" and x.attr is None)
