"""What the installed version of MDF says of input ports: those of 0.4.13, which PsyNeuLink asks for, have no defaults."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import attr
from modeci_mdf.mdf import InputPort

from mdf_loop.errors import UnsupportedOp


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


def copied_with_room(graph: Any) -> Any:
    """A copy of a graph whose input ports can hold values."""
    graph = copy.deepcopy(graph)
    for node in graph.nodes if not has_defaults() else ():
        node.input_ports = [port if isinstance(port, RoomyPort) else _with_room(port) for port in node.input_ports]
    return graph


def _with_room(port: Any) -> RoomyPort:
    return RoomyPort(port.id, port.shape, port.type, metadata=port.metadata)


def with_values(graph: Any, values: Mapping[tuple[str, str], Any]) -> Any:
    """A graph with other values of ports and parameters, by node and id; it shares everything else with the one that is given."""
    if not values:
        return graph
    graph = copy.copy(graph)
    graph.nodes = [_node_with_values(node, values) for node in graph.nodes]
    return graph


def _node_with_values(node: Any, values: Mapping[tuple[str, str], Any]) -> Any:
    node = copy.copy(node)
    node.input_ports = [_with_value(port, node.id, "default_value", values) for port in node.input_ports]
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
