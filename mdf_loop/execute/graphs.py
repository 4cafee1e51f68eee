"""A graph without a loop around it, such as a model's: by a program, or node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdf_loop.analysis.purity import draws
from mdf_loop.execute.interpret import InterpretedBody
from mdf_loop.execute.programs import Programs
from mdf_loop.ir import Body
from mdf_loop.options import Run
from mdf_loop.step.lower import lower_graph
from mdf_loop.step.records import Region, Type


class Graph(InterpretedBody):
    """A graph ready to run, any number of times."""

    def __init__(self, body: Body) -> None:
        super().__init__(body)

        def lower(types: Sequence[Type], obey: bool, opens: bool) -> Region:
            return lower_graph(body, types, obey, opens)

        has_loops = any(True for node in body.nodes for _ in node.bodies)
        self._programs = Programs(lower, any(map(draws, body.nodes)), has_loops)

    def __call__(self, inputs: Sequence[Any], captured: Sequence[Any], run: Run) -> tuple[Any, ...]:
        """Run every node once; returns the body's outputs."""
        if run.options.engine != "interpret" and run.options.max_iterations is None:
            results = self._programs.run([*inputs, *captured], run)
            if results is not None:
                return results
        return super().__call__(inputs, captured, run)
