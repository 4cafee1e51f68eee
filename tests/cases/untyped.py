"""MDF bodies whose numbers have no types but those that they come with, which change from call to call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mdf_bodies import graph, node
from modeci_mdf.mdf import Parameter

from mdf_loop.ir import Body
from mdf_loop.readers import read as read_mdf_graph

ROWS = 40


@dataclass
class Untyped:
    """The expressions of a body, and several calls of it: carried values each, of other types in each call."""

    parameters: list[str]
    outputs: list[str]
    calls: list[list[Any]]
    captured: Any

    def body(self) -> Body:
        """The body, read."""
        carried = [f"x{k}" for k in range(len(self.calls[0]))]
        captured = ["cap"] if any("cap" in text for text in (*self.parameters, *self.outputs)) else []
        parameters = [Parameter(id=f"p{k}", value=text) for k, text in enumerate(self.parameters)]
        outputs = {f"o{k}": text for k, text in enumerate(self.outputs)}
        source = graph(
            node("A", [*carried, *captured], outputs, parameters), inputs=("i", "go", *carried), outputs=("go", *outputs)
        )
        return read_mdf_graph(source, len(carried))
