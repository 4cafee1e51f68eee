"""MDF graphs that are ONNX graphs: each node is one ``onnx::`` function, and the metadata says element types.

MDF's ONNX importer writes such graphs, and :func:`mdf_loop.load` adds what it left out::

    metadata: {inputs: [i, go, x], outputs: [go_out, x_out], opset: 20, types: {i: int64, go: bool, x: "float[2,3]"}}

Types are written as :mod:`mdf_loop.readers.type_text` says them, for ports, for the inputs of the graph, and as
``node.name`` for a constant or an attribute of a node.  ``opset`` is the version of ONNX; ``opsets`` says those of other
domains, whose operators are called ``<domain>::<operator>``.  A node without a function holds constants alone.

A body with ``types``, which may be empty, asks for the types of its operators like any ONNX body: numbers in it are
constants of ONNX, and what comes in is converted.  Without ``types`` an MDF graph is read as MDF evaluates it
(:mod:`mdf_loop.readers.mdf_body`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx

from mdf_loop.analysis.element_types import Groups, visit_body
from mdf_loop.element_types import CODES, DTYPES, kind_of
from mdf_loop.errors import MalformedBody, UnsupportedOp
from mdf_loop.ir import Body, Node, ValueType
from mdf_loop.readers.expression import refuse_onnx_text
from mdf_loop.readers.mdf_control import BODIES, local_names, rename_captures
from mdf_loop.readers.mdf_edges import order_nodes
from mdf_loop.readers.mdf_signature import Port, Signature
from mdf_loop.readers.type_text import read_type_text
from mdf_loop.readers.values import NotCompiled
from mdf_loop.registry import version_of

ReadBody = Callable[[Any, int, str], Body | None]

OPAQUE = "unknown"
"""Domain of a node that nothing is known about, while a signature is looked for."""


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


def read_typed(graph: Any, signature: Signature, read_body: ReadBody, kind: str) -> Body:
    """A graph that says types, as the ONNX graph it is; ``kind`` is what the body is for.

    Raises
    ------
    MalformedBody
        It holds something else than ONNX operators, or its types cannot be read.
    """
    reader = GraphReader(graph, signature, read_body)
    return finished(reader, reader.read(), kind)


def finished(reader: GraphReader, body: Body, kind: str = "branch") -> Body:
    """A body with the types that the graph declares, and its constants as arrays."""
    types = {reader.value_name(name): declared for name, declared in reader.declared.items()}
    if kind == "loop" and len(body.inputs) > 1 and body.outputs:
        fixed = ((body.inputs[0], DTYPES[7]), (body.inputs[1], DTYPES[9]), (body.outputs[0], DTYPES[9]))
        types = {**{name: ValueType(dtype) for name, dtype in fixed}, **types}
    body = Body(**{**vars(body), "types": types})
    return Body(**{**vars(body), "constants": settled(body, (reader.graph.id,))})


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
    raise MalformedBody(f'metadata types: {name!r} must be a type such as "float[2,3]" or int64; got {text!r}', (graph.id,))


def _opsets(graph: Any) -> dict[str, int]:
    """The versions of domains other than ONNX's own."""
    said = (graph.metadata or {}).get("opsets") or {}
    if not isinstance(said, Mapping) or not all(type(version) is int and version > 0 for version in said.values()):
        raise MalformedBody(f"metadata opsets must be a dict from domains to versions; got {said!r}", (graph.id,))
    return {str(domain): version for domain, version in said.items()}


class GraphReader:
    """Makes the operators of a graph; numbers stay as they are written (see :func:`settled`).

    Parameters
    ----------
    graph : modeci_mdf.mdf.Graph
    signature : Signature
    read_body : callable
        Reads the body of a loop; where it returns None, nothing is known of the node.
    is_lenient : bool
        Nothing is known of nodes that are no operators either; otherwise they are errors.
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

    def read(self) -> Body:
        """The body, with constants as they are written."""
        try:
            course = order_nodes(self.graph)
        except NotCompiled as reason:
            raise MalformedBody(f"a graph that says types runs in one order: {reason}", (self.graph.id,)) from reason
        if len(self.sent) < len(self.graph.edges) or course.delayed or any(e.parameters for e in self.graph.edges):
            raise MalformedBody("a graph that says types joins each input port to one value, without weights", (self.graph.id,))
        for node in _as_written(self.graph.nodes, self.sent) or course.order:
            before = len(self.nodes)
            self._add(node)
            self.made[node.id] = self.nodes[before:]
        outputs = tuple(self._output(*pair) for pair in zip(self.signature.outputs, self.signature.names, strict=True))
        local = {*self.signature.inputs, *self.constants, *(name for node in self.nodes for name in node.outputs)}
        reads = [name for node in self.nodes for name in node.reads] + list(outputs)
        captures = tuple(dict.fromkeys(name for name in reads if name and name not in local))
        return Body(self.graph.id, self.signature.inputs, outputs, tuple(self.nodes), self.constants, captures, {}, self.opsets)

    def value_name(self, name: str) -> str:
        """The name in the body of what a port's name stands for."""
        return name if name in self.signature.inputs else self._value_names.get(name, name)

    def _names(self) -> dict[Port, str]:
        """What the values of output ports are called: the port's id, with the node's in front if that is not unique."""
        ports = [(node.id, port.id) for node in self.graph.nodes for port in node.output_ports]
        counts = Counter(port for _, port in ports)
        taken = set(self.signature.inputs) | {
            p.id for node in self.graph.nodes for p in node.input_ports if (node.id, p.id) not in self.sent
        }
        return {(node, port): port if counts[port] == 1 and port not in taken else f"{node}.{port}" for node, port in ports}

    def _output(self, out: Port | str | bool, name: str) -> str:
        if isinstance(out, bool):
            return self._constant(name, out)
        return out if isinstance(out, str) else self.names[out]

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
                self._constant(self.names[node.id, port], value)
        elif self.is_lenient:
            self.nodes.append(self._opaque(node))
        else:
            raise MalformedBody("a graph that says types has one onnx:: function in each node, and numbers", path)

    def _node(self, node: Any, holder: Any, path: tuple[str, ...]) -> Node:
        domain, op = operator_of(holder)
        if domain and domain not in self.opsets:
            raise MalformedBody(f"metadata opsets must say the version of {domain!r}", path)
        version = version_of(op, self.opsets[domain], domain)
        schema = self._schema(op, version, domain, path)
        bodies = _bodies(schema, node, holder)
        args = {key: source for key, source in (holder.args or {}).items() if key not in bodies}
        inputs, given = self._inputs(node, schema, args, path)
        attrs = self._attributes(node, holder, schema, given, path)
        unused = [p.id for p in self._others(node, holder) if schema is None or p.id not in schema.attributes]
        outputs = self._outputs(node, holder)
        captures: list[str] = []
        read: set[str] = set()
        n_carried = len(inputs) - {"Loop": 2, "Scan": attrs.get("num_scan_inputs", 0)}.get(op, len(inputs))
        for key in bodies:
            body = self._body(node, holder, key, n_carried, path)
            if body is None:
                return self._opaque(node)
            read.update(body.captures)
            names = {name: self._captured(node, name, body) for name in body.captures}
            attrs[key] = rename_captures(body, names)
            captures += [name for name in names.values() if name not in captures]
        if unknown := [name for name in unused if name not in read]:
            raise MalformedBody(f"{holder.function} has no attribute {unknown[0]!r} in opset {version}", path)
        return Node(op, tuple(inputs), outputs, attrs, node.id, version, domain, tuple(captures))

    def _opaque(self, node: Any) -> Node:
        inputs = tuple(self._port(node, port) for port in node.input_ports)
        return Node("unknown", inputs, tuple(self.names[node.id, port.id] for port in node.output_ports), domain=OPAQUE)

    def _schema(self, op: str, version: int, domain: str, path: tuple[str, ...]) -> Any:
        """What ONNX knows of an operator; None for operators of others."""
        try:
            return onnx.defs.get_schema(op, version, domain)
        except onnx.defs.SchemaError as error:
            if domain and not domain.startswith("ai.onnx"):
                return None
            name = f"of {domain}" if domain else "of ONNX"
            raise UnsupportedOp(f"{'/'.join(path)}: there is no operator {op} in opset {version} {name}") from error

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
        inputs = [self._value(node, key, source, path) for key, source in args.items()]
        while inputs and not inputs[-1]:
            inputs.pop()
        return inputs, given

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
        raise MalformedBody(f"argument {key} is {source!r}, which is no port or parameter of the node", path)

    def _port(self, node: Any, port: Any) -> str:
        place = (node.id, port.id)
        if place in self.sent:
            return self.names[self.sent[place]]
        if place in self.signature.fed:
            name = self.signature.fed[place]
            return name if port.default_value is None else self._constant(name, port.default_value)
        if port.default_value is not None:
            return self._constant(f"{node.id}.{port.id}", port.default_value)
        return port.id

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
            return {key: _written_attribute(value) for key, value in given.items()}
        values = {p.id: p.value for p in self._others(node, holder) if p.id in schema.attributes}
        attrs = {}
        for key, value in {**values, **given}.items():
            declared = self.declared.get(f"{node.id}.{key}")
            attrs[key] = _attribute(key, value, schema.attributes[key].type, declared, path)
        return attrs

    def _outputs(self, node: Any, holder: Any) -> tuple[str, ...]:
        indices = {result_index(port, holder) or 0: self.names[node.id, port.id] for port in node.output_ports}
        return tuple(indices.get(k, "") for k in range(max(indices, default=-1) + 1))

    def _body(self, node: Any, holder: Any, key: str, n_carried: int, path: tuple[str, ...]) -> Body | None:
        source = (holder.args or {}).get(key, key)
        refuse_onnx_text(source, path)
        if isinstance(source, str):
            source = next((p.value for p in node.parameters if p.id == source), None)
        if source is None:
            raise MalformedBody(f"{key} is missing: a parameter or argument that holds a graph, such as {{onnx: text}}", path)
        kind = {"onnx::Loop": "loop", "onnx::Scan": "scan"}.get(holder.function, "branch")
        return self.read_body(source, n_carried, kind)


def _bodies(schema: Any, node: Any, holder: Any) -> list[str]:
    """The attributes of an operator that are graphs; those that it may do without only where the node has them."""
    if schema is None:
        return []
    there = {*(holder.args or {}), *(parameter.id for parameter in node.parameters)}
    graph = onnx.defs.OpSchema.AttrType.GRAPH
    return [key for key, said in schema.attributes.items() if said.type == graph and (said.required or key in there)]


def _as_written(nodes: list[Any], sent: Mapping[Port, Port]) -> list[Any] | None:
    """The nodes as they stand, if each stands behind those it reads."""
    known: set[str] = set()
    senders: dict[str, list[str]] = {}
    for (receiver, _), (sender, _) in sent.items():
        senders.setdefault(receiver, []).append(sender)
    for node in nodes:
        if not known.issuperset(senders.get(node.id, ())):
            return None
        known.add(node.id)
    return nodes


def _attribute(key: str, value: Any, kind: Any, declared: ValueType | None, path: tuple[str, ...]) -> Any:
    """An attribute's value in its type."""
    kinds = onnx.defs.OpSchema.AttrType
    elements: dict[Any, Callable[[Any], Any]] = {kinds.INTS: int, kinds.FLOATS: float, kinds.STRINGS: _text}
    try:
        if kind in elements:
            items = [value] if isinstance(value, str | bytes) else value if kind == kinds.STRINGS else np.ravel(value).tolist()
            return tuple(elements[kind](item) for item in items)
        if kind == kinds.TENSOR:
            return np.atleast_1d(written_array(value, None)) if declared is None else declared_array(value, declared)
        if kind == kinds.STRING:
            return _text(value)
        if kind == kinds.TYPE_PROTO:
            return read_type_text(str(_text(value)))
        if kind not in (kinds.INT, kinds.FLOAT):
            raise TypeError("cannot be said in an MDF graph")
        if kind == kinds.INT and int(value) != value:
            raise ValueError("no whole number")
        return int(value) if kind == kinds.INT else float(value)
    except (TypeError, ValueError) as error:
        raise MalformedBody(f"attribute {key} cannot be {value!r}", path) from error


def _written_attribute(value: Any) -> Any:
    """An attribute of an operator that ONNX does not know: a number, or several; a text stands in a list, ``[text]``."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return value[0]
    return tuple(value) if isinstance(value, list) else value


def _text(value: Any) -> str | bytes:
    """A text: itself, or alone in a list, where MDF does not take it for an expression; bytes are ``{hex: ...}``."""
    if isinstance(value, list | tuple) and len(value) == 1:
        (value,) = value
    if isinstance(value, Mapping) and set(value) == {"hex"}:
        return bytes.fromhex(value["hex"])
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def settled(body: Body, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """The constants of a body as arrays: of the type that their readers ask for, or ONNX's usual one.

    A float is float32 where nothing says more, an integer int64.
    """
    groups = Groups()
    scope = visit_body(groups, body, {})
    try:
        for kind in ("float", "integer"):  # where both kinds meet, the integers are floats
            for name, value in body.constants.items():
                if not isinstance(value, np.ndarray) and name not in body.types and written_kind(value) == kind:
                    groups.know(scope[name], _usual(kind, groups.allowed.get(groups.find(scope[name]))))
        return {
            name: declared_array(value, declared)
            if (declared := body.types.get(name)) is not None
            else written_array(value, groups.dtype.get(groups.find(scope[name])))
            for name, value in body.constants.items()
        }
    except (TypeError, ValueError) as error:
        raise MalformedBody(f"a number cannot be read: {error}", path) from error


def _usual(kind: str, allowed: frozenset[np.dtype] | None) -> np.dtype:
    usual = DTYPES[1] if kind == "float" else DTYPES[7]
    if not allowed or usual in allowed:
        return usual
    return next((dtype for dtype in sorted(allowed, key=str) if kind_of(dtype) == kind), DTYPES[1])


def written_kind(value: Any) -> str:
    """Whether a number or list was written with floats, integers, booleans or texts."""
    return kind_of(np.asarray(value).dtype) if np.size(value) else "empty"


def declared_array(value: Any, kind: ValueType) -> np.ndarray:
    """What a file says of a tensor whose type is declared.

    The shape tells apart what lists cannot, such as (0, 3) and (0, 2).  A complex number is a pair, ``[real, imaginary]``.

    Raises
    ------
    TypeError, ValueError
        It is no tensor of that type.
    """
    dtype = kind.dtype
    if dtype is not None and not np.size(np.array(value, object)):
        return np.empty(_lengths(kind, (0,)), dtype)
    if dtype is not None and dtype.kind == "c" and np.asarray(value).dtype.kind != "c":
        parts = np.asarray(value, dtype.type(0).real.dtype).reshape(*_lengths(kind, np.shape(value)[:-1]), 2)
        return np.asarray(parts[..., 0] + 1j * parts[..., 1]).astype(dtype)
    if dtype is not None and dtype.kind == "O" and not isinstance(value, np.ndarray):
        texts = np.empty(len(value) if isinstance(value, list) else 1, object)
        texts[:] = [_text(item) for item in (value if isinstance(value, list) else [value])]
        return texts.reshape(_lengths(kind, texts.shape))
    if isinstance(value, np.ndarray) and value.dtype not in CODES and dtype is not None and value.dtype.kind == "V":
        return value.view(dtype)  # numpy's files do not know the types of ml_dtypes
    array = written_array(value, dtype)
    if dtype is not None and array.dtype != dtype:
        array = written_array(array.tolist(), dtype)
    return array.reshape(_lengths(kind, array.shape))


def _lengths(kind: ValueType, found: tuple[int, ...]) -> tuple[int, ...]:
    """The declared shape, if all of it is known."""
    if kind.shape is None or any(not isinstance(dim, int) for dim in kind.shape):
        return found
    return tuple(dim for dim in kind.shape if isinstance(dim, int))


def written_array(value: Any, dtype: np.dtype | None) -> np.ndarray:
    """What a file says of a tensor as an array; ``dtype`` where it is known.

    Raises
    ------
    TypeError, ValueError
        It is no tensor, or has another type.
    """
    array = np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return array
    kind = kind_of(array.dtype)
    if kind == "string" and all(isinstance(item, str | bytes) for item in array.flat):
        texts = np.empty(array.shape, object)
        texts.reshape(-1)[:] = [_text(item) for item in array.flat]
        return texts
    if kind not in ("float", "integer", "bool"):
        raise TypeError(f"{value!r} is no number, boolean or text")
    if dtype is None:
        dtype = {"float": DTYPES[1], "integer": DTYPES[7], "bool": DTYPES[9]}[kind]
    if array.size and (kind, kind_of(dtype)) in (
        ("float", "integer"),
        ("bool", "integer"),
        ("float", "bool"),
        ("integer", "bool"),
    ):
        raise TypeError(f"{value!r} must be {dtype}")
    return array.astype(dtype)
