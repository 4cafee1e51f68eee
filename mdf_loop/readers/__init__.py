"""Readers: from a format to the IR.  Each ends in a checked :class:`~mdf_loop.ir.Body`.

:func:`read` finds the reader that takes a source.  A body may be

* equations: text such as ``"x: x + 1"``, or a mapping (:mod:`mdf_loop.readers.expressions.equations`)
* an ``onnx.GraphProto``, ``ModelProto`` or ``FunctionProto``
* ONNX text (the syntax of ``onnx.parser``), a graph or a whole model
* the path of an ``.onnx`` file
* an onnxscript function
* an MDF ``Graph``, or a dict that holds one: ``{"graph_<id>": ...}``
* a dict ``{"onnx": text}`` or ``{"onnx_file": path}``, with an optional ``"opset"``
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mdf_loop.errors import KindError, MalformedBody, did_you_mean, let_through, shortened
from mdf_loop.ir import Body
from mdf_loop.readers.arguments import warn_of_order
from mdf_loop.readers.expressions.equation_texts import meant_by_key
from mdf_loop.readers.expressions.equations import is_equations, read_equations
from mdf_loop.readers.expressions.other_notations import as_equation
from mdf_loop.readers.model_files import as_path
from mdf_loop.readers.onnx.onnx_text import read_text, refuse_opset

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
    if hasattr(source, "to_body"):
        body: Body = source.to_body()
        if kind == "loop":
            warn_of_order(body.name, body.inputs)
        return body
    if is_equations(source):
        return read_equations(source, kind)
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
        refuse_opset(source.get(OPSET), "an .onnx file")
        return read_file(source[ONNX_FILE])
    if isinstance(source, Mapping):
        _refuse_no_body(source)
    if isinstance(source, Mapping) or hasattr(source, "nodes"):
        from mdf_loop.readers.mdf.body import read_mdf_graph

        return read_mdf_graph(source, read, n_carried, kind)
    raise KindError(
        "a body is equations, an ONNX graph, model or function, ONNX text, the path of an .onnx file, a function of onnxscript "
        'or with @mdf_loop.body, an MDF graph, a dict {"onnx": text}, {"onnx_file": path} or {"graph_<id>": graph}, '
        f"or a Python callable; got {type(source).__name__}"
    )


def _refuse_no_body(source: Mapping[str, Any]) -> None:
    """See that a mapping is no equations whose keys were misspelt or forgotten.

    Raises
    ------
    MalformedBody
    """
    inner = [part for key, part in source.items() if isinstance(part, Mapping) and not str(key).startswith("graph_")]
    texts = [*source.values(), *(text for part in inner[: len(source) == 1] for text in part.values())]
    if "nodes" not in source and any(isinstance(text, str | bool | int | float) for text in texts):
        hints = (did_you_mean(key, (ONNX_TEXT, ONNX_FILE)) or meant_by_key(key, part) for key, part in source.items())
        meant = "".join(dict.fromkeys(hints))
        forms = "{carried: ...}, {derivatives: ...}, {onnx: text}, {onnx_file: name} or {graph_<id>: ...}"
        raise MalformedBody(f"a body is a mapping, {forms}; got {', '.join(map(repr, source))}{meant}")


def _refuse_other_keys(source: Mapping[str, Any], key: str) -> None:
    if left := sorted(str(k) for k in set(source) - {key, OPSET}):
        raise MalformedBody(f'a body {{"{key}": ...}} may also say "opset"; unknown: {", ".join(left)}')


def is_text(source: str) -> bool:
    """Whether a string is ONNX text rather than a path: no name of a file has braces, an arrow or a line break."""
    return is_equations(source) or "{" in source or "=>" in source or "\n" in source


def _read_string(source: str | os.PathLike) -> Body:
    """A path, or ONNX text."""
    if isinstance(source, str) and is_text(source):
        return read_text(source)
    path = as_path(source, "a body")
    if isinstance(source, os.PathLike) or path.suffix == ".onnx" or _is_file(path):
        return read_file(path)
    meant = as_equation(str(source)) or ", nor an equation such as x: x + 1"
    raise MalformedBody(f"{shortened(os.fspath(source), 60)!r} is neither ONNX text nor the path of an .onnx file{meant}")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError) as error:  # longer than a name can be, or with characters that no name has
        let_through(error)
        return False


def read_file(path: Any) -> Body:
    """An ``.onnx`` file as a body.

    Raises
    ------
    MalformedBody
        There is no such file, or it is not an ONNX model.
    KindError
        It is no path.
    """
    from mdf_loop.readers.onnx.file import load_onnx
    from mdf_loop.readers.onnx.graph import read_model

    return read_model(load_onnx(path))


def _read_proto(source: Any) -> Body:
    import onnx

    from mdf_loop.readers.onnx.graph import read_function, read_graph, read_model

    readers = {onnx.ModelProto: read_model, onnx.FunctionProto: read_function, onnx.GraphProto: read_graph}
    if (reader := readers.get(type(source))) is not None:
        return reader(source)
    raise KindError(f"a body is an ONNX graph, model or function; got {type(source).__name__}")


def _read_onnxscript(source: Any) -> Body:
    """An onnxscript function: as a model, which keeps the declared types and the functions it calls."""
    from mdf_loop.readers.onnx.graph import read_function, read_model

    try:
        model = source.to_model_proto()
    except Exception as error:  # without type annotations there is no model; the function itself says enough
        let_through(error)
        return read_function(source.to_function_proto())
    return read_model(model)
