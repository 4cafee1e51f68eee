"""In which engine a sweep runs.

Engine ``auto`` changes over to machine code when that pays, which depends on the clock.  Where all engines give the same
bits that makes no difference.  Where they may differ in the last places, a sweep settles before its first run: for machine
code, where it can be had.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdf_loop.errors import let_through
from mdf_loop.models.model import Model
from mdf_loop.settings.engines import ENGINES, settled_engine
from mdf_loop.sweeps.sources import source_of


def engine_of(chosen: str, model: Model, inputs: Mapping[str, Any]) -> str:
    """The engine in which all runs of a sweep run.

    Parameters
    ----------
    chosen : str
        The one that ``options()`` says.
    model : Model
    inputs : mapping
        What one of the runs is given.
    """
    if not ENGINES[chosen].compiles_what_pays or _is_the_same_in_all(model, inputs):
        return chosen
    return settled_engine(compiles=True)


def _is_the_same_in_all(model: Model, inputs: Mapping[str, Any]) -> bool:
    """Whether a model gives the same bits in all engines."""
    source = source_of(model)
    if source is None:
        return False
    try:
        return source.is_exact(inputs)
    except Exception as error:  # each run alone says what is wrong
        let_through(error)
        return False
