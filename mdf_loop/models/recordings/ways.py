"""Names of values inside bodies: the way to each, through the loops and branches that it is inside of.

A loop or If is called by the name of its node or by one of its outputs.  Which branch it is, and the If as well, may be left
out of a name where the name says all the same which value is meant.
"""

from __future__ import annotations

from collections.abc import Iterator

from mdf_loop.errors import ArgumentError
from mdf_loop.ir import Body, Node
from mdf_loop.models.model import unknown_name
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
    """The ways to all values of a body that can be recorded."""
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


def is_conditional(way: Way) -> bool:
    """Whether a value need not be computed in each iteration."""
    return any(isinstance(part, Branch) for part in way)


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
    sure = [way for way in ways if not is_conditional(way) or ".".join(way) == text]
    return sure or ways


def _is_named(way: Way, text: str) -> bool:
    short = ".".join(part for part in way if not isinstance(part, Branch))
    without = ".".join(part.place[0] if isinstance(part, Branch) else part for part in way)
    return text in (".".join(way), short, without) or (len(way) == 1 and way[0].rpartition(".")[2] == text and "." in way[0])


def only_one(ways: list[Way], name: str, where: str = "") -> Way:
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
