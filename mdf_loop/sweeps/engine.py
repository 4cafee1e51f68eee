"""In which engine a sweep runs.

Engine ``auto`` changes over to machine code when that pays, which depends on the clock.  Where all engines give the same
bits that makes no difference.  Where they may differ in the last places, a sweep settles before its first run: for machine
code, where it can be had.
"""

from __future__ import annotations

from mdf_loop.models.model import Model
from mdf_loop.settings.engines import ENGINES, settled_engine
from mdf_loop.sweeps.sources import source_of


def engine_of(chosen: str, model: Model) -> str:
    """The engine in which all runs of a sweep run.

    Parameters
    ----------
    chosen : str
        The one that ``options()`` says.
    model : Model
    """
    if not ENGINES[chosen].compiles_what_pays or _is_the_same_in_all(model):
        return chosen
    return settled_engine(compiles=True)


def _is_the_same_in_all(model: Model) -> bool:
    """Whether a model gives the same bits in all engines."""
    source = source_of(model)
    return source is not None and source.is_exact
