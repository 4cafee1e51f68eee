"""The structure of what an MDF file says, checked before MDF makes objects of it.

MDF drops keys that it does not know, and fails inside of its converters where a value has another kind than it wants.
Here each key and each kind is looked at first.  Which there are is read off MDF's own classes.  ``metadata`` is free.
"""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from mdf_loop.errors import MalformedBody, warn_user

Place = tuple[Any, ...]
"""The keys that lead to something, from the outermost on."""

NOTES = ("notes", "name")
"""Free texts, which older versions of MDF had beside ``metadata``."""

LISTED = "ParameterCondition"
"""What MDF writes as a list, each with its id; everything else stands under its id."""

WRITTEN_OTHERWISE: dict[str, tuple[type, ...]] = {
    "shape": (str, list, tuple),
    "value": (int, float),
    "time_derivative": (int, float),
}
"""What a field may be in a file besides what MDF's class says: shapes as texts, numbers that are expressions."""

NAMED: dict[type, str] = {
    dict: "a mapping",
    list: "a list",
    tuple: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    np.ndarray: "an array",
    type(None): "nothing",
}


class Misplaced(MalformedBody):
    """Something in a model that should not be there, or is missing.

    Attributes
    ----------
    place : tuple
        The keys that lead to it.
    """

    def __init__(self, message: str, place: Place, path: Place | None = None) -> None:
        self.place = place
        super().__init__(message, tuple(map(str, place if path is None else path)))


@dataclass(frozen=True)
class Field:
    """What a key of a model file may hold.

    Attributes
    ----------
    kinds : tuple of type
        What its value may be; none for anything.
    inner : type or None
        MDF's class of what it holds.
    many : bool
        It holds a mapping from ids (or other keys) to such things.
    required : bool
        It cannot be left out.
    """

    kinds: tuple[type, ...]
    inner: Any = None
    many: bool = False
    required: bool = False


@cache
def fields_of(kind: Any) -> Mapping[str, Field]:
    """The keys of one of MDF's classes."""
    import attr

    return {field.name: _field(field, field.default is attr.NOTHING) for field in attr.fields(kind)}


def _field(field: Any, required: bool) -> Field:
    inner, many = _inner(field.type)
    required = required and field.name != "id"  # which is the key it stands under
    if field.name == "metadata":
        return Field((dict, type(None)))
    if inner is not None:
        is_optional = typing.get_origin(field.type) is typing.Union
        return Field((dict, type(None)) if is_optional else (dict,), inner, many, required)
    kinds = _told(field.validator) or _plain(field.type)
    more = WRITTEN_OTHERWISE.get(field.name, ()) or (() if field.validator else (int, float) if kinds == (str,) else ())
    return Field((*kinds, *more, *(() if required else (type(None),))), required=required)


def _arguments(annotation: Any) -> list[Any]:
    """What an annotation may be, None aside."""
    options = typing.get_args(annotation) if typing.get_origin(annotation) is typing.Union else (annotation,)
    return [option for option in options if option is not type(None)]


def _inner(annotation: Any) -> tuple[Any, bool]:
    """The class of MDF that an annotation speaks of, and whether of many of them."""
    (option, *others) = _arguments(annotation)
    arguments = typing.get_args(option)
    held, many = (arguments[-1], True) if typing.get_origin(option) in (list, dict) and arguments else (option, False)
    return (held, many) if not others and isinstance(held, type) and hasattr(held, "__attrs_attrs__") else (None, False)


def _told(validator: Any) -> tuple[type, ...]:
    """The kinds that a validator of attrs lets through."""
    inner = getattr(validator, "validator", validator)
    kinds = getattr(inner, "type", ())
    return kinds if isinstance(kinds, tuple) else (kinds,)


def _plain(annotation: Any) -> tuple[type, ...]:
    kinds = [typing.get_origin(option) or option for option in _arguments(annotation)]
    return tuple(kind for kind in kinds if isinstance(kind, type))


def check_model(content: Any) -> None:
    """See that what a file says is a model: its keys, the kinds of their values, the names that edges and conditions use.

    Parameters
    ----------
    content : dict
        ``{<id>: {graphs: ...}}``, or ``{id: <id>, graphs: ...}``.

    Raises
    ------
    Misplaced
        It is not; says what is wrong, where, and what was expected.
    """
    from modeci_mdf.mdf import Model

    if not isinstance(content, Mapping) or not content:
        raise Misplaced(f"a model is a dict: its id, and what it holds; got {_called(content)}", ())
    if "id" in content:
        _check(content, Model, ())
    elif len(content) > 1:
        raise Misplaced(f"a file holds one model, this one {len(content)}: {', '.join(map(str, content))}", ())
    else:
        _check_many(content, Model, ())


def check_graph_content(content: Mapping[str, Any], place: Place) -> None:
    """See that a dict is a graph, as :func:`check_model` does.

    Raises
    ------
    Misplaced
    """
    from modeci_mdf.mdf import Graph

    _check(content, Graph, place)


def _check_many(content: Mapping[Any, Any], kind: Any, place: Place) -> None:
    for key, inner in content.items():
        if not isinstance(key, str):
            raise Misplaced(f"the id of {_article(kind)} is a text; {key!r} is {_called(key)}: write it in quotes", (*place, key))
        if not isinstance(inner, Mapping):
            raise Misplaced(f"{_article(kind)} is a mapping with {_listed(fields_of(kind))}; got {_called(inner)}", (*place, key))
        _check(inner, kind, (*place, key))


def _check(content: Mapping[Any, Any], kind: Any, place: Place) -> None:
    """See that one thing has the keys of its class."""
    fields = fields_of(kind)
    if kind.__name__ == "Node" and _is_graph(content):
        warn_user(
            f"{'/'.join(map(str, place))} is a graph in the place of a node, as old importers wrote; MDF reads nothing of it"
        )
        return
    for key, value in content.items():
        if key in NOTES and isinstance(value, str):
            continue
        if key not in fields:
            raise Misplaced(_unknown(key, fields, kind), (*place, key))
        _check_value(value, fields[key], kind, (*place, key))
    for key, field in fields.items():
        if field.required and key not in content:
            raise Misplaced(f"{_article(kind)} has to say its {key}", place)
    for inner, where in _bodies(content, kind, place):
        check_graph_content(inner, where)
    if kind.__name__ == "Graph":
        _check_names(content, place)


def _check_value(value: Any, field: Field, kind: Any, place: Place) -> None:
    if field.kinds and not isinstance(value, field.kinds):
        if field.many and isinstance(value, list) and (not value or field.inner.__name__ == LISTED):
            return _check_listed(value, field.inner, place)
        wanted = ", ".join(dict.fromkeys(NAMED[k] for k in field.kinds if k in NAMED and k is not type(None)))
        what = f" from ids to {place[-1]}" if field.many else ""
        raise Misplaced(f"{place[-1]} of {_article(kind)} must be {wanted}{what}; got {_called(value)}", place)
    if field.inner is not None and value is not None:
        (_check_many if field.many else _check)(value, field.inner, place)


def _is_graph(content: Mapping[Any, Any]) -> bool:
    """Whether a node is a graph, as older importers of MDF wrote the bodies of loops."""
    return bool(content) and set(content) <= {"nodes", "edges"}


def _check_listed(content: list[Any], kind: Any, place: Place) -> None:
    """See that each of a list is one thing that says everything."""
    fields = fields_of(kind)
    for k, inner in enumerate(content):
        if not isinstance(inner, Mapping) or (missing := sorted(set(fields) - set(inner))):
            said = f"without {', '.join(missing)}" if isinstance(inner, Mapping) else _called(inner)
            raise Misplaced(f"{_article(kind)} in a list is a mapping with {_listed(fields)}; got one {said}", (*place, k))
        _check(inner, kind, (*place, k))


def _unknown(key: Any, fields: Mapping[str, Field], kind: Any) -> str:
    close = difflib.get_close_matches(str(key), fields, 1) or [name for name in fields if str(key) in name.split("_")]
    meant = f" (did you mean {close[0]!r}?)" if close else ""
    return f"{_article(kind)} has no {key!r}{meant}; it has {_listed(fields)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _article(kind: Any) -> str:
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in kind.__name__).split()
    return f"{'an' if words[0][0] in 'aeiou' else 'a'} {' '.join(words)}"


def _called(value: Any) -> str:
    """What a value is, for messages."""
    named = NAMED.get(type(value), type(value).__name__)
    return f"{named} ({value!r})" if isinstance(value, bool | int | float) else named


def _bodies(content: Mapping[Any, Any], kind: Any, place: Place) -> Iterator[tuple[Mapping[Any, Any], Place]]:
    """The graphs that are bodies of loops: ``{graph_<id>: graph}`` as a value or an argument."""
    arguments = content.get("args") if "args" in fields_of(kind) else None
    held: list[tuple[Place, Any]] = [(("value",), content.get("value"))] if "value" in fields_of(kind) else []
    held += [(("args", key), value) for key, value in arguments.items()] if isinstance(arguments, Mapping) else []
    for keys, value in held:
        if isinstance(value, Mapping) and len(value) == 1:
            ((name, graph),) = value.items()
            if isinstance(name, str) and isinstance(graph, Mapping) and "nodes" in graph:
                yield graph, (*place, *keys, name)


def _check_names(graph: Mapping[str, Any], place: Place) -> None:
    """See that edges and conditions name what is there.

    Where a graph is in the place of a node, edges lead into it.  Edges that the importer wrote are looked at when the
    graph is mended: there is more to say of them.
    """
    if any(map(_is_graph, (graph.get("nodes") or {}).values())) or _is_imported(graph):
        return
    nodes = {
        id: {kind: list(node.get(kind) or ()) for kind in ("input_ports", "output_ports")}
        for id, node in (graph.get("nodes") or {}).items()
    }
    edges = [
        (id, *(edge[key] for key in ("sender", "sender_port", "receiver", "receiver_port")))
        for id, edge in (graph.get("edges") or {}).items()
    ]
    check_edges(nodes, edges, place)
    said = graph.get("conditions") or {}
    for node in said.get("node_specific") or ():
        if node not in nodes:
            where = (*place, "conditions", "node_specific", node)
            raise Misplaced(f"a condition for node {node!r}, which is not there{_meant(node, nodes)}", where, place)
    for key in ("node_specific", "termination"):
        for name, condition in (said.get(key) or {}).items():
            _check_condition(condition, nodes, (*place, "conditions", key, name))


def _check_condition(condition: Mapping[str, Any], nodes: Iterable[str], place: Place) -> None:
    """See that the nodes a condition depends on are there, and that conditions in it are some."""
    from modeci_mdf.mdf import Condition

    for key, value in (condition.get("kwargs") or {}).items():
        for k, item in enumerate(value if isinstance(value, list) else [value]):
            where = (*place, "kwargs", key, *([k] if isinstance(value, list) else ()))
            if isinstance(item, Mapping) and "id" not in item:  # which a node has that is written out
                _check(item, Condition, where)
                _check_condition(item, nodes, where)
            elif key in ("dependency", "dependencies") and isinstance(item, str) and item not in nodes:
                raise Misplaced(f"a condition that depends on node {item!r}, which is not there{_meant(item, nodes)}", where)


def _is_imported(graph: Mapping[str, Any]) -> bool:
    """Whether a graph is as MDF's importer writes it: in each node one function, which is called like the node."""
    functions = [
        (id, [key for key, parameter in (node.get("parameters") or {}).items() if parameter.get("function")])
        for id, node in (graph.get("nodes") or {}).items()
    ]
    return all(held == [id] for id, held in functions) and "types" not in (graph.get("metadata") or {})


Ports = Mapping[str, list[str]]


def check_edges(nodes: Mapping[str, Ports], edges: Iterable[tuple[str, str, str, str, str]], place: Place) -> None:
    """See that edges join ports that are there.

    Parameters
    ----------
    nodes : mapping of str to mapping
        The nodes of a graph by their ids, each with the ids of its ``input_ports`` and ``output_ports``.
    edges : iterable of (id, sender, sender port, receiver, receiver port)
    place : tuple
        Where the graph stands.

    Raises
    ------
    Misplaced
    """
    for id, sender, sender_port, receiver, receiver_port in edges:
        for end, port, kind in ((sender, sender_port, "output_ports"), (receiver, receiver_port, "input_ports")):
            if end not in nodes:
                message = f"edge {id!r} names node {end!r}, which is not there{_meant(end, nodes)}"
                raise Misplaced(message, (*place, "edges", id), place)
            there = nodes[end][kind]
            if port not in there:
                has = ", ".join(map(repr, there)) or "none"
                what = kind[:-1].replace("_", " ")
                raise Misplaced(
                    f"edge {id!r} names {what} {port!r} of node {end!r}, which has {has}", (*place, "edges", id), place
                )


def _meant(name: Any, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(name), list(names), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""
