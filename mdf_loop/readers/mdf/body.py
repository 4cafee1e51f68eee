"""MDF graphs to bodies.

An MDF graph becomes operators wherever they can say what MDF's engine does: edges are names, parameters and
functions are nodes (:mod:`mdf_loop.readers.mdf.node`), stateful parameters are hidden values that go round.  Where
they cannot - graph conditions, time derivatives, functions of MDF in Python, a value read an iteration late - the
whole graph stays what it is and becomes one node that MDF's engine runs.

A graph whose metadata says ``types`` is something else: an ONNX graph (:mod:`mdf_loop.readers.mdf.typed`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from mdf_loop.errors import MalformedBody, UnsupportedOp, malformed
from mdf_loop.ir import Body, ValueType
from mdf_loop.ir.well_formed import check_body
from mdf_loop.kernels import load_kernels
from mdf_loop.readers.expressions.values import BodyBuilder, Findings, NotCompiled, Number, Unavailable, Value, available
from mdf_loop.readers.mdf.by_place import graph_by_place
from mdf_loop.readers.mdf.engine_body import engine_body
from mdf_loop.readers.mdf.file_structure import check_edges
from mdf_loop.readers.mdf.graph_objects import as_graph, check_structure
from mdf_loop.readers.mdf.input_ports import (
    Course,
    GivenInput,
    default_value_of,
    order_nodes,
    port_value,
    reduce_of,
    refuse_reduction,
)
from mdf_loop.readers.mdf.node import NodeReader, default_of
from mdf_loop.readers.mdf.node import ReadBody as Read
from mdf_loop.readers.mdf.signature import Port, Signature, output_ports, ports_of, read_signature
from mdf_loop.readers.mdf.typed import GraphReader, has_conditions, is_typed
from mdf_loop.readers.onnx.graph import DEFAULT_OPSET
from mdf_loop.types.schemas import version_in


def read_mdf_graph(source: Any, read: Read, n_carried: int | None = None, kind: str = "loop") -> Body:
    """Read an MDF graph as a body.

    Parameters
    ----------
    source : modeci_mdf.mdf.Graph or mapping
        A graph, ``{"graph_<id>": graph}``, ``{"<id>": graph}`` or the contents of a graph, each with a ``Graph`` or what
        JSON and YAML make of one.
    read : callable
        Reads the bodies inside it, whatever form they have: ``read(source, n_carried, kind)``.
    n_carried : int, optional
        How many values are carried, to infer a signature that the graph does not say.
    kind : {"loop", "scan", "branch"}
        What the body is for, likewise.

    Returns
    -------
    Body
        Untyped: values keep the types they come with.  Typed if the metadata says ``types``.

    Raises
    ------
    MalformedBody
        The graph is broken, or does not say its signature and has more than one.
    UnsupportedOp
        It uses a function there is none of.
    """
    load_kernels()
    graph = as_graph(source)
    with malformed("this graph cannot be read", (str(graph.id),)):
        check_graph(graph)
        signature = read_signature(graph, n_carried, kind)
        read_body = _each_once(read)
        graph = graph_by_place(graph, read_body)
        if is_typed(graph):
            return GraphReader(graph, signature, read_body).body(kind)
        try:
            body = _compiled(graph, signature, read_body)
        except NotCompiled as reason:
            body = engine_body(graph, signature, str(reason))
        return check_body(body, (graph.id,))


def read_whole(graph: Any, read: Read) -> Body:
    """Read a graph that is a whole model.

    Input ports that nothing gives a value are its inputs, by their ids: the body captures them.  Its outputs are the
    output ports that no edge leaves, by their ids, with the node's in front where several share one.

    Raises
    ------
    MalformedBody, UnsupportedOp
        The graph is broken, or operators cannot express it; says why.
    """
    load_kernels()
    with malformed("this graph cannot be read", (str(graph.id),)):
        check_graph(graph)
        outputs, opset = output_ports(graph), version_in((graph.metadata or {}).get("opset")) or DEFAULT_OPSET
        read_body = _each_once(read)
        graph = graph_by_place(graph, read_body)
        try:
            body = _compiled(graph, Signature((), {}, tuple(outputs.values()), opset), read_body)
        except NotCompiled as reason:
            raise UnsupportedOp(f"{graph.id}: {reason}") from reason
        return check_body(body, (graph.id,))


def _each_once(read: Read) -> Read:
    """The same, but that nothing is read a second time."""
    bodies: dict[Any, tuple[Any, Body]] = {}  # sources are kept: of one that is gone another could take the id

    def read_body(inner: Any, n_carried: int | None, kind: str) -> Body:
        key = (id(inner), n_carried, kind)
        if key not in bodies:
            bodies[key] = inner, read(inner, n_carried, kind)
        return bodies[key][1]

    return read_body


def check_graph(graph: Any) -> None:
    """See that it is made of nodes and edges, ids are unique and edges join ports that are there.

    Raises
    ------
    MalformedBody
    """
    check_structure(graph)
    path = (graph.id,)
    _refuse_twins("nodes", [node.id for node in graph.nodes], path)
    for node in graph.nodes:
        for kind in ("input_ports", "functions", "parameters", "output_ports"):
            _refuse_twins(kind, [thing.id for thing in getattr(node, kind)], (*path, node.id))
    ports = ("input_ports", "output_ports")
    nodes = {node.id: {kind: [port.id for port in getattr(node, kind)] for kind in ports} for node in graph.nodes}
    check_edges(nodes, [(e.id, e.sender, e.sender_port, e.receiver, e.receiver_port) for e in graph.edges], path)


def _refuse_twins(kind: str, ids: list[str], path: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise MalformedBody(f"two {kind.replace('_', ' ')} are called {name!r}", path)
        seen.add(name)


def _compiled(graph: Any, signature: Signature, read_body: Read) -> Body:
    """The operators of a graph.  Read again while that finds out something the reading before needed to know."""
    if has_conditions(graph):
        raise NotCompiled("the graph has conditions, which graph-scheduler decides about")
    course = order_nodes(graph)
    findings = Findings()
    return findings.settled(lambda: _once(graph, signature, course, read_body, findings))


def _once(graph: Any, signature: Signature, course: Course, read_body: Read, findings: Findings) -> Body:
    captured = dict.fromkeys(port for node, port in ports_of(graph).needy if (node, port) not in signature.fed)
    if clash := [name for name in captured if name in signature.inputs]:
        raise MalformedBody(f"{clash[0]!r} is the name of an input and of a port that is captured", (graph.id,))
    builder = BodyBuilder(findings, signature.inputs, list(captured), signature.opset)
    values: dict[Port, Value | Unavailable] = {}
    for node in course.order:
        path = (graph.id, node.id)
        ports = {port.id: _input(node, port, signature, course, values, builder, path) for port in node.input_ports}
        outputs = NodeReader(node, ports, builder, read_body, path).read()
        values |= {(node.id, port): value for port, value in outputs.items()}
    for edge in course.delayed:
        place = (edge.receiver, edge.receiver_port)
        builder.goes_on(place, port_value(builder, ".".join(place), [edge], "overwrite", values, (graph.id,)))
    results = [_output(out, values, builder, k in signature.carried, graph) for k, out in enumerate(signature.outputs)]
    body = builder.finish(graph.id, results)
    types = {name: kind for name, out in zip(body.outputs, signature.outputs, strict=True) if (kind := declared_type(graph, out))}
    return Body(**{**vars(body), "types": {**_types_of_inputs(graph, signature, captured), **types}})


def _types_of_inputs(graph: Any, signature: Signature, captured: Container[str]) -> dict[str, ValueType]:
    """The element types that input ports declare for what comes into a body, where those of one value agree."""
    said: dict[str, set[np.dtype | None]] = {}
    for node in graph.nodes:
        for port in node.input_ports:
            default = default_value_of(port)
            outside = default.name if isinstance(default, GivenInput) else port.id if port.id in captured else None
            name = signature.fed.get((node.id, port.id), outside)
            if name is not None and port.type:
                said.setdefault(name, set()).add(dtype_of(port))
    return {name: ValueType(dtype) for name, (dtype, *others) in said.items() if dtype is not None and not others}


def dtype_of(port: Any) -> np.dtype | None:
    """The element type that a port declares; None where it says none that numpy knows."""
    try:
        return np.dtype(port.type) if port.type else None
    except TypeError:
        return None


def _input(
    node: Any,
    port: Any,
    signature: Signature,
    course: Course,
    values: Mapping[Port, Value | Unavailable],
    builder: BodyBuilder,
    path: tuple[str, ...],
) -> Value:
    """The value of an input port."""
    place = (node.id, port.id)
    if place in signature.fed:
        return Value(signature.fed[place])
    edges = course.edges.get(place, [])
    if edges and edges[0] in course.delayed:
        return builder.hidden(place, ".".join(place), builder.array(default_of(port, path), port.id).literal)
    if edges:
        refuse_reduction(port, (*path, port.id))
        return port_value(builder, f"{node.id}.{port.id}", edges, reduce_of(port), values, (*path, port.id))
    default = default_value_of(port)
    if isinstance(default, GivenInput):
        return builder.capture(default.name, default.number)
    return builder.capture(port.id) if default is None else default_of(port, path)


def _output(
    out: Port | str, values: Mapping[Port, Value | Unavailable], builder: BodyBuilder, is_carried: bool, graph: Any
) -> Value:
    """An output of the body; what is carried is an array, not a Python number, which would change its type on the way."""
    if isinstance(out, str):
        return Value(out)
    value = available(values[out])
    if value.items is None and (value.literal is None or isinstance(value.literal, str | dict)):
        raise MalformedBody("the output port has no value that is a number or an array", (graph.id, *out))
    base = f"{out[0]}.{out[1]}"
    if not is_carried:
        return builder.array(value, base)
    return builder.tensor(value, base, floating=value.number >= Number.FLOAT)


def declared_type(graph: Any, out: Port | str) -> ValueType | None:
    """What an output port declares, as far as it says something: MDF's ``shape`` () says nothing."""
    if not isinstance(out, tuple):
        return None
    port = next(p for node in graph.nodes if node.id == out[0] for p in node.output_ports if p.id == out[1])
    shape = port.shape if port.shape and all(isinstance(n, int) for n in port.shape) else None
    dtype = dtype_of(port)
    return ValueType(dtype, shape) if shape is not None or dtype is not None else None
