"""What the inputs of a graph are called: each free port and parameter by its id, or as ``node.id``."""

from __future__ import annotations

import copy
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from mdf_loop.convert.naming import ORIGINAL
from mdf_loop.errors import ArgumentError, did_you_mean
from mdf_loop.integrations.required_inputs import is_required
from mdf_loop.options import OPTIONS, Options
from mdf_loop.readers.mdf.by_place import LOOPS
from mdf_loop.readers.mdf.input_ports import with_values
from mdf_loop.types.fitting import as_array

Place = tuple[str, str]
"""A node, and the id of a port or parameter of it."""

Given = Mapping[Place, Any]
"""Values for ports and parameters."""


class FreePlace(NamedTuple):
    """Something that an input can set: a port without an edge or a parameter, and which attribute of it."""

    node: str
    id: str
    owner: Any
    attribute: str

    @property
    def place(self) -> Place:
        """Its node and its id."""
        return self.node, self.id

    @property
    def is_port(self) -> bool:
        """Whether it is an input port."""
        return self.attribute == "default_value"


def free_places(graph: Any) -> Iterator[FreePlace]:
    """Everything that an input can set."""
    connected = {(edge.receiver, edge.receiver_port) for edge in graph.edges}
    for node in graph.nodes:
        for port in node.input_ports:
            if (node.id, port.id) not in connected:
                yield FreePlace(node.id, port.id, port, "default_value")
        for parameter in node.parameters:
            if parameter.default_initial_value is not None:
                yield FreePlace(node.id, parameter.id, parameter, "default_initial_value")
            elif parameter.function is None:
                yield FreePlace(node.id, parameter.id, parameter, "value")


class InputPlaces:
    """The places that an input of a graph may set, by names.

    Parameters
    ----------
    graph : modeci_mdf Graph
        It does not change from now on.
    """

    def __init__(self, graph: Any) -> None:
        self.graph, self.free = graph, [*free_places(graph)]

    @cached_property
    def named(self) -> Mapping[str, Sequence[FreePlace]]:
        """The places that each name means: one, or all required ports of that name; without names that do not say which."""
        found: dict[str, list[FreePlace]] = {}
        for each in self.free:
            for name in dict.fromkeys((each.id, f"{each.node}.{each.id}", *_names_in_onnx(each.owner))):
                found.setdefault(name, []).append(each)
        clear: dict[str, Sequence[FreePlace]] = {}
        for name, places in found.items():
            required = [each for each in places if is_required(each.owner) and name != f"{each.node}.{each.id}"]
            if required or len(places) == 1:
                clear[name] = required or places
        return clear

    def of(self, name: str) -> Sequence[FreePlace]:
        """The places that a name means; none where it does not say which."""
        return self.named.get(name, ())

    def at(self, names: Iterable[str]) -> dict[Place, str]:
        """The places that some names mean, each with its name.

        Raises
        ------
        ArgumentError
            No place has a name, or several have; or two names mean one place.
        """
        found: dict[Place, str] = {}
        for name in names:
            if not (places := self.of(name)):
                raise self._no_place(name)
            for each in places:
                if found.setdefault(each.place, name) != name:
                    raise ArgumentError(f"{found[each.place]!r} and {name!r} are the same input; give it once")
        return found

    def given(self, inputs: Mapping[str, Any]) -> dict[Place, Any]:
        """Values by their places, as they stand in a graph.

        Raises
        ------
        ArgumentError
            As :meth:`at`.
        """
        given: dict[Place, Any] = {}
        count = 0
        for name, value in inputs.items():
            if not (places := self.named.get(name)):
                refuse_options(inputs, {*self.named, *(each.id for each in self.free)})
                raise self._no_place(name)
            kept = value if isinstance(value, bool | int | float | dict) else as_array(value, f"input {name!r}")
            for node, id, _, _ in places:
                given[node, id] = kept
                count += 1
        if len(given) < count:
            self.at(inputs)  # says which two
        return given

    def _no_place(self, name: str) -> ArgumentError:
        """What is wrong with a name that means no place."""
        names = [f"{each.node}.{each.id}" for each in self.free if not isinstance(getattr(each.owner, each.attribute), dict)]
        if any(name == each.id for each in self.free):  # a dict is the body of a loop
            matching = [full for full in names if full.endswith(f".{name}")]
            return ArgumentError(f"the name {name!r} is not unique; give one of: {', '.join(matching)}")
        ids = [full.rpartition(".")[2] for full in names]
        known = [id if ids.count(id) == 1 else full for id, full in zip(ids, names, strict=True)]
        meant = did_you_mean(name, [*names, *known], 3) or f"; there are {', '.join(known) or 'none'}"
        said = f"the model has no input port without an edge and no parameter called {name!r}{meant}"
        return ArgumentError(_carried(self.graph, name) or said)


def _names_in_onnx(owner: Any) -> tuple[str, ...]:
    """What a required port is called in an ONNX model."""
    was = owner.metadata.get(ORIGINAL) if is_required(owner) else None
    return (was,) if isinstance(was, str) else ()


def _carried(graph: Any, name: str) -> str:
    """What to give instead of a value that a loop carries; empty if none carries a value of that name."""
    for node in graph.nodes:
        for thing in (*node.parameters, *node.functions):
            start = (thing.args or {}).get(name.removeprefix(f"{node.id}.")) if thing.function in LOOPS else None
            if isinstance(start, str) and start.isidentifier():
                return f"{name!r} is carried by the loop {node.id}.{thing.id}, which begins with {start!r}: give {start}=..."
    return ""


def with_inputs(graph: Any, inputs: Mapping[str, Any]) -> Any:
    """A copy of a graph in which the named ports and parameters have the given values.

    Raises
    ------
    ArgumentError
        No port or parameter has that name, or several have.
    """
    return with_values(copy.deepcopy(graph), InputPlaces(graph).given(inputs)) if inputs else graph


def refuse_options(inputs: Mapping[str, Any], names: Container[str]) -> None:
    """See that no option stands among the inputs of a model that has no input of that name.

    Raises
    ------
    ArgumentError
    """
    for name in OPTIONS.intersection(inputs):
        if name not in names:
            Options(**{name: inputs[name]})  # of a value that it cannot have, this says so
            raise ArgumentError(
                f"{name} is an option, and the model has no input of that name; "
                f"write: with mdf_loop.options({name}={inputs[name]!r}): ..."
            )
