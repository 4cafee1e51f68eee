"""ONNX's random operators in MDF's engine: they draw from the stream of the run, as in loops.

MDF hands each operator to onnxruntime, which begins anew each time: every evaluation would draw the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop.kernels import load_kernels
from mdf_loop.kernels.mdf_onnx import from_onnx, to_onnx
from mdf_loop.ops.registry import lookup
from mdf_loop.options import current_stream
from mdf_loop.types.schemas import schema_of

OPERATORS = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")
"""Operators that draw."""

_BY_CALL = {op.lower(): op for op in OPERATORS}

OPSET = 15
"""The version of ONNX that MDF has them in."""


def drawn(called: str, said: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """What a random operator of a node draws from the stream of the run.

    Parameters
    ----------
    called : str
        As MDF calls it: its name in small letters.
    said : mapping
        What the node says that MDF looks for inputs and attributes in.
    values : mapping
        The values of all that.

    Returns
    -------
    array or None
        None where it is left to MDF: it is no such operator, has a seed of its own, or nothing runs.
    """
    op, stream = _BY_CALL.get(called), current_stream()
    if op is None or stream is None or said.get("seed") is not None:
        return None
    load_kernels()
    schema = schema_of(op, OPSET)
    assert schema is not None
    inputs = [to_onnx(np.asarray(values[formal.name])) for formal in schema.inputs if formal.name in said]
    attributes = {name: _plain(values[name]) for name in schema.attributes if name in said and values.get(name) is not None}
    return from_onnx(lookup(op, OPSET).run(*inputs, **attributes, rng=stream.shared()))


def _plain(value: Any) -> Any:
    """An attribute as kernels take it."""
    array = np.asarray(value)
    return tuple(array.tolist()) if array.ndim else array.item()
