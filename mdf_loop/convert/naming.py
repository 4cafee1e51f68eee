"""Ids for the values and nodes of an ONNX model: names that Python and MDF can read, and that say what ONNX said.

MDF reads expressions over ids with Python's ``eval``, so an id must be a plain name and nothing else.  Ids are unique
along each row of nested graphs: no body hides a value of the graphs around it.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mdf_loop.ir import Body, Node
from mdf_loop.ir.fresh_names import FreshNames, renamed
from mdf_loop.readers.mdf.graph_objects import as_graph
from mdf_loop.readers.mdf.signature import said_names

ORIGINAL = "original_id"
"""In the metadata of a node, port or graph: what it is called in ONNX."""

REQUIRED = "required"
"""In the metadata of an input port: the model cannot run without a value for it."""

RESERVED = frozenset({"body", "then_branch", "else_branch", "numpy", "math", "constant", "M", "cond"})
"""Names that mean something else in an MDF node."""

LONGEST = 60
"""Letters of an id that are taken from a name."""


class NamesInScope(FreshNames):
    """The names that the values of a graph get, and those of the graphs around it.

    Attributes
    ----------
    names : dict of str to str
        From the names that values have to those that they get.
    """

    def __init__(self, outer: NamesInScope | None = None) -> None:
        super().__init__(outer=outer)
        self.names = dict[str, str]()

    def __getitem__(self, name: str) -> str:
        """What a value is called: of this graph, or of the nearest one around it that has the value."""
        return self.names[name] if name in self.names else name if self.outer is None else self.outer[name]

    def call(self, name: str, *wanted: str) -> None:
        """Give a value the first of some names that nothing has yet."""
        self.names[name] = self.fresh(*wanted)

    def renamed(self, body: Body, change: Callable[[Node], Node]) -> Body:
        """A body with these names; what is declared of other values is left out, and ``change`` changes its nodes."""
        types = {name: kind for name, kind in body.types.items() if name in self.names}
        return renamed(replace(body, types=types), self.__getitem__, change)


class Naming(NamesInScope):
    """The ids that the values of an ONNX graph get: like their names."""

    def is_taken(self, name: str) -> bool:
        """Whether something has an id, or it means something else."""
        return name in RESERVED or super().is_taken(name)

    def fresh(self, *wanted: str) -> str:
        """An id like a name, that nothing has yet."""
        return super().fresh(*map(readable, wanted))


def is_name(text: Any) -> bool:
    """Whether Python reads a text as one name, as it is written."""
    return (
        isinstance(text, str)
        and text.isidentifier()
        and not keyword.iskeyword(text)
        and unicodedata.normalize("NFKC", text) == text
    )


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


IR_VERSION, DOC_STRING = "ir_version", "doc_string"
"""In the metadata of a model: the version of the file format of its ONNX model, and what that says of itself."""

NAMES = "names"
"""In the metadata of a graph: what values are called in ONNX, by their ids."""


def with_onnx_names(
    body: Body, graph: Any = None, outer: NamesInScope | None = None, names: Mapping[str, str] | None = None
) -> Body:
    """A body in which values and nodes have the names that the metadata of its graph say, or that ``names`` says.

    Names are unique along each row of nested bodies.  ``graph`` is None for a body that comes from something else.
    """
    said = {**names_of(graph), **(names or {})}
    nodes = {node.id: node for node in graph.nodes} if graph is not None else {}
    scope = NamesInScope(outer)
    for name in body.captures if outer is None else ():
        scope.call(name, name)
    outputs = [name for node in body.nodes for name in node.outputs if name]
    for name in dict.fromkeys((*body.inputs, *body.outputs, *outputs, *body.constants)):
        if name in body.captures:
            continue
        last = name.rpartition(".")[2] if nodes else name
        scope.call(name, *(text for text in (said.get(name), said.get(last), last, name) if text))

    originals = {id: text_of(node, ORIGINAL) for id, node in nodes.items()}
    others = FreshNames(originals.values())

    def change(node: Node) -> Node:
        made = nodes.get(node.name)
        bodies = {key: with_onnx_names(inner, _graph(made, key), scope) for key, inner in node.bodies}
        name = originals.get(node.name) or others.fresh(node.name or node.called)
        return replace(node.with_bodies(bodies), name=name)

    return replace(scope.renamed(body, change), name=text_of(graph, ORIGINAL) or body.name)


def said_of_file(model: Any) -> dict[str, Any] | None:
    """What the metadata of an MDF model say of an ONNX model, beside its graph."""
    said = {IR_VERSION: model.ir_version, DOC_STRING: model.doc_string}
    return {key: value for key, value in said.items() if value} or None


def text_of(thing: Any, key: str) -> str:
    """What the metadata of a model, graph or node say of it in ONNX: its name (:data:`ORIGINAL`), or its text."""
    said = (getattr(thing, "metadata", None) or {}).get(key)
    return said if isinstance(said, str) else ""


def names_of(graph: Any) -> Mapping[str, str]:
    """What the metadata of a graph says values are called in ONNX, by their ids."""
    said = (getattr(graph, "metadata", None) or {}).get(NAMES)
    if not isinstance(said, Mapping):
        return {}
    return {id: name for id, name in said.items() if isinstance(id, str) and isinstance(name, str)}


def input_ids(graph: Any) -> dict[str, str]:
    """The ids of a graph's inputs by their ONNX names.

    Raises
    ------
    MalformedBody
        The metadata says something else than names.
    """
    names = names_of(graph)
    return {names.get(id, id): id for id in said_names(graph, "inputs") or ()}


def _graph(node: Any, key: str) -> Any:
    """The MDF graph that a body of a node is; None if it is something else."""
    if node is None:
        return None
    value = next((parameter.value for parameter in node.parameters if parameter.id == key), None)
    is_graph = isinstance(value, Mapping) and len(value) == 1 and all(str(key).startswith("graph_") for key in value)
    return as_graph(value) if is_graph else None
