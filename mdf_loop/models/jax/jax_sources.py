"""Models of all kinds as a graph that runs once, with open inputs: what :func:`mdf_loop.to_jax` makes a function of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.backend import LoopRep
from mdf_loop.calls.compiled import Compiled
from mdf_loop.calls.loop_alone import LoopAlone, OpenGraph, fitted_to, with_constants
from mdf_loop.convert.locating import line_of_error
from mdf_loop.convert.named_values import Named, freed
from mdf_loop.convert.scheduled.run_order import output_ports
from mdf_loop.errors import ArgumentError, UnsupportedOp, let_through
from mdf_loop.integrations.engine_runs import places_of, with_inputs
from mdf_loop.models.mdf import MdfModel
from mdf_loop.models.model import Model
from mdf_loop.models.network import NetworkModel
from mdf_loop.readers import read
from mdf_loop.readers.mdf.body import read_whole
from mdf_loop.readers.mdf.signature import ports_of
from mdf_loop.types.required import asked_types


class GraphOnce:
    """A model that is one graph of MDF, evaluated once."""

    def __init__(self, model: MdfModel) -> None:
        self.model, self.name = model, model.name
        self.inputs, self.outputs = model.inputs, model.outputs

    def opened(self, known: Mapping[str, Any], traced: Collection[str]) -> OpenGraph:
        """The graph with what is known in its places, and ports for the rest."""
        known, inside = self.model.told_apart(known)
        if unknown := [name for name in traced if not self.model.takes(name) or self.model.told_apart({name: None})[1]]:
            raise ArgumentError(f"{unknown[0]!r} is no input that can be traced: the model has {', '.join(self.inputs)}")
        self.model.refuse_missing({*known, *traced})
        graph = with_inputs((self.model.with_constants(inside) if inside else self.model).graph, known)
        places = places_of(graph, dict.fromkeys(traced))
        asked = [
            Named(node, owner.id, f"{node}.{owner.id}", attribute == "default_value", None, None)
            for found in places.values()
            for node, owner, attribute in found
        ]
        names = {(node, owner.id): name for name, found in places.items() for node, owner, _ in found}
        graph, ports = freed(graph, asked)
        body = read_whole(graph, read)
        ends = ports_of(graph).ends
        called = {place: name for name, place in output_ports(graph).items()}
        return OpenGraph(body, tuple(called[end] for end in ends), {id: names[p.node, p.id] for id, p in ports.items()})

    def fitted(self, name: str, value: Any) -> Any:
        """A value as the graph takes it: as it is."""
        return value

    def located(self, error: Exception) -> Exception:
        """An error with the line of the file that it is about."""
        return with_line(error, self.model.source)


class GraphOfOnnx:
    """A model that is a graph of operators: ONNX, OpenVINO, or MDF with types."""

    def __init__(self, prepared: LoopRep, model: Model) -> None:
        self.body, self.name, self.source = prepared.body, model.name, model.source
        self.inputs, self.outputs = model.inputs, model.outputs
        self._ids = dict(zip(self.inputs, self.body.inputs, strict=True))
        self._asked = asked_types(self.body)

    def opened(self, known: Mapping[str, Any], traced: Collection[str]) -> OpenGraph:
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
        return fitted_to(self._asked.get(id), id, value)

    def located(self, error: Exception) -> Exception:
        """An error with the file that it is about."""
        return with_line(error, self.source)


def source_of(model: Any) -> Any:
    """What a function is made of.

    Raises
    ------
    UnsupportedOp
        A model that has no such form.
    """
    if isinstance(model, Compiled):
        return LoopAlone(model.record)
    if isinstance(model, NetworkModel):
        return GraphOfOnnx(model.prepared, model)
    if model.typed is not None:
        return GraphOfOnnx(model.typed, model)
    conditions = model.graph.conditions
    if conditions is not None and (conditions.node_specific or conditions.termination):
        raise UnsupportedOp(f"{model.name}: it has conditions, which say when its nodes run; here a model is evaluated once")
    return GraphOnce(model)


def with_line(error: Exception, source: str) -> Exception:
    """An error that says in which line of a model file it stands, where that can be found."""
    if source and isinstance(error, UnsupportedOp | ArgumentError) and source not in str(error):
        try:
            line = line_of_error(Path(source), error)
        except Exception as other:
            let_through(other)
            line = None
        error.add_note(f"in {source}{'' if line is None else f', line {line}'}")
    return error
