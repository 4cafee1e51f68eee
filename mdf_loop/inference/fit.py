"""``fit``: parameters of a model from data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mdf_loop.options import public
from mdf_loop.settings.random_streams import Seed


@public
def fit(
    model: Any,
    /,
    data: Mapping[str, Any] | None = None,
    over: Mapping[str, tuple[float, float]] | None = None,
    loss: str | Callable[..., float] | None = None,
    *,
    trials: int = 2000,
    seed: Seed | None = None,
    progress: bool | Callable[[int, int], Any] | None = None,
    **inputs: Any,
) -> Any:
    """Find the parameters of a model for which its outputs are closest to the data.

    All candidates have the same noise.  scipy's differential evolution searches within the bounds, with a third of the trials
    where distributions are compared; there, least squares improve the best candidate.  Then Nelder-Mead searches near it.

    Parameters
    ----------
    model : as in :func:`mdf_loop.run`
    data : mapping of str to array_like
        Observations for outputs of the model: one number for each observed trial, with any number of trials; or a value with
        the shape of one run, such as a time course.
    over : mapping of str to (low, high)
        The free parameters, and their bounds.
    loss : callable or str, optional
        A function ``loss(simulated, data)`` of two mappings of outputs to arrays, where the first axis of ``simulated`` is
        trials; or the name of an output of the model that is a negative log likelihood.  The default is a distance of
        distributions: outputs with few values, or with clear gaps between their values, are choices.  For each combination of
        choices it compares their share of the trials, and for each other output the means of five parts of its sorted values
        in these trials.  Each difference is divided by its standard deviation between resampled data.  Time courses are
        compared at each of their values, except where the data are nan.
    trials : int
        The number of runs for each candidate.  It is one if the model draws no random numbers.
    seed : int or numpy.random.SeedSequence, optional
        The seed of the noise.  Without it a seed is drawn.
    progress : bool or callable, optional
        As in :func:`mdf_loop.sweep`.  A function is called with the number of simulated candidates, and how many there are at
        most.
    **inputs : array_like
        Inputs of all runs.

    Returns
    -------
    Estimates
        A mapping of names to numbers, with ``errors`` (standard errors), ``loss``, ``trace`` (all parameters that were tried),
        ``plot()`` and ``simulated()``.  The errors of a distance follow from how much the data vary when they are resampled,
        those of a likelihood from its curvature.

    Raises
    ------
    ArgumentError, KindError
        An input or output does not exist, the data are not numbers or have a wrong shape, or bounds are in the wrong order.
    LoopTimeout, LoopInterrupted, LoopStopped
        ``options(timeout=...)`` for the whole fit, Ctrl-C, or a progress function that returned False.
    LoopError
        scipy is not installed, or no candidate has a finite loss.

    If a fit ends early, the error has ``.results``: the best Estimates so far, without errors.  A
    :class:`~mdf_loop.errors.LoopWarning` names estimates at their bounds, and parameters that the data do not decide.

    Examples
    --------
    >>> import mdf_loop
    >>> observed = mdf_loop.run("examples/drift_diffusion.yaml", trials=500, seed=1, drift=1.4)
    >>> found = mdf_loop.fit("examples/drift_diffusion.yaml", {"reaction_time": observed["reaction_time"]},
    ...                      over={"drift": (0.2, 3.0)}, trials=300, seed=4)
    >>> abs(found["drift"] - 1.4) < 3 * found.errors["drift"] < 1
    True
    """
    from mdf_loop.inference.estimates import Search
    from mdf_loop.sweeps.chunked_run import reporting_to

    with reporting_to(progress):
        return Search(model, data, over, loss, trials, seed, inputs).run()
