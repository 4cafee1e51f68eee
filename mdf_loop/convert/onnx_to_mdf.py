"""ONNX models as MDF models, with nothing lost.

Each ONNX node becomes an MDF node with one ``onnx::`` function.  Its inputs are ports; weights and other constants are
parameters of the node that reads them, or a node of their own where several do.  The bodies of loops and the branches of
an If are MDF graphs too, or ONNX text.  The metadata of each graph say what MDF has no place for (see
:mod:`mdf_loop.readers.mdf.typed`): inputs and outputs in order, versions of ONNX, types, and under ``names`` what a value
is called in ONNX where that is no plain name.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from modeci_mdf.mdf import Edge, Graph, InputPort, Model, Node, OutputPort, Parameter

from mdf_loop import ir
from mdf_loop.convert.naming import DOC_STRING, NAMES, ORIGINAL, REQUIRED, Naming, readable, said_of_file
from mdf_loop.convert.openvino_to_onnx import openvino_to_onnx
from mdf_loop.errors import KindError, LoopError, MalformedBody, UnsupportedOp, let_through
from mdf_loop.readers import read_text
from mdf_loop.readers.mdf.control_functions import BODIES
from mdf_loop.readers.mdf.input_ports import default_value_of, set_default
from mdf_loop.readers.mdf.typed import OPSET
from mdf_loop.readers.mdf.written_values import write_type_text
from mdf_loop.readers.onnx.file import load_onnx
from mdf_loop.readers.onnx.graph import read_model
from mdf_loop.readers.onnx.opsets import refuse_others
from mdf_loop.types.schemas import schema_of
from mdf_loop.writers.onnx_graph import as_onnx, write_graph

FORMS = ("mdf", "onnx")

MOST_ZEROS = 1 << 20
"""MDF fills every input port with zeros of its shape: larger shapes are said in the types alone."""

MOST_LISTED = 1024
"""Elements of a default that is a list: ``to_yaml`` of MDF cannot compare arrays; larger ones are for files of weights."""


def convert_body(read: ir.Body, form: str = "mdf") -> Any:
    """The MDF model of a whole ONNX graph that was read."""
    if read.captures:
        raise MalformedBody(f"reads {', '.join(map(repr, read.captures))}, which nothing in the model provides", (read.name,))
    naming = Naming()
    graph = GraphWriter(read, naming, form, (read.name,)).write(readable(read.name), is_whole=True)
    return Model(id=f"{graph.id}_model", graphs=[graph], onnx_opset_version=str(read.opsets.get("", "")) or None)


def onnx_model(model: Any) -> onnx.ModelProto:
    """An ONNX model, or that of a file of ONNX or OpenVINO.

    Raises
    ------
    KindError
        It is something else.
    """
    if isinstance(model, str | os.PathLike):
        return openvino_to_onnx(model) if Path(model).suffix.lower() == ".xml" else load_onnx(model)
    if not isinstance(model, onnx.ModelProto):
        raise KindError(f"convert takes an ONNX model or the path of one; got {type(model).__name__}")
    return model


def written_in_mdf(model: onnx.ModelProto, form: str = "mdf") -> Any:
    """The MDF model of an ONNX model, node by node."""
    converted = convert_body(read_model(model), form)
    converted.metadata = said_of_file(model)
    if model.graph.doc_string:
        converted.graphs[0].metadata[DOC_STRING] = model.graph.doc_string
    return converted


class GraphWriter:
    """Writes one graph.

    Parameters
    ----------
    body : Body
        What to write.
    naming : Naming
        Ids of its values.
    form : str
        How bodies in it are written.
    path : tuple of str
        Where it stands, for messages.
    """

    def __init__(self, body: ir.Body, naming: Naming, form: str, path: tuple[str, ...]) -> None:
        self.body, self.naming, self.form, self.path = body, naming, form, path
        reads = Counter(name for node in body.nodes for name in set(node.reads))
        self.reads = reads + Counter(dict.fromkeys(body.outputs, 2))
        self.called = Counter(node.name for node in body.nodes)
        self.given = set(body.inputs)
        self.senders: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self.passed: dict[str, str] = {}
        self.graph = Graph(id="")

    def write(self, id: str, is_whole: bool = False) -> Any:
        """The MDF graph."""
        body = self.body
        outputs = [name for node in body.nodes for name in node.outputs if name]
        for name in dict.fromkeys((*body.inputs, *body.constants, *outputs)):
            self.naming.call(name, name)
        for name, value in body.constants.items():
            if self.reads[name] > 1:
                self._constant_node(name, value)
        for node in body.nodes:
            self._node(node)
        ids = [self._output(name, is_whole) for name in body.outputs]
        for name in (*body.inputs, *outputs):
            if body.type_of(name) != ir.ValueType():
                self.types[self.naming[name]] = write_type_text(body.type_of(name))
        if is_whole:
            for name in body.inputs:
                if name in body.defaults and not self.reads[name]:
                    self._constant_node(name, body.defaults[name])  # no port could hold it
        self.graph.id = id
        self.graph.metadata = self._metadata(ids)
        if is_whole:
            self._mark_inputs()
        return self.graph

    def _metadata(self, outputs: list[str]) -> dict[str, Any]:
        said: dict[str, Any] = {"inputs": [self.naming[name] for name in self.body.inputs], "outputs": outputs}
        if "" in self.body.opsets:
            said[OPSET] = self.body.opsets[""]
        if others := {domain: version for domain, version in self.body.opsets.items() if domain}:
            said["opsets"] = others
        said["types"] = self.types
        if self.body.name != self.graph.id:
            said[ORIGINAL] = self.body.name
        if renamed := {id: name for name, id in self.naming.names.items() if id != name} | self.passed:
            said[NAMES] = renamed
        return said

    def _mark_inputs(self) -> None:
        """Mark the ports of the model's inputs: without a value there is no result."""
        inputs = {self.naming[name]: name for name in self.body.inputs}
        for node in self.graph.nodes:
            for port in node.input_ports:
                if port.id in inputs and default_value_of(port) is None:
                    was = {ORIGINAL: inputs[port.id]} if inputs[port.id] != port.id else {}
                    port.metadata = {**was, REQUIRED: True}

    def _constant_node(self, name: str, value: Any) -> None:
        """A node that holds a constant for several readers."""
        id = self.naming[name]
        node = Node(id=self.naming.fresh(f"{id}_value"), parameters=[Parameter(id=id, value=_written(value))])
        node.output_ports.append(OutputPort(id=id, value=id))
        self._declare(f"{node.id}.{id}" if name in self.given else id, value)
        self._put(node, [name])

    def _declare(self, key: str, value: Any) -> None:
        self.types[key] = write_type_text(ir.ValueType(value.dtype, value.shape))

    def _put(self, node: Any, outputs: list[str]) -> None:
        self.graph.nodes.append(node)
        self.senders.update((name, node.id) for name in outputs)

    def _node(self, node: ir.Node) -> None:
        node = as_onnx(node)
        made = Node(id=self._node_id(node))
        is_said = node.name and (node.name != made.id or self.called[node.name] > 1)
        said: dict[str, Any] = {ORIGINAL: node.name} if is_said else {}
        if self.body.opsets.get(node.domain, node.opset) != node.opset:
            said[OPSET] = node.opset
        made.metadata = said or None
        for name in dict.fromkeys(node.reads):
            self._give(made, name)
        function = f"{node.domain or 'onnx'}::{node.op}"
        args = dict(self._arguments(node))
        for key, value in node.attrs.items():
            if isinstance(value, ir.Body):
                made.parameters.append(Parameter(id=key, value=self._body(node, key, value)))
                args[key] = key
            else:
                args[key] = self._attribute(f"{made.id}.{key}", value, (*self.path, made.id))
        made.parameters.append(Parameter(id=made.id, function=function, args=args))
        outputs = self._outputs(node)
        for k, id in outputs.items():
            is_only = len(outputs) == 1 and k == 0 and node.op not in BODIES
            value = made.id if is_only else f"{made.id}[{k}]"
            made.output_ports.append(OutputPort(id=id, value=value, **_said(self.body.type_of(node.outputs[k]))))
        self._put(made, [name for name in node.outputs if name])

    def _node_id(self, node: ir.Node) -> str:
        """What a node is called in ONNX, as far as nothing else is: its own only output may be."""
        is_alone = len(node.outputs) == 1 and node.op not in BODIES and self.called[node.name] == 1
        if is_alone and node.name == node.outputs[0]:
            return self.naming[node.name]
        return self.naming.fresh(node.name or node.op)

    def _give(self, node: Any, name: str) -> None:
        """Give a node a value: a port with an edge or without, or a constant of its own."""
        id = self.naming[name]
        if name in self.body.constants and name not in self.senders:
            node.parameters.append(Parameter(id=id, value=_written(self.body.constants[name])))
            self._declare(f"{node.id}.{id}", self.body.constants[name])
            return
        port = InputPort(id=id, **_said(self.body.type_of(name)))
        if name in self.body.defaults:
            value = _written(self.body.defaults[name])
            set_default(port, value.tolist() if isinstance(value, np.ndarray) and value.size <= MOST_LISTED else value)
            self._declare(f"{node.id}.{id}", self.body.defaults[name])  # the input's own type may leave its shape open
        node.input_ports.append(port)
        if name in self.senders:
            sender = self.senders[name]
            edge = Edge(id=f"{sender}.{id}_{node.id}.{id}", sender=sender, sender_port=id, receiver=node.id, receiver_port=id)
            self.graph.edges.append(edge)

    def _arguments(self, node: ir.Node) -> Iterator[tuple[str, Any]]:
        """The inputs, by the names that ONNX gives them; those of a loop by the names its body gives them."""
        names = [self.naming[name] if name else "" for name in node.inputs]
        keys, found_by_name = _argument_names(node, len(names))
        last = max((k for k, name in enumerate(names) if name), default=-1)
        for k, (key, name) in enumerate(zip(keys, names, strict=True)):
            if name or k > last or key not in found_by_name:
                yield key, name

    def _outputs(self, node: ir.Node) -> dict[int, str]:
        """The ids of the outputs by their places.  Where their number means something, unnamed ones get an id too."""
        is_counted = node.op == "Split" and not node.domain
        named = {k: self.naming[name] for k, name in enumerate(node.outputs) if name}
        return {k: named.get(k) or self.naming.fresh("unused") for k in range(len(node.outputs)) if k in named or is_counted}

    def _attribute(self, key: str, value: Any, path: tuple[str, ...]) -> Any:
        """An attribute.  A text stands in a list: MDF would take it for an expression."""
        if isinstance(value, np.ndarray):
            self._declare(key, value)
            written = _written(value)
            return written.tolist() if isinstance(written, np.ndarray) else written
        if isinstance(value, ir.ValueType):
            return [write_type_text(value)]
        if isinstance(value, str | bytes):
            return [_text(value)]
        if isinstance(value, tuple) and all(isinstance(item, str | bytes) for item in value):
            return [_text(item) for item in value]
        if isinstance(value, int | float):
            return value
        if isinstance(value, tuple) and all(isinstance(item, int | float) for item in value):
            return list(value)
        raise UnsupportedOp(f"{'/'.join(path)}: attribute {key.rpartition('.')[2]} cannot be written in an MDF graph")

    def _body(self, node: ir.Node, key: str, inner: ir.Body) -> dict[str, Any]:
        naming = Naming(self.naming)
        path = (*self.path, node.name or node.op, key)
        if self.form == "onnx":
            return body_text(inner, naming, path)
        id = readable(inner.name)
        return {f"graph_{id}": GraphWriter(inner, naming, self.form, path).write(id)}

    def _output(self, name: str, is_whole: bool) -> str:
        """The port or input that is an output of the graph; what is neither is passed through a node."""
        if name in self.senders or (name in self.given and not is_whole):
            return self.naming[name]
        node = Node(id=self.naming.fresh("Identity"))
        self._give(node, name)
        id = self.naming.fresh(f"{self.naming[name]}_out")
        if (declared := self.body.type_of(name)).dtype is not None:
            self.types[id] = write_type_text(declared)
        node.parameters.append(Parameter(id=node.id, function="onnx::Identity", args={"input": self.naming[name]}))
        node.output_ports.append(OutputPort(id=id, value=node.id))
        self.passed[id] = name
        self.graph.nodes.append(node)
        return id


def _argument_names(node: ir.Node, count: int) -> tuple[list[str], Container[str]]:
    """Names for the arguments of a node, in order, and which of them may be left out: those that are found by their names."""
    if node.op == "Loop" and not node.domain:
        return ["M", "cond", *(f"v_{k}" for k in range(1, count - 1))][:count], ("M", "cond")
    schema = schema_of(node.op, node.opset, node.domain)
    if schema is None:
        return [f"input_{k}" for k in range(1, count + 1)], ()
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    names = [formal.name for formal in schema.inputs if formal.option != variadic]
    stem = schema.inputs[-1].name if schema.inputs else "input"
    rest = [f"{stem}_{k}" for k in range(1, count - len(names) + 1)]
    return [*names, *rest][:count], names if len(names) == len(schema.inputs) else ()


def _text(text: str | bytes) -> Any:
    return text if isinstance(text, str) else {"hex": text.hex()}


def _said(kind: ir.ValueType) -> dict[str, Any]:
    """What a port can say of a type: MDF's shapes have numbers alone."""
    said: dict[str, Any] = {}
    if kind.dtype is not None and kind.kind == "tensor":
        said["type"] = write_type_text(ir.ValueType(kind.dtype))
    if kind.shape and all(isinstance(dim, int) for dim in kind.shape):
        size = int(np.prod([dim for dim in kind.shape if isinstance(dim, int)], dtype=object))
        if size <= MOST_ZEROS and min(dim for dim in kind.shape if isinstance(dim, int)) >= 0:
            said["shape"] = kind.shape
    return said


def _written(value: Any) -> Any:
    """A tensor as a model holds it: numbers as an array, a single number as it is, texts as lists."""
    if not value.size:
        return [[]]  # MDF drops an empty list
    if value.dtype == object:
        return [_text(text) for text in value.reshape(-1).tolist()]
    if value.dtype.kind == "c":
        value = np.stack([value.real, value.imag], -1)
    return value if value.ndim else value.item()


def body_text(body: ir.Body, naming: Naming, path: tuple[str, ...]) -> dict[str, Any]:
    """A body as a dict with its ONNX text, and the version of ONNX where the text does not say it.

    Raises
    ------
    UnsupportedOp
        ONNX text cannot say it, or not exactly.
    """
    from onnx import helper, printer

    refuse_others(body, path)
    named = _renamed(body, naming)
    proto = write_graph(named)
    opset = {"opset": body.opsets[""]} if "" in body.opsets else {}
    try:
        if set(body.opsets) - {""}:
            imports = [helper.make_opsetid(domain, version) for domain, version in body.opsets.items()]
            text, opset = printer.to_text(helper.make_model(proto, opset_imports=imports)), {}
        else:
            text = printer.to_text(proto)
        for shorter in (_tidy(text), text):  # a text in an attribute may have blanks that count
            again = write_graph(read_text(shorter, opset.get("opset")))
            if again.SerializeToString(deterministic=True) == proto.SerializeToString(deterministic=True):
                return {"onnx": shorter, **opset}
    except (LoopError, ValueError, RuntimeError) as error:
        let_through(error)
        raise UnsupportedOp(f"{'/'.join(path)}: ONNX text cannot hold this body ({error}); convert with body='mdf'") from error
    raise UnsupportedOp(f"{'/'.join(path)}: ONNX text does not hold this body exactly; convert with body='mdf'")


def _tidy(text: str) -> str:
    """ONNX text without blanks at the ends of lines, with which YAML could not write it as a block."""
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _renamed(body: ir.Body, naming: Naming) -> ir.Body:
    """A body with the ids of its values for names."""
    written = [name for node in body.nodes for name in node.outputs if name]
    for name in dict.fromkeys((*body.inputs, *body.constants, *written)):
        naming.call(name, name)

    def change(node: ir.Node) -> ir.Node:
        bodies = {key: _renamed(inner, Naming(naming)) for key, inner in node.bodies}
        return replace(node.with_bodies(bodies), name=naming.fresh(node.name) if node.name else "")

    return replace(naming.renamed(body, change), name=readable(body.name))
