"""``sweep``: a model over a grid of values, as labelled arrays.

What runs it is imported when it is called: importing mdf_loop does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mdf_loop.options import public
from mdf_loop.settings.random_streams import Seed


@public
def sweep(
    model: Any,
    /,
    over: Any = None,
    *,
    trials: int | None = None,
    seed: Seed | None = None,
    common_noise: bool = False,
    outputs: Sequence[str] | None = None,
    reduce: Any = None,
    fill: float = float("nan"),
    on_error: str = "keep",
    workers: int = 1,
    client: Any = None,
    chunk: int | None = None,
    checkpoint: Any = None,
    store: Any = None,
    progress: bool | Callable[[int, int], Any] | None = None,
    steps: int | None = None,
    time_increment: float | None = None,
    collect: bool = False,
    **inputs: Any,
) -> Any:
    """Run a model at all points of a grid, some trials at each.

    Every run is independent: trial ``t`` at point ``p`` is ``run(model, seed=SeedSequence(seed, spawn_key=(p, t)), ...)``,
    to the last bit, whatever the chunks, the workers and their order.

    Parameters
    ----------
    model : as :func:`mdf_loop.run` takes it
    over : mapping, list of mappings, or pandas.DataFrame
        A mapping of inputs to lists of values: their outer product, a dimension for each.  A list of mappings, or a
        table: its rows, along the dimension ``point``.  Points are numbered in C order.
    trials : int, optional
        How many runs there are at each point: the dimension ``trial``.  Without it there is one, and no such dimension.
    seed : int or numpy.random.SeedSequence, optional
        Drawn if it is not given; ``attrs["seed"]`` says it.
    common_noise : bool
        The same streams at every point: the spawn key is ``(t,)``.
    outputs : sequence of str, optional
        Those that are kept.
    reduce : str, sequence of float, callable or mapping, optional
        What is kept of the trials of a point: ``"mean"``, ``"std"``, ``"var"``, ``"min"``, ``"max"``, ``"sum"`` or ``"count"``,
        which are merged over the pieces of a sweep, so that memory does not grow with the number of trials; ``"median"``,
        quantiles such as ``[0.1, 0.5, 0.9]``, or a function of an array whose first axis are trials, which need all trials of
        a point at once; or one of these for each output that is kept.
    fill : number
        What fills up outputs of runs that are shorter than others, and stands for runs that failed.
    on_error : {"keep", "raise"}
        Whether the sweep goes on after a run that fails: its outputs are ``fill``, ``attrs["errors"]`` says why,
        ``attrs["failed"]`` how many runs failed, and a :class:`~mdf_loop.errors.LoopWarning` says both.
    workers : int
        How many threads run chunks.
    client : dask.distributed.Client, optional
        Whose workers run chunks instead.
    chunk : int, optional
        How many runs are run at once, or lie in one chunk of ``store``.  Without it the clock decides: a tenth of a second at
        first, then about a second.
    checkpoint : str or path-like, optional
        A ``.zarr`` folder, or an address that fsspec knows, to which each chunk is written when it is complete.  The same call
        later goes on there, with the seed that it has unless another is given; so do more trials, and other jobs at the same
        time.  :func:`mdf_loop.open` shows what is done.
    store : str or path-like, optional
        The same, and the result as well: workers write rows there, in arrays of regular chunks, and what is returned is
        opened lazily.  Nothing of it is held in memory until it is asked for.  Workers of ``client`` have to see the same folder.
    progress : bool or callable, optional
        True shows a bar, as ``options(progress=True)`` does.  A function is called after each piece with how many runs are done,
        and of how many; if it returns False the sweep stops with :class:`~mdf_loop.errors.LoopStopped`.
    steps, time_increment, collect
        As :func:`mdf_loop.run` takes them.
    **inputs : array_like
        What every run is given; what has the name of an argument above stands in ``over``.

    Returns
    -------
    xarray.Dataset
        A variable for each output; ``<name>_length`` beside those whose runs differ in length (``length of <name>`` where an
        output is called that).  Dimensions are what is swept,
        ``trial``, ``iteration`` for what a loop collected (or each step), and ``<name>_0``, ``<name>_1``, ...
        ``attrs["engine"]`` is the engine of all runs, which has their bits.  That of a store has no coordinate of trials.

    Raises
    ------
    ArgumentError, KindError
        An argument is not what it must be; there is no such input or output.
    LoopTimeout, LoopInterrupted, LoopStopped
        ``options(timeout=...)``, which is for the whole sweep, Ctrl-C, or a function that returned False.
    LoopError
        A run failed with ``on_error="raise"``; xarray is not installed, or zarr with ``store``; the cluster cannot be reached; or
        the checkpoint or store is that of another sweep, or cannot be written, or an output is nothing that an array can hold.

    Whatever ends a sweep early has ``.results``: the Dataset of what is complete.

    Examples
    --------
    >>> import mdf_loop
    >>> s = mdf_loop.sweep("examples/drift_diffusion.yaml", {"drift": [0.0, 2.0]}, trials=50, seed=1, outputs=["reaction_time"])
    >>> s.reaction_time.dims, s.reaction_time.mean("trial").values.round(2)
    (('drift', 'trial'), array([1.22, 0.81]))
    """
    from mdf_loop.sweeps.chunked_run import Said, swept

    said = {"trials": trials, "seed": seed, "common_noise": common_noise, "outputs": outputs, "reduce": reduce, "fill": fill}
    said |= {"on_error": on_error, "workers": workers, "client": client, "chunk": chunk, "checkpoint": checkpoint}
    said |= {"store": store, "progress": progress, "steps": steps, "time_increment": time_increment, "collect": collect}
    return swept(model, over, inputs, Said(**said))
