"""How the loops of a model run: the model is run once, and the loops that it ran are asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mdf_loop.convert.files import load
from mdf_loop.convert.onnx_to_mdf import convert
from mdf_loop.errors import LoopError
from mdf_loop.execute.numpy_engine import NumpyLoop, watched_loops
from mdf_loop.explain import explained, plan_content
from mdf_loop.integrations.running import run
from mdf_loop.integrations.verifying import drawn, needed

SEED = 0
"""Of the values that are drawn for inputs that are not given."""


def explain_model(model: Any, source: bool = False, **inputs: Any) -> list[str]:
    """The plan of each loop that a model runs, in words.

    Parameters
    ----------
    model
        As :func:`mdf_loop.run` takes it.
    source : bool
        Show the Python that was emitted for recurrences as well.
    **inputs : array_like
        As :func:`mdf_loop.run` takes them, ``steps`` and ``time_increment`` among them.  Those that the model needs and
        that are not given are drawn by their declared types, as ``mdf-loop verify`` draws them.

    Returns
    -------
    list of str
        One text for each loop, without those inside another one: the outer one tells of them.

    Raises
    ------
    LoopError
        The model cannot be run.
    """
    return [explained(loop, source) for loop in loops_of(model, **inputs)]


def plans_of(model: Any, **inputs: Any) -> list[dict[str, Any]]:
    """The same for programs: what :func:`mdf_loop.explain.plan_content` says of each loop."""
    return [plan_content(loop) for loop in loops_of(model, **inputs)]


def loops_of(model: Any, **inputs: Any) -> list[NumpyLoop]:
    """The loops that a model runs, without those inside another one; see :func:`explain_model`."""
    with watched_loops() as loops:
        run(model, **{**_missing(model, inputs), **inputs})
    inner = [loop for outer in loops for loop in outer.inner_loops()]
    return [loop for loop in loops if loop not in inner]


def _missing(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Values for the inputs that a model needs and that are not given."""
    try:
        if isinstance(model, str | os.PathLike):
            model = load(Path(model))
        elif hasattr(model, "SerializeToString"):
            model = convert(model)
        return drawn(needed(model), SEED, set(inputs))
    except LoopError:  # said with all its circumstances when the model runs
        return {}
