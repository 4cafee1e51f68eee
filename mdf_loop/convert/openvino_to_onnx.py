"""OpenVINO models as ONNX: their Step in operators of ONNX, where the room that reads them is there."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from mdf_loop.convert.written_models import write_checked, written_as_onnx
from mdf_loop.errors import UnsupportedOp
from mdf_loop.ops.rooms import OPENVINO, enter

if TYPE_CHECKING:
    import onnx

FORMAT = 10
"""The version of the file format: others that read OpenVINO's models know it."""


def openvino_to_onnx(model: str | os.PathLike) -> onnx.ModelProto:
    """An OpenVINO model as an ONNX model that gives the same outputs.

    Parameters
    ----------
    model : str or path-like
        The path of an ``.xml`` file.

    Returns
    -------
    onnx.ModelProto
        With opset 21; inputs have the names of layers, outputs the names that :func:`mdf_loop.run` gives them.

    Raises
    ------
    MalformedBody
        A file is missing or broken.
    UnsupportedOp
        The model has variables, or an operation that ONNX has no operators for; names its layer.
    """
    read = enter(OPENVINO, "an OpenVINO model").read_openvino(model)
    body = read.body
    if read.variables:
        names = ", ".join(variable.id for variable in read.variables)
        raise UnsupportedOp(f"{body.name}: the model keeps values from run to run ({names}), which ONNX models cannot")
    lowered = written_as_onnx(body, {name: (None, body.type_of(name)) for name in body.inputs}, read.outputs)
    declared = zip(lowered.outputs, map(body.type_of, body.outputs), strict=True)
    types = {name: kind for name, kind in declared if kind.dtype is not None}
    return write_checked(replace(lowered, types={**lowered.types, **types}), FORMAT)
