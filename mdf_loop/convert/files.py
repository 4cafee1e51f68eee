"""Reading MDF model files: JSON and YAML, mended where MDF's importers wrote them wrongly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mdf_loop.convert.mend import mend
from mdf_loop.errors import MalformedBody

SUFFIXES = (".json", ".yaml", ".yml")


def load(path: str | os.PathLike) -> Any:
    """Read an MDF model file.

    What MDF's own importers write wrongly is mended (see :mod:`mdf_loop.convert.mend`), and ``onnx_file``
    paths of bodies, which are relative to the model file, are made absolute.

    Parameters
    ----------
    path : str or path-like
        A ``.json``, ``.yaml`` or ``.yml`` file.

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
    >>> mdf_loop.load("examples/newton.json").id
    'newton'
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise MalformedBody(
            f"{os.fspath(path)!r}: an MDF model is a file of type {', '.join(SUFFIXES)}; "
            "an .onnx file is run by mdf_loop.run or mdf_loop.backend"
        )
    model = _read(path)
    for graph in model.graphs:
        for node in graph.nodes:
            for holder in (*node.parameters, *node.functions):
                _absolute(holder, path.resolve().parent)
    return mend(model, os.fspath(path))


def _read(path: Path) -> Any:
    from modeci_mdf.mdf import Model

    try:
        return Model.from_file(os.fspath(path))
    except FileNotFoundError as error:
        raise MalformedBody(f"there is no file {os.fspath(path)!r}") from error
    except Exception as error:
        raise MalformedBody(
            f"{os.fspath(path)!r} is not an MDF model: {' '.join(str(error).split()) or type(error).__name__}"
        ) from error


def _absolute(holder: Any, folder: Path) -> None:
    """Make the ``onnx_file`` paths in a parameter's value or arguments absolute."""
    for body in _bodies(holder):
        if isinstance(body.get("onnx_file"), str):
            body["onnx_file"] = os.fspath(folder / body["onnx_file"])


def _bodies(holder: Any) -> Iterator[dict[str, Any]]:
    for value in (getattr(holder, "value", None), *(holder.args or {}).values()):
        if isinstance(value, dict):
            yield value
