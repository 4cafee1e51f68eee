"""Reading model files: JSON and YAML, mended where MDF's importers wrote them wrongly; ONNX converted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mdf_loop.convert.mend import mend
from mdf_loop.convert.onnx_to_mdf import convert
from mdf_loop.convert.shapes import mend_written_shapes
from mdf_loop.convert.weights import SUFFIXES, read_weights
from mdf_loop.errors import MalformedBody

MOST_VALUES = 10_000_000
"""A file may hold so many values, with each one counted that an alias (``*name``) of YAML repeats."""


def load(path: str | os.PathLike) -> Any:
    """Read an MDF model file, or an ONNX or OpenVINO one as an MDF model.

    What MDF's own importers write wrongly is mended (see :mod:`mdf_loop.convert.mend`).  ``onnx_file`` paths of bodies,
    which are relative to the model file, are made absolute, and weights that lie beside it are read.

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
        There is no such file, it is not MDF, or information that a Loop needs was lost when it was written.

    Examples
    --------
    >>> import mdf_loop
    >>> model = mdf_loop.load("examples/newton.yaml")
    >>> [node.id for node in model.graphs[0].nodes]
    ['square_root']
    """
    path = Path(path)
    if path.suffix.lower() in (".onnx", ".xml"):
        return convert(path)
    if path.suffix.lower() not in SUFFIXES:
        raise MalformedBody(
            f"{os.fspath(path)!r}: an MDF model is a file of type {', '.join(SUFFIXES)}; .onnx and .xml are read as well"
        )
    try:
        content = _content(path)
        for body in _onnx_files(content):
            body["onnx_file"] = os.fspath(path.resolve().parent / body["onnx_file"])
        _read_weights(content, path)
        mend_written_shapes(content)
        model = _model(content)
    except FileNotFoundError as error:
        raise MalformedBody(f"there is no file {os.fspath(path)!r}") from error
    except MalformedBody:
        raise
    except Exception as error:
        raise MalformedBody(f"{os.fspath(path)!r} is not an MDF model: {_message(error)}") from error
    return mend(model, os.fspath(path))


def _read_weights(content: Any, path: Path) -> None:
    """The weights beside a model: what is wrong with them is not wrong with the model."""
    try:
        read_weights(content, path.parent)
    except ValueError as error:
        raise MalformedBody(f"{os.fspath(path)!r}: {error}") from error


def _content(path: Path) -> Any:
    """What a file says, in dicts and lists.

    Only plain data are read: YAML's tags for Python objects are refused.
    """
    import yaml

    text = path.read_text(encoding="utf-8-sig")
    if path.suffix.lower() == ".json":
        return json.loads(text)
    content = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    if _size(content, {}) > MOST_VALUES:
        raise ValueError(f"its aliases repeat more than {MOST_VALUES} values")
    return content


def _size(content: Any, known: dict[int, int]) -> int:
    """How many values there are, with repeated ones counted each time."""
    if not isinstance(content, dict | list):
        return 1
    place = id(content)
    if place not in known:
        known[place] = MOST_VALUES + 1  # found again below itself, it has no end
        known[place] = 1 + sum(_size(item, known) for item in (content.values() if isinstance(content, dict) else content))
    return known[place]


def _model(content: Any) -> Any:
    from modeci_mdf.mdf import Model

    if not isinstance(content, dict) or not content:
        raise ValueError("a model is a dict: its id, and what it holds")
    if "id" not in content and len(content) > 1:
        raise ValueError(f"a file holds one model, this one {len(content)}: {', '.join(map(str, content))}")
    return Model.from_dict(content)


def _onnx_files(content: Any) -> Iterator[dict[str, Any]]:
    """The bodies that are files: values and arguments, in bodies that are graphs too."""
    if isinstance(content, list):
        for item in content:
            yield from _onnx_files(item)
    elif isinstance(content, dict):
        for key, inner in content.items():
            values = inner.values() if key == "args" and isinstance(inner, dict) else [inner] if key == "value" else []
            yield from (value for value in values if isinstance(value, dict) and isinstance(value.get("onnx_file"), str))
            yield from _onnx_files(inner)


def _message(error: Exception) -> str:
    """What is wrong; where structures are nested, the innermost reason."""
    while (inner := getattr(error, "exceptions", None)) is not None and inner:
        error = inner[0]
    return " ".join(str(error).split()) or type(error).__name__
