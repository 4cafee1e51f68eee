"""MDF models as ONNX models."""

from __future__ import annotations

import contextlib
import copy
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from modeci_mdf.mdf import InputPort
from onnx import checker, helper, shape_inference
from onnx.serialization import registry

from mdf_loop.convert.files import load
from mdf_loop.convert.restoring import IR_VERSION, doc_string_of, with_onnx_names
from mdf_loop.convert.shapes import usable
from mdf_loop.errors import ArgumentError, IterationLimit, KindError, MalformedBody, UnsupportedOp
from mdf_loop.files import replacing
from mdf_loop.ir import Body, ValueType
from mdf_loop.ops.registry import first_version
from mdf_loop.options import options
from mdf_loop.readers.mdf_body import read_mdf_graph
from mdf_loop.readers.mdf_body import read_whole as read_as_it_is
from mdf_loop.readers.mdf_objects import check_structure
from mdf_loop.readers.mdf_signature import ports_of
from mdf_loop.readers.mdf_typed import OPSET, has_conditions, is_typed
from mdf_loop.readers.opsets import every_node, refuse_others
from mdf_loop.types.schemas import LARGEST_VERSION
from mdf_loop.writers.onnx_graph import constants_as_nodes, domains_of, write_model

FIRST_WITH_INITIALIZERS = 4
"""The first version of the file format in which an initializer need not be an input."""

MOST_PASSES = 100_000
"""Passes of a scheduled model up to which it is run to see whether whole numbers stay in 64 bits."""


def to_onnx(
    model: Any,
    path: str | os.PathLike | None = None,
    *,
    inputs: Sequence[str] = (),
    steps: int | None = None,
    time_increment: float | None = None,
) -> onnx.ModelProto:
    """Convert an MDF model to an ONNX model that gives the same outputs.

    Parameters
    ----------
    model : modeci_mdf Model or Graph, str or path-like
        A model with one graph, a graph, or the path of a model file.
    path : str or path-like, optional
        Write the ONNX model to this file as well.
    inputs : sequence of str
        Input ports with a default value, and parameters, that become inputs of the ONNX model too: by their ids, or as
        ``node.id``.  Their values are initializers of the same names, so they may be left out.
    steps : int, optional
        How many times the model is evaluated, as in :func:`mdf_loop.run`: its stateful parameters and its conditions of
        graph-scheduler become one Loop.  A model with conditions is evaluated once if this is not said.
    time_increment : float, optional
        By how much time goes on from one step to the next.

    Returns
    -------
    onnx.ModelProto
        It has passed ``onnx.checker`` with shape inference, but for outputs whose shapes nothing says.

    Raises
    ------
    UnsupportedOp
        ONNX has no way to say something in the model; the message names it.
    NotLowered
        A condition, or something else in a scheduled model, has no counterpart in a loop; the message names it.
    MalformedBody
        The model is broken.
    ArgumentError
        There is no such port or parameter; or ``inputs`` and ``steps`` are both given.
    FileError
        The file cannot be written; what was there is unchanged.

    Examples
    --------
    >>> import mdf_loop, onnx.printer
    >>> onnx_model = mdf_loop.to_onnx("examples/newton.yaml")
    >>> [node.op_type for node in onnx_model.graph.node]
    ['Loop']
    >>> scheduled = mdf_loop.to_onnx("examples/oscillator.yaml", steps=1000, time_increment=0.01)
    >>> [node.op_type for node in scheduled.graph.node]
    ['Loop']
    """
    model = load(model) if isinstance(model, str | os.PathLike) else model
    graph = _graph(model)
    check_structure(graph)
    if steps is None and time_increment is None and (is_typed(graph) or not has_conditions(graph)):
        written = write_checked(read_whole(graph, inputs), _ir_version(model))
        written.doc_string, written.graph.doc_string = doc_string_of(model), doc_string_of(graph)
    else:
        written = _scheduled(graph, steps, time_increment, inputs)
    if path is not None:
        form = registry.get_format_from_file_extension(Path(path).suffix) or "protobuf"
        with replacing(path) as file:
            file.write(registry.get(form).serialize_proto(written))
    return written


def _scheduled(graph: Any, steps: int | None, time_increment: float | None, inputs: Sequence[str]) -> onnx.ModelProto:
    """A graph under graph-scheduler as a model of one Loop."""
    from mdf_loop.backend import prepare
    from mdf_loop.convert.loop_to_onnx import loop_to_onnx
    from mdf_loop.convert.scheduled import execute, lower

    if inputs:
        raise ArgumentError("a scheduled model has all its values inside when it becomes a loop; leave out inputs=")
    if steps is None and time_increment is not None:
        raise ArgumentError("time_increment without steps; steps is how many times the model is evaluated")
    lowered = lower(graph, 1 if steps is None else steps, time_increment)
    written = loop_to_onnx(lowered.loop, lowered.trip_count, lowered.first, lowered.names)
    with contextlib.suppress(IterationLimit), options(max_iterations=MOST_PASSES):
        _check_numbers(execute(lowered), prepare(written).run([]))
    return written


def _check_numbers(expected: Mapping[str, Any], written: Sequence[Any]) -> None:
    """Python's whole numbers have no end, those of ONNX have 64 bits: what leaves them is found by running both."""
    for (name, value), other in zip(expected.items(), written, strict=True):
        if np.asarray(value).dtype.kind in "biuO" and not np.array_equal(value, other):
            raise UnsupportedOp(
                f"output {name!r} is {_told(value)} after these steps, and {other} with the 64 bits of ONNX's whole numbers; "
                "MDF makes whole numbers of floats without a fraction (3.0 is 3)"
            )


def _told(value: Any) -> str:
    """A number in words; Python refuses to write down very long ones."""
    is_long = isinstance(value, int) and value.bit_length() > 200
    return f"a whole number of {value.bit_length()} bits" if is_long else str(value)


def _graph(model: Any) -> Any:
    if hasattr(model, "graphs"):
        if len(model.graphs) != 1:
            names = ", ".join(repr(graph.id) for graph in model.graphs) or "none"
            raise ArgumentError(f"the model {model.id!r} has {len(model.graphs)} graphs ({names}); give one of them")
        return model.graphs[0]
    if not hasattr(model, "nodes"):
        raise KindError(f"to_onnx takes an MDF model or graph, or the path of one; got {type(model).__name__}")
    return model


def read_whole(graph: Any, inputs: Sequence[str] = ()) -> Body:
    """The body of a whole graph, in operators of ONNX alone; ``inputs`` are values that become inputs."""
    if is_typed(graph):
        if inputs:
            raise ArgumentError("a converted model has the inputs of its ONNX model; inputs= is for other MDF models")
        if has_conditions(graph):
            raise UnsupportedOp(f"graph {graph.id!r} has conditions, which ONNX cannot express")
        return _with_opsets_said(with_onnx_names(read_mdf_graph(graph, kind="branch"), graph), graph)
    graph, values = _freed(graph, inputs)
    body = read_as_it_is(graph)
    ends = ports_of(graph).ends
    ids = Counter(port for _, port in ends)
    names = tuple(port if ids[port] == 1 else f"{node}.{port}" for node, port in ends)
    return written_as_onnx(body, _inputs(graph, body, values), names, values)


def _with_opsets_said(body: Body, graph: Any) -> Body:
    """A body without ONNX's own domain, if its graph does not say its version and no node needs it."""
    if OPSET in graph.metadata or "" in domains_of(body):
        return body
    return replace(body, opsets={domain: version for domain, version in body.opsets.items() if domain})


def _ir_version(model: Any) -> int:
    """The version of the file format that the metadata of a converted model say; 0 if they say none."""
    said = (getattr(model, "metadata", None) or {}).get(IR_VERSION)
    return said if type(said) is int and 0 < said <= LARGEST_VERSION else 0


def written_as_onnx(
    body: Body, inputs: Mapping[str, tuple[Any, ValueType]], names: Sequence[str], defaults: Mapping[str, Any] | None = None
) -> Body:
    """A body of an MDF graph in operators of ONNX alone.

    Parameters
    ----------
    body : Body
        What it captures becomes inputs.
    inputs : mapping of str to (sample, ValueType)
        For each of them a value that it might have, and its type.
    names : sequence of str
        What the outputs are called.
    defaults : mapping of str to array, optional
        Values of inputs that may be left out.
    """
    from mdf_loop.convert.lowering import lower  # 50 ms, which importing mdf_loop does not have to take

    lowered = lower(body, inputs)
    constants = {name: value for name, value in (defaults or {}).items() if name in body.captures}
    lowered = replace(lowered, constants={**lowered.constants, **constants})
    return with_onnx_names(lowered, names=dict(zip(lowered.outputs, names, strict=True)))


def _freed(graph: Any, names: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """A graph in which some ports and parameters have lost their values, and these values by their ids."""
    graph, values = (copy.deepcopy(graph) if names else graph), {}
    fed = {(edge.receiver, edge.receiver_port) for edge in graph.edges}
    for name in names:
        found = [
            place for node in graph.nodes for place in _places(node, fed) if name in (place[1].id, f"{node.id}.{place[1].id}")
        ]
        if len(found) != 1:
            raise ArgumentError(f"there {'are several values' if found else 'is no value'} {name!r} that could be an input")
        node, thing, value = found[0]
        if thing in node.parameters:
            node.parameters.remove(thing)
            node.input_ports.append(InputPort(id=thing.id, shape=np.shape(value), type=np.asarray(value).dtype.name))
        else:
            thing.default_value, thing.type, thing.shape = None, np.asarray(value).dtype.name, np.shape(value)
        values[thing.id] = np.asarray(value)
    return graph, values


def _places(node: Any, fed: set[tuple[str, str]]) -> Iterator[tuple[Any, Any, Any]]:
    """What has a value in a node, that is no expression: the node, the port or parameter, and the value."""
    for port in node.input_ports:
        if port.default_value is not None and (node.id, port.id) not in fed and not isinstance(port.default_value, str | dict):
            yield node, port, port.default_value
    for parameter in node.parameters:
        others = (parameter.default_initial_value, parameter.function, parameter.time_derivative)
        if parameter.value is not None and not isinstance(parameter.value, str | dict) and others == (None, None, None):
            yield node, parameter, parameter.value


def _inputs(graph: Any, body: Body, values: Mapping[str, Any]) -> dict[str, tuple[Any, ValueType]]:
    """A sample and the type of each value that a graph needs, from its ports: numbers in MDF are float64."""
    ports = {port.id: port for node in graph.nodes for port in node.input_ports if port.id in body.captures}
    inputs = {}
    for name in body.captures:
        if name not in ports:
            raise MalformedBody(f"nothing gives a value to {name!r}", (graph.id,))
        shape = ports[name].shape if usable(ports[name].shape) else ()
        try:
            dtype = np.dtype(ports[name].type or float)
        except TypeError:
            dtype = np.dtype(float)
        inputs[name] = values.get(name, np.ones(shape, dtype)), ValueType(dtype, tuple(shape))
    return inputs


def write_checked(body: Body, ir_version: int = 0) -> onnx.ModelProto:
    """A body in operators of ONNX as a model that has passed ONNX's checker.

    ``ir_version`` is the version of the file format; 0 takes the first one that knows the versions of the operators.

    Raises
    ------
    MalformedBody
        It has not; says what the checker says.
    """
    if body.captures:
        raise MalformedBody(f"reads {', '.join(map(repr, body.captures))}, which nothing in the model provides", (body.name,))
    refuse_others(body, (body.name,))
    model = write_model(body)
    for domain in domains_of(body) - {entry.domain for entry in model.opset_import}:
        raise UnsupportedOp(f"nothing says the version of domain {domain!r}")
    model.producer_name = "mdf-loop"
    if not ir_version:
        least = helper.find_min_ir_version_for(list(model.opset_import), ignore_unknown=True)
        ir_version = max(least, FIRST_WITH_INITIALIZERS)
    model.ir_version = ir_version
    if model.ir_version < FIRST_WITH_INITIALIZERS:
        constants_as_nodes(model.graph)
    try:
        _infer_outputs(model)
        checker.check_model(_checkable(model), full_check=True)
    except Exception as error:
        raise MalformedBody(f"ONNX's checker refuses the model: {_message(error)}", (body.name,)) from error
    return model


def _infer_outputs(model: onnx.ModelProto) -> None:
    """Declare the outputs whose types or shapes are not known, as far as ONNX can infer them."""
    open_outputs = [value for value in model.graph.output if _lacks_shape(value.type) or value.type.WhichOneof("value") is None]
    if not open_outputs:
        return
    inferred = {value.name: value.type for value in shape_inference.infer_shapes(model).graph.output}
    for value in open_outputs:
        value.type.CopyFrom(inferred[value.name])


def _checkable(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model for ONNX's checker, which knows no operator in versions before its first, as exporters do write them.

    It also wants shapes of all outputs, which ONNX cannot infer for each operator.
    """
    opset = next((entry.version for entry in model.opset_import if entry.domain == ""), 1)
    checked = onnx.ModelProto()
    checked.CopyFrom(model)
    del checked.graph.output[:]
    checked.graph.output.extend(value for value in model.graph.output if not _lacks_shape(value.type))
    for node in every_node(checked.graph.node):
        if node.domain == "" and first_version(node.op_type, opset) != opset:
            node.domain = _UNKNOWN  # as an operator of others, which is not checked
    checked.opset_import.append(helper.make_opsetid(_UNKNOWN, 1))
    return checked


_UNKNOWN = "older than itself"


def _lacks_shape(kind: onnx.TypeProto) -> bool:
    return kind.WhichOneof("value") == "tensor_type" and not kind.tensor_type.HasField("shape")


def _message(error: Exception) -> str:
    text = error.args[0] if error.args else error
    return " ".join((text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)).split())
