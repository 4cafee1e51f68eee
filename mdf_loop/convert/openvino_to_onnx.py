"""OpenVINO models as ONNX, where the room that reads them is there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mdf_loop.ops.rooms import OPENVINO, enter

if TYPE_CHECKING:
    import onnx


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
    written: onnx.ModelProto = enter(OPENVINO, "an OpenVINO model").openvino_to_onnx(model)
    return written
