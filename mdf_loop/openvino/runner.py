"""OpenVINO models, run by the executor: ``prepare`` and ``run_model`` for .xml files, as :mod:`mdf_loop.backend` for ONNX.

>>> from mdf_loop.openvino import prepare
>>> model = prepare("tests/models/ov_loop.xml")
>>> model.inputs, model.outputs
(('X', 'S'), ('Result_22', 'Result_23', 'Result_24'))
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop.backend import LoopRep, as_value, listed_values, refuse_other_names
from mdf_loop.calls.explain import explained
from mdf_loop.errors import ArgumentError, keeps_results
from mdf_loop.execute.program import describe_value
from mdf_loop.openvino.ir import OpenvinoModel, read_openvino
from mdf_loop.options import Run, start_run
from mdf_loop.types.fitting import refuse_shape


class OpenvinoRep(LoopRep):
    """A model ready to run.  Its variables (ReadValue and Assign) keep their values from run to run.

    Attributes
    ----------
    inputs, outputs : tuple of str
        Names, in the order of the file.
    """

    def __init__(self, model: OpenvinoModel) -> None:
        super().__init__(model.body)
        self._model = model
        hidden = {variable.input for variable in model.variables}
        self.inputs = tuple(name for name in model.body.inputs if name not in hidden)
        self.outputs = model.outputs
        self._kept: dict[str, Any] = {}
        self._needed = list(self.inputs)
        self.keeps = bool(hidden)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model.

        Parameters
        ----------
        inputs : sequence, mapping or array
            Values of the model's inputs, in order or by name: that of the layer or of its tensor.

        Returns
        -------
        tuple of array
            The model's outputs in order.

        Raises
        ------
        ArgumentError
            An input is missing or does not exist, or its shape is not the declared one.
        IterationError, LoopTimeout, LoopInterrupted
            As :meth:`mdf_loop.backend.LoopRep.run`.
        """
        if kwargs:
            return super().run(inputs, **kwargs)
        return self._run(start_run(), inputs, self._kept)

    def run_in(self, run: Run, inputs: Any) -> tuple[Any, ...]:
        """The same in a run that has begun, and finds the variables as they are at first."""
        return self._run(run, self.fit(inputs), {})

    def values(self, inputs: Mapping[str, Any]) -> list[Any]:
        """What its graph is run with, where it has no variables; see :meth:`LoopRep.values`."""
        self._check(self._by_name(self.fit(inputs)))
        return super().values(inputs)

    def _run(self, run: Run, inputs: Any, kept: dict[str, Any]) -> tuple[Any, ...]:
        given = self._by_name(inputs)
        self._check(given)
        hidden = {variable.input: kept.get(variable.id) for variable in self._model.variables}
        try:
            results = super().run_in(run, given | hidden)
        except BaseException as error:
            if not keeps_results(error):
                raise
            names = dict(zip(self.body.outputs, self.outputs, strict=False))
            error.outputs = {names[name]: value for name, value in (error.outputs or {}).items() if name in names}
            raise
        for variable in self._model.variables:
            if variable.output is not None:
                kept[variable.id] = results[variable.output]
        return results[: len(self.outputs)]

    def reset(self) -> None:
        """Forget what the variables keep."""
        self._kept.clear()

    def explain(self, source: bool = False, steps: bool = False) -> str:
        """How the loops of the model run, in words.

        Parameters
        ----------
        source : bool
            Show the Python of programs as well; there is none before the first run.
        steps : bool
            Show the Steps that programs are made of as well.
        """
        return "\n".join(explained(loop, source, steps) for loop in self.graph.program.loops)

    def fit(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Values without a type of their own made into what the model declares; see :meth:`LoopRep.fit`."""
        return super().fit(self._renamed(inputs))

    def _by_name(self, inputs: Any) -> dict[str, Any]:
        hidden = {variable.input for variable in self._model.variables}
        if isinstance(inputs, Mapping) and hidden and hidden <= set(inputs):
            return dict(inputs)
        if not isinstance(inputs, Mapping):
            values = listed_values(inputs)
            if len(values) > len(self.inputs):
                names = ", ".join(self.inputs)
                raise ArgumentError(f"the model takes {len(self.inputs)} inputs ({names}); {len(values)} were given")
            inputs = dict(zip(self.inputs, values, strict=False))
        given = self._renamed(inputs)
        refuse_other_names(given, self.inputs, self.inputs)
        return given

    def _renamed(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Values by the body's names of inputs."""
        given: dict[str, Any] = {}
        for name, value in inputs.items():
            known = self._model.aliases.get(name, name)
            if known in given:
                raise ArgumentError(f"the input {known!r} is given twice")
            given[known] = value
        return given

    def _check(self, given: Mapping[str, Any]) -> None:
        """Declared types and shapes hold for everything inside, so they have to hold here."""
        for name, value in given.items():
            declared, array = self.body.type_of(name), as_value(value)
            if not isinstance(array, np.ndarray):
                raise ArgumentError(f"input {name!r} must be an array; got {type(value).__name__}")
            refuse_shape(name, array, declared)
            if declared.dtype is not None and array.dtype != declared.dtype:
                raise ArgumentError(f"input {name!r} must be {declared}; got {describe_value(array)}")


def prepare(path: str | os.PathLike, weights: str | os.PathLike | None = None) -> OpenvinoRep:
    """Read an OpenVINO model once.  Call ``run`` of the result as often as needed.

    Parameters
    ----------
    path : str or path-like
        The .xml file.
    weights : str or path-like, optional
        The .bin file.  The default is the .bin file of the same name.

    Returns
    -------
    OpenvinoRep

    Raises
    ------
    MalformedBody, UnsupportedOp
        The model is broken, or has a layer that is not supported.
    """
    return OpenvinoRep(read_openvino(path, weights))


def run_model(path: str | os.PathLike, inputs: Any, weights: str | os.PathLike | None = None) -> tuple[Any, ...]:
    """Read an OpenVINO model and run it once; see :meth:`OpenvinoRep.run`."""
    return prepare(path, weights).run(inputs)
