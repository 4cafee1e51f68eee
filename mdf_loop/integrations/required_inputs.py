"""Input ports that must be given a value.

MDF's specification says what a port is without an edge: its ``default_value``.  Without one MDF's engine takes zeros of the
shape that is declared, and so do models here, with a warning.  Where no shape is declared either nothing says what the value is:

- A node of a graph with loops, scans or branches, which MDF by itself does not run, has to be given one.
- A graph of MDF's own functions gets the 0 of MDF's engine, and a warning.

In a model of ONNX a port may be an input of the model, or, where MDF's importer wrote it, a weight whose value was lost: these
are marked, and have to be given in any case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from modeci_mdf.mdf import InputPort

from mdf_loop.convert.naming import ORIGINAL, REQUIRED
from mdf_loop.errors import ArgumentError, MalformedBody, did_you_mean, warn_user
from mdf_loop.functions.psyneulink_mechanisms import class_of
from mdf_loop.integrations.no_eval import WAS_SET, is_at_work, runs_body
from mdf_loop.readers.arguments import how_to_give
from mdf_loop.readers.mdf.input_ports import default_value_of, has_defaults
from mdf_loop.readers.mdf.node import CONTROL
from mdf_loop.readers.mdf.typed import IMPORTED, is_typed


def is_required(thing: Any) -> bool:
    """Whether something is an input port that must be given a value."""
    return (thing.metadata or {}).get(REQUIRED) is True


def open_ports(graph: Any) -> list[tuple[str, Any]]:
    """Ports and parameters that are read and have no value: no edge, default, function; each with its node."""
    fed = {(edge.receiver, edge.receiver_port) for edge in graph.edges}
    ports = [(node, port) for node in graph.nodes for port in node.input_ports if (node.id, port.id) not in fed]
    found = [(n.id, p) for n, p in ports if default_value_of(p) is None and (is_required(p) or _is_read(p.id, n))]
    return found + [(n.id, p) for n in graph.nodes for p in n.parameters if _is_nothing(p) and _is_read(p.id, n)]


def _is_nothing(parameter: Any) -> bool:
    """Whether a parameter says nothing of what it is."""
    said = (parameter.value, parameter.function, parameter.default_initial_value, parameter.time_derivative)
    return all(each is None for each in said) and not parameter.conditions


def required_ports(graph: Any) -> list[tuple[str, Any]]:
    """Those of :func:`open_ports` for which a value must be given."""
    has_loops = any(thing.function in CONTROL for node in graph.nodes for thing in (*node.parameters, *node.functions))
    return [
        (node, place)
        for node, place in open_ports(graph)
        if is_required(place) or (has_loops and not getattr(place, "shape", None))
    ]


def _is_read(name: str, node: Any) -> bool:
    """Whether anything in a node may read a name; what a file of its own reads is not looked at."""
    things = (*node.parameters, *node.functions, *node.output_ports)
    texts = [
        str(getattr(each, slot, "")) for each in things for slot in ("value", "args", "function", "time_derivative", "conditions")
    ]
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)|'onnx_file'", text) for text in texts)


def refusing_missing_inputs(
    original: Callable[..., Any],
    self: Any,
    time_increment: Any = None,
    array_format: str = "numpy",
    initializer: Mapping[str, Any] | None = None,
) -> Any:
    """``EvaluableGraph.evaluate``: without a value for a required input port it is an error."""
    if not runs_body():
        inputs = [(id, name, each) for id, node in self.enodes.items() for name, each in node.evaluable_inputs.items()]
        known = {f"{id}.{name}" for id, name, each in inputs if _is_set(each)}
        _warn_of_others(initializer or {}, {name for _, name, _ in inputs}, self.enodes)
        given = {*(initializer or {}), *known}
        refuse_missing_inputs(self.graph, given)
        if not is_at_work() and not is_typed(self.graph):  # a run of ours has warned
            warn_of_zeros(self.graph, given)
    return original(self, time_increment, array_format, initializer)


def _warn_of_others(initializer: Mapping[str, Any], ports: Iterable[str], nodes: Mapping[str, Any]) -> None:
    """Say which values MDF's engine leaves out, as it sets input ports alone."""
    others = {name: id for id, node in nodes.items() for name in (*node.evaluable_parameters, *node.evaluable_functions)}
    for name in initializer.keys() - ports:
        said = f"there is no input port {name!r}{did_you_mean(name, [*ports, *others])}"
        if name in others:
            said = f"{name!r} is no input port, but a value of node {others[name]!r}; mdf_loop.run(model, {name}=...) sets it"
        warn_user(f"evaluate(initializer=...) sets input ports, and leaves out what is none: {said}")


def _is_set(evaluable: Any) -> bool:
    """Whether the input of a node was set from outside: MDF begins with an array of zeros, and has nothing afterwards."""
    value = evaluable.curr_value
    begins = isinstance(value, np.ndarray) and not np.count_nonzero(value)
    return value is not None and (hasattr(evaluable, WAS_SET) or not begins)


def refuse_missing_inputs(graph: Any, given: Container[str] = ()) -> None:
    """See that every input port that needs one has a value; ``given`` are the ids of ports that are given one.

    Raises
    ------
    ArgumentError, MalformedBody
    """
    if lost := [(node, port) for node, port in required_ports(graph) if is_required(port) and port.id not in given]:
        raise MalformedBody(f"{_message(lost)}{lost_values(graph)}", (graph.id,))
    refuse_without_value(graph, given)


def refuse_without_value(graph: Any, given: Container[str]) -> None:
    """The same for ports that are not marked; ``given`` may say ``node.id``.

    Raises
    ------
    ArgumentError
    """
    missing = [
        (place, said) for port, place, said, is_needed in missing_values(graph, given) if is_needed and not is_required(port)
    ]
    if len(missing) > 1:
        names = ", ".join(f"{name!r} of node {node!r}" for (_, node, name), _ in missing)
        how = how_to_give([name for (_, _, name), _ in missing])
        raise ArgumentError(f"inputs have no value: {names}; they have no default, and no edge leads to them. {how}")
    if missing:
        raise ArgumentError(missing[0][1])


def missing_values(graph: Any, given: Container[str]) -> Iterator[tuple[Any, tuple[str, ...], str, bool]]:
    """Ports and parameters without a value: each with its place, what is said of it, and whether a value must be given.

    ``given`` may say ``node.id``.  MDF's engine takes zeros for a value that need not be given, which exports of PsyNeuLink mean.
    """
    needed = required_ports(graph)
    exported = {node.id for node in graph.nodes if class_of(node).endswith(("Mechanism", "DDM", "Projection"))}
    for node, port in open_ports(graph):
        if port.id not in given and f"{node}.{port.id}" not in given:
            is_needed, said = (node, port) in needed, said_of_missing(node, port)
            if not is_needed and node in exported:
                continue  # PsyNeuLink begins with zeros as well
            taken = f"zeros of shape {[*port.shape]}" if getattr(port, "shape", None) else "0"
            said = said if is_needed else f"{said}. MDF's engine takes {taken} for it"
            yield port, (str(graph.id), node, port.id), said, is_needed


def said_of_missing(node: str, place: Any) -> str:
    """What is said of an input or parameter that has no value, and how to give it one."""
    is_port, name = isinstance(place, InputPort), place.id
    what = f"input {name!r} of node {node!r} has no value: no default, and no edge leads to it"
    what = what if is_port else f"parameter {name!r} of node {node!r} has no value"
    key = "default_value" if is_port else "value"
    written = f"; or write {key}: into the model" if not is_port or has_defaults() else ""
    return f"{what}. {how_to_give([name])}{written}"


def warn_of_zeros(graph: Any, given: Container[str]) -> None:
    """Tell of input ports without a value that MDF's engine takes for zeros."""
    for _, _, said, is_needed in missing_values(graph, given):
        if not is_needed:
            warn_user(said)


def _message(missing: Sequence[tuple[str, Any]]) -> str:
    readers: dict[str, list[str]] = {}
    for node, port in missing:
        was = (port.metadata or {}).get(ORIGINAL, port.id)
        name = repr(port.id) if port.id == was else f"{port.id!r} ({was} in the ONNX model)"
        readers.setdefault(name, []).append(node)
    names = ", ".join(f"{name}, read by {' and '.join(nodes)}" for name, nodes in readers.items())
    given = "Inputs of the model are given to mdf_loop.run by name, or to evaluate(initializer=...)"
    return f"nothing gives a value to {names}. {given}"


def lost_values(graph: Any) -> str:
    """What to say of missing inputs of a graph that MDF's importer wrote; empty for any other graph."""
    if not (graph.metadata or {}).get(IMPORTED):
        return ""
    return (
        ". The values of initializers, such as weights, were lost when MDF's importer wrote the model: give them in the same "
        "way, or export them as Constant nodes, or run the .onnx file itself with mdf_loop.run"
    )
