"""Constants of a model by name, those in the bodies of its loops too, so that they can be set like parameters.

A converted model holds the numbers of an ONNX model as parameters of its nodes, as those of nodes in a body, or in the text of
a body.  Each has the name that the file gives it, behind those of the nodes around it where the name alone is not unique.
"""

from __future__ import annotations

import copy
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.convert.naming import names_of
from mdf_loop.errors import ArgumentError, KindError
from mdf_loop.ir import ValueType, record
from mdf_loop.readers.mdf.typed import is_typed
from mdf_loop.readers.mdf.written_values import read_type_text
from mdf_loop.types.fitting import as_array

IN_TEXT = re.compile(r"(?P<type>\b\w+)\s*(?:\[(?P<dims>[\d, ]*)\])?\s+(?P<name>[\w.]+)\s*=\s*\{(?P<values>[^{}\"]*)\}")
"""A constant in ONNX text: ``float[2] weights = {1, 2}``."""


@record
class ModelConstant:
    """One constant: where it stands, what it is called in ONNX, its value, and how another one takes its place.

    ``is_exact`` says that it has a type: a whole number stays one.  ``said`` is the text of that type, if there is one.
    """

    place: tuple[str, ...]
    original: str
    value: Any
    put: Callable[[Any], None]
    is_exact: bool
    said: str = ""

    @property
    def type(self) -> ValueType:
        """Its element type, as the model says it, and its shape."""
        array = np.asarray(self.value)
        try:
            kind = read_type_text(self.said).dtype if self.said else None
        except ValueError:  # running the model raises it
            kind = None
        return ValueType(kind or array.dtype, array.shape)

    @property
    def name(self) -> str:
        """Its full name."""
        return ".".join(self.place)

    def is_called(self, name: str) -> bool:
        """Whether a name means it: the end of its full name, or its name in ONNX."""
        return self.name == name or self.name.endswith(f".{name}") or name == self.original

    def set(self, value: Any) -> None:
        """Put a value in its place.

        Raises
        ------
        ArgumentError, KindError
            It has another shape, or is of another kind.
        """
        old, new = np.asarray(self.value), as_array(value, f"constant {self.name!r}")
        if old.shape != new.shape:
            raise ArgumentError(f"constant {self.name!r} has shape {list(old.shape)}; got {reprlib.repr(value)}")
        kinds = {"b": "b", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc"} if self.is_exact else {}
        if new.dtype.kind not in kinds.get(old.dtype.kind, "biufc"):
            raise KindError(f"constant {self.name!r} is of type {old.dtype.name}; got {reprlib.repr(value)}")
        self.put(new.astype(old.dtype).tolist() if self.is_exact else new.tolist())


def constants(graph: Any) -> Iterator[ModelConstant]:
    """The numbers of a graph that have a name and that no input sets: of nodes in bodies, and in one that says types of all."""
    return _of_graph(graph, (), is_typed(graph))


def _of_graph(graph: Any, place: tuple[str, ...], has_own: bool) -> Iterator[ModelConstant]:
    originals, is_exact = names_of(graph) or _part(graph, "metadata", {}).get("names") or {}, _says_types(graph)
    types = _part(graph, "metadata", {}).get("types")
    types = types if isinstance(types, Mapping) else {}
    for id, node in _named(graph, "nodes"):
        for name, thing in (*_named(node, "parameters"), *_named(node, "functions")):
            value, inner = _part(thing, "value", None), (*place, id)
            if isinstance(value, Mapping):
                yield from _of_body(value, inner)
            elif has_own and _is_number(value) and not _part(thing, "function", None):
                said = str(types.get(f"{id}.{name}", ""))
                yield ModelConstant((*inner, name), originals.get(name, name), value, _putting(thing, "value"), is_exact, said)


def _of_body(value: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[ModelConstant]:
    """The constants in a parameter that holds a body: a graph, or ONNX text."""
    for key, inner in value.items():
        if str(key).startswith("graph_"):
            yield from _of_graph(inner, place, has_own=True)
        elif key == "onnx" and isinstance(inner, str):
            yield from _of_text(value, place)


def _of_text(value: Any, place: tuple[str, ...]) -> Iterator[ModelConstant]:
    for found in IN_TEXT.finditer(value["onnx"]):
        numbers = [part.strip() for part in found["values"].split(",") if part.strip()]
        kind = bool if found["type"] == "bool" else float if "float" in found["type"] or found["type"] == "double" else int
        shape = tuple(int(dim) for dim in (found["dims"] or "").split(",") if dim.strip())
        try:
            array = np.array([kind(float(n)) if kind is not int else int(n) for n in numbers]).reshape(shape)
        except ValueError:
            continue  # no numbers, or not as many as its type says
        yield ModelConstant((*place, found["name"]), "", array, _putting_into_text(value, found["name"]), True, found["type"])


def _putting_into_text(value: Any, name: str) -> Callable[[Any], None]:
    def put(new: Any) -> None:
        numbers = ", ".join(str(int(x) if isinstance(x, bool) else x) for x in np.ravel(new).tolist())

        def changed(found: re.Match[str]) -> str:
            start, end = found.span("values")
            text, begin = found[0], found.start()
            return text[: start - begin] + numbers + text[end - begin :] if found["name"] == name else text

        value["onnx"] = IN_TEXT.sub(changed, value["onnx"])

    return put


def _putting(holder: Any, key: str) -> Callable[[Any], None]:
    def put(new: Any) -> None:
        if isinstance(holder, dict):
            holder[key] = new
        else:
            setattr(holder, key, new)

    return put


def _part(thing: Any, key: str, otherwise: Any) -> Any:
    """A part of an MDF object, or of the dict that a body in a file is."""
    found = thing.get(key) if isinstance(thing, Mapping) else getattr(thing, key, None)
    return otherwise if found is None else found


def _named(thing: Any, key: str) -> list[tuple[str, Any]]:
    """Parts by their ids, of an object or of a dict."""
    found = _part(thing, key, ())
    return [(str(id), part) for id, part in found.items()] if isinstance(found, Mapping) else [(part.id, part) for part in found]


def _says_types(graph: Any) -> bool:
    return "types" in _part(graph, "metadata", {})


def _is_number(value: Any) -> bool:
    if isinstance(value, bool | int | float | np.number | np.bool_):
        return True
    try:
        return isinstance(value, list | np.ndarray) and np.asarray(value).dtype.kind in "biuf"
    except ValueError:
        return False


def with_constants(graph: Any, values: Mapping[str, Any]) -> Any:
    """A copy of a graph in which constants have other values.

    Raises
    ------
    ArgumentError
        A name means several constants, or the value has another shape.
    KindError
        The value is of another kind.
    """
    graph = copy.deepcopy(graph)
    found = list(constants(graph))
    for name, value in values.items():
        meant = [constant for constant in found if constant.name == name] or [c for c in found if c.is_called(name)]
        if len(meant) != 1:
            raise ArgumentError(f"the name {name!r} is not unique; give one of: {', '.join(c.name for c in meant)}")
        meant[0].set(value)
    return graph


def told_apart(graph: Any, inputs: Mapping[str, Any], known: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs of a graph, and values of its constants; what is neither stays among the inputs.

    Parameters
    ----------
    graph : modeci_mdf Graph
    inputs : mapping
    known : container of str
        Names of inputs.
    """
    if all(name in known for name in inputs):
        return dict(inputs), {}
    found = list(constants(graph))
    inside = {name for name in inputs if name not in known and any(constant.is_called(name) for constant in found)}
    return {n: v for n, v in inputs.items() if n not in inside}, {n: v for n, v in inputs.items() if n in inside}
