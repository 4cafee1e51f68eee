"""The edges of an MDF graph: in which order nodes run, and what an input port gets.

MDF runs a node when those have run whose edges it waits for.  It does not wait for an edge into a port with a default
value; so a cycle is possible, in which such an edge brings the value of the iteration before, and in the first
iteration the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from mdf_loop.errors import MalformedBody
from mdf_loop.ir import record
from mdf_loop.readers.expressions.values import BodyBuilder, NotCompiled, Unavailable, Value, arithmetic, available, literal
from mdf_loop.readers.mdf.input_ports import default_value_of

REDUCTIONS = {"overwrite": "", "add": "add", "multiply": "multiply"}


@record
class Course:
    """How the nodes of a graph run.

    Attributes
    ----------
    order : list of node
        Each behind those it gets values from.
    edges : mapping of (node id, port id) to list of edge
        The edges into each port, in the order they stand in.
    delayed : list of edge
        Those that bring the value of the iteration before.
    """

    order: list[Any]
    edges: Mapping[tuple[str, str], list[Any]]
    delayed: list[Any]


def order_nodes(graph: Any) -> Course:
    """The order in which the nodes of a graph run.

    Raises
    ------
    MalformedBody
        Nodes wait for each other in a cycle.
    NotCompiled
        The order is up to MDF's scheduler.
    """
    edges: dict[tuple[str, str], list[Any]] = {}
    for edge in graph.edges:
        edges.setdefault((edge.receiver, edge.receiver_port), []).append(edge)
    ports = {(node.id, port.id): port for node in graph.nodes for port in node.input_ports}
    waited = [edge for edge in graph.edges if default_value_of(ports[edge.receiver, edge.receiver_port]) is None]
    try:
        levels = _levels(graph, waited)
    except CycleError as error:
        raise MalformedBody(
            f"nodes {', '.join(error.args[1][:-1])} wait for each other in a cycle; a default_value at one of the ports, or a "
            "carried value of the loop, lets it begin",
            (graph.id,),
        ) from error
    begins = [edge for edge in graph.edges if default_value_of(ports[edge.receiver, edge.receiver_port]) is not None]
    delayed = [edge for edge in begins if levels[edge.sender] > levels[edge.receiver] or edge.sender == edge.receiver]
    for edge in delayed:
        if len(edges[edge.receiver, edge.receiver_port]) > 1:
            raise NotCompiled(f"several edges meet in port {edge.receiver}.{edge.receiver_port}, some of them an iteration late")
    late = set(map(id, delayed))
    in_time = [edge for edge in graph.edges if id(edge) not in late]
    try:
        all_levels = _levels(graph, in_time)
    except CycleError as error:
        cycle = ", ".join(error.args[1][:-1])
        raise NotCompiled(f"nodes {cycle} form a cycle in which MDF's scheduler decides who is first") from error
    return Course(sorted(graph.nodes, key=lambda node: all_levels[node.id]), edges, delayed)


def _levels(graph: Any, edges: Sequence[Any]) -> dict[str, int]:
    """How many nodes stand before each one in the longest row."""
    waits: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for edge in edges:
        waits[edge.receiver].append(edge.sender)
    return {name: level for level, names in enumerate(sets_of(waits)) for name in names}


def refuse_cycle(graph: Any) -> None:
    """See that no nodes wait for each other: MDF's scheduler has no order for them.

    Raises
    ------
    MalformedBody
    """
    try:
        _levels(graph, graph.edges)
    except CycleError as error:
        cycle = " -> ".join(map(repr, error.args[1]))
        raise MalformedBody(
            f"the edges of nodes {cycle} form a cycle, for which MDF's scheduler has no order (PsyNeuLink's feedback projections "
            "have no form in MDF); write these nodes as a loop (onnx::Loop), in which a carried value goes back to the first",
            (graph.id,),
        ) from None


def sets_of(waits: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """Nodes in sets, each set behind those that its nodes wait for.

    Raises
    ------
    CycleError
        Some wait for each other: ``args[1]`` names them, the first one twice.
    """
    sorter = TopologicalSorter(dict.fromkeys(waits, ()))
    for name, needs in waits.items():
        sorter.add(name, *needs)
    sorter.prepare()
    sets: list[tuple[str, ...]] = []
    while ready := sorter.get_ready():
        sets.append(ready)
        sorter.done(*ready)
    return sets


def port_value(
    builder: BodyBuilder,
    base: str,
    edges: Sequence[Any],
    reduce: str,
    values: Mapping[tuple[str, str], Value | Unavailable],
    path: tuple[str, ...],
) -> Value:
    """What the edges into a port bring: weighted, and put together as ``reduce`` says."""
    if reduce not in REDUCTIONS:
        raise MalformedBody(f"reduce must be one of {', '.join(REDUCTIONS)}; got {reduce!r}", path)
    if reduce == "overwrite":
        edges = edges[-1:]
    total: Value | None = None
    for edge in edges:
        value = _weighted(builder, base, edge, values, path)
        if total is None:
            total = value
        else:
            total, value = builder.array(total, base), builder.array(value, base)
            total = builder.node(REDUCTIONS[reduce], [total, value], base, number=arithmetic(reduce, total, value))
    assert total is not None
    return total


def _weighted(
    builder: BodyBuilder, base: str, edge: Any, values: Mapping[tuple[str, str], Value | Unavailable], path: tuple[str, ...]
) -> Value:
    value = available(values[edge.sender, edge.sender_port])
    if value.items is None and value.literal is None:
        raise MalformedBody(f"edge {edge.id!r} brings no value: output port {edge.sender}.{edge.sender_port} has none", path)
    weight = (edge.parameters or {}).get("weight", 1)
    if type(weight) in (int, float) and weight == 1:
        return value
    if not isinstance(weight, bool | int | float | list | np.ndarray | np.generic):
        raise MalformedBody(f"the weight of edge {edge.id!r} must be a number or an array; got {weight!r}", path)
    factor, value = builder.array(literal(weight), base), builder.array(value, base)
    return builder.node("multiply", [factor, value], base, number=arithmetic("multiply", factor, value))
