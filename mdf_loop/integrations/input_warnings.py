"""What a run of a model says of the values that it is given, and of a name in its equations that means something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop.integrations.input_places import InputPlaces
from mdf_loop.integrations.unread import unread_inputs
from mdf_loop.options import Run
from mdf_loop.readers.expressions.derivatives import STEP, wrong_with_step
from mdf_loop.readers.expressions.equations import TAU, reads_tau
from mdf_loop.readers.mdf.equation_bodies import equations_in_nodes
from mdf_loop.types.fitting import as_array


class InputWarnings:
    """What there is to look at in a graph, found out once.

    Parameters
    ----------
    places : InputPlaces
        What the inputs of the model may set.
    """

    def __init__(self, places: InputPlaces) -> None:
        self._graph, self._unread = places.graph, unread_inputs(places.graph)
        self._takes_two_pi = any(reads_tau(said) for *_, said in equations_in_nodes(places.graph))
        named = [(name, each) for name, meant in places.named.items() for each in meant]
        self._declared = {name: each.owner for name, each in named if each.is_port and _says_kind(each.owner)}

    def warn(self, inputs: Mapping[str, Any], run: Run) -> None:
        """Say what is odd about the inputs of a run, each once."""
        if self._takes_two_pi:
            run.warn_once("tau", f"equations: {TAU}")
        found = {STEP: wrong_with_step(inputs[STEP])} if STEP in inputs else {}
        found |= {name: f"nothing reads {name!r}: its value changes nothing" for name in self._unread & inputs.keys()}
        for name in self._declared.keys() & inputs.keys():
            if said := _wrong_kind(name, as_array(inputs[name], f"input {name!r}"), self._declared[name]):
                found[name] = said
        for name, said in found.items():
            if said:
                run.warn_once((id(self._graph), name), said)


def _says_kind(port: Any) -> bool:
    """Whether an input port declares whole numbers, or a shape that is known."""
    return _is_whole(port) or bool(_shape_of(port))


def _wrong_kind(name: str, value: np.ndarray, port: Any) -> str:
    """How what is given differs from what its port declares, at which MDF does not look; empty where it does not.

    A number, and an array of one element, may be of any shape.
    """
    flat = value.ravel()
    fractions = flat[np.mod(flat, 1) != 0] if _is_whole(port) and value.dtype.kind == "f" else flat[:0]
    if fractions.size:
        return f"{name} is declared {port.type}, and is given {fractions[0]}, which is used as it is"
    shape = _shape_of(port)
    if not shape or value.shape == shape or value.size == 1:
        return ""
    return f"{name} is declared with shape {[*shape]}, and is given an array of shape {[*value.shape]}, which is used as it is"


def _is_whole(port: Any) -> bool:
    return str(port.type).startswith(("int", "uint"))


def _shape_of(port: Any) -> tuple[int, ...]:
    """The shape that a port declares; empty where it declares none, or one with open lengths."""
    return tuple(port.shape) if port.shape and all(type(n) is int for n in port.shape) else ()
