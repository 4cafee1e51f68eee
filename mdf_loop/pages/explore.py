"""``explore``: a model with sliders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mdf_loop.errors import KindError
from mdf_loop.options import public
from mdf_loop.readers.arguments import names_in
from mdf_loop.settings.random_streams import Seed


@public
def explore(
    model: Any,
    /,
    *names: str,
    trials: int | None = None,
    record: str | Sequence[str] | None = None,
    steps: int | None = None,
    time_increment: float | None = None,
    seed: Seed | None = 0,
    **over: Any,
) -> Any:
    """Show a model with sliders.  When a slider moves, the model runs again and the picture changes.

    Parameters
    ----------
    model : as in :func:`mdf_loop.run`
    *names : str
        What to draw, as :func:`mdf_loop.plot` takes it.  The default is all that it can draw.
    trials, record, steps, time_increment
        As in :func:`mdf_loop.run`.  With steps, outputs of every step are drawn unless values are recorded.
    seed : int, numpy.random.SeedSequence or None
        The seed of all runs, so that the noise does not change when a slider moves.  None draws new noise each time.
    **over : (low, high) or array_like
        A tuple of two numbers is the range of a slider; anything else is an input of all runs.  Without a range there is a
        slider for each number with a default, from a tenth of it to twice of it.

    Returns
    -------
    Explorer
        A notebook shows it; ``show()`` serves it to the browser.

    Raises
    ------
    ArgumentError, KindError
        An input does not exist, a range is wrong, or the model has no number for a slider.
    LoopError
        The first run fails, or panel or matplotlib is not installed.

    Examples
    --------
    >>> import mdf_loop
    >>> mdf_loop.explore("examples/drift_diffusion.yaml", drift=(0, 2), bound=(0.5, 2), trials=100)     # doctest: +SKIP
    """
    from mdf_loop.pages.explorer import explorer_of

    if wrong := [name for name in names if not isinstance(name, str)]:
        meant = names_in(wrong[0], "{}=(low, high)")
        raise KindError(f"explore takes names of what to draw; got {type(wrong[0]).__name__}; ranges are given by name: {meant}")
    how = {"trials": trials, "record": record, "steps": steps, "time_increment": time_increment, "seed": seed}
    return explorer_of(model, names, over, with_steps({name: value for name, value in how.items() if value is not None}))


def with_steps(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a run whose results are drawn: the last of several steps alone would be no picture."""
    return {"collect": True, **arguments} if "steps" in arguments and "record" not in arguments else {**arguments}
