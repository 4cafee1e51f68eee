"""How the loops of a model run: the model is run once, and the loops that it ran are asked."""

from __future__ import annotations

from typing import Any

from mdf_loop.execute.numpy_engine import watched_loops
from mdf_loop.explain import explained
from mdf_loop.integrations.running import run


def explain_model(model: Any, source: bool = False, **inputs: Any) -> list[str]:
    """The plan of each loop that a model runs, in words.

    Parameters
    ----------
    model
        As :func:`mdf_loop.run` takes it.
    source : bool
        Show the Python that was emitted for recurrences as well.
    **inputs : array_like
        As :func:`mdf_loop.run` takes them.

    Returns
    -------
    list of str
        One text for each loop, without those inside another one: the outer one tells of them.

    Raises
    ------
    LoopError
        The model cannot be run.
    """
    with watched_loops() as loops:
        run(model, **inputs)
    inner = [loop for outer in loops for loop in outer.inner_loops()]
    return [explained(loop, source) for loop in loops if loop not in inner]
