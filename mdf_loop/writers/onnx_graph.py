"""The IR to ONNX protobufs, so that onnx's own checker and shape inference can look at a body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mdf_loop.element_types import CODES
from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import Body, Node, ValueType


def write_model(body: Body, captured: Mapping[str, ValueType] | None = None) -> onnx.ModelProto:
    """A body as a model; what it captures becomes further inputs, with the types given.

    Returns
    -------
    onnx.ModelProto
        With ``opset_import`` as the body was read under.
    """
    graph = write_graph(body)
    for name in body.captures:
        graph.input.append(_value_info(name, (captured or {}).get(name, ValueType())))
    opsets = [helper.make_opsetid(domain, version) for domain, version in body.opsets.items()]
    return helper.make_model(graph, opset_imports=opsets or None)


def write_graph(body: Body) -> onnx.GraphProto:
    """A body as a GraphProto; constants become initializers.

    Raises
    ------
    UnsupportedOp
        The body has hidden state, which an ONNX graph cannot have.
    """
    if body.state:
        raise UnsupportedOp(f"body {body.name!r} has hidden state ({body.state[0].input}), which an ONNX graph cannot have")
    tensors = {name: value for name, value in body.constants.items() if isinstance(value, np.ndarray | np.generic)}
    return helper.make_graph(
        [write_node(node) for node in body.nodes],
        body.name,
        [_value_info(name, body.type_of(name)) for name in body.inputs],
        [_value_info(name, body.type_of(name)) for name in body.outputs],
        initializer=[write_tensor(value, name) for name, value in tensors.items()],
    )


def write_node(node: Node) -> onnx.NodeProto:
    """A node as a NodeProto."""
    proto = helper.make_node(node.op, node.inputs, node.outputs, name=node.name or None, domain=node.domain or None)
    for name, value in node.attrs.items():
        proto.attribute.append(_attribute(name, value, _attribute_type(node, name)))
    return proto


def _attribute(name: str, value: Any, kind: int | None) -> onnx.AttributeProto:
    if isinstance(value, Body):
        value = write_graph(value)
    elif isinstance(value, np.ndarray | np.generic):
        value = write_tensor(np.asarray(value), "")
    elif isinstance(value, ValueType):
        value = write_type(value)
    return helper.make_attribute(name, value, attr_type=kind)


def _attribute_type(node: Node, name: str) -> int | None:
    """The declared type of an attribute: an empty list does not tell its own."""
    try:
        schema = onnx.defs.get_schema(node.op, node.opset, node.domain)
        return int(schema.attributes[name].type.value)
    except (onnx.defs.SchemaError, KeyError):
        return None


def write_tensor(value: Any, name: str) -> onnx.TensorProto:
    """An array as a TensorProto."""
    return numpy_helper.from_array(np.asarray(value), name)


def write_type(kind: ValueType) -> onnx.TypeProto:
    """A declared type as a TypeProto; what is not declared is left out."""
    if kind.kind == "sequence":
        return helper.make_sequence_type_proto(write_type(kind.element or ValueType()))
    if kind.kind == "optional":
        return helper.make_optional_type_proto(write_type(kind.element or ValueType()))
    if kind.dtype is None:
        return onnx.TypeProto()
    return helper.make_tensor_type_proto(CODES[kind.dtype], kind.shape)


def _value_info(name: str, kind: ValueType) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, write_type(kind))
