"""A graph without a loop around it, such as a model's: by a program, or node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdf_loop.analysis.purity import draws
from mdf_loop.execute.interpret import InterpretedBody
from mdf_loop.execute.program import RUN
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
        self._programs = Programs(lower, any(map(draws, body.nodes)), has_loops, not body.typed)

    def finish(self, env: list[Any]) -> tuple[Any, ...]:
        """Run every node once; returns the body's outputs."""
        run: Run = env[RUN]
        if run.options.engine != "interpret" and run.options.max_iterations is None and run.deadline is None:
            values = [env[slot] for slot in (*self.program.inputs, *self.program.captures)]
            results = self._programs.run(values, run)
            if results is not None:
                return results
        return super().finish(env)
