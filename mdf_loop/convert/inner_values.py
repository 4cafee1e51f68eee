"""Values inside the loops and branches of a body: the ways to them, and bodies that give them as further values.

A loop or If is called by the name of its node or by one of its outputs.  Which branch it is, and the If as well, may be left
out of a name where the name says all the same which value is meant.

A value of a loop's body becomes one more collected value of the loop.  What lies in a branch, or in a loop in the loop, need not
be there in each iteration, or may differ in shape: it is collected in a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, unknown_name
from mdf_loop.ir import Body, Collected, Loop, Node
from mdf_loop.ir.fresh_names import FreshNames
from mdf_loop.kernels.arrays.sequence_operators import ABSENT
from mdf_loop.ops.registry import facts

Way = tuple[str, ...]
"""The loops and branches on the way to a value, then its own name."""


class Branch(str):
    """A branch of an If on a way: what the If is called, and the branch."""

    __slots__ = ()

    @property
    def place(self) -> tuple[str, str]:
        """What the If is called, and the name of the attribute."""
        called, _, attribute = self.rpartition(".")
        return called, attribute


def ways_in(body: Body, before: Way = ()) -> Iterator[Way]:
    """The ways to all values of a body."""
    is_branch = bool(before) and isinstance(before[-1], Branch)
    for name in values_of(body):
        if not (is_branch and name in body.captures):  # which is a value of the body around it
            yield (*before, name)
    for node in body.nodes:
        if node.loop is not None:
            yield from ways_in(node.loop.body, (*before, called(node)))
        elif is_if(node):
            for attribute, branch in node.bodies:
                yield from ways_in(branch, (*before, Branch(f"{called(node)}.{attribute}")))


def values_of(body: Body) -> list[str]:
    """The values that a body has in each iteration."""
    made = [name for node in body.nodes for name in node.outputs if name]
    states = [state.input for state in body.state]
    return list(dict.fromkeys((*body.inputs, *states, *made, *body.constants, *body.captures)))


def called(node: Node) -> str:
    """What a loop or If inside a body is called: the name of its node, or its first output."""
    return node.name or next(filter(None, node.outputs), node.called)


def is_if(node: Node) -> bool:
    """Whether a node is a branch in the body."""
    return facts(node).chooses


def place_of(body: Body, name: str, where: str) -> int:
    """Which node of a body a part of a way leads into.

    Raises
    ------
    ArgumentError
        There is none of that name; names those that are close.
    """
    wanted = name.place[0] if isinstance(name, Branch) else name
    for k, node in enumerate(body.nodes):
        fits = is_if(node) if isinstance(name, Branch) else node.loop is not None
        if fits and (wanted in (node.name, *node.outputs) or wanted == called(node)):
            return k
    raise unknown_name(f"{where} has no value", name, listed(body))


def listed(body: Body) -> list[str]:
    """The names of all values in full."""
    return [".".join(way) for way in ways_in(body)]


def fitting(body: Body, text: str) -> list[Way]:
    """The ways that a name may mean: values outside of branches first, then the others."""
    ways = [way for way in ways_in(body) if _is_named(way, text)]
    sure = [way for way in ways if not any(isinstance(part, Branch) for part in way) or ".".join(way) == text]
    return sure or ways


def _is_named(way: Way, text: str) -> bool:
    short = ".".join(part for part in way if not isinstance(part, Branch))
    without = ".".join(part.place[0] if isinstance(part, Branch) else part for part in way)
    return text in (".".join(way), short, without) or (len(way) == 1 and way[0].rpartition(".")[2] == text and "." in way[0])


def only_one(ways: Sequence[Way], name: str, where: str = "") -> Way:
    """The way that a name means.

    Raises
    ------
    ArgumentError
        There are several.
    """
    if len(ways) > 1:
        places = " or ".join(f"{where}{'.'.join(way)}" for way in ways)
        raise ArgumentError(f"{name!r} is in several branches; give one of: {places}")
    return ways[0]


def with_value(body: Body, way: Way, where: str, fresh: Callable[[str], str] | None = None) -> tuple[Body, str]:
    """A body in which a value inside it has a name, and that name.

    Parameters
    ----------
    body : Body
    way : Way
    where : str
        The body in messages.
    fresh : callable, optional
        Gives names that nothing has; the default looks at the body alone.

    Raises
    ------
    ArgumentError
        There is no such value; names those that are close.
    """
    if len(way) == 1:
        if way[0] not in values_of(body):
            raise unknown_name(f"{where} has no value", way[0], listed(body))
        return body, way[0]
    k = place_of(body, way[0], where)
    node = body.nodes[k]
    output = (fresh or FreshNames(values_of(body)).fresh)(".".join(way))
    if node.loop is not None:
        count, made = len(node.loop.results), replace(node, attrs={"loop": collecting(node.loop, way[1:], where, fresh)})
    else:
        count, made = len(node.bodies[0][1].outputs), _through_if(node, way, where, fresh)
    outputs = (*node.outputs, *[""] * (count - len(node.outputs)), output)
    return replace(body, nodes=(*body.nodes[:k], replace(made, outputs=outputs), *body.nodes[k + 1 :])), output


def with_value_in_loop(nodes: Sequence[Node], way: Way, fresh: Callable[[str], str]) -> tuple[tuple[Node, ...], str] | None:
    """The same among the nodes of a body for a way through a loop, which may lie in branches; None where it is not there."""
    body = Body("", (), (), tuple(nodes))
    for full in ways_in(body):
        first = next((k for k, part in enumerate(full) if not isinstance(part, Branch)), 0)
        if full[first:] == way:
            made, name = with_value(body, full, "the graph", fresh)
            return made.nodes, name
    return None


def is_ragged(way: Way) -> bool:
    """Whether a value in a body need not be there each time, or may differ in shape: in a loop or branch in it."""
    return len(way) > 1


def collecting(loop: Loop, way: Way, where: str, fresh: Callable[[str], str] | None = None) -> Loop:
    """A loop that collects a value inside its body, as its last result."""
    body, name = with_value(loop.body, way, where, fresh)
    what = Collected(name, widens=True, ragged=is_ragged(way))
    body = body if name in body.outputs else replace(body, outputs=(*body.outputs, name))
    return replace(loop, body=body, collected=(*loop.collected, what))


def _through_if(node: Node, way: Way, where: str, fresh: Callable[[str], str] | None) -> Node:
    """An If that gives a value of one of its branches, as its last output."""
    assert isinstance(way[0], Branch)
    branches = dict[str, Body]()
    for attribute, branch in node.bodies:
        if attribute == way[0].place[1]:
            branch, name = with_value(branch, way[1:], where, fresh)
        else:
            name = FreshNames(values_of(branch)).fresh("absent")
            branch = replace(branch, nodes=(*branch.nodes, Node("Absent", (), (name,), name=name, opset=1, domain="record")))
        branches[attribute] = replace(branch, outputs=(*branch.outputs, name))
    return node.with_bodies(branches)


NOTHING = np.full(0, np.nan)
"""What there is of a value inside a loop that did not run."""


def loops_on(way: Way) -> int:
    """How many loops a way leads through."""
    return sum(not isinstance(part, Branch) for part in way[:-1])


def rows_of(value: Any, loops: int) -> Any:
    """A value inside so many loops as rows of the first one: an array, or a list; the value itself outside of loops.

    What was not computed is None, and of a loop :data:`NOTHING`.
    """
    if value is ABSENT:
        return NOTHING if loops else None
    if not loops or not isinstance(value, list):
        return value
    rows = [rows_of(each, loops - 1) for each in value]
    return rows if loops == 1 else [*map(in_rows, rows)]


def in_rows(rows: Any) -> Any:
    """A list of values as rows of one array, nan for those that are None; as it is where they differ in shape."""
    if not isinstance(rows, list):
        return rows
    known = [row for row in rows if row is not None]
    if any(isinstance(row, list) for row in known) or len({np.shape(row) for row in known}) > 1:
        return [np.asarray(np.nan) if row is None else row if isinstance(row, list) else np.asarray(row) for row in rows]
    if not known:
        return np.full(len(rows), np.nan)
    missing = np.full(np.shape(known[0]), np.nan)
    return np.stack([missing if row is None else row for row in rows])
