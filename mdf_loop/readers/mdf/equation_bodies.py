"""The bodies of a graph that are equations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mdf_loop.readers.expressions.equation_texts import equations_in, is_equations


def equations_in_nodes(graph: Any) -> Iterator[tuple[Any, Any, Any]]:
    """The parameters of a graph's nodes that are equations: node, parameter and what they say."""
    for node in graph.nodes:
        for parameter in node.parameters:
            if isinstance(parameter.value, Mapping) and is_equations(parameter.value):
                yield node, parameter, equations_in(parameter.value)
