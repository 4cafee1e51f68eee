"""An MDF model inside the ONNX file that it was written to, so that it comes back with its equations, parameters and nodes.

ONNX has operators alone.  What an author wrote is kept in the metadata of the file, which
:mod:`mdf_loop.convert.converting` reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import onnx

SOURCE = "mdf_loop.source"
"""The key of ``metadata_props`` that has the model as JSON."""

LONGEST = 1 << 18
"""Letters of a model up to which it is kept: larger ones are weights, which the graph has."""


def keep(written: onnx.ModelProto, content: Any) -> None:
    """Keep what an MDF file says in the ONNX model that it became, if it is small, plain and needs no other files."""
    try:
        text = json.dumps(content, ensure_ascii=False)
    except (TypeError, ValueError):  # dates and such, which are YAML's alone
        return
    if len(text) <= LONGEST and next(files_in(content), None) is None:
        written.metadata_props.add(key=SOURCE, value=text)


def files_in(content: Any) -> Iterator[str]:
    """The names of other files in a model: weights, and bodies of loops."""
    todo = [content]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            yield from (value[key] for key in ("npz", "onnx_file") if isinstance(value.get(key), str))
        todo += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
