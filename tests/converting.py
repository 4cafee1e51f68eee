"""Running converted models in every way there is."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from modeci_mdf.execution_engine import EvaluableGraph


def by_engine(model: Any, inputs: dict[str, Any]) -> list[Any]:
    """The outputs of a converted model in MDF's own engine, in order; inputs by their ONNX names."""
    (graph,) = model.graphs
    ids = {name: id for id, name in graph.metadata.get("names", {}).items()}
    with contextlib.redirect_stdout(io.StringIO()):
        evaluable = EvaluableGraph(graph)
        evaluable.evaluate(initializer={ids.get(name, name): value for name, value in inputs.items()})
    ports = {port.id: (node.id, port.id) for node in graph.nodes for port in node.output_ports}
    places = [ports[name] for name in graph.metadata["outputs"]]
    return [evaluable.enodes[node].evaluable_outputs[port].curr_value for node, port in places]


def named_inputs(model: Any, values: list[Any]) -> dict[str, Any]:
    """The values of a case by the names of the ONNX model's inputs."""
    return dict(zip([value.name for value in model.graph.input], values, strict=False))
