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
    **inputs: Any,
) -> Any:
    """Find the parameters of a model for which its outputs are closest to the data.

    All candidates have the same noise.  scipy's differential evolution searches within the bounds, then Nelder-Mead searches
    near the best candidate.

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
        quantiles: the mean squared difference of 19 quantiles of each output, in units of the standard deviation of the
        data.  Outputs with two values are compared by their means, time courses at each of their values.
    trials : int
        The number of runs for each candidate.  It is one if the model draws no random numbers.
    seed : int or numpy.random.SeedSequence, optional
        The seed of the noise.  Without it a seed is drawn.
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
    LoopError
        scipy is not installed, or no candidate has a finite loss.

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

    return Search(model, data, over, loss, trials, seed, inputs).run()
