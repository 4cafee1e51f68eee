"""Models of ONNX and OpenVINO made ready."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from mdf_loop.backend import LoopRep
from mdf_loop.errors import ArgumentError
from mdf_loop.integrations.input_places import refuse_options
from mdf_loop.models.model import Found, Model, Wish
from mdf_loop.models.recordings.recorded_names import at_start_in_body
from mdf_loop.models.recordings.recording import recorded_rep
from mdf_loop.models.recordings.steps_of_rows import steps_in_body
from mdf_loop.models.results import of_outermost
from mdf_loop.options import Run, in_run
from mdf_loop.readers.expressions.derivatives import STEP
from mdf_loop.types.ports import Input, Output, Ports, inputs_of_graph


class NetworkModel(Model):
    """A model of ONNX or OpenVINO.

    Parameters
    ----------
    prepared : LoopRep
        What runs it.
    name, source : str
    """

    shares = False

    def __init__(self, prepared: LoopRep, name: str = "", source: str = "") -> None:
        self.prepared, self.name, self.source = prepared, name or prepared.body.name, source

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as what runs it."""
        return type(self), (self.prepared, self.name, self.source)

    @cached_property
    def inputs(self) -> Mapping[str, Input]:  # type: ignore[override]
        """What it takes."""
        body = self.prepared.body
        names = getattr(self.prepared, "inputs", body.inputs)
        return inputs_of_graph(body, [(name, name) for name in names])

    @cached_property
    def outputs(self) -> Mapping[str, Output]:  # type: ignore[override]
        """What it gives."""
        body = self.prepared.body
        return Ports({name: Output(name, body.type_of(name), "output of the graph") for name in self._output_names})

    @cached_property
    def _output_names(self) -> tuple[str, ...]:
        return tuple(getattr(self.prepared, "outputs", self.prepared.body.outputs))

    @property
    def drawn(self) -> Any:  # type: ignore[override]
        """The graph of operators."""
        return self.prepared.body

    def _names_of_its_own(self) -> Iterable[str]:
        return self.prepared.body.inputs

    def refuse_how(self, how: Mapping[str, Any]) -> None:
        super().refuse_how(how)
        for name in ("steps", "time_increment", "collect"):
            if name in how:
                raise ArgumentError(f"{name} is for MDF models, and the model has no input of that name")

    def at_start(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those names of what is recorded that mean values at the start of an iteration."""
        return at_start_in_body(self.prepared.body, dict(zip(names, names, strict=True)))

    def steps_of_rows(self, record: tuple[str, ...]) -> Mapping[str, Any]:
        """The recorded values that have a time, and how long an iteration takes."""
        return steps_in_body(self.prepared.body, dict(zip(record, record, strict=True)), STEP)

    def found_by(self, inputs: Mapping[str, Any], run: Run, wish: Wish) -> Found:
        """What a run gives; what the variables of an OpenVINO model keep begins again."""
        refuse_options(inputs, self.inputs)
        if (found := self.on_device(inputs, run, wish)) is not None:
            return found
        if wish.record:
            return recorded_rep(self.prepared, self, inputs, run, wish)
        results = in_run(run, self.prepared.run_in, run, inputs)
        return Found(dict(zip(self._output_names, results, strict=True)), *of_outermost(run))
