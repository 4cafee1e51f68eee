"""ONNX files, and the files beside them in which large tensors may lie."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

from mdf_loop.errors import MalformedBody, let_through
from mdf_loop.readers.model_files import as_path, inside, opened, read_bytes, unread
from mdf_loop.readers.onnx.onnx_text import message_of, refuse_deep

WHAT = "an ONNX model"

NAMED = b"location"
"""What a file in protobuf's own format holds, as the name of an entry, where a tensor lies in another file."""

SOME_READ, MOST_READ = 1 << 26, 8
"""So many bytes may be read of any files beside a model, and then those files so many times, by tensors that share them."""


def load_onnx(path: Any) -> onnx.ModelProto:
    """An ONNX file as onnx has it, with the tensors that lie in files beside it.

    Raises
    ------
    MalformedBody
        There is no such file, it is not an ONNX model, it holds no graph, or a tensor is not where the file says it is.
    KindError
        It is no path.
    """
    path = as_path(path, WHAT)
    name = os.fspath(path)
    content = read_bytes(path, WHAT)
    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        raise MalformedBody(
            f"{name!r} is no ONNX file; if it is an MDF model, mdf_loop.run runs it and mdf_loop.to_onnx converts it"
        )
    try:
        model = _parsed(content, path.suffix)
    except MalformedBody as error:
        raise MalformedBody(f"{name!r} is not {WHAT}: {error}") from error
    except Exception as error:  # each format has errors of its own
        let_through(error)
        is_text = content[:1000].decode("utf-8", "replace").isprintable() if content else False
        said = "it is a text" if is_text and path.suffix == ".onnx" else message_of(error)
        raise MalformedBody(f"{name!r} is not {WHAT}: {said}") from error
    if path.suffix != ".onnx" or NAMED in content:
        _load_external(model, path)
    if not model.graph.output and not model.graph.node:
        raise MalformedBody(f"{name!r} holds no graph")
    return model


def _parsed(content: bytes, suffix: str) -> onnx.ModelProto:
    """A model; its suffix says the format, which is protobuf's own unless it is one of the texts that onnx knows."""
    form = onnx.serialization.registry.get_format_from_file_extension(suffix) or "protobuf"
    if form == "protobuf":
        return onnx.load_model_from_string(content)
    text = content.decode("utf-8-sig")
    refuse_deep(text)
    return onnx.load_model_from_string(text if form != "textproto" else text.encode(), format=form)


def _load_external(model: onnx.ModelProto, path: Path) -> None:
    """Read the tensors that lie in other files; what is read is bounded by what those files hold."""
    sizes: dict[str, int] = {}
    total = 0
    for tensor in _tensors(model):
        if uses_external_data(tensor):
            total += _load_tensor(tensor, path, sizes)
            if total > SOME_READ + MOST_READ * sum(sizes.values()):
                raise MalformedBody(
                    f"{os.fspath(path)!r}: its tensors read {total} bytes from files that hold {sum(sizes.values())}"
                )


def _load_tensor(tensor: onnx.TensorProto, path: Path, sizes: dict[str, int]) -> int:
    """Read one tensor from its file; returns how many bytes it has."""
    what = f"the file of tensor {tensor.name!r}"
    try:
        info = ExternalDataInfo(tensor)
    except ValueError as error:
        raise MalformedBody(f"{os.fspath(path)!r}: {message_of(error)}") from error
    place = inside(path.parent, info.location, what)
    with opened(place, what) as file:
        size = os.fstat(file.fileno()).st_size
        start, length = info.offset or 0, size - (info.offset or 0) if info.length is None else info.length
        if start + length > size or length < 0:
            raise MalformedBody(
                f"{os.fspath(path)!r}: tensor {tensor.name!r} lies at bytes {start} to {start + length} of {info.location!r}, "
                f"which has {size}"
            )
        sizes[os.path.realpath(place)] = size
        try:
            file.seek(start)
            tensor.raw_data = file.read(length)
        except (OSError, MemoryError, ValueError) as error:
            let_through(error)
            raise unread(place, what, error) from error
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]
    return length


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of a model, in the graphs of its nodes and functions too."""
    graphs = [model.graph]
    nodes: list[Any] = [node for function in model.functions for node in function.node]
    while graphs or nodes:
        for graph in graphs:
            yield from graph.initializer
            yield from _of_sparse(graph.sparse_initializer)
            nodes += graph.node
        attributes = [attribute for node in nodes for attribute in node.attribute]
        graphs, nodes = [], []
        for attribute in attributes:
            yield from (attribute.t, *attribute.tensors)
            yield from _of_sparse((attribute.sparse_tensor, *attribute.sparse_tensors))
            graphs += [attribute.g, *attribute.graphs]


def _of_sparse(sparse: Iterable[onnx.SparseTensorProto]) -> Iterator[onnx.TensorProto]:
    for tensor in sparse:
        yield from (tensor.values, tensor.indices)
