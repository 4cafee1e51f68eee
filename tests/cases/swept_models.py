"""Models that are swept."""

from pathlib import Path

from modeci_mdf.mdf import Graph, Node, OutputPort, Parameter

import mdf_loop

DIFFUSION = Path(__file__).parents[2] / "examples" / "drift_diffusion.yaml"
OVER = {"drift": [0.5, 1.5], "bound": [0.3, 0.5, 0.7]}
NAMES = ["evidence", "reaction_time"]
"""A sweep over six points, and its outputs that are single numbers."""

GATHERING = "b (int64 i, bool c, double x) => (bool c, double x, double g) { g = Gather (w, i) }"


def loop_graph(body, values, args=None, outputs=("run",), m=40):
    """A graph of one node with one loop."""
    parameters = [Parameter(id=name, value=value) for name, value in values.items()]
    parameters.append(Parameter(id="body", value={"onnx": body}))
    parameters.append(Parameter(id="m", value=m))
    said = {"M": "m", "cond": True, **(args or {}), "body": "body"}
    parameters.append(Parameter(id="run", function="onnx::Loop", args=said))
    ports = [OutputPort(id=f"o{k}", value=text) for k, text in enumerate(outputs)]
    return Graph(id="g", nodes=[Node(id="n", parameters=parameters, output_ports=ports)])


def limited(_):
    """A run that is ended by its limit; here a process that is spawned finds it."""
    with mdf_loop.options(max_iterations=5, seed=1):
        return mdf_loop.run(DIFFUSION, record=["decision.trial.x"])
