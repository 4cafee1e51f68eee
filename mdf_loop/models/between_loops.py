"""Graphs of operators evaluated between their loops: each loop that is reached is asked for, and its results are sent back.

So a loop may be recorded, or run for many evaluations at once, while everything around it is what it is.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from mdf_loop.calls.calling import results_of
from mdf_loop.calls.prepared import PreparedLoop
from mdf_loop.errors import PartialResults, let_through
from mdf_loop.execute.interpret import Arguments, InterpretedBody
from mdf_loop.execute.program import OMITTED, RUN, Step
from mdf_loop.ir import Body, Node
from mdf_loop.ops.registry import facts
from mdf_loop.options import Run, check_time


class Request(NamedTuple):
    """A loop that an evaluation has come to.

    Attributes
    ----------
    step : int
        Its place among the nodes of the graph.
    node : Node
    prepared : PreparedLoop
    arguments : Arguments
    """

    step: int
    node: Node
    prepared: PreparedLoop
    arguments: Arguments

    @property
    def place(self) -> str:
        """What the loop is called: ``node.parameter`` in a graph of MDF."""
        return self.node.name

    def run(self, run: Run) -> Any:
        """Run it as a part of a run of the whole model."""
        return results_of(self.prepared, self.arguments, part_of_model(run))


def part_of_model(run: Run) -> Run:
    """A run of a loop inside the run of a model: the same options, stream and time."""
    return Run(run.options, run.stream, run.warned, deadline=run.deadline, enclosing=run, watch=run.watch, tells=run.tells)


Evaluation = Generator[Request, Any, list[Any]]
"""An evaluation under way: yields loops to be run, is sent their results, and returns the outputs."""


class BetweenLoops:
    """A graph whose loops something else runs.

    Parameters
    ----------
    graph : InterpretedBody
    """

    def __init__(self, graph: InterpretedBody) -> None:
        self.graph = graph
        self._prepared: dict[int, PreparedLoop] = {}

    def begin(self, inputs: Sequence[Any], run: Run) -> list[Any]:
        """The values before the first node, which :meth:`steps` adds to."""
        return self.graph.begin(inputs, (), run)

    def steps(self, env: list[Any]) -> Evaluation:
        """Evaluate the graph.

        Raises
        ------
        LoopTimeout
            Between two nodes.
        Exception
            Whatever a node raises.
        """
        program, deadline, at = self.graph.program, env[RUN].deadline, ""
        try:
            for k, step in enumerate(program.steps):
                if deadline is not None:
                    check_time()
                    deadline.check()
                at, is_loop = step.node.name, step.bound.loop is not None
                results = (yield self._request(k, step, env)) if is_loop else step.call(*step.given(env))
                if type(results) is not tuple:
                    env[step.writes[0]] = results
                    continue
                for slot, value in zip(step.writes, results, strict=False):
                    env[slot] = value
        except PartialResults as error:  # of a loop in a branch
            error.at_node = at  # type: ignore[attr-defined]
            raise
        return [env[slot] for slot in program.outputs]

    def go_on(self, env: list[Any], behind: Request, results: Sequence[Any], wanted: str) -> None:
        """Keep what is known of the results of a loop, and what later nodes whose names begin so make of it, where they can."""
        steps = self.graph.program.steps
        for slot, value in zip(steps[behind.step].writes, results, strict=False):
            env[slot] = value
        for step in steps[behind.step + 1 :]:
            is_known = all(env[slot] is not None for slot in step.reads if slot != OMITTED)
            if step.bound.loop is None and step.node.name.startswith(wanted) and is_known:
                try:
                    made = step.call(*step.given(env))
                except Exception as error:  # nothing had been computed that it could be made of
                    let_through(error)
                    continue
                for slot, value in zip(step.writes, made if type(made) is tuple else (made,), strict=False):
                    env[slot] = value

    def _request(self, k: int, step: Step, env: list[Any]) -> Request:
        loop: Any = step.bound.call
        prepared = self._prepared.get(k)
        if prepared is None or prepared.execute is not loop.execute:
            prepared = self._prepared[k] = PreparedLoop(loop.record, loop.execute, {})
        return Request(k, step.node, prepared, loop.arguments(*step.given(env)))


def result_in(body: Body, name: str) -> tuple[int, int] | None:
    """The node and the place among its results that a value of a graph is, as it is, if it comes out of a loop."""
    makers = {out: (k, place) for k, node in enumerate(body.nodes) for place, out in enumerate(node.outputs) if out}
    while name in makers:
        k, place = makers[name]
        node = body.nodes[k]
        if node.loop is not None:
            return k, place
        if not is_passed_on(node):
            return None
        name = node.inputs[0]
    return None


def is_passed_on(node: Node) -> bool:
    """Whether a node gives the very value that it is given: an array of numbers as an array."""
    rule = facts(node).alias
    return (node.domain, node.op) == ("mdf", "numpy.array") or (rule is not None and rule(*[None] * len(node.inputs)))
