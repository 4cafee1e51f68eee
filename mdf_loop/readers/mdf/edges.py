"""The edges of an MDF graph: in which order nodes run, and what an input port gets.

MDF runs a node when those have run whose edges it waits for.  It does not wait for an edge into a port with a default
value; so a cycle is possible, in which such an edge brings the value of the iteration before, and in the first
iteration the default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    levels = _levels(graph, waited)
    if levels is None:
        raise MalformedBody(
            f"nodes {', '.join(_cycle(graph, waited))} wait for each other in a cycle; a default_value at one of the ports, or a "
            "carried value of the loop, lets it begin",
            (graph.id,),
        )
    begins = [edge for edge in graph.edges if default_value_of(ports[edge.receiver, edge.receiver_port]) is not None]
    delayed = [edge for edge in begins if levels[edge.sender] > levels[edge.receiver] or edge.sender == edge.receiver]
    for edge in delayed:
        if len(edges[edge.receiver, edge.receiver_port]) > 1:
            raise NotCompiled(f"several edges meet in port {edge.receiver}.{edge.receiver_port}, some of them an iteration late")
    late = set(map(id, delayed))
    in_time = [edge for edge in graph.edges if id(edge) not in late]
    all_levels = _levels(graph, in_time)
    if all_levels is None:
        cycle = _cycle(graph, in_time)
        raise NotCompiled(f"nodes {', '.join(cycle)} form a cycle in which MDF's scheduler decides who is first")
    return Course(sorted(graph.nodes, key=lambda node: all_levels[node.id]), edges, delayed)


def _levels(graph: Any, edges: Sequence[Any]) -> dict[str, int] | None:
    """How many nodes stand before each one in the longest row; None if there is a cycle."""
    receivers: dict[str, set[str]] = {node.id: set() for node in graph.nodes}
    waits = dict.fromkeys(receivers, 0)
    for edge in edges:
        if edge.receiver not in receivers[edge.sender]:
            receivers[edge.sender].add(edge.receiver)
            waits[edge.receiver] += 1
    levels = dict.fromkeys(receivers, 0)
    ready = [name for name, count in waits.items() if not count]
    for name in ready:
        for receiver in receivers[name]:
            levels[receiver] = max(levels[receiver], levels[name] + 1)
            waits[receiver] -= 1
            if not waits[receiver]:
                ready.append(receiver)
    return levels if len(ready) == len(receivers) else None


def _cycle(graph: Any, edges: Sequence[Any]) -> list[str]:
    """The nodes of one cycle."""
    senders: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    receivers: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for edge in edges:
        senders[edge.receiver].append(edge.sender)
        receivers[edge.sender].append(edge.receiver)
    waits = {name: len(names) for name, names in senders.items()}
    done = [name for name, count in waits.items() if not count]
    for name in done:
        for receiver in receivers[name]:
            waits[receiver] -= 1
            if not waits[receiver]:
                done.append(receiver)
    ended = set(done)
    name = next(name for name in senders if name not in ended)
    row: dict[str, None] = {}
    while name not in row:
        row[name] = None
        name = next(sender for sender in senders[name] if sender not in ended)
    names = list(row)
    return names[names.index(name) :][::-1]


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
