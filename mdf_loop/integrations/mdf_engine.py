"""MDF's engine as an operator: a graph that operators cannot express, run by it in each iteration.

Operator ``Graph`` in domain ``mdf.engine``.  Its first input and output are the engine itself, hidden state of the
body: None in the first iteration, where one is made.  So each run of a loop starts afresh, and stateful parameters,
conditions and the scheduler go on from iteration to iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import UnsupportedOp
from mdf_loop.execute.program import Hidden
from mdf_loop.integrations.engine_patches import quiet_mdf
from mdf_loop.integrations.no_eval import engine_at_work, refuse_graph
from mdf_loop.ir import Node
from mdf_loop.ops.registry import Kernel, register
from mdf_loop.ops.rows import Bound
from mdf_loop.readers.mdf.engine_body import DOMAIN, OP


class EngineNode(Hidden):
    """An ``EvaluableGraph`` of one run of a loop."""

    def __init__(self, graph: Any) -> None:
        from modeci_mdf.execution_engine import EvaluableGraph

        refuse_graph(graph)
        self.evaluable = EvaluableGraph(graph)

    def evaluate(self, inputs: Sequence[Any], values: Sequence[Any]) -> None:
        """Evaluate the graph once; ``inputs`` are the ports of each value."""
        nodes = self.evaluable.enodes
        for ports, value in zip(inputs, values, strict=True):
            for node, port in ports:
                nodes[node].evaluable_inputs[port].set_input_value(value)
        self.evaluable.evaluate()
        # MDF asks this list who has run, and never shortens it: a long loop would slow down.
        self.evaluable.order_of_execution[:] = dict.fromkeys(self.evaluable.order_of_execution)

    def output(self, node: str, port: str) -> Any:
        """The value of an output port: an array, or a number of Python."""
        value = self.evaluable.enodes[node].evaluable_outputs[port].curr_value
        if value is None or isinstance(value, str | dict):
            raise TypeError(f"output port {node}.{port} has no value that is a number or an array; MDF gave {value!r}")
        return np.asarray(value) if isinstance(value, list | tuple) else value


def bind(node: Node) -> Bound:
    """The function that runs one graph."""
    graph, inputs, outputs = (node.attrs.get(key) for key in ("graph", "inputs", "outputs"))
    if not hasattr(graph, "nodes") or not isinstance(inputs, tuple) or not isinstance(outputs, tuple):
        raise UnsupportedOp(f"{node.name or OP}: operators of domain {DOMAIN} are made by mdf_loop, a model cannot have them")

    def call(engine: EngineNode | None, *values: Any) -> tuple[Any, ...]:
        with quiet_mdf(), engine_at_work(graph, is_body=True):
            engine = engine or EngineNode(graph)
            engine.evaluate(inputs, values)
        return engine, *(engine.output(*port) for port in outputs)

    return Bound(call)


def _not_called(*_: Any) -> Any:
    raise AssertionError("MDF's engine runs through its bind function")


register(Kernel(OP, 1, _not_called, pure=False, domain=DOMAIN, bind=bind))
