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

    Row ``r`` of all that were ever simulated is point ``r`` of a :func:`mdf_loop.sweep` with the same seed, to the last bit:
    its trial ``t`` is ``run(model, seed=SeedSequence(seed, spawn_key=(r, t)), ...)``.  Rows count on from call to call, so that
    no two batches have the same noise.

    Parameters
    ----------
    model : as :func:`mdf_loop.run` takes it
    names : sequence of str
        The inputs that are the columns of theta.
    outputs : sequence of str, optional
        What is simulated; all outputs if it is not given.
    trials : int, optional
        How many runs there are for each row.  Without it there is one, and no such axis.
    reduce : optional
        What is kept of the trials of a row, as :func:`mdf_loop.sweep` takes it: ``"mean"``, quantiles, a function, or one of
        these for each output.
    seed : int or numpy.random.SeedSequence, optional
        Drawn if it is not given.
    dtype : optional
        The element type of results; that of the outputs if it is not given.
    **inputs : array_like
        What all runs are given.

    Returns
    -------
    Simulator
        ``f(theta, seed=None, **conditions)``, and other forms of it: ``f.torch`` (sbi), ``f.dict`` (BayesFlow), ``f.one`` (pyABC,
        optuna).

    Raises
    ------
    ArgumentError, KindError
        There is no such input or output, or an argument is not what it must be.

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
