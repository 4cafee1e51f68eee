"""``prepare`` and ``run``: a model by path or as an object, read, repaired and planned; once for each content."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.backend import LoopRep
from mdf_loop.backend import prepare as prepare_onnx
from mdf_loop.calls.content_cache import fingerprint, size_of, stamp
from mdf_loop.convert.loading import load, only_graph
from mdf_loop.errors import KindError, let_through, warn_user
from mdf_loop.models.mdf import MdfModel
from mdf_loop.models.model import Model
from mdf_loop.models.network import NetworkModel
from mdf_loop.models.results import Results
from mdf_loop.ops.rooms import OPENVINO, enter
from mdf_loop.options import current_options, public
from mdf_loop.readers.mdf.graph_objects import check_structure
from mdf_loop.readers.model_files import noted_files
from mdf_loop.readers.onnx.file import load_onnx
from mdf_loop.settings.random_streams import Seed
from mdf_loop.system.threads import KeptBySize

MOST, MOST_BYTES = 64, 1 << 28
"""How many models are kept, and how many bytes they may have together."""


@public
def prepare(model: Any, /) -> Model:
    """Read, repair and plan a model once, to call it often.

    :func:`mdf_loop.run` prepares models too, and keeps them: the same content is prepared only once.  A file is read again
    if it has changed, or if a file that it names has changed.

    Parameters
    ----------
    model : str, path-like, modeci_mdf Model or Graph, or onnx.ModelProto
        A path ends in ``.json``, ``.yaml``, ``.yml``, ``.onnx`` or ``.xml`` (OpenVINO).

    Returns
    -------
    Model
        Call it like :func:`mdf_loop.run`, without the model.  ``.inputs`` and ``.outputs`` describe them by name,
        ``.explain()`` shows how the loops run.  It can be pickled.

    Raises
    ------
    MalformedBody, UnsupportedOp
        The model cannot be read.
    KindError, ArgumentError
        It is not a model, or it has several graphs.

    Examples
    --------
    >>> import mdf_loop
    >>> model = mdf_loop.prepare("examples/drift_diffusion.yaml")
    >>> print(model.inputs["bound"])
    bound: float64[] = 1.0 (node decision, parameter bound)
    >>> list(model.outputs)
    ['evidence', 'reaction_time', 'path']
    >>> r = model(drift=2.0, seed=7)
    >>> r.iterations, r.stop, round(float(r["reaction_time"]), 3)
    (496, 'condition', 0.796)
    """
    if isinstance(model, Model):
        return model
    made = _prepared(model)
    if isinstance(made, MdfModel) and made.said_of_seeds:
        warn_user(made.said_of_seeds)
    return made


def _prepared(model: Any) -> Model:
    if isinstance(model, str | os.PathLike):
        return _of_file(model)
    if hasattr(model, "SerializeToString") and hasattr(model, "graph"):
        return _of_object(model, lambda: NetworkModel(prepare_onnx(model)))
    if not hasattr(model, "graphs") and not hasattr(model, "nodes"):
        raise KindError(f"run takes a path, an MDF model or graph, or an ONNX model; got {type(model).__name__}")
    check_structure(model)
    return _of_object(model, lambda: _of_mdf(copy.deepcopy(model)))


def _of_mdf(model: Any, source: str = "") -> MdfModel:
    return MdfModel(only_graph(model), str(model.id), source) if hasattr(model, "graphs") else MdfModel(model, "", source)


def _read(path: Path) -> Model:
    """A model file."""
    suffix, source = path.suffix.lower(), os.fspath(path)
    if suffix == ".xml":
        return NetworkModel(enter(OPENVINO, "an OpenVINO model").prepare(path), path.stem, source)
    if suffix == ".onnx":
        prepared: LoopRep = prepare_onnx(load_onnx(path))
        return NetworkModel(prepared, "", source)
    made = _of_mdf(load(path), source)
    _ = made.once  # which reads the files of its bodies
    return made


_kept = KeptBySize[tuple[Model, list[Any]]](MOST, MOST_BYTES)
"""The models used last, by content; a file with the stamps of all files that were read for it."""


def _of_file(path: str | os.PathLike[str]) -> Model:
    """The model in a file, read again if that or a file it names has changed."""
    place, said = os.path.abspath(path), os.fspath(path)
    key = ("file", place, said, current_options().trusted)
    if (found := _current(key)) is not None:
        return found
    before = stamp(place)
    with noted_files() as files:
        model = _read(Path(said))
    stamps = [(each, stamp(each)) for each in dict.fromkeys((place, *map(os.path.abspath, files), *_bodies_in(model)))]
    if before == stamps[0][1]:  # it was not written meanwhile
        _kept.keep(key, (model, stamps), _size(model))
    return model


def _of_object(source: Any, make: Callable[[], Model]) -> Model:
    """The model that an object is."""
    key = fingerprint(source)
    if key is None:
        return make()
    if (found := _current(key)) is not None:
        return found
    model = make()
    _kept.keep(key, (model, [(place, stamp(place)) for place in _bodies_in(model)]), _size(model))
    return model


def _current(key: Hashable) -> Model | None:
    """What is kept, unless a file that was read for it has changed."""
    model, stamps = _kept.get(key) or (None, [])
    return None if any(stamp(place) != was for place, was in stamps) else model


def _size(model: Model) -> int:
    """About how many bytes what was read takes."""
    if isinstance(model, NetworkModel):
        return size_of(model.prepared.body)
    try:
        return len(pickle.dumps(vars(model)["graph"]))
    except Exception as error:  # what pickle cannot write down
        let_through(error)
        return MOST_BYTES // MOST


def _bodies_in(model: Model) -> Iterator[str]:
    """The files that hold bodies of an MDF model: they are read when its loops run first."""
    todo, seen = [vars(model).get("graph")], set[int]()
    while todo:
        found = todo.pop()
        if id(found) in seen or isinstance(found, str | np.ndarray):
            continue
        seen.add(id(found))
        if isinstance(found, dict):
            if isinstance(found.get("onnx_file"), str):
                yield found["onnx_file"]
            todo += found.values()
        elif isinstance(found, list | tuple):
            todo += found
        elif found is not None and hasattr(found, "nodes"):
            todo += [
                part
                for node in found.nodes
                for thing in (*node.parameters, *node.functions)
                for part in (thing.value, thing.args)
            ]


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
        Values to record in each iteration, pass or step: ``node.name`` for a value that the loop of a node computes, or for a
        port or parameter if the loop has no such value; ``node.loop.name`` for the loop, ``node.output_ports.name`` for the port.
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
