"""ONNX protobufs to the IR: GraphProto, ModelProto and FunctionProto.

The reader consumes what it understands and names what is left over.  Names that a graph reads but does
not write are its captures; they are passed up until a graph provides them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import AttributeProto, numpy_helper

from mdf_loop.errors import KindError, LoopError, MalformedBody, Together, let_through
from mdf_loop.ir import Body, Node, ValueType
from mdf_loop.ir.well_formed import check_body
from mdf_loop.ops.registry import version_of
from mdf_loop.readers.onnx.inlining import inline_functions
from mdf_loop.readers.onnx.loop_records import as_loop, given_to_bodies
from mdf_loop.readers.onnx.opsets import (
    CONTROL,
    DEFAULT_OPSET,
    completed,
    imported,
    own_domain,
    refuse_internal,
    unmarked,
    version_among,
)
from mdf_loop.types.elements import DTYPES, read_only
from mdf_loop.types.schemas import signature_of

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
    return _graph(graph, completed(versions, graph.node), (graph.name or "body",))


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
    opsets = completed(imported(function.opset_import, path) or {"": DEFAULT_OPSET}, function.node)
    return _assemble(path, opsets, tuple(function.input), tuple(function.output), function.node, {}, {})


def _graph(graph: onnx.GraphProto, opsets: Mapping[str, int], path: tuple[str, ...]) -> Body:
    if len(path) > 2 * DEEPEST:
        raise MalformedBody(f"graphs are nested more than {DEEPEST} deep", path[:3])
    constants: dict[str, Any] = {}
    tensors = [(t.name, read_tensor(t, path)) for t in graph.initializer]
    for name, value in (*tensors, *((t.values.name, _dense(t, path)) for t in graph.sparse_initializer)):
        if name in constants:
            raise MalformedBody(f"two initializers are called {name!r}", path)
        constants[name] = value
    declared = [(v.name, type_in(v.type)) for v in (*graph.value_info, *graph.output, *graph.input)]
    types = {name: kind for name, kind in declared if kind is not _NOTHING}  # an output may be an input, said again without one
    inputs = tuple(v.name for v in graph.input)
    outputs = tuple(v.name for v in graph.output)
    return _assemble(path, opsets, inputs, outputs, graph.node, constants, types)


def _assemble(
    path: tuple[str, ...],
    opsets: Mapping[str, int],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    protos: Iterable[onnx.NodeProto],
    constants: dict[str, Any],
    types: dict[str, ValueType],
) -> Body:
    """Put the parts of a graph together: constants aside, defaults of inputs apart from them, captures found, all checked."""
    _check_texts((*inputs, *outputs, *constants), path)
    nodes, together = [], Together()
    for proto in protos:
        try:
            if proto.op_type == "Constant" and proto.domain in ("", "ai.onnx"):
                _add_constant(constants, inputs, proto, opsets, path)
            else:
                nodes.append(_node(proto, opsets, path))
        except LoopError as error:
            together.add(error)
    together.settle()
    written = {name for node in nodes for name in node.outputs if name}
    local = set(inputs) | set(constants) | written
    reads = [name for node in nodes for name in node.reads] + list(outputs)
    captures = tuple(dict.fromkeys(name for name in reads if name and name not in local))
    body = Body(path[-1], inputs, outputs, tuple(nodes), {}, captures, types, dict(opsets))
    values = {name: value if name in inputs else read_only(value) for name, value in constants.items()}
    return check_body(body.with_values(values), path)


def _check_texts(texts: Sequence[Any], path: tuple[str, ...]) -> None:
    """Protobuf hands out bytes where a name is not UTF-8."""
    if {*map(type, texts)} <= {str}:
        return
    for text in texts:
        if not isinstance(text, str):
            raise MalformedBody(f"the name {text!r} is not UTF-8 text", path)


def _add_constant(
    constants: dict[str, Any], inputs: tuple[str, ...], proto: onnx.NodeProto, opsets: Mapping[str, int], path: tuple[str, ...]
) -> None:
    _check_texts((proto.name, *proto.input, *proto.output, *(attribute.name for attribute in proto.attribute)), path)
    where = (*path, _title(proto))
    if len(proto.output) != 1:
        raise MalformedBody(f"a Constant has exactly one output, this one has {len(proto.output)}", where)
    name = proto.output[0]
    if name in constants or name in inputs:
        raise MalformedBody(f"writes {name!r}, which is already written; each name is written once", where)
    constants[name] = _constant(proto, opsets, where)


def _constant(proto: onnx.NodeProto, opsets: Mapping[str, int], path: tuple[str, ...]) -> Any:
    """The value of a Constant node: exactly one of its ``value`` attributes."""
    if len(proto.attribute) != 1:
        raise MalformedBody(f"a Constant has exactly one value attribute, this one has {len(proto.attribute)}", path)
    (attribute,) = proto.attribute
    value = read_attribute(attribute, opsets, path)
    makers: dict[str, Any] = {
        "value": lambda: value,
        "sparse_value": lambda: value,
        "value_float": lambda: np.array(value, np.float32),
        "value_floats": lambda: np.array(value, np.float32),
        "value_int": lambda: np.array(value, np.int64),
        "value_ints": lambda: np.array(value, np.int64),
        "value_string": lambda: np.array(value, object),
        "value_strings": lambda: np.array(value, object),
    }
    if attribute.name not in makers:
        raise MalformedBody(f"a Constant has no attribute {attribute.name!r}", path)
    try:
        made = makers[attribute.name]()
    except (TypeError, ValueError) as error:
        raise MalformedBody(f"attribute {attribute.name!r} does not hold what its name says: {error}", path) from error
    if not isinstance(made, np.ndarray):
        raise MalformedBody(f"attribute {attribute.name!r} does not hold a tensor", path)
    return made


def _node(proto: onnx.NodeProto, opsets: Mapping[str, int], path: tuple[str, ...]) -> Node:
    op, inputs, outputs, attributes = proto.op_type, tuple(proto.input), tuple(proto.output), [*proto.attribute]
    names = [attribute.name for attribute in attributes]
    _check_texts((op, proto.domain, proto.name, *inputs, *outputs, *names), path)
    (domain, version), where = unmarked(own_domain(proto.domain)), (*path, _title(proto))
    refuse_internal(domain, op, where)
    opset = opsets[domain]
    if version is not None:
        opset = version_among(op, domain, version, opset, names, len(inputs))
    opset = version_of(op, opset, domain)
    attrs: dict[str, Any] = {}
    for name, attribute in zip(names, attributes, strict=True):
        if name in attrs:
            raise MalformedBody(f"two attributes are called {name!r}", where)
        attrs[name] = read_attribute(attribute, opsets, where)
    attrs = _fitting(attrs, op, opset, domain, where)
    if not domain and op in CONTROL:
        count = given_to_bodies(op, opset, len(inputs))
        attrs = {name: value.taking(count).closed() if isinstance(value, Body) else value for name, value in attrs.items()}
    captures = [name for body in attrs.values() if isinstance(body, Body) for name in body.captures]
    made = Node(op, inputs, outputs, attrs, proto.name, opset, domain, tuple(dict.fromkeys(captures)))
    return as_loop(made, path[-1])


def _title(proto: onnx.NodeProto) -> str:
    return proto.name or f"{proto.op_type} -> {', '.join(proto.output)}"


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


def _fitting(attrs: dict[str, Any], op: str, opset: int, domain: str, path: tuple[str, ...]) -> dict[str, Any]:
    """Attributes as the schema of their operator has them; those that it does not know are left to the kernel.

    Raises
    ------
    MalformedBody
        One has another type, or is missing.
    """
    signature = signature_of(op, opset, domain)
    if signature is None:
        return attrs
    for name, value in attrs.items():
        if name in signature.attributes:
            attrs[name] = _fitted(name, value, signature.attributes[name].kind, path)
    for name in signature.required:
        if name not in attrs and (domain or op not in CONTROL):  # which ask for theirs themselves
            raise MalformedBody(f"{op} has no attribute {name!r}, which it must have", path)
    return attrs


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


def read_attribute(attribute: onnx.AttributeProto, opsets: Mapping[str, int], path: tuple[str, ...]) -> Any:
    """The plain value of an attribute; tensors become arrays, graphs become bodies, lists tuples."""
    if attribute.ref_attr_name:
        raise MalformedBody(f"attribute {attribute.name!r} refers to an attribute of a function that was not inlined", path)
    kind = attribute.type
    if kind == AttributeProto.GRAPH:
        return _graph(attribute.g, opsets, (*path, attribute.name))
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
        array = numpy_helper.to_array(tensor)
    except Exception as error:
        let_through(error)
        raise MalformedBody(f"tensor {tensor.name!r} cannot be read: {error}", path) from error
    if array.dtype == object:
        return _strings(array)
    return array


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
    if kind == "sequence_type":
        return ValueType(kind="sequence", element=read_type(proto.sequence_type.elem_type, depth + 1))
    if kind == "optional_type":
        return ValueType(kind="optional", element=read_type(proto.optional_type.elem_type, depth + 1))
    if kind == "map_type":
        key = DTYPES.get(proto.map_type.key_type)
        return ValueType(kind="map", element=read_type(proto.map_type.value_type, depth + 1), key=key)
    return _NOTHING


def _dim(dim: Any) -> int | str | None:
    which = dim.WhichOneof("value")
    return getattr(dim, which) if which else None


_NOTHING = ValueType()
