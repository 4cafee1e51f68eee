"""ONNX's random operators in MDF's engine: they draw from the stream of the run, as in loops.

MDF hands each operator to onnxruntime, which begins again each time: every evaluation would draw the same numbers.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop.kernels import load_kernels
from mdf_loop.kernels.mdf.expression_operators import from_onnx, to_onnx
from mdf_loop.ops.registry import KERNELS, lookup
from mdf_loop.options import current_stream
from mdf_loop.readers.mdf.node_functions import is_no_seed
from mdf_loop.types.schemas import schema_of

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
    op, stream = _by_call().get(called), current_stream()
    seed = values.get("seed") if said.get("seed") is not None else None
    if op is None or stream is None or not (seed is None or is_no_seed(seed)):
        return None
    schema = schema_of(op, OPSET)
    assert schema is not None
    inputs = [to_onnx(np.asarray(values[formal.name])) for formal in schema.inputs if formal.name in said]
    given = [name for name in schema.attributes if name in said and name != "seed" and values.get(name) is not None]
    attributes = {name: _plain(values[name]) for name in given}
    return from_onnx(lookup(op, OPSET).run(*inputs, **attributes, rng=stream.shared()))


def said_of_seeds(graph: Any) -> str:
    """What is to be said of the seeds in a graph; an empty text if nothing is."""
    for node in graph.nodes:
        held = {parameter.id: parameter.value for parameter in node.parameters}
        for thing in (*node.functions, *node.parameters):
            name = thing.function if isinstance(thing.function, str) else ""
            seed = (thing.args or {}).get("seed", held.get("seed"))
            if name.removeprefix("onnx::").lower() in _by_call() and is_no_seed(
                held.get(seed, seed) if isinstance(seed, str) else seed
            ):
                return (
                    f"{node.id}/{thing.id}: seed -1 says that there is none, as PsyNeuLink writes it, and numbers are drawn "
                    "from the stream of the run; MDF's own engine takes -1 for a seed and draws the same number in every step"
                )
    return ""


@functools.cache
def _by_call() -> dict[str, str]:
    """The operators that only draw, by what MDF calls them."""
    load_kernels()
    drawing = (op for (domain, op), versions in KERNELS.items() if not domain and "rng" in _parameters(versions[-1].run))
    schemas = [(op, schema_of(op, OPSET)) for op in drawing]
    return {op.lower(): op for op, schema in schemas if schema is not None and schema.max_output == 1}


def _parameters(function: Any) -> Mapping[str, Any]:
    try:
        return inspect.signature(function).parameters
    except ValueError:  # a function of C
        return {}


def _plain(value: Any) -> Any:
    """An attribute as kernels take it."""
    array = np.asarray(value)
    return tuple(array.tolist()) if array.ndim else array.item()
