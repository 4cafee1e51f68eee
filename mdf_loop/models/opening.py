"""``prepare``: a model by path or as an object, read, repaired and planned; once for each content."""

from __future__ import annotations

import copy
import os
import pickle
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.backend import LoopRep
from mdf_loop.backend import prepare as prepare_onnx
from mdf_loop.calls.content_cache import fingerprint, size_of
from mdf_loop.convert.loading import load
from mdf_loop.errors import ArgumentError, KindError, let_through, warn_user
from mdf_loop.models.mdf import MdfModel
from mdf_loop.models.model import Model
from mdf_loop.models.network import NetworkModel
from mdf_loop.ops.rooms import OPENVINO, enter
from mdf_loop.options import current_options, public
from mdf_loop.readers import load_onnx
from mdf_loop.readers.mdf.graph_objects import check_structure
from mdf_loop.readers.model_files import noted_files
from mdf_loop.system.threads import lock

MOST, MOST_BYTES = 64, 1 << 28
"""How many models are kept, and how many bytes they may have together."""

Stamp = tuple[str, int, int] | None


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
        return _kept.file(model)
    if hasattr(model, "SerializeToString") and hasattr(model, "graph"):
        return _kept.object(model, lambda: NetworkModel(prepare_onnx(model)))
    if not hasattr(model, "graphs") and not hasattr(model, "nodes"):
        raise KindError(f"run takes a path, an MDF model or graph, or an ONNX model; got {type(model).__name__}")
    check_structure(model)
    return _kept.object(model, lambda: _of_mdf(copy.deepcopy(model)))


def _of_mdf(model: Any, source: str = "") -> MdfModel:
    return MdfModel(only_graph(model), str(model.id), source) if hasattr(model, "graphs") else MdfModel(model, "", source)


def only_graph(model: Any) -> Any:
    """The graph of a model that has one.

    Raises
    ------
    ArgumentError
    """
    if len(model.graphs) != 1:
        names = ", ".join(repr(graph.id) for graph in model.graphs) or "none"
        raise ArgumentError(f"the model {model.id!r} has {len(model.graphs)} graphs ({names}); run one of them")
    return model.graphs[0]


def _read(path: Path) -> Model:
    """A model file."""
    suffix, source = path.suffix.lower(), os.fspath(path)
    if suffix == ".xml":
        return NetworkModel(enter(OPENVINO, "an OpenVINO model").prepare(path), path.stem, source)
    if suffix == ".onnx":
        prepared: LoopRep = prepare_onnx(load_onnx(path))
        return NetworkModel(prepared, "", source)
    model = load(path)
    check_structure(model)
    made = _of_mdf(model, source)
    _ = made.once  # which reads the files of its bodies
    return made


class KeptModels:
    """The models used last, by content; a file with the stamps of all files that were read for it."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, tuple[Model, list[tuple[str, Stamp]], int]] = OrderedDict()
        self._lock, self._size = lock(), 0

    def file(self, path: str | os.PathLike[str]) -> Model:
        """The model in a file, read again if that or a file it names has changed."""
        place, said = os.path.abspath(path), os.fspath(path)
        key = ("file", place, said, current_options().trusted)
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and all(_stamp(each) == stamp for each, stamp in entry[1]):
                self._entries.move_to_end(key)
                return entry[0]
        before = _stamp(place)
        with noted_files() as files:
            model = _read(Path(said))
        stamps = [(each, _stamp(each)) for each in dict.fromkeys((place, *map(os.path.abspath, files), *_bodies_in(model)))]
        if before == stamps[0][1]:  # it was not written meanwhile
            self._keep(key, model, stamps)
        return model

    def object(self, source: Any, make: Callable[[], Model]) -> Model:
        """The model that an object is."""
        key = fingerprint(source)
        if key is None:
            return make()
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and all(_stamp(place) == stamp for place, stamp in entry[1]):
                self._entries.move_to_end(key)
                return entry[0]
        model = make()
        self._keep(key, model, [(place, _stamp(place)) for place in _bodies_in(model)])
        return model

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._size = 0

    def _keep(self, key: Hashable, model: Model, stamps: list[tuple[str, Stamp]]) -> None:
        size = _size(model)
        if size > MOST_BYTES:
            return
        with self._lock:
            self._drop(key)
            self._entries[key] = model, stamps, size
            self._size += size
            while len(self._entries) > MOST or self._size > MOST_BYTES:
                self._drop(next(iter(self._entries)))

    def _drop(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size -= entry[2]


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


def _stamp(path: str) -> Stamp:
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        let_through(error)
        return None
    return path if os.path.isabs(path) else os.path.abspath(path), found.st_size, found.st_mtime_ns


_kept = KeptModels()
