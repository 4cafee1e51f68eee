"""In which engine a sweep runs.

Engine ``auto`` changes over to machine code when that pays, which depends on the clock.  Where all engines give the same
bits that is nobody's business.  Where they may differ in the last places, a sweep settles before its first run: for machine
code, where it can be had.
"""

from __future__ import annotations

from mdf_loop.engines import ENGINES, settled_engine
from mdf_loop.models.mdf import MdfModel
from mdf_loop.models.model import Model
from mdf_loop.models.recorded_names import body_of
from mdf_loop.sweeps.exact import NotBatched, adds_terms_up, refuse_inexact


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
    """Whether the loops of a model give the same bits in all engines."""
    direct = model.direct if isinstance(model, MdfModel) else None
    if direct is None or any(node.has_branches for node in direct.nodes):
        return False
    try:
        for loop in (loop for node in direct.nodes for loop in node.loops.values()):
            body = body_of(loop)
            refuse_inexact(body)
            if adds_terms_up(body):
                return False
    except NotBatched:
        return False
    return True
