"""OpenVINO models, run by the executor: ``prepare`` and ``run_model`` for .xml files, as :mod:`mdf_loop.backend` for ONNX.

>>> from mdf_loop.openvino import prepare
>>> model = prepare("tests/models/ov_loop.xml")
>>> model.inputs, model.outputs
(('X', 'S'), ('Result_22', 'Result_23', 'Result_24'))

It is a room that may be taken out, see :mod:`mdf_loop.ops.rooms`: nothing outside of it imports it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mdf_loop.openvino.ir import read_openvino
    from mdf_loop.openvino.runner import OpenvinoRep, prepare, run_model

KERNELS = ("kernels",)
"""The modules that hold kernels."""

__all__ = ["OpenvinoRep", "prepare", "read_openvino", "run_model"]


def __getattr__(name: str) -> Any:
    """A public name, imported when it is asked for: who loads the kernels alone does not wait for the reader."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{'ir' if name == 'read_openvino' else 'runner'}"), name)
