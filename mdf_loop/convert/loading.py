"""Reading model files: JSON and YAML, repaired where MDF's importers wrote them wrongly; ONNX converted."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mdf_loop.convert.file_text import decoded, line_of, parse, places_in
from mdf_loop.convert.imported_models import model_as_written, repaired
from mdf_loop.convert.onnx_to_mdf import onnx_model, written_in_mdf
from mdf_loop.convert.weights import SUFFIXES, read_weights
from mdf_loop.errors import LoopError, MalformedBody, let_through, warn_user
from mdf_loop.options import public
from mdf_loop.readers.mdf.file_structure import Misplaced, check_model
from mdf_loop.readers.model_files import as_path, inside, read_bytes

WHAT = "an MDF model"

log = logging.getLogger("mdf_loop.writers.atomic_files")


@public
def load(path: str | os.PathLike) -> Any:
    """Read an MDF model file, or an ONNX or OpenVINO one as an MDF model.

    A model that MDF's ONNX importer wrote is an ONNX graph (see :mod:`mdf_loop.convert.imported_models`).  ``onnx_file``
    paths of bodies, which are relative to the model file, become absolute, and separate files of weights are read.  Both must
    be in the folder of the model, unless ``options(trusted=True)`` is set.

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
    for place, value in places_in(content):
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
