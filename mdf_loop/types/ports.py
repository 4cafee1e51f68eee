"""What a model takes and gives, by name: what it is, where it stands, and what it is without being given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import MissingOutput, shortened, unknown_name
from mdf_loop.ir import Body, ValueType, record


@record
class Input:
    """One input of a model.

    Attributes
    ----------
    name : str
        Its name in :func:`mdf_loop.run`.
    type : ValueType
        Element type and shape, if they are declared or follow from the default.
    default : object
        The default value, apart from the model: a list is a copy, and an array cannot be written into; None if the input is
        required.
    place : str
        Its place in the model, such as ``"node decision, parameter bound"``.
    required : bool
        Whether a run without it is an error.  MDF takes zeros for some ports without a default.
    """

    name: str
    type: ValueType
    default: Any
    place: str
    required: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "default", _apart(self.default))

    def __str__(self) -> str:
        default = f" = {shown(self.default)}" if self.default is not None else ", required" if self.required else ""
        return f"{self.name}{_said(self.type)}{default} ({self.place})"

    def __repr__(self) -> str:
        return f"<input {self}>"


@record
class Output:
    """One output of a model: its name, its type as far as it is declared, and where it stands."""

    name: str
    type: ValueType
    place: str

    def __str__(self) -> str:
        return f"{self.name}{_said(self.type)} ({self.place})"

    def __repr__(self) -> str:
        return f"<output {self}>"


def _said(type: ValueType) -> str:
    """A type behind a name; nothing where it is known only when the model has run."""
    return f": {text}" if (text := str(type)) != UNKNOWN else ""


UNKNOWN = "?"
"""A type of which nothing is known."""


class Ports(Mapping[str, Any]):
    """Inputs or outputs by name, which print as a list."""

    def __init__(self, ports: Mapping[str, Any]) -> None:
        self._ports = dict(ports)

    def __getitem__(self, name: str) -> Any:
        if name not in self._ports:
            raise MissingOutput(str(unknown_name("there is no", name, self)))
        return self._ports[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ports)

    def __len__(self) -> int:
        return len(self._ports)

    def __repr__(self) -> str:
        return "\n".join(map(str, self._ports.values())) or "none"


def inputs_of_graph(body: Body, named: Iterable[tuple[str, str]]) -> Ports:
    """The inputs of a graph of operators, each by a name and by its name in the graph."""
    known = body.defaults
    return Ports({n: Input(n, body.type_of(i), known.get(i), "input of the graph", i not in known) for n, i in named})


def type_of(value: Any) -> ValueType:
    """The type of a value that is there."""
    if value is None or isinstance(value, str | dict):
        return ValueType()
    try:
        array = np.asarray(value)
    except ValueError:
        return ValueType()
    return ValueType(array.dtype, array.shape)


def shown(value: Any) -> str:
    """A default in a few characters."""
    if isinstance(value, dict):
        return f"{{{', '.join(map(str, value))}: ...}}"
    return shortened(" ".join(str(value.tolist() if isinstance(value, np.ndarray) else value).split()), 40)


def _apart(value: Any) -> Any:
    """A value with which nothing in the model can be changed; arrays, which may be large, are not copied."""
    if isinstance(value, list | tuple):
        return (list if isinstance(value, list) else tuple)(map(_apart, value))
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return {key: _apart(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def declared(kind: Any, shape: Any) -> ValueType:
    """The type that a port of MDF declares."""
    try:
        dtype = np.dtype(kind) if kind else None
    except TypeError:
        dtype = None
    return ValueType(dtype, tuple(d if isinstance(d, int | str) else None for d in shape) if shape is not None else None)


def numbered(names: Sequence[str]) -> tuple[str, ...]:
    """Names of which each is there once: later ones have a number."""
    found: list[str] = []
    for name in names:
        number = 2
        base = name
        while name in found:
            name, number = f"{base}_{number}", number + 1
        found.append(name)
    return tuple(found)
