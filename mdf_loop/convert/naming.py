"""Ids for the values and nodes of an ONNX model: names that Python and MDF can read, and that say what ONNX said.

MDF reads expressions over ids with Python's ``eval``, so an id must be a plain name and nothing else.  Ids are unique
along each row of nested graphs: no body hides a value of the graphs around it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from typing import Any

from mdf_loop.convert.identifiers import is_name
from mdf_loop.ir import Body, Node

RESERVED = frozenset({"body", "then_branch", "else_branch", "numpy", "math", "constant", "M", "cond"})
"""Names that mean something else in an MDF node."""

LONGEST = 60
"""Letters of an id that are taken from a name."""


class Naming:
    """The ids of one graph; ``outer`` are those of the graph around it.

    Attributes
    ----------
    ids : dict of str to str
        From ONNX names of values to ids.
    """

    def __init__(self, outer: Naming | None = None) -> None:
        self.outer = outer
        self.ids: dict[str, str] = {}
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}

    def __getitem__(self, name: str) -> str:
        """The id of a value: of this graph, or of the nearest one around it that has the value."""
        for naming in self._outwards():
            if name in naming.ids:
                return naming.ids[name]
        raise KeyError(name)

    def value(self, name: str) -> str:
        """A new id for a value of this graph."""
        self.ids[name] = self.fresh(name)
        return self.ids[name]

    def fresh(self, wanted: str, reserved: frozenset[str] = RESERVED) -> str:
        """An id like a name, that nothing has yet."""
        stem = readable(wanted)
        name = stem
        while name in reserved or self._is_taken(name):
            self._counts[stem] = self._counts.get(stem, 1) + 1
            name = f"{stem}_{self._counts[stem]}"
        self._taken.add(name)
        return name

    def _is_taken(self, name: str) -> bool:
        return any(name in naming._taken for naming in self._outwards())

    def _outwards(self) -> Iterator[Naming]:
        naming: Naming | None = self
        while naming is not None:
            yield naming
            naming = naming.outer


def readable(text: str) -> str:
    """A plain name like a text.

    >>> readable("x.3"), readable("/layer 1/MatMul"), readable("lambda"), readable("3"), readable("a'b\\n")
    ('x_3', 'layer_1_MatMul', 'lambda_', '_3', 'a_b')
    """
    if is_name(text) and len(text) <= LONGEST:
        return text
    stem = unicodedata.normalize("NFKC", text[: 4 * LONGEST])
    stem = re.sub(r"_*\W+_*", "_", stem).strip("_")[:LONGEST].strip("_") or "value"
    if not stem.isidentifier():
        stem = f"_{stem}"
    if is_name(stem):
        return stem
    return f"{stem}_" if is_name(f"{stem}_") else "value"


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
