"""``sweep``, a model over a grid of values, as labelled arrays; and ``open``, results of runs and of sweeps from files.

What runs a sweep, and what reads checkpoints, is imported when it is called: importing mdf_loop does not wait for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mdf_loop.errors import MalformedBody
from mdf_loop.models.saving import open_results
from mdf_loop.options import public
from mdf_loop.readers.model_files import as_path
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
    """Run a model at all points of a grid, with some trials at each point.

    All runs are independent: trial ``t`` at point ``p`` is ``run(model, seed=SeedSequence(seed, spawn_key=(p, t)), ...)``,
    to the last bit, for all chunks and workers.

    Parameters
    ----------
    model : as in :func:`mdf_loop.run`
    over : mapping, list of mappings, or pandas.DataFrame
        A mapping of inputs to lists of values: their outer product, with a dimension for each input.  A list of mappings,
        or a table: its rows, along the dimension ``point``.  Points are numbered in C order.
    trials : int, optional
        The number of runs at each point: the dimension ``trial``.  Without it there is one run, and no such dimension.
    seed : int or numpy.random.SeedSequence, optional
        Without it a seed is drawn.  ``attrs["seed"]`` has the seed.
    common_noise : bool
        Use the same random streams at every point: the spawn key is ``(t,)``.
    outputs : sequence of str, optional
        The outputs to keep.
    reduce : str, sequence of float, callable or mapping, optional
        Reduce the trials of a point.  ``"mean"``, ``"std"``, ``"var"``, ``"min"``, ``"max"``, ``"sum"`` and ``"count"`` are
        merged over the chunks of a sweep, so the memory does not grow with the number of trials.  ``"median"``, quantiles
        such as ``[0.1, 0.5, 0.9]``, and functions of an array whose first axis is trials need all trials of a point.  A
        mapping has one of these for each output.
    fill : number
        The value that pads outputs of different lengths, and replaces the outputs of runs that failed.
    on_error : {"keep", "raise"}
        With ``"keep"`` the sweep continues after a run that fails.  The outputs of this run are ``fill``.
        ``attrs["errors"]`` has the errors, ``attrs["failed"]`` the number of such runs, and a
        :class:`~mdf_loop.errors.LoopWarning` reports them.
    workers : int
        The number of threads that run chunks.
    client : dask.distributed.Client, optional
        A cluster, whose workers run chunks instead.
    chunk : int, optional
        The number of runs in a chunk.  Without it the clock decides: a chunk takes a tenth of a second at first, then about
        a second.
    checkpoint : str or path-like, optional
        A ``.zarr`` folder, or an address for fsspec.  Each complete chunk is written there.  The same call later continues
        from there, with the same seed if none is given.  Calls with more trials, and other jobs at the same time, can use
        it too.  :func:`mdf_loop.open` shows the results so far.
    store : str or path-like, optional
        A checkpoint that is also the result: workers write rows there, in zarr arrays, and the returned Dataset is opened
        lazily.  Values are read when you use them.  Workers of ``client`` must see the same folder.
    progress : bool or callable, optional
        True shows a bar, like ``options(progress=True)``.  A function is called after each chunk with the number of finished
        runs and of all runs.  If it returns False, the sweep stops with :class:`~mdf_loop.errors.LoopStopped`.
    steps, time_increment, collect
        As in :func:`mdf_loop.run`.
    **inputs : array_like
        Inputs of all runs.  Give an input that has the name of an argument above in ``over``.

    Returns
    -------
    xarray.Dataset
        A variable for each output, and ``<name>_length`` if runs differ in length (``length of <name>`` if an output has that
        name).  Dimensions are the swept inputs,
        ``trial``, ``iteration`` for collected values (or steps), and ``<name>_0``, ``<name>_1``, ...
        ``attrs["engine"]`` is the engine of all runs; single runs in it have the same bits.  In a store, ``trial`` has no
        coordinate.

    Raises
    ------
    ArgumentError, KindError
        An argument has a wrong value or type, or an input or output does not exist.
    LoopTimeout, LoopInterrupted, LoopStopped
        ``options(timeout=...)`` for the whole sweep, Ctrl-C, or a progress function that returned False.
    LoopError
        A run failed with ``on_error="raise"``; xarray, or zarr for ``store``, is not installed; the cluster cannot be reached;
        the checkpoint or store belongs to another sweep, or cannot be written; or an output cannot be in an array.

    If a sweep ends early, the error has ``.results``: the Dataset of the complete runs.

    Examples
    --------
    >>> import mdf_loop
    >>> s = mdf_loop.sweep("examples/drift_diffusion.yaml", {"drift": [0.0, 2.0]}, trials=50, seed=1, outputs=["reaction_time"])
    >>> s.reaction_time.dims, s.reaction_time.mean("trial").values.round(2)
    (('drift', 'trial'), array([1.22, 0.81]))
    """
    how = {name: value for name, value in locals().items() if name not in ("model", "over", "inputs")}
    from mdf_loop.sweeps.chunked_run import Said, swept

    return swept(model, over, inputs, Said(**how))


@public
def open(path: Any, /) -> Any:
    """Read results: what :meth:`Results.save`, ``record_to``, ``checkpoint`` and ``mdf-loop run`` wrote, or a Dataset of a sweep.

    Parameters
    ----------
    path : str or path-like
        A ``.npz``, ``.nc`` or ``.zarr`` file, or the address of a checkpoint.

    Returns
    -------
    Results, or xarray.Dataset
        Results, if :meth:`Results.save` or ``record_to`` wrote them, also those of a run that was killed (recorded values stay
        in the file until you read them).  Only outputs, for a ``.npz`` file of arrays.  A Dataset, if ``mdf-loop sweep`` or
        xarray wrote it.  A Dataset of a checkpoint, also while the sweep runs: ``.attrs["complete"]`` is the number of
        complete runs.  A store is opened lazily.

    Raises
    ------
    MalformedBody
        There is no such file, or no results in it, or it is of a kind that may do more than hold numbers.

    Examples
    --------
    >>> import mdf_loop, tempfile
    >>> path = tempfile.mkdtemp() + "/run.npz"
    >>> mdf_loop.run("examples/drift_diffusion.yaml", seed=7).save(path)
    >>> mdf_loop.open(path).iterations
    250
    """
    text = path if isinstance(path, str) else os.fspath(as_path(path, "a file of results"))
    if "://" in text or text.rstrip("/").endswith(".zarr"):
        from mdf_loop.sweeps.checkpoints.checkpoint import holds_checkpoint
        from mdf_loop.sweeps.checkpoints.reading import done_in
        from mdf_loop.sweeps.checkpoints.storage import place_of

        place = place_of(path)
        if holds_checkpoint(place.names()):
            return done_in(place)
        if "://" in text:
            raise MalformedBody(f"{text!r} holds no checkpoint of a sweep; other results are opened from files of this machine")
    return open_results(Path(text).expanduser())
