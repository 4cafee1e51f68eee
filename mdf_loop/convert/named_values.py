"""The numbers of an MDF graph that have a name - default values of input ports, parameters - as values of an ONNX model.

Each comes from outside, so that what is written reads it by its name instead of holding its number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mdf_loop.convert.loading import usable
from mdf_loop.errors import ArgumentError, did_you_mean
from mdf_loop.ir import ValueType, entity
from mdf_loop.readers.expressions.values import literal
from mdf_loop.readers.mdf.input_ports import GivenInput, default_value_of, with_values
from mdf_loop.readers.mdf.signature import ports_of


@entity
class Named:
    """A number or an array with a name.

    Attributes
    ----------
    node, id : str
        Where it stands.
    name : str
        What it is called in the ONNX model: its id, or ``node.id`` where something else has that.
    is_port : bool
        Whether it is the default value of an input port, rather than a parameter.
    value : object
    shape : tuple or None
        What the port declares.
    """

    node: str
    id: str
    name: str
    is_port: bool
    value: Any
    shape: tuple[int, ...] | None

    @property
    def array(self) -> np.ndarray:
        """The value as an initializer."""
        return np.asarray(self.value)

    @property
    def sample(self) -> Any:
        """The value as expressions meet it: a number of Python's has no type of its own."""
        return self.value if isinstance(self.value, bool | int | float) else self.array

    @property
    def type(self) -> ValueType:
        """What an input says: lengths only where the port declares them."""
        return ValueType(self.array.dtype, self.shape or (None,) * self.array.ndim)


def named_values(graph: Any) -> list[Named]:
    """All of a graph, ports first."""
    places, ports = [*_places(graph)], ports_of(graph)
    ids = Counter(id for _, id, *_ in places) + Counter({id for _, id in (*ports.needy, *ports.ends)})
    found = [Named(node, id, id if ids[id] == 1 else f"{node}.{id}", *others) for node, id, *others in places]
    return sorted(found, key=lambda each: not each.is_port)


def _places(graph: Any) -> Iterator[tuple[Any, ...]]:
    free = set(ports_of(graph).free)
    for node in graph.nodes:
        for port in node.input_ports:
            if (node.id, port.id) in free and _is_number(default_value_of(port)):
                value = _typed(default_value_of(port), port.type)
                yield node.id, port.id, True, value, tuple(port.shape) if port.shape and usable(port.shape) else None
        for parameter in node.parameters:
            others = (
                parameter.default_initial_value,
                parameter.function,
                parameter.time_derivative,
                parameter.conditions or None,
            )
            if _is_number(parameter.value) and others == (None, None, None, None):
                yield node.id, parameter.id, False, parameter.value, np.shape(parameter.value)


def _is_number(value: Any) -> bool:
    """Whether something is a number or an array that an initializer can hold."""
    if not isinstance(value, bool | int | float | list | tuple | np.ndarray | np.generic):
        return False
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except ValueError:  # its rows do not have the same length
        return False


def _typed(value: Any, declared: Any) -> Any:
    """A whole number that a port calls a float as one, so that it may be given fractions."""
    is_whole = np.asarray(value).dtype.kind in "iu"
    if not is_whole or declared not in ("float", "float64", "double"):
        return value
    return float(value) if isinstance(value, int) else np.asarray(value, np.float64)


def asked_for(known: Sequence[Named], names: Sequence[str]) -> list[Named]:
    """Those of some names, each an id or ``node.id``.

    Raises
    ------
    ArgumentError
        There is none of a name, or there are several.
    """
    chosen = []
    for name in names:
        found = [each for each in known if name in (each.id, f"{each.node}.{each.id}")]
        if len(found) != 1:
            if not found:
                meant = did_you_mean(name, [each.id for each in known])
                raise ArgumentError(f"there is no value {name!r} that could be an input{meant}")
            places = " or ".join(f"{each.node}.{each.id}" for each in found)
            raise ArgumentError(f"several nodes have {name!r}; write {places}")
        chosen += found
    return chosen


def freed(graph: Any, values: Sequence[Named]) -> Any:
    """A graph in which these values come from outside, by their names."""
    given = {(each.node, each.id): (each.name, literal(each.sample).number) for each in values}
    return with_values(graph, {place: GivenInput(*place, *others) for place, others in given.items()})
