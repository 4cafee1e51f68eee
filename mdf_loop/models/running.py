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

    An MDF model is evaluated once, as MDF's engine does it.  With ``steps`` it is
    evaluated so many times, and becomes one loop if it can: what MDF's engine gives, many times faster.  An ONNX
    model runs in :mod:`mdf_loop.backend`, and so does an MDF graph that is an ONNX graph (its metadata says ``types``)
    and has no conditions.  An OpenVINO model runs in :mod:`mdf_loop.openvino`.

    Parameters
    ----------
    model : str, path-like, modeci_mdf Model or Graph, onnx.ModelProto, or what :func:`mdf_loop.prepare` returned
        A path ends in ``.json``, ``.yaml``, ``.yml``, ``.onnx`` or ``.xml`` (OpenVINO).
    steps : int, optional
        How many times an MDF model is evaluated; what its stateful parameters and conditions make of that is what
        repeated calls of ``EvaluableGraph.evaluate`` make of it.
    time_increment : float, optional
        By how much time goes on from one step to the next, for parameters with a ``time_derivative``.  The first step
        has none: it gives the initial values, as in MDF's own examples.
    collect : bool, optional
        Return each output's values of all steps, along a new first axis, in place of the last one.  An output whose node
        first runs in a later step is an array of objects, with None for the steps before.
    seed : int or numpy.random.SeedSequence, optional
        As in :func:`mdf_loop.options`, for this run.  Other options are set there.
    trials : int, optional
        Run it so many times, each with a random stream of its own: trial ``k`` has the seed
        ``SeedSequence(seed, spawn_key=(0, k))``.  Outputs get a first axis of trials.
    record : str or sequence of str, optional
        Values to be kept once an iteration, pass or step: ``node.name`` for a port or parameter of a node, or for a value
        inside the loop of a node; ``node.loop.name`` where the node has several, or the loop has loops inside.
    every : int, optional
        Keep the first of so many iterations: 10 keeps iterations 0, 10, 20 ...  By itself it is 1.
    record_to : str or path-like, optional
        A ``.zarr`` folder to which what is recorded is written while the model runs, so that it need not fit into memory.
    **inputs : array_like
        Values by name.  For MDF the name of an input port without an edge, or of a parameter; ``node.name``
        where several nodes have one of that name, or where it is the name of an argument above.  For ONNX, OpenVINO
        and converted models the name of an input, also where that is the name of an argument above.

    Returns
    -------
    Results
        A dict.  For MDF every output port that no edge reads, by its id (``node.id`` where several share one); for ONNX,
        OpenVINO and a converted model the outputs by the names they have there.  Its attributes say what else is known:
        ``iterations``, ``stop``, ``seed``, ``inputs``, ``recorded``.

    Raises
    ------
    ArgumentError
        There is no such input, or nothing of a name to be recorded; or ``time_increment`` or ``collect`` without ``steps``.
    MalformedBody, UnsupportedOp
        The file cannot be read or run; or it says something that MDF's engine would hand to Python's ``eval`` and that is
        not on the list of what expressions may say, without ``options(trusted=True)``.
    IterationError, IterationLimit, LoopTimeout, LoopInterrupted
        The model ended early: ``.outputs`` are its outputs by name as far as they are known, ``.partial`` and
        ``.iteration`` what its outermost loop had computed, ``.results`` all that as :class:`Results`.  With ``steps``,
        ``.partial`` are the outputs and ``.iteration`` the passes of the scheduler that were completed, or the steps, where
        MDF's engine runs them.

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
