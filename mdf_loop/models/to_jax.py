"""``to_jax``, and engine ``jax``: models of all kinds as a graph that runs once, with open inputs, which JAX runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mdf_loop.backend import LoopRep
from mdf_loop.calls.callables import name_of
from mdf_loop.calls.compiled import Compiled
from mdf_loop.calls.compiled import compile as compile_body
from mdf_loop.calls.on_device import LoopAlone, OnDevice, OpenGraph, fitted_to, in_rows, key_of, with_constants
from mdf_loop.convert.locating import line_of_error, line_of_names
from mdf_loop.convert.scheduled.loops import ScheduledLowering, Stepping
from mdf_loop.convert.scheduled.open_start import open_run
from mdf_loop.convert.weights import SUFFIXES
from mdf_loop.errors import ArgumentError, NotLowered, UnsupportedOp, did_you_mean, let_through
from mdf_loop.integrations.input_places import InputPlaces, with_inputs
from mdf_loop.models.mdf import MdfModel
from mdf_loop.models.model import Found, Model, Wish
from mdf_loop.models.network import NetworkModel
from mdf_loop.models.opening import prepare
from mdf_loop.options import Run, public
from mdf_loop.readers import read
from mdf_loop.readers.arguments import is_read
from mdf_loop.readers.expressions.values import Number
from mdf_loop.readers.mdf.body import read_whole
from mdf_loop.readers.mdf.input_ports import GivenInput, with_values
from mdf_loop.readers.mdf.signature import output_ports
from mdf_loop.readers.mdf.stepped_loops import has_stepped_loops
from mdf_loop.readers.mdf.typed import has_conditions
from mdf_loop.settings.counts import counted
from mdf_loop.settings.engines import needed
from mdf_loop.step.records import Type
from mdf_loop.types.fitting import refuse_shape
from mdf_loop.types.required import asked_types

if TYPE_CHECKING:
    from mdf_loop.backends.jax.function import JaxFunction

T = TypeVar("T")

FILES = (*SUFFIXES, ".onnx", ".xml")


@public
def to_jax(
    model: Any,
    /,
    *,
    outputs: Sequence[str] | None = None,
    max_steps: int | None = None,
    checkpoint: int = 0,
    checks: bool = False,
    steps: int | None = None,
    time_increment: float | None = None,
    collect: bool | None = None,
) -> JaxFunction:
    """Turn a model, or the body of a loop, into a JAX function.

    ``jax.jit``, ``jax.grad``, ``jax.vmap``, ``jax.hessian`` and all other functions of JAX accept it.

    Parameters
    ----------
    model : str, path-like, MDF Model or Graph, onnx.ModelProto, result of :func:`mdf_loop.prepare` or :func:`mdf_loop.compile`
        A body of a loop can have any form that :func:`mdf_loop.compile` accepts.
    outputs : sequence of str, optional
        The outputs to compute.  The default is all outputs.
    max_steps : int, optional
        The maximum number of iterations of a loop without a trip count.  A loop that can end early needs a maximum to collect
        values, and for a gradient in reverse mode: its trip count, or this.  If a loop needs more, a call raises IterationLimit;
        inside ``jax.jit`` and ``jax.vmap`` results are nan, and integers the lowest of their type.
    checkpoint : int
        For gradients, store one state in so many iterations, and compute the others again.  0 stores all states.
    checks : bool
        Whether ``jax.experimental.checkify`` finds errors of a run: an index outside its array, Python's division by 0, more
        than ``max_steps`` iterations.  Each call then takes about 50 microseconds longer.
    steps, time_increment, collect : optional
        As in :func:`mdf_loop.run`.  A model with conditions of graph-scheduler is evaluated once by default; one iteration is
        one pass of the scheduler.

    Returns
    -------
    JaxFunction
        ``f(**inputs, key=None, noise=None)`` returns a dict of arrays by the names of outputs.  ``f.inputs``, ``f.outputs`` and
        ``f.draws`` describe it, ``f.explain()`` shows how it runs.

    Raises
    ------
    UnsupportedOp
        JAX cannot run a node: lists, strings, arrays that grow.  The message names the node.
    NotLowered
        Part of a scheduled model cannot become part of a loop.  The message names it.
    ArgumentError
        jax is not installed, or an output does not exist.

    Notes
    -----
    MDF models compute in float64; turn this on with ``jax.config.update("jax_enable_x64", True)``.  Random numbers are JAX's:
    other numbers than those of :func:`mdf_loop.run`, with the same distributions.

    Examples
    --------
    >>> import mdf_loop
    >>> f = mdf_loop.to_jax("examples/gallery/fitzhugh_nagumo.yaml")
    >>> list(f.outputs)
    ['voltage', 'recovery']
    """
    needed("jax", "to_jax needs jax, which is not installed", "jax", ArgumentError)
    from mdf_loop.backends.jax.function import JaxFunction

    if max_steps is not None:
        counted("max_steps", max_steps, "the most iterations of a loop")
    said = {"steps": steps, "time_increment": time_increment, "collect": collect}
    source = source_of(_made_ready(model), {name: value for name, value in said.items() if value is not None})
    return JaxFunction(source, outputs, max_steps=max_steps, checkpoint=checkpoint, checks=checks)


def _made_ready(model: Any) -> Model | Compiled:
    """What is to become a function: a model, or a loop over a body."""
    if isinstance(model, Model | Compiled):
        return model
    if isinstance(model, str | os.PathLike) and Path(model).suffix.lower() in FILES and "\n" not in str(model):
        return prepare(model)
    is_model = (
        hasattr(model, "graphs") or hasattr(model, "conditions") or (hasattr(model, "graph") and hasattr(model, "opset_import"))
    )
    if callable(model) and not is_read(model):
        raise ArgumentError(
            f"to_jax: decorate {name_of(model)} with @mdf_loop.body: a plain function is called, and has no graph"
        )
    return prepare(model) if is_model else compile_body(model)


class GraphOfMdf:
    """A model that is one graph of MDF.

    Parameters
    ----------
    model : MdfModel
    how : Stepping, optional
        How it is evaluated many times, or under conditions of graph-scheduler; without it once.
    """

    def __init__(self, model: MdfModel, how: Stepping | None = None) -> None:
        self.model, self.name, self.how = model, model.name, how
        self.inputs, self.outputs = model.inputs, model.outputs

    def opened(self, known: Mapping[str, Any], traced: Mapping[str, Type]) -> OpenGraph:
        """The graph, or its first passes and the loop behind them, with what is known in its places; the rest is open."""
        graph = self._with_known(known, traced)
        names = InputPlaces(graph).at(traced)
        places = {place: GivenInput(*place, ".".join(place), _kind_of(traced[name])) for place, name in names.items()}
        graph, inputs = with_values(graph, places), {".".join(place): name for place, name in names.items()}
        if self.how is None:
            return OpenGraph(read_whole(graph, read), tuple(output_ports(graph)), inputs)
        run = open_run(ScheduledLowering(graph, self.how._replace(record=())), list(places.values()))
        return OpenGraph(run.body, run.names, inputs, run)

    def _with_known(self, known: Mapping[str, Any], traced: Mapping[str, Type]) -> Any:
        """The graph with what is known in its places."""
        known, inside = self.model.told_apart(known)
        if unknown := [name for name in traced if not self.model.takes(name) or self.model.told_apart({name: None})[1]]:
            meant = did_you_mean(unknown[0], self.inputs)
            raise ArgumentError(
                f"{unknown[0]!r} is not an input that can be traced{meant}; the model has {', '.join(self.inputs)}"
            )
        self.model.refuse_missing({*known, *traced})
        return with_inputs((self.model.with_constants(inside) if inside else self.model).graph, known)

    def fitted(self, name: str, value: Any) -> Any:
        """A value as the graph takes it: as it is."""
        return value

    def located(self, error: Exception) -> Exception:
        """An error with the line of the file that it is about."""
        return with_line(error, self.model.source)


def _kind_of(type: Type) -> Number:
    """Which of Python's numbers a value of a type is."""
    return {"b": Number.BOOL, "i": Number.INT}.get(type.kind, Number.FLOAT) if type.weak else Number.NO


class GraphOfOnnx:
    """A model that is a graph of operators: ONNX, OpenVINO, or MDF with types."""

    def __init__(self, prepared: LoopRep, model: Model) -> None:
        self.body, self.name, self.source = prepared.body, model.name, model.source
        self.inputs, self.outputs = model.inputs, model.outputs
        self._ids = dict(zip(self.inputs, self.body.inputs, strict=True))
        self._asked = asked_types(self.body)

    def opened(self, known: Mapping[str, Any], traced: Mapping[str, Type]) -> OpenGraph:
        """The graph with what is known as constants."""
        for name in (*known, *traced):
            if name not in self._ids:
                raise ArgumentError(f"the model has no input {name!r}; it takes {', '.join(self._ids)}")
        constants = {self._ids[name]: np.asarray(self.fitted(name, value)) for name, value in known.items()}
        open_ids = {self._ids[name]: name for name in traced}
        constants = {**{id: v for id, v in self.body.defaults.items() if id not in open_ids}, **constants}
        if missing := [name for name, id in self._ids.items() if id not in constants and id not in open_ids]:
            raise ArgumentError(f"the model takes inputs ({', '.join(self._ids)}); missing: {', '.join(missing)}")
        body = with_constants(self.body, constants)
        return OpenGraph(body, tuple(self.outputs), open_ids)

    def fitted(self, name: str, value: Any) -> Any:
        """A value in the element type that the graph asks for."""
        id = self._ids.get(name, name)
        refuse_shape(name, value, self.body.type_of(id))
        return fitted_to(self._asked.get(id), id, value)

    def located(self, error: Exception) -> Exception:
        """An error with the file that it is about."""
        return with_line(error, self.source)


def source_of(model: Any, how: Mapping[str, Any]) -> Any:
    """What a function is made of; ``how`` says in which steps a model of MDF is evaluated, where that is said.

    Raises
    ------
    ArgumentError
        There are no steps of a model like this one.
    """
    if isinstance(model, Model):
        model.refuse_how(how)
    elif how:
        raise ArgumentError(f"a body has no {', '.join(how)}: give the trip count M when you call it")
    if isinstance(model, Compiled):
        return LoopAlone(model.record, model.collected)
    if isinstance(model, NetworkModel):
        return GraphOfOnnx(model.prepared, model)
    if model.typed is not None:
        if how:
            raise ArgumentError(f"{model.name} is an ONNX graph, which is evaluated once; leave out {', '.join(how)}")
        return GraphOfOnnx(model.typed, model)
    return GraphOfMdf(model, Stepping(**how) if how or goes_in_steps(model.graph) else None)


def goes_in_steps(graph: Any) -> bool:
    """Whether graph-scheduler says when the nodes of a graph run, or time or a stepped loop goes on in it."""
    has_time = any(p.time_derivative is not None for node in graph.nodes for p in node.parameters)
    return has_time or has_conditions(graph) or has_stepped_loops(graph)


def with_line(error: Exception, source: str) -> Exception:
    """An error that says in which line of a model file it stands, where that can be found."""
    if source and isinstance(error, UnsupportedOp | NotLowered | ArgumentError) and source not in str(error):
        try:
            line = _line_in(Path(source), error)
        except Exception as other:
            let_through(other)
            line = None
        error.add_note(f"in {source}{'' if line is None else f', line {line}'}")
    return error


def _line_in(path: Path, error: Exception) -> int | None:
    """The line of the place that an error begins with, or of a value of a node that it names."""
    text = str(error)
    places = [text.partition(": ")[0], *re.findall(r"'(\w+\.\w+)", text)] if path.suffix.lower() in SUFFIXES else []
    for place in places:
        if "." in place and " " not in place and (line := line_of_names(path, re.split("[/.]", place))) is not None:
            return line
    return line_of_error(path, error)


def device_of(model: Model) -> OnDevice:
    """What engines on devices run of a model; it is kept with the model."""
    made: OnDevice = vars(model).setdefault("_on_device", OnDevice(model.name, lambda **how: source_of(model, how)))
    return made


def run_on_device(model: Model, inputs: Mapping[str, Any], run: Run, wish: Wish) -> Found | None:
    """What a run gives; None, with a warning, if the model has no form there or is to be recorded."""
    key, backend = key_of(run.stream.seed), run.options.how.on_device
    found = found_on_device(model, inputs, run, wish, lambda function: backend.run_alone(function, key, inputs), wish.outputs)
    return None if found is None else Found({name: row for name, (row, _) in in_rows(found, ()).items()})


def found_on_device(
    model: Model,
    inputs: Mapping[str, Any],
    run: Run,
    wish: Wish,
    call: Callable[[Any], T],
    outputs: Collection[str] | None,
) -> T | None:
    """What a call of the model as a function gives; None, with a warning, if what is asked for has none."""
    device = device_of(model)
    if wish.record:
        device.left("what is recorded is kept iteration by iteration")
        return None
    if device.is_left(run):
        return None
    names = None if outputs is None else tuple(sorted(outputs))
    how = {"steps": wish.steps, "time_increment": wish.time_increment, "collect": wish.collect or None}
    return device.found(inputs, call, names, **{name: value for name, value in how.items() if value is not None})
