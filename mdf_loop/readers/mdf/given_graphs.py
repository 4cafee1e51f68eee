"""MDF graphs in the forms that they come in: objects of MDF, and what JSON and YAML make of one."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping
from typing import Any

from mdf_loop.errors import MalformedBody, let_through
from mdf_loop.readers.mdf.file_structure import check_graph_content


def as_graph(source: Any) -> Any:
    """An MDF graph, from any of the forms it comes in.

    Raises
    ------
    MalformedBody
        It is none.
    """
    if not isinstance(source, Mapping):
        return source
    if "nodes" in source:
        return _structured(dict(source), str(source.get("id", "body")))
    if len(source) != 1:
        raise MalformedBody(
            f'a body in a dict is {{"onnx": text}}, {{"onnx_file": path}} or {{"graph_<id>": graph}}; got keys '
            f"{', '.join(map(repr, source)) or 'none'}"
        )
    ((key, content),) = source.items()
    if not isinstance(content, Mapping):
        if hasattr(content, "nodes") and hasattr(content, "edges"):
            return content
        close = difflib.get_close_matches(str(key), ("onnx", "onnx_file", "carried"), 1)
        meant = f"; did you mean {close[0]!r} for {key!r}?" if close else ""
        raise MalformedBody(f"a graph is a dict with nodes; got {type(content).__name__}{meant}", (str(key),))
    return _structured(dict(content), str(key).removeprefix("graph_"))


def _structured(content: dict[str, Any], name: str) -> Any:
    """A Graph, from what JSON or YAML make of one."""
    from modeci_mdf.mdf import Graph
    from modelspec.base_types import converter

    check_graph_content(content, (name,))
    try:
        graph = converter.structure(copy.deepcopy(content), Graph)  # a copy, for this writes into it
    except Exception as error:
        let_through(error)
        raise MalformedBody(f"is no MDF graph: {error.args[0] if error.args else error}", (name,)) from error
    graph.id = name
    return graph
