"""Where in a node of MDF expressions may stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mdf_loop.readers.mdf.objects import default_value_of


def texts(node: Any) -> Iterator[tuple[str, Any]]:
    """Every value of a node that may be an expression, with the id of what it belongs to."""
    for parameter in node.parameters:
        yield from ((parameter.id, getattr(parameter, key)) for key in ("value", "default_initial_value", "time_derivative"))
        yield from ((parameter.id, source) for source in (parameter.args or {}).values())
        for condition in parameter.conditions:
            parts = condition if isinstance(condition, dict) else {"test": condition.test, "value": condition.value}
            yield from ((parameter.id, parts.get(key)) for key in ("test", "value"))
    for function in node.functions:
        yield from ((function.id, source) for source in (function.value, *(function.args or {}).values()))
    yield from ((port.id, port.value) for port in node.output_ports)
    yield from ((port.id, default_value_of(port)) for port in node.input_ports)
