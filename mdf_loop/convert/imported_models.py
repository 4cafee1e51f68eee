"""Models that MDF's ONNX importer wrote, as the ONNX graphs that they are.

Each node of such a graph is one operator of ONNX.  :func:`repaired` adds the metadata of an ONNX graph (see
:mod:`mdf_loop.readers.mdf.typed`): which ports are inputs and outputs, and the version of ONNX.  With that it is read like a
graph that :func:`mdf_loop.convert` wrote, whatever its values and nodes are called.

What is lost cannot be put right.  The importer keeps the nodes of a body, and neither its inputs nor its outputs: a body of a
Loop or Scan is refused, unless its metadata names them.  The importer also drops the values of initializers, so a model reads
names that nothing gives a value.  Inputs of the model look just the same in the file: both become input ports marked as
``required`` in their metadata, and running the model without a value for one of them is an error.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from typing import Any

import onnx
from modeci_mdf.mdf import Edge, InputPort, Model

from mdf_loop.convert.naming import REQUIRED
from mdf_loop.errors import LoopError, MalformedBody, malformed
from mdf_loop.ir import Body
from mdf_loop.readers import read
from mdf_loop.readers.mdf.signature import ports_of
from mdf_loop.readers.mdf.typed import IMPORTED, OPSET, function_of, has_conditions, is_typed
from mdf_loop.readers.onnx.graph import DEFAULT_OPSET
from mdf_loop.types.schemas import version_in

MODEL = "ONNX Model"
"""What the importer calls every model."""


def repaired(model: Any, where: str) -> Any:
    """A model that MDF's importer wrote, as ONNX graphs; any other model as it is.  The one given is not changed.

    Parameters
    ----------
    model : modeci_mdf.mdf.Model
    where : str
        The file it comes from, for messages.

    Raises
    ------
    MalformedBody
        Information that a loop needs was lost when the model was written; says what, and what to do.
    """
    if model.id != MODEL or not any(map(_is_imported, model.graphs)):
        return model
    model = copy.deepcopy(model)
    for graph in filter(_is_imported, model.graphs):
        with malformed("this model cannot be read", (where, graph.id)):
            _sign(graph, _versions(model.onnx_opset_version), where)
    return model


def _is_imported(graph: Any) -> bool:
    """Whether a graph is written as the importer writes: each node is one operator, its function called like the node."""
    functions = [(node, function_of(node)) for node in graph.nodes]
    is_of_operators = all(function is not None and function.id == node.id for node, function in functions)
    return is_of_operators and not is_typed(graph) and not has_conditions(graph)


def _versions(written: Any) -> list[int]:
    """The versions of ONNX that a model may be written for, the likeliest first."""
    said = version_in(int(written) if isinstance(written, str) and written.isdecimal() else written)
    newer, older = range(DEFAULT_OPSET + 1, onnx.defs.onnx_opset_version() + 1), range(DEFAULT_OPSET - 1, 0, -1)
    return [*([] if said is None else [said]), DEFAULT_OPSET, *newer, *older]


def _sign(graph: Any, versions: list[int], where: str) -> None:
    """Write the metadata of an ONNX graph."""
    said = graph.metadata or {}
    body = _read(graph, said, versions, where)
    for node in body.nodes:
        _connect(graph, next(each for each in graph.nodes if each.id == node.name), node.captures)
    ports = ports_of(graph)
    ids = [port for _, port in ports.ends]
    outputs = [port if ids.count(port) == 1 else f"{node}.{port}" for node, port in ports.ends]
    graph.metadata |= {"inputs": list(dict.fromkeys(port for _, port in ports.needy)), "outputs": outputs}
    for node in graph.nodes:
        for port in node.input_ports:
            if (node.id, port.id) in ports.needy:
                port.metadata = {**(port.metadata or {}), REQUIRED: True}


def _read(graph: Any, said: Mapping[str, Any], versions: list[int], where: str) -> Body:
    """A graph in the first version of ONNX in which it can be read; it captures its inputs."""
    errors = list[LoopError]()
    for version in versions:
        graph.metadata = {**said, "inputs": [], "outputs": [], OPSET: version, "types": {}, IMPORTED: True}
        try:
            return read(graph, kind="branch")
        except LoopError as error:
            errors.append(error)
    raise MalformedBody(
        "MDF's ONNX importer wrote this model, and does not write the inputs and outputs of the bodies of loops, nor several "
        "nodes of one name or without one. Convert the .onnx file itself: "
        f'mdf_loop.convert("model.onnx", "model.yaml"); or run it: mdf_loop.run("model.onnx"). What is wrong here: {errors[0]}',
        (where,),
    ) from errors[0]


def _connect(graph: Any, node: Any, captures: tuple[str, ...]) -> None:
    """Give a node the values that its bodies capture: an input port each, with an edge where another node gives it."""
    known = {name for each in (*node.input_ports, *node.parameters) for name in (each.id, f"{node.id}.{each.id}")}
    for name in (name for name in captures if name not in known):
        node.input_ports.append(InputPort(id=name))
        for sender in graph.nodes:
            if any(port.id == name for port in sender.output_ports):
                edge = f"{sender.id}.{name}_{node.id}.{name}"
                graph.edges.append(Edge(id=edge, sender=sender.id, sender_port=name, receiver=node.id, receiver_port=name))


PORTS = ("input_ports", "output_ports")


def usable(shape: Any) -> bool:
    """Whether MDF can use a shape."""
    return isinstance(shape, list | tuple) and all(type(dim) is int and dim >= 0 for dim in shape)


def model_as_written(content: Any) -> Any:
    """What a file says as a model, but for shapes that MDF cannot use."""
    _repair_shapes(content)
    return Model.from_dict(content)


def _repair_shapes(content: Any) -> None:
    """Change shapes in what was read from a file, in place."""
    if isinstance(content, Mapping):
        for key, inner in content.items():
            if key in PORTS and isinstance(inner, Mapping):
                for port in inner.values():
                    _repair_shape(port)
            elif key != "metadata":
                _repair_shapes(inner)
    elif isinstance(content, list):
        for item in content:
            _repair_shapes(item)


def _repair_shape(port: Any) -> None:
    """A shape that is null is none; one with names for dimensions, or that is a text otherwise, is kept in the metadata."""
    if not isinstance(port, dict) or "shape" not in port or usable(port["shape"]):
        return
    shape = _parsed(port.pop("shape"))
    if usable(shape):
        port["shape"] = shape
    elif shape is not None:
        port["metadata"] = {**(port.get("metadata") or {}), "original_shape": shape}


def _parsed(shape: Any) -> Any:
    """The shape that a text is: older versions of MDF wrote them as texts."""
    try:
        found = ast.literal_eval(shape) if isinstance(shape, str) else shape
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return shape
    return list(found) if isinstance(found, tuple) else found
