"""The IR to ONNX protobufs: graphs, and a loop as Loop or Scan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import Body, Collected, Loop, Node, Scanned, ValueType
from mdf_loop.types.elements import CODES
from mdf_loop.types.schemas import schema_of


def as_onnx(node: Node) -> Node:
    """A loop with inputs, outputs and attributes as ONNX has them; other nodes as they are.

    Raises
    ------
    UnsupportedOp
        Neither of ONNX's loops is such a loop.
    """
    loop = node.loop
    if loop is None:
        return node
    is_other = loop.last or loop.invariant or loop.unlimited or not all(part.stack for part in loop.collected)
    if is_other or (loop.batched and node.opset > 8):
        raise UnsupportedOp(f"{loop.name} is not a loop of ONNX")
    return _as_scan(node, loop) if loop.scanned else _as_loop(node, loop)


def _as_loop(node: Node, loop: Loop) -> Node:
    is_by_rows = not any((*_each(loop.collected, "axis"), *_each(loop.collected, "reverse")))
    if not is_by_rows or loop.index is None or loop.condition is None or loop.keep_going is None:
        raise UnsupportedOp(f"{loop.name} is not a Loop of ONNX")
    inputs = (loop.index, loop.condition, *(c.input for c in loop.carried))
    return replace(node, attrs={"body": replace(loop.body, inputs=inputs, outputs=(loop.keep_going, *loop.results))})


def _as_scan(node: Node, loop: Loop) -> Node:
    is_by_rows = all((s.part, s.start, s.stride) == (None, 0, 1) for s in loop.scanned)
    if not is_by_rows or loop.index or loop.condition or loop.keep_going:
        raise UnsupportedOp(f"{loop.name} is not a Scan of ONNX")
    inputs = (*(c.input for c in loop.carried), *(s.input for s in loop.scanned))
    body = replace(loop.body, inputs=inputs, outputs=loop.results)
    lists = {
        "scan_input_axes": _each(loop.scanned, "axis"),
        "directions" if loop.batched else "scan_input_directions": _each(loop.scanned, "reverse"),
        "scan_output_axes": _each(loop.collected, "axis"),
        "scan_output_directions": _each(loop.collected, "reverse"),
    }
    said = {key: values for key, values in lists.items() if any(values) or key in loop.said}
    given = (node.inputs[:1] if loop.batched else ()) + node.inputs[2:]
    return replace(node, op="Scan", inputs=given, attrs={"body": body, "num_scan_inputs": len(loop.scanned), **said})


def _each(parts: Sequence[Scanned | Collected], what: str) -> tuple[int, ...]:
    return tuple(int(getattr(part, what)) for part in parts)


def write_model(body: Body, captured: Mapping[str, ValueType] | None = None) -> onnx.ModelProto:
    """A body as a model; what it captures becomes further inputs, with the types given.

    Returns
    -------
    onnx.ModelProto
        With ``opset_import`` as the body was read under.

    Raises
    ------
    UnsupportedOp
        The body holds what an ONNX model cannot hold.
    """
    graph = write_graph(body)
    for name in body.captures:
        graph.input.append(_value_info(name, (captured or {}).get(name, ValueType())))
    opsets = [helper.make_opsetid(domain, version) for domain, version in body.opsets.items()]
    return helper.make_model(graph, opset_imports=opsets or None)


def domains_of(body: Body) -> set[str]:
    """The domains of the nodes of a body and of the bodies in it."""
    return {node.domain for node in body.nodes}.union(*(domains_of(inner) for node in body.nodes for _, inner in node.bodies))


def constants_as_nodes(graph: onnx.GraphProto) -> None:
    """Write the constants of a graph, and of all graphs in it, as nodes: in old files every initializer is an input."""
    inputs = {value.name for value in graph.input}
    constants = [tensor for tensor in graph.initializer if tensor.name not in inputs]
    kept = [tensor for tensor in graph.initializer if tensor.name in inputs]
    nodes = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in constants] + list(graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                constants_as_nodes(attribute.g)
    written = onnx.GraphProto()
    written.CopyFrom(graph)
    del written.initializer[:], written.node[:]
    written.initializer.extend(kept)
    written.node.extend(nodes)
    graph.CopyFrom(written)


def write_graph(body: Body) -> onnx.GraphProto:
    """A body as a GraphProto; constants, and defaults of inputs, become initializers.

    Raises
    ------
    UnsupportedOp
        The body has hidden state, which an ONNX graph cannot have.
    """
    if body.state:
        raise UnsupportedOp(f"body {body.name!r} has hidden state ({body.state[0].input}), which an ONNX graph cannot have")
    tensors = {name: value for name, value in body.values.items() if isinstance(value, np.ndarray | np.generic)}
    return helper.make_graph(
        [write_node(node) for node in body.nodes],
        body.name,
        [_value_info(name, body.type_of(name)) for name in body.inputs],
        [_value_info(name, body.type_of(name)) for name in body.outputs],
        initializer=[write_tensor(value, name) for name, value in tensors.items()],
    )


def write_node(node: Node) -> onnx.NodeProto:
    """A node as a NodeProto."""
    node = as_onnx(node)
    proto = helper.make_node(node.op, node.inputs, node.outputs, name=node.name or None, domain=node.domain or None)
    for name, value in node.attrs.items():
        proto.attribute.append(_attribute(name, value, _attribute_type(node, name)))
    return proto


def _attribute(name: str, value: Any, kind: int | None) -> onnx.AttributeProto:
    if isinstance(value, tuple):
        value = [_said(item) for item in value]
        kind = onnx.AttributeProto.INTS if kind is None and not value else kind
    try:
        return helper.make_attribute(name, _said(value), attr_type=kind)
    except (TypeError, ValueError, AssertionError) as error:
        raise UnsupportedOp(f"attribute {name!r} cannot be {value!r:.60} in an ONNX model") from error


def _said(value: Any) -> Any:
    """A value as an attribute holds it."""
    if isinstance(value, Body):
        return write_graph(value)
    if isinstance(value, np.ndarray | np.generic):
        return write_tensor(np.asarray(value), "")
    return write_type(value) if isinstance(value, ValueType) else value


def _attribute_type(node: Node, name: str) -> int | None:
    """The declared type of an attribute: an empty list does not tell its own."""
    schema = schema_of(node.op, node.opset, node.domain)
    return int(schema.attributes[name].type.value) if schema is not None and name in schema.attributes else None


def write_tensor(value: Any, name: str) -> onnx.TensorProto:
    """An array as a TensorProto.

    Raises
    ------
    UnsupportedOp
        ONNX has no such type.
    """
    array = np.asarray(value)
    if array.dtype == object:  # onnx takes texts that are no UTF-8 for none at all
        tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.STRING, dims=array.shape)
        tensor.string_data.extend(text if isinstance(text, bytes) else str(text).encode("utf-8") for text in array.flat)
        return tensor
    if array.dtype not in CODES:
        raise UnsupportedOp(f"a tensor of type {array.dtype} cannot be written in an ONNX model")
    return numpy_helper.from_array(array, name)


def write_type(kind: ValueType) -> onnx.TypeProto:
    """A declared type as a TypeProto; what is not declared is left out."""
    if kind.kind == "sequence":
        return helper.make_sequence_type_proto(write_type(kind.element or ValueType()))
    if kind.kind == "optional":
        return helper.make_optional_type_proto(write_type(kind.element or ValueType()))
    if kind.kind == "map":
        return helper.make_map_type_proto(0 if kind.key is None else CODES[kind.key], write_type(kind.element or ValueType()))
    if kind.dtype is None:
        return onnx.TypeProto()
    return helper.make_tensor_type_proto(CODES[kind.dtype], kind.shape)


def _value_info(name: str, kind: ValueType) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, write_type(kind))
