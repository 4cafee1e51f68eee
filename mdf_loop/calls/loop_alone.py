"""A loop as a graph that runs once, with open inputs: what JAX makes a function of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.errors import ArgumentError
from mdf_loop.ir import Body, Loop, Node
from mdf_loop.readers.expressions.equations import EQUATIONS
from mdf_loop.types.fitting import fit_values
from mdf_loop.types.ports import Input, Output, Ports, numbered
from mdf_loop.types.required import Asked, asked_types

if TYPE_CHECKING:
    from mdf_loop.backends.jax.function import JaxFunction


@dataclass(frozen=True)
class OpenGraph:
    """A graph that runs once, with some of its inputs open.

    Attributes
    ----------
    body : Body
    outputs : tuple of str
        What its outputs are called.
    inputs : mapping of str to str
        Which of its inputs and captures is which open input of the model.
    history : OpenRun or None
        How its outputs make up those of all evaluations of a scheduled graph.
    """

    body: Body
    outputs: tuple[str, ...]
    inputs: Mapping[str, str]
    history: Any = None


class LoopAlone:
    """A loop over a body: its trip count and condition, carried and captured values are inputs."""

    def __init__(self, loop: Loop) -> None:
        self.record = record = loop.with_state_carried
        body, hidden = record.body, loop.body.state
        self.name, self._hidden = body.name, {state.input: state.initial for state in hidden}
        self._given = [c.input for c in loop.carried] + [s.input for s in record.scanned]
        names = [*(() if record.scanned else ("M", "cond")), *self._given, *body.captures]
        optional = {"M", "cond", *body.defaults}
        ports = {n: Input(n, body.type_of(n), body.defaults.get(n), "loop", n not in optional) for n in names}
        self.inputs: Mapping[str, Any] = Ports(ports)
        n, named = len(record.carried) - len(hidden), numbered(record.results)
        self._results = [*named[:n], *named[len(record.carried) :]]
        types = dict(zip(named, map(body.type_of, record.results), strict=True))
        of_carried = [c.input for c in record.carried[:n]] if body.name == EQUATIONS else named[:n]
        self._outputs = numbered([*of_carried, *named[len(record.carried) :]])
        ports_out = zip(self._outputs, self._results, strict=True)
        self.outputs: Mapping[str, Any] = Ports({name: Output(name, types[result], "loop") for name, result in ports_out})
        self._asked = asked_types(body, [(c.input, c.output) for c in record.carried]) if body.typed else {}

    def opened(self, known: Mapping[str, Any], traced: Mapping[str, Any]) -> OpenGraph:
        """A graph of this one loop."""
        record = self.record
        for name in (*known, *traced):
            if name not in self.inputs:
                raise ArgumentError(f"the loop takes no {name!r}; it takes {', '.join(self.inputs)}")
        given = {**self._hidden, **record.body.defaults, **{name: self.fitted(name, value) for name, value in known.items()}}
        there = {name for name, value in given.items() if value is not None} | {*traced}
        if missing := [name for name, port in self.inputs.items() if port.required and name not in there]:
            raise ArgumentError(f"the loop takes {', '.join(self.inputs)}; missing: {', '.join(missing)}")
        values = [c.input for c in record.carried] + [s.input for s in record.scanned]
        first, captures = [name if name in there else "" for name in ("M", "cond")], record.body.captures
        named = numbered(record.results)
        node = Node("Loop", (*first, *values), named, {"loop": record}, opset=1, captures=captures)
        reads = tuple(dict.fromkeys(node.reads))
        body = Body(self.name, reads, tuple(self._results), (node,), typed=record.body.typed)
        body = with_constants(body, {name: value for name, value in given.items() if name in reads and name not in traced})
        return OpenGraph(body, self._outputs, {name: name for name in traced if name in reads})

    def fitted(self, name: str, value: Any) -> Any:
        """A value in the element type that the body asks for."""
        return fitted_to(self._asked.get(name), name, value)

    def located(self, error: Exception) -> Exception:
        """The error itself."""
        return error


def function_of_loop(record: Loop) -> JaxFunction:
    """A loop as a function of JAX."""
    from mdf_loop.backends.jax.function import JaxFunction

    return JaxFunction(LoopAlone(record))


def fitted_to(asked: Asked | None, name: str, value: Any) -> Any:
    """A value in the element type that is asked for."""
    if asked is None or asked.dtype is None:
        return value
    if hasattr(value, "astype") and not isinstance(value, np.ndarray | np.generic):  # an array of JAX
        return value.astype(asked.dtype)
    return fit_values({name: asked}, {name: value})[name]


def with_constants(body: Body, constants: Mapping[str, Any]) -> Body:
    """A body in which some inputs are constants."""
    inputs = tuple(name for name in body.inputs if name not in constants)
    return Body(**{**vars(body), "inputs": inputs, "constants": {**body.constants, **constants}, "defaults": {}})
