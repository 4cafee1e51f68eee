"""Reading model files: JSON and YAML as MDF models, ONNX and OpenVINO converted.

MDF's ONNX importer writes models whose nodes are one operator of ONNX each.  :func:`repaired` reads them as ONNX graphs (see
:mod:`mdf_loop.readers.mdf.typed`) and writes them as :func:`mdf_loop.convert` does, with ids that MDF's engine can read.

What is lost cannot be put right.  The importer keeps the nodes of a body, and neither its inputs nor its outputs: a body of a
Loop or Scan is refused, unless its metadata names them.  The importer also drops the values of initializers, so a model reads
names that nothing gives a value.  Inputs of the model look just the same in the file: both become input ports marked as
``required`` in their metadata, and running the model without a value for one of them is an error.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import attrs
import onnx
from modeci_mdf.mdf import Model

from mdf_loop.convert.file_text import decoded, line_of, parse, places_in
from mdf_loop.convert.onnx_to_mdf import convert_body, onnx_model, written_in_mdf
from mdf_loop.convert.weights import SUFFIXES, read_weights
from mdf_loop.errors import ArgumentError, LoopError, MalformedBody, let_through, malformed, warn_user
from mdf_loop.ir import Body
from mdf_loop.options import public
from mdf_loop.readers import read
from mdf_loop.readers.mdf.file_structure import Misplaced, check_model
from mdf_loop.readers.mdf.typed import IMPORTED, OPSET, function_of, has_conditions, is_typed
from mdf_loop.readers.model_files import as_path, inside, read_bytes
from mdf_loop.readers.onnx.graph import DEFAULT_OPSET
from mdf_loop.types.schemas import version_in

WHAT = "an MDF model"

log = logging.getLogger("mdf_loop.writers.atomic_files")


@public
def load(path: str | os.PathLike) -> Any:
    """Read an MDF model file, or an ONNX or OpenVINO one as an MDF model.

    A model that MDF's ONNX importer wrote is an ONNX graph (see :func:`repaired`).  ``onnx_file`` paths of bodies, which are
    relative to the model file, become absolute, and separate files of weights are read.  Both must be in the folder of the model,
    unless ``options(trusted=True)`` is set.

    Parameters
    ----------
    path : str or path-like
        A ``.json``, ``.yaml`` or ``.yml`` file; or ``.onnx`` or ``.xml`` (OpenVINO), which is converted (see
        :func:`mdf_loop.convert`).

    Returns
    -------
    modeci_mdf.mdf.Model

    Raises
    ------
    MalformedBody
        The file does not exist, is not MDF, or lacks information that a Loop needs.  The message has the line of the file, and
        the path of keys.
    KindError
        ``path`` is not a path.

    Examples
    --------
    >>> import mdf_loop
    >>> model = mdf_loop.load("examples/newton.yaml")
    >>> [node.id for node in model.graphs[0].nodes]
    ['square_root']
    """
    path = as_path(path, "a model")
    if path.suffix.lower() in (".onnx", ".xml"):
        return written_in_mdf(onnx_model(path))
    name = os.fspath(path)
    if path.suffix.lower() not in SUFFIXES and os.path.isdir(path):  # which a name that is too long is not, either
        raise MalformedBody(f"{name!r} is a folder; a model is a file in it, of type {', '.join(SUFFIXES)}, .onnx or .xml")
    if "\n" in name:
        raise MalformedBody(f"a model is read from a file; got a text of {name.count(chr(10))} lines: write it to a file first")
    if path.suffix.lower() not in SUFFIXES:
        raise MalformedBody(f"{name!r}: an MDF model is a file of type {', '.join(SUFFIXES)}; .onnx and .xml are read as well")
    model = model_of(read_content(path), path)
    log.info("loaded %s", name)
    return model


def model_of(content: Any, path: Path) -> Any:
    """What a file says as a model, which takes the dicts over: its files found and read, and repaired.

    Raises
    ------
    MalformedBody
        As :func:`load`.
    """
    name = os.fspath(path)
    try:
        find_files(content, path)
        model = model_as_written(content)
    except LoopError:
        raise
    except Exception as error:  # MDF's converters raise what they like
        let_through(error)
        raise MalformedBody(f"{name!r} is not {WHAT}: {_message(error)}") from error
    return repaired(model, name)


def read_content(path: Path) -> Any:
    """What an MDF model file says, in dicts and lists: its structure is MDF's, and nothing is repaired.

    Raises
    ------
    MalformedBody
        There is no such file, or it is not MDF; says where.
    """
    raw = read_bytes(path, WHAT)
    try:
        text = decoded(raw)
        content = parse(text, path.suffix.lower(), lambda line, said: warn_user(f"{os.fspath(path)}:{line}: {said}"))
    except ValueError as error:
        raise MalformedBody(f"{os.fspath(path)!r} is not {WHAT}: {_message(error)}") from error
    try:
        check_model(content)
    except Misplaced as error:
        line = line_of(text, error.place)
        raise MalformedBody(f"{os.fspath(path)!r} is not {WHAT}: {f'line {line}: ' if line else ''}{error}") from error
    return content


def find_files(content: Any, path: Path) -> None:
    """Find the other files of a model, which lie in its folder: bodies, and weights, which are read; in place.

    Raises
    ------
    Misplaced, MalformedBody
        One is not there, or may not be read.
    """
    found = {id(body): (place, body) for place, body in _onnx_files(content)}  # aliases of YAML lead to one twice
    for place, body in found.values():
        with _told_of(path, place):
            body["onnx_file"] = os.path.abspath(inside(path.parent, body["onnx_file"], "an onnx_file"))
    with _told_of(path):
        read_weights(content, path.parent)


@contextlib.contextmanager
def _told_of(path: Path, place: tuple[Any, ...] = ()) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise Misplaced(f"{os.fspath(path)!r}: {error}", place, ()) from error


def _onnx_files(content: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The bodies that are files, and where: wherever a value may stand; arguments and metadata may have any name."""
    for place, value in places_in(content, kinds=(dict, list)):
        if (
            isinstance(value, dict)
            and isinstance(value.get("onnx_file"), str)
            and "metadata" not in place
            and place[-1:] != ("args",)
        ):
            yield place, value


def _message(error: Exception) -> str:
    """What is wrong; where structures are nested, the innermost reason."""
    while (inner := getattr(error, "exceptions", None)) is not None and inner:
        error = inner[0]
    return " ".join(str(error).split()) or type(error).__name__


MODEL = "ONNX Model"
"""What the importer calls every model."""


def repaired(model: Any, where: str) -> Any:
    """A model that MDF's importer wrote, as if it was converted; any other model as it is.  The one given is not changed.

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
    graphs = list(model.graphs)
    for k, graph in enumerate(graphs):
        if _is_imported(graph):
            with malformed("this model cannot be read", (where, graph.id)):
                graphs[k] = _as_converted(copy.deepcopy(graph), _versions(model.onnx_opset_version), where)
    return Model(**{field.name: getattr(model, field.name) for field in attrs.fields(Model)} | {"graphs": graphs})


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


def _as_converted(graph: Any, versions: list[int], where: str) -> Any:
    """The graph as :func:`mdf_loop.convert` writes it, with ids that MDF's engine can read."""
    said = dict(graph.metadata or {})
    body = _read(graph, said, versions, where)
    read_names = {name for node in body.nodes for name in node.reads}
    outputs = tuple(name for node in body.nodes for name in node.outputs if name and name not in read_names)
    written = convert_body(replace(body, inputs=body.captures, captures=(), outputs=outputs)).graphs[0]
    written.metadata = {**said, **written.metadata, IMPORTED: True}
    return written


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


def only_graph(model: Any, use: str = "run") -> Any:
    """The graph of a model that has one; ``use`` is what can be done with one of several.

    Raises
    ------
    ArgumentError
    """
    if not model.graphs:
        raise ArgumentError(f"the model {model.id!r} has no graph")
    if len(model.graphs) > 1:
        names = ", ".join(repr(graph.id) for graph in model.graphs)
        raise ArgumentError(
            f"the model {model.id!r} has {len(model.graphs)} graphs ({names}); {use} one of them, such as load(path).graphs[0]"
        )
    return model.graphs[0]


PORTS = (("input_ports",), ("output_ports",))

UNUSABLE_SHAPE = "original_shape"
"""Where the metadata of a port keep a shape that MDF cannot use."""


def usable(shape: Any) -> bool:
    """Whether MDF can use a shape."""
    return isinstance(shape, list | tuple) and all(type(dim) is int and dim >= 0 for dim in shape)


def model_as_written(content: Any) -> Any:
    """What a file says as a model, but for shapes that MDF cannot use."""
    _repair_shapes(content)
    return Model.from_dict(content)


def _repair_shapes(content: Any) -> None:
    """Change shapes in what was read from a file, in place."""
    for place, ports in places_in(content, kinds=(dict, list)):
        if place[-1:] in PORTS and "metadata" not in place and isinstance(ports, dict):
            for port in ports.values():
                _repair_shape(port)


def _repair_shape(port: Any) -> None:
    """A shape that is null is none; one with names for dimensions, or that is another text, is kept in the metadata."""
    if not isinstance(port, dict) or "shape" not in port or usable(port["shape"]):
        return
    shape = _parsed(port.pop("shape"))
    if usable(shape):
        port["shape"] = shape
    elif shape is not None:
        port["metadata"] = {**(port.get("metadata") or {}), UNUSABLE_SHAPE: shape}


def _parsed(shape: Any) -> Any:
    """The shape that a text is: older versions of MDF wrote them as texts."""
    try:
        found = ast.literal_eval(shape) if isinstance(shape, str) else shape
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return shape
    found = (found,) if type(found) in (int, float) else found  # as MDF reads "2"
    is_listed = isinstance(found, tuple | list)
    return [int(n) if type(n) is float and n.is_integer() else n for n in found] if is_listed else found
