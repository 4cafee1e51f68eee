"""MDF graphs that are ONNX graphs: each node is one ``onnx::`` function, and the metadata says element types.

MDF's ONNX importer writes such graphs, and :func:`mdf_loop.load` adds what it left out::

    metadata: {inputs: [i, go, x], outputs: [go_out, x_out], opset: 20, types: {i: int64, go: bool, x: "float[2,3]"}}

Types are written as :mod:`mdf_loop.readers.mdf.written_values` says them, for ports, for the inputs of the graph, and as
``node.name`` for a constant or an attribute of a node, or the value that an input may do without.  ``opset`` is the
version of ONNX; ``opsets`` says those of other domains, whose operators are called ``<domain>::<operator>``.  ``opset``
in the metadata of a node is the version of that node alone.  A node without a function holds constants alone; those with
the name of an input are what the input is if it is not given.

``imported: true`` says that MDF's importer wrote the graph: bodies in it that do not say their types are ONNX graphs as well.

A body with ``types``, which may be empty, asks for the types of its operators like any ONNX body: numbers in it are
constants of ONNX, and what comes in is converted.  Without ``types`` an MDF graph is read as MDF evaluates it
(:mod:`mdf_loop.readers.mdf.body`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from mdf_loop.errors import MalformedBody, UnsupportedOp, in_words
from mdf_loop.ir import Body, Node, ValueType
from mdf_loop.ir.fresh_names import rename_captures
from mdf_loop.ir.well_formed import check_body
from mdf_loop.ops.registry import version_of
from mdf_loop.readers.expressions.expression_text import refuse_onnx_text
from mdf_loop.readers.expressions.values import NotCompiled
from mdf_loop.readers.mdf.by_place import LOOPS, source_of
from mdf_loop.readers.mdf.control_functions import BODIES, local_names
from mdf_loop.readers.mdf.input_ports import default_value_of, order_nodes
from mdf_loop.readers.mdf.signature import Port, Signature
from mdf_loop.readers.mdf.written_values import attribute, declared_array, read_type_text, settled, written_attribute
from mdf_loop.readers.onnx.loop_records import as_loop, given_to_bodies
from mdf_loop.readers.onnx.opsets import refuse_internal
from mdf_loop.types.elements import DTYPES
from mdf_loop.types.schemas import schema_of, version_in

ReadBody = Callable[[Any, int | None, str], Body]

OPSET = "opset"
"""In the metadata of a graph or a node: the version of ONNX, or of the node's operator."""

IMPORTED = "imported"
"""In the metadata of a graph: MDF's importer wrote it, and its bodies do not say that they are ONNX graphs."""

OPAQUE = "unknown"
"""Domain of a node that is no operator."""


def function_of(node: Any) -> Any:
    """The one function of a node that is an ONNX operator and nothing else; None for other nodes.

    All other parameters are numbers, arrays or graphs, and output ports are results of the function.
    """
    holders = [thing for thing in (*node.parameters, *node.functions) if thing.function is not None]
    if len(holders) != 1 or "::" not in str(holders[0].function) or holders[0].value is not None:
        return None
    (holder,) = holders
    if any(thing is not holder and not _is_constant(thing) for thing in (*node.parameters, *node.functions)):
        return None
    if getattr(holder, "conditions", None) or any(result_index(port, holder) is None for port in node.output_ports):
        return None
    return holder


def constants_of(node: Any) -> dict[str, Any] | None:
    """The values of the output ports of a node that holds constants and nothing else; None for other nodes."""
    if node.functions or node.input_ports or not node.output_ports or not all(map(_is_constant, node.parameters)):
        return None
    values = {parameter.id: parameter.value for parameter in node.parameters if parameter.function is None}
    if any(port.value not in values for port in node.output_ports):
        return None
    return {port.id: values[port.value] for port in node.output_ports}


def operator_of(holder: Any) -> tuple[str, str]:
    """Domain and name of the operator that a function is: ``onnx::Add``, ``ai.onnx.ml::Scaler``."""
    domain, _, op = str(holder.function).rpartition("::")
    return ("" if domain in ("onnx", "ai.onnx") else domain), op


def _is_constant(thing: Any) -> bool:
    states = ("default_initial_value", "time_derivative", "conditions", "args")
    return thing.value is not None and not isinstance(thing.value, str) and not any(getattr(thing, s, None) for s in states)


def result_index(port: Any, holder: Any) -> int | None:
    """Which result of a function an output port gives: 0 for the whole value; None for something else."""
    value = port.value if isinstance(port.value, str) else ""
    if value == holder.id:
        return 0
    rest = value.removeprefix(holder.id) if value.startswith(holder.id) else ""
    found = re.fullmatch(r"\[(\d+)\]", rest)
    return int(found[1]) if found else None


def is_typed(graph: Any) -> bool:
    """Whether a graph says the types of its values: it is an ONNX graph."""
    return "types" in (getattr(graph, "metadata", None) or {})


def has_conditions(graph: Any) -> bool:
    """Whether graph-scheduler's conditions decide when the nodes of a graph run."""
    conditions = graph.conditions
    return conditions is not None and bool(conditions.node_specific or conditions.termination)


def _declared(graph: Any) -> dict[str, ValueType]:
    """The types in the metadata of a graph."""
    said = (graph.metadata or {}).get("types") or {}
    if not isinstance(said, Mapping):
        raise MalformedBody(f"metadata types must be a dict from names to types; got {said!r}", (graph.id,))
    return {name: _type(name, text, graph) for name, text in said.items()}


def _type(name: str, text: Any, graph: Any) -> ValueType:
    """``"float[2,n]"``, ``"int64"`` or ``"seq(float)"``."""
    try:
        if isinstance(text, str):
            return read_type_text(text)
    except ValueError:
        pass
    raise MalformedBody(f'metadata types: {name!r} must be a type such as "float[2,3]" or int64; got {text!r:.200}', (graph.id,))


def _opsets(graph: Any) -> dict[str, int]:
    """The versions of domains other than ONNX's own."""
    said = (graph.metadata or {}).get("opsets") or {}
    versions = {str(domain): version_in(v) for domain, v in said.items()} if isinstance(said, Mapping) else {"": None}
    if None in versions.values():
        raise MalformedBody(f"metadata opsets must be a dict from domains to versions; got {said!r}", (graph.id,))
    return {domain: version for domain, version in versions.items() if version is not None}


class GraphReader:
    """Makes the operators of a graph; numbers stay as they are written (see :func:`settled`).

    Parameters
    ----------
    graph : modeci_mdf.mdf.Graph
    signature : Signature
    read_body : callable
        Reads the body of a loop.
    is_lenient : bool
        Nothing is known of nodes that are no operators; otherwise they are errors.
    """

    def __init__(self, graph: Any, signature: Signature, read_body: ReadBody, is_lenient: bool = False) -> None:
        self.graph, self.signature, self.read_body, self.is_lenient = graph, signature, read_body, is_lenient
        self.sent = {(edge.receiver, edge.receiver_port): (edge.sender, edge.sender_port) for edge in graph.edges}
        self.names = self._names()
        self.constants: dict[str, Any] = {}
        self.nodes: list[Node] = []
        self.made: dict[str, list[Node]] = {}
        self.declared = _declared(graph)
        self.opsets = {**_opsets(graph), "": signature.opset}
        self._value_names = {f"{node}.{port}": value for (node, port), value in self.names.items()}
        for (_, port), value in reversed(self.names.items()):
            self._value_names[port] = value

    def body(self, kind: str = "branch") -> Body:
        """The body, with the types that the graph declares; ``kind`` is what it is for.

        Raises
        ------
        MalformedBody
            The graph holds something else than ONNX operators, or its types cannot be read.
        """
        body = self._read()
        types = {self.value_name(name): declared for name, declared in self.declared.items()}
        if kind == "loop" and len(body.inputs) > 1 and body.outputs:
            fixed = ((body.inputs[0], DTYPES[7]), (body.inputs[1], DTYPES[9]), (body.outputs[0], DTYPES[9]))
            types = {**{name: ValueType(dtype) for name, dtype in fixed}, **types}
        body = check_body(replace(body, types=types), (self.graph.id,))
        return body.with_values(settled(body, (self.graph.id,)))

    def _read(self) -> Body:
        """The operators, and constants as they are written."""
        try:
            course = order_nodes(self.graph)
        except NotCompiled as reason:
            raise MalformedBody(f"a graph with metadata types runs in one order: {reason}", (self.graph.id,)) from reason
        if len(self.sent) < len(self.graph.edges) or course.delayed or any(e.parameters for e in self.graph.edges):
            raise MalformedBody("a graph with metadata types has one edge without weights for each input port", (self.graph.id,))
        for node in self.graph.nodes if self._are_in_order() else course.order:
            before = len(self.nodes)
            self._add(node)
            self.made[node.id] = self.nodes[before:]
        outputs = tuple(out if isinstance(out, str) else self.names[out] for out in self.signature.outputs)
        local = {*self.signature.inputs, *self.constants, *(name for node in self.nodes for name in node.outputs)}
        reads = [name for node in self.nodes for name in node.reads] + list(outputs)
        captures = tuple(dict.fromkeys(name for name in reads if name and name not in local))
        body = Body(self.graph.id, self.signature.inputs, outputs, tuple(self.nodes), {}, captures, {}, self.opsets)
        return body.with_values(self.constants)

    def _are_in_order(self) -> bool:
        """Whether nodes are behind those they read; all others draw random numbers in the order in which MDF runs them."""
        places = {node.id: k for k, node in enumerate(self.graph.nodes)}
        return all(places[sender] < places[receiver] for (receiver, _), (sender, _) in self.sent.items())

    def value_name(self, name: str) -> str:
        """The name in the body for a port's name."""
        return name if name in self.signature.inputs else self._value_names.get(name, name)

    def _names(self) -> dict[Port, str]:
        """What the values of output ports are called: the port's id, with the node's in front if that is not unique."""
        ports = [(node.id, port.id) for node in self.graph.nodes for port in node.output_ports]
        counts = Counter(port for _, port in ports)
        taken = set(self.signature.inputs) | {
            p.id for node in self.graph.nodes for p in node.input_ports if (node.id, p.id) not in self.sent
        }
        names = {(node, port): port if counts[port] == 1 and port not in taken else f"{node}.{port}" for node, port in ports}
        return {**names, **{place: place[1] for place in self._values_of_inputs()}}

    def _values_of_inputs(self) -> Iterator[Port]:
        """Constants that are what an input is if it is not given: nothing else reads them, and no port gets the input."""
        loose = set(self.signature.inputs) - set(self.signature.fed.values())
        for node in self.graph.nodes if loose else ():
            if any(port.id in loose and (node.id, port.id) not in self.sent.values() for port in node.output_ports):
                yield from ((node.id, port) for port in constants_of(node) or () if port in loose)

    def _constant(self, name: str, value: Any) -> str:
        self.constants[name] = value
        return name

    def _add(self, node: Any) -> None:
        """Add what a node is: constants, or an operator."""
        holder, path = function_of(node), (self.graph.id, node.id)
        if holder is not None:
            self.nodes.append(self._node(node, holder, path))
        elif (values := constants_of(node)) is not None:
            for port, value in values.items():
                self._constant(self.names[node.id, port], self._default(node, port, value))
        elif self.is_lenient:
            self.nodes.append(self._opaque(node))
        else:
            raise MalformedBody("a graph with metadata types has one onnx:: function in each node, and numbers", path)

    def _node(self, node: Any, holder: Any, path: tuple[str, ...]) -> Node:
        domain, op = operator_of(holder)
        version = self._version(node, op, domain, path)
        schema = self._schema(op, domain, version, path)
        bodies = _bodies(schema, node, holder)
        args = {key: source for key, source in (holder.args or {}).items() if key not in bodies}
        inputs, given = self._inputs(node, schema, args, path)
        attrs = self._attributes(node, holder, schema, given, path)
        unused = [p.id for p in self._others(node, holder) if schema is None or p.id not in schema.attributes]
        outputs = self._outputs(node, holder)
        captures: list[str] = []
        read: set[str] = set()
        there = {thing.id for thing in (*node.input_ports, *node.parameters)}
        n_carried = len(inputs) - {"Loop": 2, "Scan": attrs.get("num_scan_inputs", 0)}.get(op, len(inputs)) if bodies else 0
        for key in bodies:
            body = self._body(node, holder, key, n_carried, path)
            body = body.taking(given_to_bodies(op, version, len(inputs))).closed(there)
            read.update(body.captures)
            names = {name: self._captured(node, name, body) for name in body.captures}
            attrs[key] = rename_captures(body, names)
            captures += [name for name in names.values() if name not in captures]
        if unknown := [name for name in unused if name not in read]:
            raise MalformedBody(f"{holder.function} has no attribute {unknown[0]!r} in opset {version}", path)
        made = Node(op, tuple(inputs), outputs, attrs, node.id, version, domain, tuple(captures))
        return as_loop(made, self.graph.id)

    def _opaque(self, node: Any) -> Node:
        inputs = tuple(self._port(node, port) for port in node.input_ports)
        return Node("unknown", inputs, tuple(self.names[node.id, port.id] for port in node.output_ports), domain=OPAQUE)

    def _version(self, node: Any, op: str, domain: str, path: tuple[str, ...]) -> int:
        """The version of a node's operator: its own, or that of its domain in the graph."""
        refuse_internal(domain, op, path)
        written = (node.metadata or {}).get(OPSET)
        said = version_in(written)
        if written is not None and said is None:
            raise MalformedBody(f"metadata opset must be a whole number from 1 on; got {in_words(written)}", path)
        if said is None and domain not in self.opsets:
            raise MalformedBody(f"metadata opsets must have the version of {domain!r}", path)
        return version_of(op, self.opsets[domain] if said is None else said, domain)

    def _schema(self, op: str, domain: str, version: int, path: tuple[str, ...]) -> Any:
        """What ONNX knows of an operator; None for operators of others."""
        schema = schema_of(op, version, domain)
        if schema is None and (not domain or domain.startswith("ai.onnx")):
            name = f"of {domain}" if domain else "of ONNX"
            raise UnsupportedOp(f"{'/'.join(path)}: there is no operator {op} in opset {version} {name}")
        return schema

    def _inputs(self, node: Any, schema: Any, args: dict[str, Any], path: tuple[str, ...]) -> tuple[list[str], dict[str, Any]]:
        """The inputs, and what the arguments say of attributes.

        Arguments are in the order of the inputs; where all have the names of ONNX the names decide.  Of an operator that
        ONNX does not know the names of values are inputs, all else is attributes.
        """
        if schema is None:
            given = {key: args.pop(key) for key, source in list(args.items()) if not isinstance(source, str)}
            return [self._value(node, key, source, path) for key, source in args.items()], given
        formals = [formal.name for formal in schema.inputs]
        given = {key: args.pop(key) for key in list(args) if key in schema.attributes and key not in formals}
        if schema.name == "Loop":
            args = {"M": args.pop("M", None), "cond": args.pop("cond", None), **args}
        elif set(args) <= set(formals):
            args = {name: args.get(name) for name in formals}
        inputs, said = [], 0
        for k, (key, source) in enumerate(args.items()):
            inputs.append(self._value(node, key, source, path))
            said = said if source is None else k + 1
        return inputs[: max(said, schema.min_input)], given

    def _value(self, node: Any, key: str, source: Any, path: tuple[str, ...]) -> str:
        """The name of an argument's value; "" for an omitted one."""
        if source is None or (isinstance(source, str) and source == ""):
            return ""
        if not isinstance(source, str):
            return self._constant(f"{node.id}.{key}", source)
        parameter = next((p for p in node.parameters if p.id == source), None)
        port = next((p for p in node.input_ports if p.id == source), None)
        if port is not None and (parameter is None or key != source):
            return self._port(node, port)
        if parameter is not None and parameter.function is None:
            return self._constant(f"{node.id}.{source}", parameter.value)
        raise MalformedBody(f"argument {key} is {source!r}, which is not a port or parameter of the node", path)

    def _port(self, node: Any, port: Any) -> str:
        place = (node.id, port.id)
        if place in self.sent:
            return self.names[self.sent[place]]
        if place in self.signature.fed:
            name, value = self.signature.fed[place], default_value_of(port)
            return name if value is None else self._constant(name, self._default(node, port.id, value))
        if default_value_of(port) is not None:
            return self._constant(f"{node.id}.{port.id}", default_value_of(port))
        return port.id

    def _default(self, node: Any, port: str, value: Any) -> Any:
        """What an input is if it is not given: of the shape that was written for it, which its own type may leave open."""
        declared = self.declared.get(f"{node.id}.{port}")
        if declared is None or isinstance(value, np.ndarray):
            return value
        try:
            return declared_array(value, declared)
        except (TypeError, ValueError):
            return value  # the file says another one

    def _captured(self, node: Any, name: str, body: Body) -> str:
        """The value that a body in this node captures by a name."""
        port = next((p for p in node.input_ports if p.id == name), None)
        parameter = next((p for p in node.parameters if p.id == name and p.function is None), None)
        if port is not None:
            value = self._port(node, port)
        elif parameter is not None:
            value = self._constant(f"{node.id}.{name}", parameter.value)
        else:
            return name
        if value == name or value not in local_names(body):
            return value
        alias = f"{node.id}.{name}"  # a value inside the body has that name
        self.nodes.append(Node("Identity", (value,), (alias,), {}, node.id, self.signature.opset))
        return alias

    def _others(self, node: Any, holder: Any) -> list[Any]:
        """The parameters that are neither the function nor its arguments nor bodies."""
        used = {source for source in (holder.args or {}).values() if isinstance(source, str)}
        used |= set(BODIES.get(operator_of(holder)[1], ()))
        return [p for p in node.parameters if p is not holder and p.id not in used]

    def _attributes(self, node: Any, holder: Any, schema: Any, given: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        """The attributes: among the arguments, or parameters of their names."""
        if schema is None:
            tensor, found = onnx.defs.OpSchema.AttrType.TENSOR, {}
            for key, value in given.items():
                declared = self.declared.get(f"{node.id}.{key}")
                is_tensor = declared is not None
                found[key] = attribute(key, value, tensor, declared, path) if is_tensor else written_attribute(value)
            return found
        values = {p.id: p.value for p in self._others(node, holder) if p.id in schema.attributes}
        attrs = {}
        for key, value in {**values, **given}.items():
            declared = self.declared.get(f"{node.id}.{key}")
            attrs[key] = attribute(key, value, schema.attributes[key].type, declared, path)
        return attrs

    def _outputs(self, node: Any, holder: Any) -> tuple[str, ...]:
        places = [result_index(port, holder) or 0 for port in node.output_ports]
        if all(port.value == holder.id for port in node.output_ports):  # as MDF's importer writes several results
            places = [*range(len(places))]
        indices = {place: self.names[node.id, port.id] for place, port in zip(places, node.output_ports, strict=True)}
        return tuple(indices.get(k, "") for k in range(max(indices, default=-1) + 1))

    def _body(self, node: Any, holder: Any, key: str, n_carried: int, path: tuple[str, ...]) -> Body:
        refuse_onnx_text((holder.args or {}).get(key), path)
        if (source := source_of(node, holder, key)) is None:
            raise MalformedBody(f"{key} is missing: a parameter or argument that holds a graph, such as {{onnx: text}}", path)
        kind = LOOPS.get(holder.function, "branch")
        if self.graph.metadata.get(IMPORTED):
            return self.read_body(_imported_too(source, self.opsets[""]), None, kind)
        return self.read_body(source, n_carried, kind)


def _imported_too(source: Any, opset: int) -> Any:
    """A body in a graph that MDF's importer wrote, with the metadata of an ONNX graph; any other body as it is."""
    inner = source
    while isinstance(inner, Mapping) and len(inner) == 1:  # older importers write a graph under its id once more
        ((key, content),) = inner.items()
        if isinstance(content, Mapping) and "nodes" in content:
            said = {OPSET: opset, "types": {}, **(content.get("metadata") or {}), IMPORTED: True}
            return {key: {**content, "metadata": said}}
        inner = content
    return source


def _bodies(schema: Any, node: Any, holder: Any) -> list[str]:
    """The attributes of an operator that are graphs; those that it may do without only where the node has them."""
    if schema is None:
        return []
    there = {*(holder.args or {}), *(parameter.id for parameter in node.parameters)}
    graph = onnx.defs.OpSchema.AttrType.GRAPH
    return [key for key, said in schema.attributes.items() if said.type == graph and (said.required or key in there)]
