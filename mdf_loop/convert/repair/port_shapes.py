"""Shapes of ports that MDF cannot use: none at all, names of dimensions, or a text.

MDF fills an input port that has no value with zeros of its shape, so every shape has to be numbers.  Where it is not,
it becomes ``()``, and what stood there is kept in the port's metadata as ``original_shape``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

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
