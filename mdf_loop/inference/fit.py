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
    """Find the parameters of a model for which its outputs are closest to data.

    All candidates are simulated with the same noise.  scipy's differential evolution searches within the bounds, and Nelder-Mead
    around the best that it finds.

    Parameters
    ----------
    model : as :func:`mdf_loop.run` takes it
    data : mapping of str to array_like
        Observations by the outputs of the model: a number for each observed trial, of which there may be any number; or what one
        run gives, such as a time course.
    over : mapping of str to (low, high)
        The parameters that are free, and their bounds.
    loss : callable or str, optional
        What is made small.  A function ``loss(simulated, data)`` of two mappings of outputs to arrays, whose first axis of
        ``simulated`` are trials; or the name of an output of the model that is a negative log likelihood.  Without it the
        distance of quantiles: the mean squared difference of 19 quantiles of each output, in units of the data's standard
        deviation; of outputs with two values, of their means; of a time course, at each of its values.
    trials : int
        How many runs there are for each candidate; one if the model draws no random numbers.
    seed : int or numpy.random.SeedSequence, optional
        Of the noise; drawn if it is not given.
    **inputs : array_like
        What all runs are given.

    Returns
    -------
    Estimates
        A mapping of names to numbers, with ``errors`` (standard errors), ``loss``, ``trace`` (all that was tried), ``plot()`` and
        ``simulated()``.  Errors of a distance follow from how the data vary when they are drawn again, those of a likelihood
        from its curvature.

    Raises
    ------
    ArgumentError, KindError
        There is no such input or output, data are no numbers or of another shape, bounds are in the wrong order.
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
