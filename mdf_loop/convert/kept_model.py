"""An MDF model inside the ONNX file that it was written to, so that it comes back with its equations, parameters and nodes.

ONNX has operators alone.  What an author wrote is kept in the metadata of the file.  It counts if it becomes the
graph of the file again: a file whose graph was changed since, by any tool, is converted node by node.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import onnx

from mdf_loop.convert.file_text import parse
from mdf_loop.convert.repair.imported_models import repaired
from mdf_loop.convert.repair.port_shapes import model_as_written
from mdf_loop.errors import LoopError
from mdf_loop.readers.mdf.file_structure import check_model

log = logging.getLogger(__name__)

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


def kept(model: onnx.ModelProto) -> Any:
    """The MDF model that an ONNX model was written from; None if it keeps none, or is no longer what that became."""
    from mdf_loop.convert.mdf_to_onnx import to_onnx

    text = next((prop.value for prop in model.metadata_props if prop.key == SOURCE), "")
    if not 0 < len(text) <= LONGEST:
        return None
    try:
        content = parse(text, ".json")
        check_model(content)
        if next(files_in(content), None) is not None:
            return None
        written = repaired(model_as_written(content), SOURCE)
        return written if to_onnx(written).graph == model.graph else None
    except (ValueError, LoopError) as error:  # another program may have written anything there
        log.info("%s in the metadata is not the MDF model that was kept: %s", SOURCE, error)
        return None


def files_in(content: Any) -> Iterator[str]:
    """The names of other files in a model: weights, and bodies of loops."""
    todo = [content]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            yield from (value[key] for key in ("npz", "onnx_file") if isinstance(value.get(key), str))
        todo += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
