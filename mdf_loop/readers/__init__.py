"""Readers: from a format to the IR.  Each ends in a checked :class:`~mdf_loop.ir.Body`.

:func:`read` finds the reader that takes a source.  A body may be

* an ``onnx.GraphProto``, ``ModelProto`` or ``FunctionProto``
* ONNX text (the syntax of ``onnx.parser``), a graph or a whole model
* the path of an ``.onnx`` file
* an onnxscript function
* an MDF ``Graph``, or a dict that holds one: ``{"graph_<id>": ...}``
* a dict ``{"onnx": text}`` or ``{"onnx_file": path}``, with an optional ``"opset"``
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mdf_loop.errors import KindError, MalformedBody
from mdf_loop.ir import Body

ONNX_TEXT, ONNX_FILE, OPSET = "onnx", "onnx_file", "opset"


def read(source: Any, n_carried: int | None = None, kind: str = "loop") -> Body:
    """Read a body from any of the forms above.

    Parameters
    ----------
    source : object
        The body.
    n_carried : int, optional
        How many values are carried; helps to infer the signature of an MDF graph that does not say it.
    kind : {"loop", "scan", "branch"}
        What the body is for, likewise.

    Returns
    -------
    Body

    Raises
    ------
    MalformedBody
        The source is broken; says what and where.
    KindError
        It is none of the forms above.
    """
    if isinstance(source, Body):
        return source
    if isinstance(source, str | os.PathLike):
        return _read_string(source)
    if hasattr(source, "SerializeToString"):
        return _read_proto(source)
    if hasattr(source, "to_function_proto"):
        return _read_onnxscript(source)
    if isinstance(source, Mapping) and ONNX_TEXT in source:
        _refuse_other_keys(source, ONNX_TEXT)
        return read_text(source[ONNX_TEXT], source.get(OPSET))
    if isinstance(source, Mapping) and ONNX_FILE in source:
        _refuse_other_keys(source, ONNX_FILE)
        _refuse_opset(source, "an .onnx file")
        return read_file(source[ONNX_FILE])
    if isinstance(source, Mapping) or hasattr(source, "nodes"):
        from mdf_loop.readers.mdf_body import read_mdf_graph

        return read_mdf_graph(source, n_carried, kind)
    raise KindError(
        "a body is an ONNX graph, model or function, ONNX text, the path of an .onnx file, an onnxscript function, an MDF "
        f'graph, a dict {{"onnx": text}}, {{"onnx_file": path}} or {{"graph_<id>": graph}}, or a Python callable; '
        f"got {type(source).__name__}"
    )


def _refuse_other_keys(source: Mapping[str, Any], key: str) -> None:
    if left := sorted(str(k) for k in set(source) - {key, OPSET}):
        raise MalformedBody(f'a body {{"{key}": ...}} may also say "opset"; unknown: {", ".join(left)}')


def _refuse_opset(source: Mapping[str, Any], what: str) -> None:
    if source.get(OPSET) is not None:
        raise MalformedBody(f'{what} states its own opset; leave out "opset": {source[OPSET]!r}')


def _read_string(source: str | os.PathLike) -> Body:
    """A path, or ONNX text: text has braces, an arrow or a line break, the name of a file has none."""
    if isinstance(source, str) and ("{" in source or "=>" in source or "\n" in source):
        return read_text(source)
    if isinstance(source, os.PathLike) or Path(source).suffix == ".onnx" or Path(source).is_file():
        return read_file(source)
    raise MalformedBody(f"{_shorten(source)!r} is neither ONNX text nor the path of an .onnx file")


def read_text(text: Any, opset: int | None = None) -> Body:
    """ONNX text as a body: a graph, or a model that states its own opset.

    Raises
    ------
    MalformedBody
        The text does not parse; the message has onnx's line and column.
    """
    from onnx import parser

    from mdf_loop.readers.onnx_graph import read_graph, read_model
    from mdf_loop.schemas import LARGEST_VERSION

    if not isinstance(text, str):
        raise KindError(f"the text of an ONNX body must be a string; got {type(text).__name__}")
    if opset is not None and (not isinstance(opset, int) or isinstance(opset, bool) or not 1 <= opset <= LARGEST_VERSION):
        raise KindError(f"the opset of a body must be a whole number from 1 on; got {opset!r}")
    _refuse_deep(text)
    is_model = text.lstrip().startswith("<")
    if is_model:
        _refuse_opset({OPSET: opset}, "the text of a whole ONNX model")
    try:
        proto = parser.parse_model(text) if is_model else parser.parse_graph(text)
    except Exception as error:  # ParseError, or protobuf's own for what is nested too deep
        raise MalformedBody(f"ONNX text does not parse: {_message(error)}") from error
    return read_model(proto) if is_model else read_graph(proto, {"": opset} if opset else None)


DEEPEST = 200
"""Brackets of ONNX text may be nested so deep: protobuf reads half of it, and onnx's parser ends the process at some 4,000."""

_BRACKET = re.compile(r'"(?:\\.|[^"\\])*"|[(\[{]|[)\]}]')


def _refuse_deep(text: str) -> None:
    depth = 0
    for found in _BRACKET.finditer(text):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(found.group(), 0)
        if depth > DEEPEST:
            raise MalformedBody(f"ONNX text does not parse: its brackets are nested more than {DEEPEST} deep")


def _message(error: Exception) -> str:
    """What an error says; onnx's messages arrive as bytes, over several lines."""
    raw = error.args[0] if error.args else ""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(error)
    return " ".join(text.split())


def read_file(path: Any) -> Body:
    """An ``.onnx`` file as a body.

    Raises
    ------
    MalformedBody
        There is no such file, or it is not an ONNX model.
    """
    from mdf_loop.readers.onnx_graph import read_model

    return read_model(load_onnx(path))


def load_onnx(path: Any) -> Any:
    """The ``onnx.ModelProto`` in an ``.onnx`` file.

    Raises
    ------
    MalformedBody
        There is no such file, or it is not an ONNX model.
    """
    import onnx

    path = Path(path)
    if path.suffix.lower() in (".yaml", ".yml", ".json") and path.is_file():
        raise MalformedBody(
            f"{os.fspath(path)!r} is no ONNX file; if it is an MDF model, mdf_loop.run runs it and mdf_loop.to_onnx converts it"
        )
    try:
        model = onnx.load(path)
    except FileNotFoundError as error:
        raise MalformedBody(f"there is no file {os.fspath(path)!r}") from error
    except Exception as error:
        raise MalformedBody(f"{os.fspath(path)!r} is not an ONNX model: {_message(error)}") from error
    if not model.graph.output and not model.graph.node:
        raise MalformedBody(f"{os.fspath(path)!r} holds no graph")
    return model


def _read_proto(source: Any) -> Body:
    import onnx

    from mdf_loop.readers.onnx_graph import read_function, read_graph, read_model

    if isinstance(source, onnx.ModelProto):
        return read_model(source)
    if isinstance(source, onnx.FunctionProto):
        return read_function(source)
    if isinstance(source, onnx.GraphProto):
        return read_graph(source)
    raise KindError(f"a body is an ONNX graph, model or function; got {type(source).__name__}")


def _read_onnxscript(source: Any) -> Body:
    """An onnxscript function: as a model, which keeps the declared types and the functions it calls."""
    from mdf_loop.readers.onnx_graph import read_function, read_model

    try:
        model = source.to_model_proto()
    except Exception:  # without type annotations there is no model; the function itself says enough
        return read_function(source.to_function_proto())
    return read_model(model)


def _shorten(text: Any) -> str:
    text = os.fspath(text)
    return text if len(text) <= 60 else text[:57] + "..."
