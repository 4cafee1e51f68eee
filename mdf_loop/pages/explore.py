"""``explore``: a model with sliders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdf_loop.options import public
from mdf_loop.settings.random_streams import Seed


@public
def explore(
    model: Any,
    /,
    *names: str,
    trials: int | None = None,
    record: str | Sequence[str] | None = None,
    steps: int | None = None,
    seed: Seed | None = 0,
    **over: Any,
) -> Any:
    """Show a model with sliders: a run is drawn again while one moves.

    Parameters
    ----------
    model : as :func:`mdf_loop.run` takes it
    *names : str
        The outputs or recorded values that are drawn; without names all that can be drawn, as :func:`mdf_loop.plot` does it.
    trials, record, steps
        As :func:`mdf_loop.run` takes them.
    seed : int, numpy.random.SeedSequence or None
        Of each run: the same noise for all places of a slider.  None draws others each time.
    **over : (low, high) or array_like
        A tuple of two numbers is the range of a slider; anything else is a value that all runs are given.  Without a range
        there is a slider for each number with a default, from a tenth to twice of it.

    Returns
    -------
    Explorer
        A notebook shows it; ``show()`` serves it to the browser.

    Raises
    ------
    ArgumentError, KindError
        There is no such input, a range is none, or there is nothing that could move.
    LoopError
        The first run fails, or panel or matplotlib is not installed.

    Examples
    --------
    >>> import mdf_loop
    >>> mdf_loop.explore("examples/drift_diffusion.yaml", drift=(0, 2), bound=(0.5, 2), trials=100)     # doctest: +SKIP
    """
    from mdf_loop.pages.explorer import explorer_of

    how = {"trials": trials, "record": record, "steps": steps, "seed": seed}
    return explorer_of(model, names, over, {name: value for name, value in how.items() if value is not None})
