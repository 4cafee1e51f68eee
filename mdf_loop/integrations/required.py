"""Input ports that must be given a value.

MDF's engine takes zeros for an input port that nothing gives a value.  In a model that MDF's ONNX importer wrote that
may be an input of the model, or a weight whose value was lost: :mod:`mdf_loop.convert.repair.imported_models` marks them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mdf_loop.convert.identifiers import ORIGINAL
from mdf_loop.convert.repair.imported_models import REQUIRED
from mdf_loop.errors import MalformedBody


def is_required(thing: Any) -> bool:
    """Whether something is an input port that must be given a value."""
    return (thing.metadata or {}).get(REQUIRED) is True


def is_required_as(thing: Any, name: str) -> bool:
    """Whether something is a required port of an input of that name, now or in the ONNX model: one input may have several."""
    return is_required(thing) and name in (thing.id, thing.metadata.get(ORIGINAL))


def refusing_missing_inputs(original: Callable[..., Any]) -> Callable[..., Any]:
    """``EvaluableGraph.evaluate``: without a value for a required input port it is an error."""

    @functools.wraps(original)
    def evaluate(
        self: Any, time_increment: Any = None, array_format: str = "numpy", initializer: Mapping[str, Any] | None = None
    ) -> Any:
        refuse_missing_inputs(self.graph, initializer or {})
        return original(self, time_increment, array_format, initializer)

    return evaluate


def refuse_missing_inputs(graph: Any, given: Mapping[str, Any]) -> None:
    """See that every required input port has a value.

    Raises
    ------
    MalformedBody
    """
    if missing := list(_missing(graph, given)):
        raise MalformedBody(_message(missing), (graph.id,))


def _missing(graph: Any, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Required input ports without a value, and the nodes they are ports of."""
    fed = {(edge.receiver, edge.receiver_port) for edge in graph.edges}
    for node in graph.nodes:
        for port in node.input_ports:
            if is_required(port) and port.default_value is None and port.id not in given and (node.id, port.id) not in fed:
                yield node.id, port


def _message(missing: Sequence[tuple[str, Any]]) -> str:
    readers: dict[str, list[str]] = {}
    for node, port in missing:
        was = (port.metadata or {}).get(ORIGINAL, port.id)
        name = repr(port.id) if port.id == was else f"{port.id!r} ({was} in the ONNX model)"
        readers.setdefault(name, []).append(node)
    names = ", ".join(f"{name}, read by {' and '.join(nodes)}" for name, nodes in readers.items())
    return (
        f"nothing gives a value to {names}. Inputs of the model are given to mdf_loop.run by name, or to "
        "evaluate(initializer=...). The values of initializers, such as weights, were lost when MDF's importer wrote the "
        "model: give them in the same way, or export them as Constant nodes, or run the .onnx file itself with mdf_loop.run"
    )
