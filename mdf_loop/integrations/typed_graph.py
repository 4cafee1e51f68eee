"""MDF graphs that are ONNX graphs in MDF's engine: each of their nodes is run by our kernels.

MDF evaluates ONNX operators through float64, one output at a time and under one version of ONNX for all.  In a graph
whose metadata says ``types`` (see :mod:`mdf_loop.readers.mdf.typed`) the nodes that are ONNX operators or constants are
replaced when the graph is made evaluable: graph-scheduler still decides when they run, and values travel along MDF's
edges, with the types they have in ONNX.  No text of such a node is evaluated; MDF evaluates those of other nodes, if they
are on the list of :mod:`mdf_loop.readers.expressions.expression_text`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mdf_loop.backend import LoopRep, as_value, run_kept
from mdf_loop.convert.naming import input_ids, names_of
from mdf_loop.errors import ArgumentError, LoopError, in_node, keeps_results
from mdf_loop.execute.interpret import InterpretedBody
from mdf_loop.integrations.required_inputs import lost_values
from mdf_loop.ir import Body, Node
from mdf_loop.options import start_run
from mdf_loop.readers import read
from mdf_loop.readers.mdf.body import check_graph
from mdf_loop.readers.mdf.engine_body import check_expressions, refuse_hanging
from mdf_loop.readers.mdf.input_ports import default_value_of
from mdf_loop.readers.mdf.signature import Signature, opset_of, ports_of, read_signature, said_names
from mdf_loop.readers.mdf.typed import OPAQUE, GraphReader, is_typed
from mdf_loop.types.fitting import fit_values
from mdf_loop.types.required import Asked, asked_types

UNSET = object()
"""In place of a value that an input port did not get; None is the empty optional."""


def taking_over_nodes(original: Callable[..., Any], self: Any, graph: Any, verbose: bool | None = False) -> None:
    """``EvaluableGraph.__init__``: the nodes of a graph with metadata types are ours."""
    nodes = typed_nodes(graph) if is_typed(graph) else {}
    refuse_hanging(graph)
    original(self, graph, verbose)
    self.enodes |= nodes
    self.output_enodes = [self.enodes[node.id] for node in self.output_nodes]


def typed_nodes(graph: Any) -> dict[str, TypedNode]:
    """The nodes of a graph that are operators of ONNX or constants, ready to run.

    Raises
    ------
    MalformedBody, UnsupportedOp
        The graph is broken, or has an operator there is no kernel for.
    """
    check_graph(graph)
    reader = GraphReader(graph, graph_signature(graph), read, is_lenient=True)
    body = reader.body()
    left = {node.id for node in graph.nodes if _is_left_to_mdf(node, reader.made[node.id])}
    given = [name for id in left for part in reader.made[id] for name in part.outputs if name]
    ours = tuple(part for id, parts in reader.made.items() if id not in left for part in parts)
    asked = asked_types(replace(body, inputs=(*body.inputs, *given), nodes=ours))  # what MDF gives has no types
    nodes, others = {}, copy.copy(graph)
    others.nodes = [node for node in graph.nodes if node.id in left]
    check_expressions(others)  # what MDF's engine evaluates, in a model that was converted and changed by hand
    for node in graph.nodes:
        if node.id not in left:
            nodes[node.id] = TypedNode(node, reader, replace(body, nodes=tuple(reader.made[node.id])), asked)
    return nodes


def _is_left_to_mdf(node: Any, parts: Sequence[Node]) -> bool:
    """Whether a node is no operator of ONNX, or a loop whose metadata say how it runs under graph-scheduler."""
    things = (node, *node.parameters, *node.functions)
    return any(part.domain == OPAQUE for part in parts) or any("loop" in (thing.metadata or {}) for thing in things)


def graph_signature(graph: Any) -> Signature:
    """The signature in a graph's metadata, without inputs that an edge feeds by now; without one every loose port is an
    input."""
    said_inputs, said_outputs = (said_names(graph, key) for key in ("inputs", "outputs"))
    if said_inputs is None or said_outputs is None:
        return Signature((), {}, (), opset_of(graph))
    ports = ports_of(graph)
    fed = {port for _, port in ports.fed} - {port for _, port in ports.free}
    other = copy.copy(graph)
    other.metadata = {**graph.metadata, "inputs": [name for name in said_inputs if name not in fed]}
    return read_signature(other, None, "branch")


class TypedPort:
    """An input or output port of a node of ours, as MDF's engine sees it."""

    def __init__(self, port: Any) -> None:
        self.port, self.curr_value = port, UNSET

    def set_input_value(self, value: Any) -> None:
        """What an edge or an initializer brings."""
        self.curr_value = value


class TypedNode:
    """A node of a graph that says types: one operator of ONNX, or constants.

    It stands in the place of an ``EvaluableNode`` and has what MDF's engine and its conditions ask of one.
    """

    def __init__(self, node: Any, reader: GraphReader, body: Body, asked: Mapping[str, Asked]) -> None:
        self.node, self.evaluable_parameters, self.evaluable_functions = node, {}, {}  # type: ignore[var-annotated]
        self.evaluable_inputs = {port.id: TypedPort(port) for port in node.input_ports}
        self.evaluable_outputs = {port.id: TypedPort(port) for port in node.output_ports}
        for port in self.evaluable_outputs.values():
            port.curr_value = None
        self._values = {port.id: _value_of(reader, node, port) for port in node.input_ports}
        self._outputs = {port.id: reader.names[node.id, port.id] for port in node.output_ports}
        self._defaults = {
            port.id: body.values.get(self._values[port.id], default_value_of(port))
            for port in node.input_ports
            if default_value_of(port) is not None
        }
        self._asked = {name: asked[name] for name in self._values.values() if name in asked}
        self._prepare(body)

    def _prepare(self, body: Body) -> None:
        """Make the operator ready to run; its inputs are the values of the ports."""
        inputs = tuple(dict.fromkeys(self._values.values()))
        needed = {name for part in body.nodes for name in part.reads} | set(self._outputs.values())
        constants = {name: value for name, value in body.values.items() if name in needed and name not in inputs}
        types = {name: body.types[name] for name in needed if name in body.types}
        outputs = tuple(self._outputs.values())
        self._execute = InterpretedBody(
            replace(body, inputs=inputs, outputs=outputs, constants=constants, captures=(), types=types, defaults={})
        )

    def evaluate(self, time_increment: Any = None, array_format: str = "numpy") -> None:
        """Run the operator on what the ports have, and forget it, as MDF does."""
        given: dict[str, Any] = {}
        for id, port in self.evaluable_inputs.items():
            value = self._defaults.get(id) if port.curr_value is UNSET else port.curr_value
            given[self._values[id]] = value
            port.curr_value = UNSET
        fitted = fit_values(self._asked, {name: value for name, value in given.items() if name in self._asked})
        given = {name: fitted[name] if name in fitted else as_value(value) for name, value in given.items()}
        try:
            results = run_kept(self._execute, tuple(given.values()), start_run())
        except (LoopError, KeyboardInterrupt) as error:
            in_node(error, self.node.id)
            known = getattr(error, "outputs", None) or {}
            for id, port in self.evaluable_outputs.items():
                port.curr_value = known.get(self._outputs[id])
            raise
        for port, result in zip(self.evaluable_outputs.values(), results, strict=True):
            port.curr_value = result

    def get_output(self, id: str | None = None) -> Any:
        """The value of an output port; of all of them, or the only one, without an id."""
        if id is not None:
            return self.evaluable_outputs[id].curr_value if id in self.evaluable_outputs else None
        values = tuple(port.curr_value for port in self.evaluable_outputs.values())
        return values[0] if len(values) == 1 else values


def _value_of(reader: GraphReader, node: Any, port: Any) -> str:
    """What the value of an input port is called in the body."""
    place = (node.id, port.id)
    if place in reader.sent:
        return reader.names[reader.sent[place]]
    if place in reader.signature.fed:
        return reader.signature.fed[place]
    return port.id if default_value_of(port) is None else f"{node.id}.{port.id}"


def prepare_typed(graph: Any) -> LoopRep:
    """A whole graph that says types, as the ONNX graph it is."""
    return LoopRep(read(graph, kind="branch"))


def run_typed(graph: Any, inputs: Mapping[str, Any], prepared: LoopRep) -> dict[str, Any]:
    """Run a whole graph that says types, as the ONNX graph it is; names are those of ONNX."""
    names = names_of(graph)
    ids = input_ids(graph)
    given = {ids.get(name, name): value for name, value in inputs.items()}
    try:
        results = prepared.run(given)
    except ArgumentError as error:
        error.args = (f"{error}{lost_values(graph)}",)
        raise
    except BaseException as error:
        if not keeps_results(error):
            raise
        error.outputs = {names.get(id, id): value for id, value in (error.outputs or {}).items()}
        raise
    said = said_names(graph, "outputs") or ()
    return {names.get(id, id): value for id, value in zip(said, results, strict=True)}
