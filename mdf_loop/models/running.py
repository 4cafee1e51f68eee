"""``run``: a model, by path or as an object, with inputs and outputs by name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from mdf_loop.models.opening import prepare
from mdf_loop.models.results import Results
from mdf_loop.options import public
from mdf_loop.settings.random_streams import Seed


@public
def run(
    model: Any,
    /,
    *,
    steps: int | None = None,
    time_increment: float | None = None,
    collect: bool | None = None,
    seed: Seed | None = None,
    trials: int | None = None,
    record: str | Sequence[str] | None = None,
    every: int | None = None,
    record_to: str | os.PathLike | None = None,
    **inputs: Any,
) -> Results:
    """Run a model and return its outputs by name.

    An MDF model is evaluated once, with the results of MDF's engine.  With ``steps`` it is evaluated so many times.  If
    possible, these evaluations become one loop, which is many times faster.  An ONNX model runs in
    :mod:`mdf_loop.backend`.  So does an MDF graph without conditions that is a converted ONNX graph (its metadata has
    ``types``).  An OpenVINO model runs in :mod:`mdf_loop.openvino`.

    Parameters
    ----------
    model : str, path-like, modeci_mdf Model or Graph, onnx.ModelProto, or the result of :func:`mdf_loop.prepare`
        A path ends in ``.json``, ``.yaml``, ``.yml``, ``.onnx`` or ``.xml`` (OpenVINO).
    steps : int, optional
        The number of evaluations of an MDF model.  Its stateful parameters and conditions work as in repeated calls of
        ``EvaluableGraph.evaluate``.
    time_increment : float, optional
        The time between two steps, for parameters with a ``time_derivative``.  The first step gives the initial values,
        as in MDF's own examples.
    collect : bool, optional
        Return the values of each output in all steps, along a new first axis, instead of the last value.  If the node of
        an output first runs in a later step, the result is an array of objects, with None for the steps before.
    seed : int or numpy.random.SeedSequence, optional
        As in :func:`mdf_loop.options`, for this run.  Other options are set there.
    trials : int, optional
        The number of runs.  Each has its own random stream: trial ``k`` has the seed
        ``SeedSequence(seed, spawn_key=(0, k))``.  Outputs have a first axis of trials.
    record : str or sequence of str, optional
        Values to record in each iteration, pass or step: ``node.name`` for a port or parameter of a node, or for a value
        inside the loop of a node; ``node.loop.name`` if the node has several loops, or nested ones.
    every : int, optional
        Record one of so many iterations: 10 records iterations 0, 10, 20 ...  The default is 1.
    record_to : str or path-like, optional
        A ``.zarr`` folder for recorded values that do not fit into memory.  They are written while the model runs.
    **inputs : array_like
        Values by name.  For MDF the name of an input port without an edge, or of a parameter.  Use ``node.name`` if
        several nodes have this name, or if it is the name of an argument above.  For ONNX, OpenVINO
        and converted models the name of an input, even if it is the name of an argument above.

    Returns
    -------
    Results
        A dict.  For MDF it has every output port that no edge reads, by its id (``node.id`` if several have the same id).
        For ONNX, OpenVINO and converted models it has the outputs by their names.  The attributes ``iterations``, ``stop``,
        ``seed``, ``inputs`` and ``recorded`` describe the run.

    Raises
    ------
    ArgumentError
        An input or a value to record does not exist; or ``time_increment`` or ``collect`` without ``steps``.
    MalformedBody, UnsupportedOp
        The file cannot be read or run; or it has an expression that is not allowed without ``options(trusted=True)``.
    IterationError, IterationLimit, LoopTimeout, LoopInterrupted
        The model ended early.  ``.outputs`` has the known outputs by name, ``.partial`` and ``.iteration`` the results of
        the outermost loop so far, ``.results`` all of this as :class:`Results`.  With ``steps``, ``.partial`` has the
        outputs, and ``.iteration`` is the number of completed passes of the scheduler, or of steps in MDF's engine.

    Examples
    --------
    >>> import mdf_loop
    >>> mdf_loop.run("examples/newton.yaml", a=9.0)["root"]
    array(3.)
    >>> mdf_loop.run("examples/oscillator.yaml", steps=1000, time_increment=0.01)["count"]
    1000
    >>> mdf_loop.run("examples/drift_diffusion.yaml", trials=3, seed=1)["reaction_time"].round(3)
    array([0.565, 0.691, 1.038])
    """
    how = {"time_increment": time_increment, "seed": seed, "trials": trials, "record": record, "record_to": record_to}
    how |= {"steps": steps, "collect": collect, "every": every}
    said = {name: value for name, value in how.items() if value is not None}
    return prepare(model)(**said, **inputs)
