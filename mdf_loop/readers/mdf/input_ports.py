"""What an input port gets: its default value, or what edges bring, for which nodes wait for each other.

MDF runs a node when those have run whose edges it waits for.  It does not wait for an edge into a port with a default
value; so a cycle is possible, in which such an edge brings the value of the iteration before, and in the first
iteration the default.
"""

from __future__ import annotations

import copy
import functools
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import version
from typing import Any

import attr
import numpy as np
from modeci_mdf.mdf import InputPort

from mdf_loop.errors import MalformedBody, UnsupportedOp
from mdf_loop.ir import record
from mdf_loop.readers.expressions.values import BodyBuilder, NotCompiled, Unavailable, Value, arithmetic, available, literal


def needed() -> str:
    """What it takes where :func:`has_defaults` is False."""
    return f"modeci-mdf 0.4.15 or later; {version('modeci-mdf')} is installed"


@functools.cache
def has_defaults() -> bool:
    """Whether MDF's input ports say a ``default_value`` and ``reduce``; those of 0.4.13, which PsyNeuLink asks for, do not."""
    return "default_value" in attr.fields_dict(InputPort)


def default_value_of(port: Any) -> Any:
    """The value of an input port without an edge; None for none."""
    return getattr(port, "default_value", None)


def unsent_in_words(edge: Any, port: Any) -> str:
    """What to say of a port without a default value whose node runs before anything is sent there."""
    zeros = f"zeros of shape {[*port.shape]}" if port.shape else "0"
    said = f"node {edge.receiver!r}: it runs before {edge.sender!r} has run, and its port {port.id!r} is {zeros} then, as in MDF"
    return f"{said}; write default_value: ... at the port for another value"


def reduce_of(port: Any) -> str:
    """How an input port makes one value of several."""
    return getattr(port, "reduce", None) or "overwrite"


def set_default(port: Any, value: Any) -> None:
    """Say the value of an input port without an edge.

    Raises
    ------
    UnsupportedOp
        MDF is too old to write it.
    """
    if not has_defaults():
        raise UnsupportedOp(f"the value that input {port.id!r} has of its own takes {needed()}")
    port.default_value = value


class RoomyPort(InputPort):
    """An input port that holds a value although MDF is too old for that; files never have one."""

    default_value: Any = None


def _with_room(port: Any) -> RoomyPort:
    return RoomyPort(port.id, port.shape, port.type, metadata=port.metadata)


@record
class GivenInput:
    """Stands in a graph in the place of a number or array that each run is given: nothing depends on which it is.

    ``name`` is what it is called in a body that captures it, ``number`` which ``Number`` it is.
    """

    node: str
    id: str
    name: str = ""
    number: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        """Its key among the values that live from pass to pass."""
        return ("given", self.node, self.id)


def with_values(graph: Any, values: Mapping[tuple[str, str], Any]) -> Any:
    """A graph with other values of ports and parameters, by node and id; it shares everything else with the one that is given."""
    if not values:
        return graph
    graph, fed = copy.copy(graph), {(edge.receiver, edge.receiver_port) for edge in graph.edges}
    graph.nodes = [_node_with_values(node, values, fed) for node in graph.nodes]
    return graph


def _node_with_values(node: Any, values: Mapping[tuple[str, str], Any], fed: Container[tuple[str, str]]) -> Any:
    node = copy.copy(node)
    node.input_ports = [
        port if (node.id, port.id) in fed else _with_value(port, node.id, "default_value", values) for port in node.input_ports
    ]
    node.parameters = [
        _with_value(each, node.id, "value" if each.default_initial_value is None else "default_initial_value", values)
        for each in node.parameters
    ]
    return node


def _with_value(owner: Any, node: str, slot: str, values: Mapping[tuple[str, str], Any]) -> Any:
    if (node, owner.id) not in values:
        return owner
    is_full = isinstance(owner, InputPort) and not has_defaults() and not isinstance(owner, RoomyPort)
    owner = _with_room(owner) if is_full else copy.copy(owner)
    setattr(owner, slot, values[node, owner.id])
    return owner


REDUCTIONS = {"overwrite": "", "add": "add", "multiply": "multiply"}


def ports_of_many(graph: Any) -> Iterator[tuple[tuple[str, str], str]]:
    """Ports that take one of several edges whose senders run whenever they can, with what to say of each."""
    conditional = set((graph.conditions and graph.conditions.node_specific) or ())
    ends = Counter((edge.receiver, edge.receiver_port) for edge in graph.edges if edge.sender not in conditional)
    for node in graph.nodes:
        for port in node.input_ports:
            count = ends[node.id, port.id]
            if count > 1 and reduce_of(port) == "overwrite":
                said = f"{count} edges end in port {node.id}.{port.id}, which takes one of them: MDF has no order for them"
                yield (node.id, port.id), f"{said}. With reduce: add it takes their sum"


def refuse_reduction(port: Any, path: tuple[str, ...]) -> None:
    """See that MDF knows how an input port makes one value of several.

    Raises
    ------
    MalformedBody
    """
    if reduce_of(port) not in REDUCTIONS:
        raise MalformedBody(f"reduce must be one of {', '.join(REDUCTIONS)}; got {reduce_of(port)!r}", path)


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


def edges_by_port(graph: Any) -> dict[tuple[str, str], list[Any]]:
    """The edges into each port that has some."""
    found: dict[tuple[str, str], list[Any]] = {}
    for edge in graph.edges:
        found.setdefault((edge.receiver, edge.receiver_port), []).append(edge)
    return found


def order_nodes(graph: Any) -> Course:
    """The order in which the nodes of a graph run.

    Raises
    ------
    MalformedBody
        Nodes wait for each other in a cycle.
    NotCompiled
        The order is up to MDF's scheduler.
    """
    edges = edges_by_port(graph)
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
    if reduce == "overwrite":
        edges = edges[-1:]
    total: Value | None = None
    for edge in edges:
        value = available(values[edge.sender, edge.sender_port])
        if value.items is None and value.literal is None:
            raise MalformedBody(f"edge {edge.id!r} brings no value: output port {edge.sender}.{edge.sender_port} has none", path)
        value = value if is_plain(edge) else weighted(builder, base, edge, builder.array(value, base), True, path)
        if total is None:
            total = value
        else:
            total, value = builder.array(total, base), builder.array(value, base)
            total = builder.node(REDUCTIONS[reduce], [total, value], base, number=arithmetic(reduce, total, value))
    assert total is not None
    return total


def is_plain(edge: Any) -> bool:
    """Whether an edge passes on the very same value."""
    weight = (edge.parameters or {}).get("weight", 1)
    return type(weight) in (int, float) and weight == 1


def weighted(builder: BodyBuilder, base: str, edge: Any, value: Value, is_array: bool, path: tuple[str, ...]) -> Value:
    """What an edge makes of a value; a list times an array is an array, where Python would repeat the list.

    Raises
    ------
    MalformedBody
        The weight is no number or array.
    """
    if is_plain(edge):
        return value
    weight = edge.parameters["weight"]
    weight = np.asarray(weight) if isinstance(weight, list) and is_array else weight
    if not isinstance(weight, bool | int | float | np.ndarray | np.generic):
        raise MalformedBody(f"the weight of edge {edge.id!r} must be a number or an array; got {weight!r}", path)
    factor = literal(weight)
    return builder.node("multiply", [factor, value], base, number=arithmetic("multiply", factor, value))
