"""``simulator``: a model as a function of an array of parameters, for libraries of inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdf_loop.options import public
from mdf_loop.settings.random_streams import Seed


@public
def simulator(
    model: Any,
    /,
    names: Sequence[str],
    outputs: Sequence[str] | None = None,
    *,
    trials: int | None = None,
    reduce: Any = None,
    seed: Seed | None = None,
    dtype: Any = None,
    **inputs: Any,
) -> Any:
    """A model as a function ``f(theta)``: an array of parameters in, an array of results out.

    Rows are numbered from call to call, so no two batches have the same noise.  Row ``r`` has the bits of point ``r`` of a
    :func:`mdf_loop.sweep` with the same seed: its trial ``t`` is
    ``run(model, seed=SeedSequence(seed, spawn_key=(r, t)), ...)``.

    Parameters
    ----------
    model : as in :func:`mdf_loop.run`
    names : sequence of str
        The inputs that are the columns of theta.
    outputs : sequence of str, optional
        The outputs to simulate.  The default is all outputs.
    trials : int, optional
        The number of runs for each row.  Without it there is one run, and no axis of trials.
    reduce : optional
        Reduce the trials of a row, as in :func:`mdf_loop.sweep`: ``"mean"``, quantiles, a function, or a mapping with one of
        these for each output.
    seed : int or numpy.random.SeedSequence, optional
        Without it a seed is drawn.
    dtype : optional
        The element type of results.  The default is the type of the outputs.
    **inputs : array_like
        Inputs of all runs.

    Returns
    -------
    Simulator
        Call it as ``f(theta, seed=None, **conditions)``.  Other forms are ``f.torch`` (sbi), ``f.dict`` (BayesFlow) and ``f.one``
        (pyABC, optuna).

    Raises
    ------
    ArgumentError, KindError
        An input or output does not exist, or an argument has a wrong value or type.

    Examples
    --------
    >>> import mdf_loop
    >>> f = mdf_loop.simulator("examples/drift_diffusion.yaml", ["drift", "bound"], ["reaction_time"], trials=100, seed=7)
    >>> theta = [[0.5, 1.0], [2.0, 1.0]]
    >>> x = f(theta)
    >>> x.shape, x.mean(axis=(1, 2)).round(2)
    ((2, 100, 1), array([1.22, 0.82]))
    >>> (f(theta) == x).any(), (f(theta, seed=[0, 1]) == x).all()
    (np.False_, np.True_)
    """
    from mdf_loop.inference.simulators import Simulator

    return Simulator(model, names, outputs, trials, reduce, seed, dtype, inputs)
