"""Nodes of MDF with loops in them, and graphs of these."""

from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.mdf import Function, Graph, InputPort, Node, OutputPort, Parameter

SWAPPING_SUM = """b (int64 i, bool c, float x, float h) => (bool c, float h, float s, float t) {
    s = Add (x, h) t = Mul (s, gain)
}"""


def loop_node(body, args, inputs=None, parameters=None, outputs=None, function=False, called="onnx::Loop"):
    """A node that runs a loop: as a Parameter, or as a Function."""
    bodies = {key: {"onnx": text} for key, text in (body if isinstance(body, dict) else {"body": body}).items()}
    node = Node(
        id="looping",
        input_ports=[InputPort(id=name, default_value=value) for name, value in (inputs or {}).items()],
        parameters=[Parameter(id=f"{key}_value", value=value) for key, value in bodies.items()],
        output_ports=[OutputPort(id=name, value=value) for name, value in (outputs or {"out": "run"}).items()],
    )
    node.parameters += [Parameter(id=name, value=value) for name, value in (parameters or {}).items()]
    args = {**args, **{key: f"{key}_value" for key in bodies}}
    if function:
        node.functions.append(Function(id="run", function=called, args=args))
    else:
        node.parameters.append(Parameter(id="run", function=called, args=args))
    return node


def evaluated(*nodes, edges=(), conditions=None):
    """A graph of these nodes, evaluated once."""
    graph = EvaluableGraph(Graph(id="g", nodes=list(nodes), edges=list(edges), conditions=conditions), verbose=False)
    graph.evaluate()
    return graph


def outputs(graph, node="looping"):
    """The values of a node's output ports."""
    return {name: port.curr_value for name, port in graph.enodes[node].evaluable_outputs.items()}
