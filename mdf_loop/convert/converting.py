"""``convert``: ONNX models as MDF models, as they were written where the file keeps that, and else node by node."""

from __future__ import annotations

import logging
import math
import os
from pathlib import Path
from typing import Any

import onnx

from mdf_loop.convert.file_text import model_text, parse, places_in
from mdf_loop.convert.loading import model_as_written, read_content, repaired
from mdf_loop.convert.mdf_to_onnx import LONGEST, SOURCE, files_in, to_onnx
from mdf_loop.convert.onnx_to_mdf import FORMS, onnx_model, written_in_mdf
from mdf_loop.convert.weights import save
from mdf_loop.errors import ArgumentError, LoopError, MalformedBody
from mdf_loop.options import public
from mdf_loop.readers.mdf.file_structure import check_model
from mdf_loop.readers.mdf.stepped_loops import has_stepped_loops
from mdf_loop.readers.mdf.typed import has_conditions
from mdf_loop.writers.atomic_files import replacing

log = logging.getLogger(__name__)


@public
def convert(model: Any, path: str | os.PathLike | None = None, *, body: str | None = None, inline: int = 1024) -> Any:
    """Convert an ONNX model, or an OpenVINO model, to an MDF model that gives the same outputs.

    Parameters
    ----------
    model : onnx.ModelProto, str or path-like
        A model, or the path of an ``.onnx`` file, or of the ``.xml`` file of an OpenVINO model.
    path : str or path-like, optional
        Write the MDF model to this ``.json``, ``.yaml`` or ``.yml`` file as well.
    body : {None, "mdf", "onnx"}
        Whether the bodies of loops and the branches of an If become MDF graphs, or ONNX text.  The default gives back the MDF
        model that :func:`mdf_loop.to_onnx` wrote the file from, with its equations, if the file keeps it; else MDF graphs.
    inline : int
        Weights with more elements than this go to a ``.npz`` file in the same folder, which never replaces another file.

    Returns
    -------
    modeci_mdf.mdf.Model

    Raises
    ------
    MalformedBody, UnsupportedOp
        The model is broken, or contains something that MDF cannot hold.
    ArgumentError
        ``body`` is unknown, or the file name has another ending.
    FileError
        A file cannot be written.  An existing file is unchanged.

    Notes
    -----
    The model runs in MDF's engine after ``import mdf_loop``, and in :func:`mdf_loop.run`, with the ONNX names of inputs and
    outputs.  Functions of the model are inlined.

    Examples
    --------
    >>> import mdf_loop, onnx.parser
    >>> text = '<ir_version: 9, opset_import: ["": 20]> double (float[2] x) => (float[2] body) { body = Add(x, x) }'
    >>> model = mdf_loop.convert(onnx.parser.parse_model(text))
    >>> model.graphs[0].nodes[0].id, model.graphs[0].metadata["outputs"], model.graphs[0].metadata["names"]
    ('Add', ['body_2'], {'body_2': 'body'})
    >>> mdf_loop.run(model, x=[1.0, 2.0])["body"]
    array([2., 4.], dtype=float32)
    """
    if body not in (None, *FORMS):
        raise ArgumentError(f"body must be one of {', '.join(FORMS)}; got {body!r}")
    source = onnx_model(model)
    converted = (kept(source) if body is None else None) or written_in_mdf(source, body or "mdf")
    if path is not None:
        save(converted, Path(path), inline)
    return converted


def kept(model: onnx.ModelProto) -> Any:
    """The MDF model that an ONNX model was written from; None if it keeps none, or is no longer what that became.

    The graph of the file counts: what is kept has to become that graph again.
    """
    text = next((prop.value for prop in model.metadata_props if prop.key == SOURCE), "")
    if not 0 < len(text) <= LONGEST:
        return None
    try:
        content = parse(text, ".json")
        check_model(content)
        if next(files_in(content), None) is not None:
            return None
        written = repaired(model_as_written(content), SOURCE)
        if any(has_conditions(graph) or has_stepped_loops(graph) for graph in written.graphs):
            return None  # becoming ONNX it would run passes, for which converting a file is no reason
        return written if to_onnx(written).graph == model.graph else None
    except (ValueError, LoopError) as error:  # another program may have written anything there
        log.info("%s in the metadata is not the MDF model that was kept: %s", SOURCE, error)
        return None


def rewrite(source: Path, target: Path) -> None:
    """Write an MDF model file in the notation that the name of the target asks for.

    Nothing of it is changed or repaired; comments of YAML are left out, which JSON does not have.

    Parameters
    ----------
    source, target : Path
        Files of type .json, .yaml or .yml.

    Raises
    ------
    MalformedBody
        The source is no MDF model; it says what the other notation cannot; or it names files beside it, and the target
        is in another folder.
    FileError
        The target cannot be written; what was there is unchanged.
    """
    content = read_content(source)
    beside = sorted(set(files_in(content)))
    if beside and source.resolve().parent != target.resolve().parent:
        raise MalformedBody(
            f"{os.fspath(source)!r} names files beside it ({', '.join(beside)}), so {os.fspath(target)!r} must lie in the same "
            "folder"
        )
    _refuse_foreign(content, source)
    written = model_text(content, target.suffix.lower()).encode()
    with replacing(target) as file:
        file.write(written)


def _refuse_foreign(content: Any, source: Path) -> None:
    for _, value in places_in(content):
        if isinstance(value, float) and not math.isfinite(value):
            continue  # both notations, as Python reads them, have words for these
        if not isinstance(value, dict | list | str | int | float | bool | None):
            raise MalformedBody(
                f"{os.fspath(source)!r} contains {value!r} ({type(value).__name__}), which JSON cannot hold; put it in quotes"
            )
