"""What MDF's ONNX importer writes, and how it differs from what people write."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from typing import Any

from mdf_loop.errors import LoopError, MalformedBody
from mdf_loop.ir import record
from mdf_loop.readers.mdf.body import check_graph
from mdf_loop.readers.mdf.control_functions import BODIES
from mdf_loop.readers.mdf.graph_objects import as_graph, check_structure
from mdf_loop.readers.mdf.typed import function_of

CONTROL = {f"onnx::{op}": keys for op, keys in BODIES.items() if op != "SequenceMap"}
"""The functions that have bodies, and what holds them."""


@record
class Opened:
    """A body that was a dict and has been made a graph, in the dict that holds it.

    Attributes
    ----------
    holder : dict
        The dict, such as the value of a parameter.
    key : str
        What the body is called in it: ``graph_<id>``.
    graph : modeci_mdf.mdf.Graph
    content : dict
        What stood there.
    before : dict or None
        The graph as it was, written down; None if what stood there has to change.
    """

    holder: dict[str, Any]
    key: str
    graph: Any
    content: Any
    before: Any

    def close(self) -> None:
        """Put back what stood there, or what has become of it."""
        after = written(self.graph)
        self.holder[self.key] = self.content if after == self.before else after


def written(graph: Any) -> Any:
    """A graph as JSON and YAML write it."""
    from modelspec.base_types import converter

    return copy.deepcopy(converter.unstructure(graph))


def open_bodies(graph: Any) -> list[Opened]:
    """Make the dicts that are bodies of loops graphs, at every depth; innermost last."""
    opened = []
    for node in graph.nodes:
        for holder in _holders(node):
            ((key, content),) = holder.items()
            inner = content
            if isinstance(content, Mapping):
                readable = copy.deepcopy(_inner(content))
                changed = repair_written_shapes(readable)
                try:
                    inner = as_graph({key: readable})
                except LoopError:  # said when the loop runs, if it ever does
                    continue
                inner.id = str(readable.get("id", inner.id))
                opened.append(Opened(holder, key, inner, content, None if changed else written(inner)))
                holder[key] = inner
            check_structure(inner, (graph.id, node.id))
            opened += open_bodies(inner)
    return opened


def _inner(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The contents of a graph; older importers put it one level deeper, under its id."""
    if len(content) == 1:
        ((key, inner),) = content.items()
        if isinstance(inner, Mapping) and key not in ("nodes", "edges", "metadata", "conditions", "parameters"):
            return inner
    return content


def _holders(node: Any) -> Iterator[dict[str, Any]]:
    """The dicts with the bodies of a node, each with one entry: a graph."""
    for function in (*node.parameters, *node.functions):
        for key in CONTROL.get(function.function, ()):
            source = (function.args or {}).get(key, key)
            if isinstance(source, str):
                source = next((p.value for p in node.parameters if p.id == source), None)
            if isinstance(source, dict) and len(source) == 1 and _is_graph(*source.items()):
                yield source


def _is_graph(entry: tuple[str, Any]) -> bool:
    key, content = entry
    if isinstance(content, Mapping):
        return key not in ("onnx", "onnx_file", "nodes")
    return hasattr(content, "nodes") and hasattr(content, "edges")


def bodies_of(node: Any) -> list[tuple[str, Any]]:
    """The bodies of a node that are MDF graphs, by the attribute they are."""
    found = []
    holder = function_of(node)
    for key in CONTROL.get(holder.function, ()) if holder is not None else ():
        source = (holder.args or {}).get(key, key)
        if isinstance(source, str):
            source = next((p.value for p in node.parameters if p.id == source), None)
        if isinstance(source, dict) and len(source) == 1:
            (content,) = source.values()
            if hasattr(content, "nodes"):
                found.append((key, content))
    return found


def graphs_in(graph: Any) -> Iterator[Any]:
    """A graph and all bodies in it."""
    yield graph
    for node in graph.nodes:
        for holder in _holders(node):
            (content,) = holder.values()
            if hasattr(content, "nodes"):
                yield from graphs_in(content)


def is_imported(graph: Any) -> bool:
    """Whether a graph is written as the importer writes: each node is one operator, its function called like the node."""
    conditions = graph.conditions
    if conditions is not None and (conditions.node_specific or conditions.termination):
        return False
    holders = [(node, function_of(node)) for node in graph.nodes]
    return all(holder is not None and holder.id == node.id for node, holder in holders)


def check_imported(graph: Any, path: tuple[str, ...]) -> None:
    """See that the importer did not write one node over another.

    Raises
    ------
    MalformedBody
    """
    if any(not node.id for node in graph.nodes):
        raise MalformedBody(
            "a node has no name: MDF's importer writes all ONNX nodes without a name to one place, so all but the last are "
            "lost. Name the nodes before onnx_to_mdf, or run the .onnx file itself with mdf_loop.run",
            path,
        )
    for node in graph.nodes:
        if any(source == node.id and not _has_port(node, source) for source in (function_of(node).args or {}).values()):
            raise MalformedBody(
                "is called like a constant that it reads, and MDF's importer writes one over the other. Give the ONNX node "
                "another name before onnx_to_mdf, or run the .onnx file itself with mdf_loop.run",
                (*path, node.id),
            )
    try:
        check_graph(graph)
    except MalformedBody as error:
        raise MalformedBody(
            f"{error}; where two ONNX nodes have one name, MDF's importer writes one over the other", path[:-1]
        ) from error


def _has_port(node: Any, name: Any) -> bool:
    return any(port.id == name for port in node.input_ports)


PORTS = ("input_ports", "output_ports")


def usable(shape: Any) -> bool:
    """Whether MDF can use a shape."""
    return isinstance(shape, list | tuple) and all(type(dim) is int and dim >= 0 for dim in shape)


def model_as_written(content: Any) -> Any:
    """What a file says as a model that is not repaired."""
    from modeci_mdf.mdf import Model

    repair_written_shapes(content)
    return Model.from_dict(content)


def repair_written_shapes(content: Any) -> bool:
    """Change shapes in what was read from a file; whether there were any to change.

    A shape that is null stays: MDF can read it.
    """
    changed = False
    if isinstance(content, Mapping):
        for key, inner in content.items():
            if key in PORTS and isinstance(inner, Mapping):
                for port in inner.values():
                    changed |= _repair_written_port(port)
            elif key != "metadata":
                changed |= repair_written_shapes(inner)
    elif isinstance(content, list):
        for item in content:
            changed |= repair_written_shapes(item)
    return changed


def _repair_written_port(port: Any) -> bool:
    shape = port.get("shape") if isinstance(port, dict) else None
    if shape is None or usable(shape):
        return False
    parsed = _parsed(shape)
    if parsed is None or usable(parsed):
        port["shape"] = parsed
    else:
        port["shape"] = []
        port["metadata"] = {**(port.get("metadata") or {}), "original_shape": parsed}
    return True


def _parsed(shape: Any) -> Any:
    """The shape that a text is: older versions of MDF wrote them as texts."""
    try:
        found = ast.literal_eval(shape) if isinstance(shape, str) else shape
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return shape
    return list(found) if isinstance(found, tuple) else found


def repair_shapes(graph: Any) -> None:
    """Change the shapes of a graph's ports."""
    for node in graph.nodes:
        for port in (*node.input_ports, *node.output_ports):
            if usable(port.shape):
                continue
            if port.shape is not None:
                port.metadata = {**(port.metadata or {}), "original_shape": list(port.shape)}
            port.shape = ()
