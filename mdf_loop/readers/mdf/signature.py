"""The signature of an MDF graph that is a body: which ports are its inputs and outputs, in which order.

A graph says it in its metadata::

    metadata: {inputs: [i, go, x], outputs: [go_out, x_out], opset: 18}

Without it, a signature is inferred where there is one reading alone:

* a *branch* has no inputs; with one output port that no edge leaves, that is its output;
* the body of a *Loop* with one carried value, one input port that needs a value from outside and one output port that
  no edge leaves: these are the carried value's.  The condition is passed on, so the trip count ends the loop;
* the body of a *Scan* without carried values, with one such input port and one such output port: the part and the
  collected value.

Anything else has several readings - which of two ports is carried, which captured? which output is the condition? -
and is refused, with the metadata to write.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from mdf_loop.errors import MalformedBody, in_words
from mdf_loop.ir import record
from mdf_loop.readers.mdf.input_ports import default_value_of
from mdf_loop.readers.onnx.opsets import DEFAULT_OPSET
from mdf_loop.types.schemas import version_in

Port = tuple[str, str]
"""A port: the ids of its node and of itself."""


@record
class Signature:
    """The inputs and outputs of a body.

    Attributes
    ----------
    inputs : tuple of str
        Names, in order.
    fed : mapping of port to str
        Which input port gets which of them.
    outputs : tuple of (port or str)
        In order: an output port, or the name of an input that is passed on.
    opset : int
        Version of the ``onnx::`` functions.
    carried : range
        Which of the outputs are inputs of the next iteration, or of what follows.
    """

    inputs: tuple[str, ...]
    fed: Mapping[Port, str]
    outputs: tuple[Port | str, ...]
    opset: int
    carried: range = range(0)


@record
class GraphPorts:
    """The ports of a graph.

    Attributes
    ----------
    free : tuple of port
        Input ports that no edge feeds.
    needy : tuple of port
        Those of them without a default value.
    fed : tuple of port
        Input ports that an edge feeds.
    outputs : tuple of port
        All output ports.
    ends : tuple of port
        Output ports that no edge leaves.
    """

    free: tuple[Port, ...]
    needy: tuple[Port, ...]
    fed: tuple[Port, ...]
    outputs: tuple[Port, ...]
    ends: tuple[Port, ...]


def ports_of(graph: Any) -> GraphPorts:
    """The ports of a graph."""
    received = {(edge.receiver, edge.receiver_port) for edge in graph.edges}
    sent = {(edge.sender, edge.sender_port) for edge in graph.edges}
    inputs = [((node.id, port.id), port) for node in graph.nodes for port in node.input_ports]
    outputs = [(node.id, port.id) for node in graph.nodes for port in node.output_ports]
    return GraphPorts(
        tuple(place for place, _ in inputs if place not in received),
        tuple(place for place, port in inputs if place not in received and default_value_of(port) is None),
        tuple(place for place, _ in inputs if place in received),
        tuple(outputs),
        tuple(place for place in outputs if place not in sent),
    )


def output_ports(graph: Any) -> dict[str, Port]:
    """Output ports that no edge leaves, by name: their id, with the node's in front where several have the same id."""
    ends = ports_of(graph).ends
    count = Counter(port for _, port in ends)
    return {port if count[port] == 1 else f"{node}.{port}": (node, port) for node, port in ends}


def read_signature(graph: Any, n_carried: int | None, kind: str) -> Signature:
    """The signature that a graph's metadata says, or the only one it can have.

    Raises
    ------
    MalformedBody
        It says none and there are several, or what it says does not fit the graph.
    """
    ports, path = ports_of(graph), (graph.id,)
    said_inputs, said_outputs = (said_names(graph, key) for key in ("inputs", "outputs"))
    if kind == "branch" and said_inputs is None:
        said_inputs = ()
    if said_inputs is None or said_outputs is None:
        said_inputs, said_outputs = _inferred(ports, n_carried, kind, path, said_inputs, said_outputs)
    fed = {place: name for name in said_inputs for place in _input_ports(name, said_inputs, ports, path)}
    outputs = tuple(_output(name, said_inputs, ports, path) for name in said_outputs)
    first = 1 if kind == "loop" else 0
    count = len(outputs) if n_carried is None or kind == "branch" else n_carried
    return Signature(said_inputs, fed, outputs, opset_of(graph), range(first, first + count))


def said_names(graph: Any, key: str) -> tuple[str, ...] | None:
    """The names that the metadata of a graph list under a key; None where they say nothing of it.

    Raises
    ------
    MalformedBody
        It is something else, or an input stands there twice.
    """
    names, path = (graph.metadata or {}).get(key), (graph.id,)
    if names is None:
        return None
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise MalformedBody(f"metadata {key} must be a list of port names; got {names!r}", path)
    if key == "inputs" and len(set(names)) < len(names):
        raise MalformedBody(f"metadata inputs names a port twice: {', '.join(names)}", path)
    return tuple(names)


def opset_of(graph: Any) -> int:
    """The version of ONNX that the metadata of a graph say.

    Raises
    ------
    MalformedBody
        It is none.
    """
    said = (graph.metadata or {}).get("opset", DEFAULT_OPSET)
    if (opset := version_in(said)) is None:
        raise MalformedBody(f"metadata opset must be a whole number from 1 on; got {in_words(said)}", (graph.id,))
    return opset


def _called(name: str, places: tuple[Port, ...]) -> list[Port]:
    """The ports of a name: ``node.port``, or the port's id alone."""
    return [p for p in places if f"{p[0]}.{p[1]}" == name] or [p for p in places if p[1] == name]


def _input_ports(name: str, inputs: tuple[str, ...], ports: GraphPorts, path: tuple[str, ...]) -> list[Port]:
    """The ports an input feeds.  Like MDF's initial values it feeds all ports of its name; none at all is fine."""
    found = _called(name, ports.free)
    if not found and (taken := _called(name, ports.fed)):
        raise MalformedBody(f"input {name!r} is port {_full(taken[0])}, which an edge feeds already", path)
    others = {other for other in inputs if other != name and "." in other}
    return [place for place in found if _full(place) == name or _full(place) not in others]


def _output(name: str, inputs: tuple[str, ...], ports: GraphPorts, path: tuple[str, ...]) -> Port | str:
    """The port of an output, or the input that is passed on."""
    found = _called(name, ports.outputs)
    if len(found) > 1:
        raise MalformedBody(f"output {name!r} may be {' or '.join(map(_full, found))}; say which", path)
    if found:
        return found[0]
    if name in inputs:
        return name
    known = ", ".join(_names(ports.outputs)) or "none"
    raise MalformedBody(f"output {name!r} is neither an output port nor an input; there are ports {known}", path)


def _inferred(
    ports: GraphPorts, n_carried: int | None, kind: str, path: tuple[str, ...], inputs: Any, outputs: Any
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The only signature there can be; see the module's docstring."""
    ids = tuple(dict.fromkeys(port for _, port in ports.needy))
    ends = tuple(_names(ports.ends))
    if kind == "branch" and outputs is None and len(ends) == 1:
        return inputs, ends
    if inputs is None and outputs is None and len(ids) == len(ends) == 1:
        if kind == "loop" and n_carried == 1:
            iteration, condition = _unused(("iteration", "condition"), ids)
            return (iteration, condition, *ids), (condition, *ends)
        if kind == "scan" and n_carried == 0:
            return ids, ends
    raise MalformedBody(_how_to_write(ports, n_carried, kind, inputs, outputs), path)


def _unused(names: tuple[str, ...], ids: tuple[str, ...]) -> list[str]:
    return [name if name not in ids else f"{name} of the loop" for name in names]


def _how_to_write(ports: GraphPorts, n_carried: int | None, kind: str, inputs: Any, outputs: Any) -> str:
    """What to say in the metadata, with the graph's own names."""
    loose = _names(ports.needy, merge=True)
    ends = _names(ports.ends)
    if kind == "loop":
        shape = (
            "inputs are the iteration number, the condition, the carried values; outputs the condition, carried, collected values"
        )
        shown = ["iteration", "condition", *loose]
        ends = ["condition", *ends] if n_carried is None or len(ends) <= n_carried else ends
    elif kind == "scan":
        shape, shown = (
            "inputs are the carried values, the parts of scanned inputs; outputs the carried, the collected values",
            loose,
        )
    else:
        shape, shown = "a branch has no inputs", []
    carried = "" if n_carried is None or kind == "branch" else f" ({n_carried} carried)"
    missing = " and ".join(key for key, said in (("inputs", inputs), ("outputs", outputs)) if said is None)
    written = f"metadata: {{inputs: [{', '.join(_quoted(inputs or shown))}], outputs: [{', '.join(_quoted(outputs or ends))}]}}"
    return (
        f"an MDF graph that is a body has to say its {missing} by the names of ports, in order{carried}: {shape}. "
        f"Write, with the right names in the right order, {written}; input ports that are not listed are captured, and an output "
        "that is named as an input passes it on"
    )


def _quoted(names: Any) -> list[str]:
    return [name if re.fullmatch(r"\w[\w.]*", name) else repr(name) for name in names]


def _full(place: Port) -> str:
    return f"{place[0]}.{place[1]}"


def _names(places: tuple[Port, ...], merge: bool = False) -> list[str]:
    """Ports by their ids, with the node's in front where an id is not unique; ``merge`` names each id once."""
    ids = [port for _, port in places]
    if merge:
        return list(dict.fromkeys(ids))
    return [place[1] if ids.count(place[1]) == 1 else _full(place) for place in places]
