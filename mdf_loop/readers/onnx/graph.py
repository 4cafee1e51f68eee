"""ONNX protobufs to the IR: GraphProto, ModelProto and FunctionProto.

The reader consumes what it understands and names what is left over.  Names that a graph reads but does
not write are its captures; they are passed up until a graph provides them.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import AttributeProto, numpy_helper

from mdf_loop.errors import KindError, LoopError, MalformedBody, Together, let_through
from mdf_loop.ir import Body, Node, ValueType
from mdf_loop.ir.well_formed import check_body
from mdf_loop.readers.onnx.inlining import inline_functions
from mdf_loop.readers.onnx.loop_records import as_loop, given_to_bodies
from mdf_loop.readers.onnx.opsets import CONTROL, DEFAULT_OPSET, Operators, imported, own_domain
from mdf_loop.types.elements import DTYPES, read_only
from mdf_loop.types.schemas import SchemaSignature

DEEPEST = 50
"""Graphs may be nested so deep, and so may types; a file holds half of it."""


def read_model(model: onnx.ModelProto) -> Body:
    """A model's graph; model-local functions are inlined first (``onnx.inliner``).

    Raises
    ------
    MalformedBody
        What is wrong and where.
    KindError
        It is no model.
    """
    if not isinstance(model, onnx.ModelProto):
        raise KindError(f"an ONNX model is an onnx.ModelProto, or the path of an .onnx file; got {type(model).__name__}")
    opsets = imported(model.opset_import, (model.graph.name or "model",))
    if model.functions:
        model, opsets = inline_functions(model, opsets)
    if not opsets and 0 < model.ir_version < 3:
        opsets = {"": 1}  # files from before there were versions
    return read_graph(model.graph, opsets or None)


def read_graph(graph: onnx.GraphProto, opsets: Mapping[str, int] | None = None) -> Body:
    """A graph and all graphs in its nodes, under the given version of each domain.

    Raises
    ------
    MalformedBody
        What is wrong and where.
    """
    _check_texts([graph.name], ())
    versions = {own_domain(domain): version for domain, version in (opsets or {"": DEFAULT_OPSET}).items()}
    return _graph(graph, Operators(versions), (graph.name or "body",))


def read_function(function: onnx.FunctionProto) -> Body:
    """A FunctionProto without attributes of its own, as a body with untyped inputs and outputs.

    Raises
    ------
    MalformedBody
        The function takes attributes, so it is a template rather than a body.
    """
    _check_texts([function.name], ())
    path = (function.name or "function",)
    if function.attribute or function.attribute_proto:
        names = [*function.attribute, *(a.name for a in function.attribute_proto)]
        raise MalformedBody(f"a function with attributes ({', '.join(names)}) cannot be a body", path)
    operators = Operators(imported(function.opset_import, path) or {"": DEFAULT_OPSET})
    return _assemble(path, operators, tuple(function.input), tuple(function.output), function.node, {}, {})


def _graph(graph: onnx.GraphProto, operators: Operators, path: tuple[str, ...]) -> Body:
    if len(path) > 2 * DEEPEST:
        raise MalformedBody(f"graphs are nested more than {DEEPEST} deep", path[:3])
    constants: dict[str, Any] = {}
    tensors = [(t.name, read_tensor(t, path)) for t in graph.initializer]
    for name, value in (*tensors, *((t.values.name, _dense(t, path)) for t in graph.sparse_initializer)):
        if name in constants:
            raise MalformedBody(f"two initializers are called {name!r}", path)
        constants[name] = value
    declared = [(v.name, type_in(v.type)) for v in (*graph.value_info[:], *graph.output[:], *graph.input[:])]
    types = {name: kind for name, kind in declared if kind is not _NOTHING}  # an output may be an input, said again without one
    inputs = tuple(v.name for v in graph.input)
    outputs = tuple(v.name for v in graph.output)
    return _assemble(path, operators, inputs, outputs, graph.node, constants, types)


def _assemble(
    path: tuple[str, ...],
    operators: Operators,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    protos: Iterable[onnx.NodeProto],
    values: dict[str, Any],
    types: dict[str, ValueType],
) -> Body:
    """Put the parts of a graph together: constants aside, defaults of inputs apart from them, captures found, all checked."""
    _check_texts((*inputs, *outputs, *values), path)
    nodes, together = list[Node](), Together()
    for proto in protos:
        try:
            if proto.op_type == "Constant" and proto.domain in ("", "ai.onnx"):
                _add_constant(values, inputs, proto, operators, path)
            else:
                nodes.append(_node(proto, operators, path))
        except LoopError as error:
            together.add(error)
    together.settle()
    local = {"", *inputs, *values}
    local.update(*[node.outputs for node in nodes])
    read = dict.fromkeys(itertools.chain(*[node.reads for node in nodes], outputs))
    captures = tuple([name for name in read if name not in local])
    constants = {name: read_only(value) for name, value in values.items() if name not in inputs}
    defaults = {name: value for name, value in values.items() if name in inputs} if len(constants) < len(values) else {}
    body = Body(path[-1], inputs, outputs, tuple(nodes), constants, captures, types, operators.opsets, defaults=defaults)
    return check_body(body, path)


def _check_texts(texts: Sequence[Any], path: tuple[str, ...]) -> None:
    """Protobuf hands out bytes where a name is not UTF-8."""
    try:
        "".join(texts)
    except TypeError:
        text = next(text for text in texts if not isinstance(text, str))
        raise MalformedBody(f"the name {text!r} is not UTF-8 text", path) from None


def _add_constant(
    values: dict[str, Any], inputs: tuple[str, ...], proto: onnx.NodeProto, operators: Operators, path: tuple[str, ...]
) -> None:
    _check_texts((proto.name, *proto.input, *proto.output, *(attribute.name for attribute in proto.attribute)), path)
    operators.version("", proto.op_type)
    where = (*path, _title(proto.name, proto.op_type, proto.output))
    if len(proto.output) != 1:
        raise MalformedBody(f"a Constant has exactly one output, this one has {len(proto.output)}", where)
    name = proto.output[0]
    if name in values or name in inputs:
        raise MalformedBody(f"writes {name!r}, which is already written; each name is written once", where)
    values[name] = _constant(proto, operators, where)


def _constant(proto: onnx.NodeProto, operators: Operators, path: tuple[str, ...]) -> Any:
    """The value of a Constant node: exactly one of its ``value`` attributes."""
    if len(proto.attribute) != 1:
        raise MalformedBody(f"a Constant has exactly one value attribute, this one has {len(proto.attribute)}", path)
    (attribute,) = proto.attribute
    made = read_attribute(attribute, operators, path)
    if attribute.name not in _CONSTANTS:
        raise MalformedBody(f"a Constant has no attribute {attribute.name!r}", path)
    dtype = _CONSTANTS[attribute.name]
    try:
        made = made if dtype is None else np.array(made, dtype)
    except (TypeError, ValueError) as error:
        raise MalformedBody(f"attribute {attribute.name!r} does not hold what its name says: {error}", path) from error
    if not isinstance(made, np.ndarray):
        raise MalformedBody(f"attribute {attribute.name!r} does not hold a tensor", path)
    return made


_CONSTANTS: dict[str, type | None] = {
    "value": None,
    "sparse_value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": object,
    "value_strings": object,
}
"""The attributes of a Constant, with the element types of those that are no tensors."""


def _node(proto: onnx.NodeProto, operators: Operators, path: tuple[str, ...]) -> Node:
    op, said, name = proto.op_type, proto.domain, proto.name
    inputs, outputs = tuple(proto.input[:]), tuple(proto.output[:])  # as lists: protobuf is slow item by item
    attributes = [(x.name, x) for x in proto.attribute[:]]
    names = [key for key, _ in attributes]
    _check_texts((op, said, name, *inputs, *outputs, *names), path)
    where = (*path, _title(name, op, outputs))
    operator = operators.of(op, said, names, len(inputs), where)
    attrs: dict[str, Any] = {}
    for key, attribute in attributes:
        if key in attrs:
            raise MalformedBody(f"two attributes are called {key!r}", where)
        attrs[key] = _fitting(read_attribute(attribute, operators, where), key, attribute.type, operator.signature, where)
    is_control = op in CONTROL and not operator.domain
    if not is_control:
        _refuse_missing(op, attrs, operator.signature, where)
    made = Node(op, inputs, outputs, attrs, name, operator.opset, operator.domain)
    if bodies := dict(made.bodies):
        if is_control:
            count = given_to_bodies(op, operator.opset, len(inputs))
            bodies = {key: body.taking(count).closed() for key, body in bodies.items()}
            attrs |= bodies
        made = replace(made, captures=tuple(dict.fromkeys(captured for body in bodies.values() for captured in body.captures)))
    return as_loop(made, path[-1]) if is_control else made


def _title(name: str, op: str, outputs: Sequence[str]) -> str:
    return name or f"{op} -> {', '.join(outputs)}"


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "INT": (lambda v: isinstance(v, int), "a whole number"),
    "FLOAT": (lambda v: isinstance(v, int | float), "a number"),
    "STRING": (lambda v: isinstance(v, str | bytes), "a text"),
    "TENSOR": (lambda v: isinstance(v, np.ndarray), "a tensor"),
    "SPARSE_TENSOR": (lambda v: isinstance(v, np.ndarray), "a sparse tensor"),
    "GRAPH": (lambda v: isinstance(v, Body), "a graph"),
    "TYPE_PROTO": (lambda v: isinstance(v, ValueType), "a type"),
}
"""What an attribute of a type holds, and that in words."""


def _fitting(value: Any, name: str, kind: int, signature: SchemaSignature | None, path: tuple[str, ...]) -> Any:
    """The value of an attribute of such a type as the schema of its operator has it; the kernel sees to what that does not know.

    Raises
    ------
    MalformedBody
        It has another type.
    """
    rule = None if signature is None else signature.attributes.get(name)
    return value if rule is None or rule.kind == _TYPES.get(kind) else _fitted(name, value, rule.kind, path)


_TYPES = {number: name for name, number in AttributeProto.AttributeType.items()}
"""What schemas call the types of attributes."""


def _refuse_missing(op: str, attrs: Mapping[str, Any], signature: SchemaSignature | None, path: tuple[str, ...]) -> None:
    """See that a node has the attributes that its operator must have; control flow asks for its own itself.

    Raises
    ------
    MalformedBody
    """
    for name in signature.required if signature is not None else ():
        if name not in attrs:
            raise MalformedBody(f"{op} has no attribute {name!r}, which it must have", path)


def _fitted(name: str, value: Any, kind: str, path: tuple[str, ...]) -> Any:
    """An attribute of the type that its schema says; whole numbers will do for floats."""
    is_list = kind.endswith("S")
    holds, words = _KINDS[kind.removesuffix("S")]
    items = value if isinstance(value, tuple) else (value,)
    if isinstance(value, tuple) != is_list or not all(map(holds, items)):
        wanted = f"a list, each of it {words}" if is_list else words
        raise MalformedBody(f"attribute {name!r} must be {wanted}; got {_kind(value)}", path)
    if kind == "FLOAT":
        return float(value)
    return tuple(map(float, value)) if kind == "FLOATS" else value


def _kind(value: Any) -> str:
    """What an attribute holds, in words."""
    if isinstance(value, tuple):
        return f"a list of {len(value)}" + (f", first {_kind(value[0])}" if value else "")
    words = next(words for holds, words in _KINDS.values() if holds(value))
    return f"{words} ({value!r:.40})" if isinstance(value, int | float | str | bytes) else words


def read_attribute(attribute: onnx.AttributeProto, operators: Operators, path: tuple[str, ...]) -> Any:
    """The plain value of an attribute; tensors become arrays, graphs become bodies, lists tuples."""
    if attribute.ref_attr_name:
        raise MalformedBody(f"attribute {attribute.name!r} refers to an attribute of a function that was not inlined", path)
    kind = attribute.type
    if kind == AttributeProto.GRAPH:
        return _graph(attribute.g, operators, (*path, attribute.name))
    if kind not in _READERS:
        name = AttributeProto.AttributeType.Name(kind) if kind in AttributeProto.AttributeType.values() else kind
        raise MalformedBody(f"attribute {attribute.name!r} is of type {name}, which is not supported", path)
    return _READERS[kind](attribute, path)


_READERS: dict[int, Callable[[onnx.AttributeProto, tuple[str, ...]], Any]] = {
    AttributeProto.FLOAT: lambda attribute, path: attribute.f,
    AttributeProto.INT: lambda attribute, path: attribute.i,
    AttributeProto.STRING: lambda attribute, path: _text(attribute.s),
    AttributeProto.TENSOR: lambda attribute, path: read_tensor(attribute.t, path),
    AttributeProto.SPARSE_TENSOR: lambda attribute, path: _dense(attribute.sparse_tensor, path),
    AttributeProto.TYPE_PROTO: lambda attribute, path: read_type(attribute.tp),
    AttributeProto.FLOATS: lambda attribute, path: tuple(attribute.floats),
    AttributeProto.INTS: lambda attribute, path: tuple(attribute.ints),
    AttributeProto.STRINGS: lambda attribute, path: tuple(_text(s) for s in attribute.strings),
    AttributeProto.TENSORS: lambda attribute, path: tuple(read_tensor(t, path) for t in attribute.tensors),
    AttributeProto.TYPE_PROTOS: lambda attribute, path: tuple(read_type(t) for t in attribute.type_protos),
}
"""The values of attributes by their type, without that of a graph."""


def _text(raw: bytes) -> str | bytes:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def read_tensor(tensor: onnx.TensorProto, path: tuple[str, ...] = ()) -> np.ndarray:
    """A TensorProto as an array; strings become an object array of ``str``.

    Raises
    ------
    MalformedBody
        The data do not fit the shape or the type.
    """
    try:
        if (array := _plain(tensor)) is None:
            array = numpy_helper.to_array(tensor)
    except Exception as error:
        let_through(error)
        raise MalformedBody(f"tensor {tensor.name!r} cannot be read: {error}", path) from error
    if array.dtype == object:
        return _strings(array)
    return array


_PLAIN = {code: DTYPES[code] for code in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15) if sys.byteorder == "little"}
"""Element types of which a file holds the bytes that numpy works on."""


def _plain(tensor: onnx.TensorProto) -> np.ndarray | None:
    """A tensor whose bytes are there as numpy has them; None for others, and where there are more bytes or fewer."""
    dtype = _PLAIN.get(tensor.data_type)
    if dtype is None or not tensor.HasField("raw_data") or tensor.data_location or tensor.HasField("segment"):
        return None
    shape, data = tensor.dims[:], tensor.raw_data
    return np.ndarray(shape, dtype, data) if math.prod(shape) * dtype.itemsize == len(data) else None


def _strings(array: np.ndarray) -> np.ndarray:
    texts = np.empty(array.shape, object)
    texts.reshape(-1)[:] = [_text(s) if isinstance(s, bytes) else s for s in array.flat]
    return texts


def _dense(sparse: onnx.SparseTensorProto, path: tuple[str, ...]) -> np.ndarray:
    """A sparse tensor, filled up with zeros.  Indices are flat or one row of coordinates per value."""
    values, indices = read_tensor(sparse.values, path), read_tensor(sparse.indices, path)
    what, dims = f"sparse tensor {sparse.values.name!r}", tuple(sparse.dims)
    if not dims or any(dim < 0 for dim in dims):
        raise MalformedBody(f"{what} must have dimensions from 0 on; got {list(dims)}", path)
    count = int(np.prod(dims, dtype=object))
    size = count * values.itemsize
    if max(size, *dims, 0) > _SOME_DENSE + _DENSE_PER_STORED * (values.nbytes + indices.nbytes):
        raise MalformedBody(f"{what} of {count} elements, {len(values.ravel())} of them stored, is too large to fill up", path)
    if values.ndim != 1 or indices.dtype.kind not in "iu" or indices.shape not in ((len(values),), (len(values), len(dims))):
        shapes = f"values of shape {list(values.shape)} and indices ({indices.dtype.name}) of shape {list(indices.shape)}"
        raise MalformedBody(
            f"{what} of {len(dims)} dimensions has {shapes}: a value has one index or one for each dimension", path
        )
    if ((indices < 0) | (indices >= np.array(count if indices.ndim == 1 else dims, np.int64))).any():
        raise MalformedBody(f"{what} of shape {list(dims)} has values outside of it", path)
    dense = np.full(dims, "", object) if values.dtype == object else np.zeros(dims, values.dtype)
    dense[np.unravel_index(indices, dims) if indices.ndim == 1 else tuple(indices.T)] = values
    return dense


_SOME_DENSE, _DENSE_PER_STORED = 1 << 26, 1000
"""A sparse tensor may take so many bytes when it is filled up, and so many more for each byte that is stored of it."""


def type_in(proto: onnx.TypeProto) -> ValueType:
    """What a TypeProto declares; graphs declare the same types over and over."""
    try:
        return _type_of(proto.SerializeToString())
    except DecodeError:  # protobuf writes what is nested deeper than it reads
        return read_type(proto)


@functools.lru_cache(maxsize=1024)
def _type_of(content: bytes) -> ValueType:
    return read_type(onnx.TypeProto.FromString(content))


def read_type(proto: onnx.TypeProto, depth: int = 0) -> ValueType:
    """What a TypeProto declares.

    Raises
    ------
    MalformedBody
        It is nested too deep.
    """
    if depth > DEEPEST:
        raise MalformedBody(f"a type is nested more than {DEEPEST} deep")
    kind = proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(proto, kind)
        shape = None
        if tensor.HasField("shape"):
            shape = tuple(_dim(d) for d in tensor.shape.dim)
        dtype = DTYPES.get(tensor.elem_type)
        return _NOTHING if dtype is None and shape is None else ValueType(dtype, shape)
    if kind in ("sequence_type", "optional_type"):
        return ValueType(kind=kind.removesuffix("_type"), element=read_type(getattr(proto, kind).elem_type, depth + 1))
    if kind == "map_type":
        key = DTYPES.get(proto.map_type.key_type)
        return ValueType(kind="map", element=read_type(proto.map_type.value_type, depth + 1), key=key)
    return _NOTHING


def _dim(dim: Any) -> int | str | None:
    which = dim.WhichOneof("value")
    return getattr(dim, which) if which else None


_NOTHING = ValueType()
