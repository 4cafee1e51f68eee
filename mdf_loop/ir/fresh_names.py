"""Names that nothing has yet, and bodies whose values get other names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from mdf_loop.ir.records import Body, Node


class FreshNames:
    """Names of values in a graph: a new one is none of those that it has, or a graph around it.

    Parameters
    ----------
    taken : iterable of str
    outer : FreshNames, optional
        Those of the graph around it.
    """

    mark = "_"
    """What stands in front of a number that makes a name a new one."""

    def __init__(self, taken: Iterable[str] = (), outer: Any = None) -> None:
        self.outer, self.taken, self._counts = outer, {*taken}, dict[str, int]()

    def is_taken(self, name: str) -> bool:
        """Whether something has a name."""
        return name in self.taken or (self.outer is not None and self.outer.is_taken(name))

    def fresh(self, *wanted: str) -> str:
        """The first of some names that nothing has yet; if there is none, the first of all with a number behind it."""
        for name in wanted:
            if name and not self.is_taken(name):
                break
        else:
            base, name = wanted[0], ""
            while not name or self.is_taken(name):
                self._counts[base] = self._counts.get(base, 1) + 1
                name = f"{base}{self.mark}{self._counts[base]}"
        self.taken.add(name)
        return name


def renamed(body: Body, new: Callable[[str], str], change: Callable[[Node], Node]) -> Body:
    """A body in which each value has its new name.

    Parameters
    ----------
    new : callable
        The new name of a value.
    change : callable
        The node with whatever else changes in it: its name, and the bodies in it.
    """

    def names(values: Iterable[str]) -> tuple[str, ...]:
        return tuple(new(name) if name else "" for name in values)

    def node_of(node: Node) -> Node:
        captures = tuple(dict.fromkeys(names(node.captures)))
        return replace(change(node), inputs=names(node.inputs), outputs=names(node.outputs), captures=captures)

    def held(values: Mapping[str, Any]) -> dict[str, Any]:
        return {new(name): value for name, value in values.items()}

    return replace(
        body,
        inputs=names(body.inputs),
        outputs=names(body.outputs),
        nodes=tuple(map(node_of, body.nodes)),
        constants=held(body.constants),
        captures=tuple(dict.fromkeys(names(body.captures))),
        types=held(body.types),
        state=tuple(replace(state, input=new(state.input), output=new(state.output)) for state in body.state),
        defaults=held(body.defaults),
    )


def rename_captures(body: Body, names: Mapping[str, str]) -> Body:
    """A body that captures values by other names."""
    changed = {name: names[name] for name in body.captures if names.get(name, name) != name}

    def change(node: Node) -> Node:
        return node.with_bodies({key: rename_captures(inner, changed) for key, inner in node.bodies})

    return renamed(body, lambda name: changed.get(name, name), change) if changed else body
