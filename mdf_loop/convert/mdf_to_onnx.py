"""MDF models as ONNX models."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import checker, helper, shape_inference

from mdf_loop.convert.files import load
from mdf_loop.convert.lowering import lower
from mdf_loop.convert.restoring import with_onnx_names
from mdf_loop.convert.shapes import usable
from mdf_loop.errors import ArgumentError, KindError, MalformedBody, UnsupportedOp
from mdf_loop.ir import Body, ValueType
from mdf_loop.readers.mdf_body import read_mdf_graph
from mdf_loop.readers.mdf_body import read_whole as read_as_it_is
from mdf_loop.readers.mdf_signature import ports_of
from mdf_loop.readers.mdf_typed import is_typed
from mdf_loop.writers.onnx_graph import write_model


def to_onnx(model: Any, path: str | os.PathLike | None = None) -> onnx.ModelProto:
    """Convert an MDF model to an ONNX model that gives the same outputs.

    Parameters
    ----------
    model : modeci_mdf Model or Graph, str or path-like
        A model with one graph, a graph, or the path of a model file.
    path : str or path-like, optional
        Write the ONNX model to this file as well.

    Returns
    -------
    onnx.ModelProto
        It has passed ``onnx.checker`` with shape inference.

    Raises
    ------
    UnsupportedOp
        ONNX has no way to say something in the model; the message names it.
    MalformedBody
        The model is broken.

    Examples
    --------
    >>> import mdf_loop, onnx.printer
    >>> onnx_model = mdf_loop.to_onnx("examples/newton.yaml")
    >>> [node.op_type for node in onnx_model.graph.node]
    ['Loop']
    """
    graph = _graph(model)
    written = write_checked(read_whole(graph))
    if path is not None:
        onnx.save(written, Path(path))
    return written


def _graph(model: Any) -> Any:
    if isinstance(model, str | os.PathLike):
        model = load(model)
    if hasattr(model, "graphs"):
        if len(model.graphs) != 1:
            names = ", ".join(repr(graph.id) for graph in model.graphs) or "none"
            raise ArgumentError(f"the model {model.id!r} has {len(model.graphs)} graphs ({names}); give one of them")
        return model.graphs[0]
    if not hasattr(model, "nodes"):
        raise KindError(f"to_onnx takes an MDF model or graph, or the path of one; got {type(model).__name__}")
    return model


def read_whole(graph: Any) -> Body:
    """The body of a whole graph, in operators of ONNX alone."""
    if is_typed(graph):
        if graph.conditions is not None and (graph.conditions.node_specific or graph.conditions.termination):
            raise UnsupportedOp(f"graph {graph.id!r} has conditions, which ONNX cannot express")
        return with_onnx_names(read_mdf_graph(graph, kind="branch"), graph)
    body = read_as_it_is(graph)
    ends = ports_of(graph).ends
    ids = Counter(port for _, port in ends)
    names = tuple(port if ids[port] == 1 else f"{node}.{port}" for node, port in ends)
    lowered = lower(body, _inputs(graph, body))
    return with_onnx_names(lowered, names=dict(zip(lowered.outputs, names, strict=True)))


def _inputs(graph: Any, body: Body) -> dict[str, tuple[Any, ValueType]]:
    """A sample and the type of each value that a graph needs, from its ports: numbers in MDF are float64."""
    ports = {port.id: port for node in graph.nodes for port in node.input_ports if port.id in body.captures}
    inputs = {}
    for name in body.captures:
        shape = ports[name].shape if usable(ports[name].shape) else ()
        try:
            dtype = np.dtype(ports[name].type or float)
        except TypeError:
            dtype = np.dtype(float)
        inputs[name] = np.ones(shape, dtype), ValueType(dtype, tuple(shape))
    return inputs


def write_checked(body: Body) -> onnx.ModelProto:
    """A body in operators of ONNX as a model that has passed ONNX's checker.

    Raises
    ------
    MalformedBody
        It has not; says what the checker says.
    """
    if body.captures:
        raise MalformedBody(f"reads {', '.join(map(repr, body.captures))}, which nothing in the model provides", (body.name,))
    model = write_model(body)
    for domain in {node.domain for node in model.graph.node} - {entry.domain for entry in model.opset_import}:
        raise UnsupportedOp(f"nothing says the version of domain {domain!r}")
    model.producer_name = "mdf-loop"
    model.ir_version = helper.find_min_ir_version_for(list(model.opset_import), ignore_unknown=True)
    try:
        _infer_outputs(model)
        checker.check_model(model, full_check=True)
    except Exception as error:
        raise MalformedBody(f"ONNX's checker refuses the model: {_message(error)}", (body.name,)) from error
    return model


def _infer_outputs(model: onnx.ModelProto) -> None:
    """Declare the outputs whose types are not known, as far as ONNX can infer them."""
    if all(value.type.WhichOneof("value") for value in model.graph.output):
        return
    inferred = {value.name: value.type for value in shape_inference.infer_shapes(model).graph.output}
    for value in model.graph.output:
        if not value.type.WhichOneof("value"):
            value.type.CopyFrom(inferred[value.name])


def _message(error: Exception) -> str:
    text = error.args[0] if error.args else error
    return " ".join((text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)).split())
