"""The structure of what an MDF file says, checked before MDF makes objects of it.

MDF drops keys that it does not know, and fails inside of its converters where a value has another kind than it wants.
Here each key and each kind is looked at first.  Which there are is read off MDF's own classes.  ``metadata`` is free.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from mdf_loop.errors import MalformedBody, close_to, there_are, warn_user
from mdf_loop.ir import record
from mdf_loop.readers.expressions.other_notations import example_of, meant_by_comma, meant_by_condition, meant_by_list
from mdf_loop.readers.mdf.input_ports import needed

Ports = Mapping[str, list[str]]

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


NEWER = {"InputPort": ("default_value", "reduce")}
"""What some versions of MDF do not have."""


class Misplaced(MalformedBody):
    """Something in a model that should not be there, or is missing.

    Attributes
    ----------
    place : tuple
        The keys that lead to it.
    meant : str
        The key that was meant in the place of the last one; empty where it is not known.
    """

    def __init__(self, message: str, place: Place, path: Place | None = None, meant: str = "") -> None:
        self.place, self.meant = place, meant
        super().__init__(message, tuple(map(str, place if path is None else path)))


@record
class Field:
    """What a key of a model file may hold.

    Attributes
    ----------
    kinds : tuple of type
        What its value may be; none for anything.
    inner : type or None
        MDF's class of what it holds.
    holder : type or None
        It holds a mapping from ids (or other keys) to such things, which is a list or a dict in MDF's objects.
    required : bool
        It cannot be left out.
    """

    kinds: tuple[type, ...]
    inner: Any = None
    holder: Any = None
    required: bool = False


@cache
def fields_of(kind: Any) -> Mapping[str, Field]:
    """The keys of one of MDF's classes."""
    import attr

    return {field.name: _field(field, field.default is attr.NOTHING) for field in attr.fields(kind)}


def _field(field: Any, required: bool) -> Field:
    inner, holder = _inner(field.type)
    required = required and field.name != "id"  # which is the key it stands under
    if field.name == "metadata":
        return Field((dict, type(None)))
    if inner is not None:
        is_optional = typing.get_origin(field.type) is typing.Union
        return Field((dict, type(None)) if is_optional else (dict,), inner, holder, required)
    kinds = _told(field.validator) or _plain(field.type)
    more = WRITTEN_OTHERWISE.get(field.name, ()) or (() if field.validator else (int, float) if kinds == (str,) else ())
    return Field((*kinds, *more, *(() if required else (type(None),))), required=required)


def _arguments(annotation: Any) -> list[Any]:
    """What an annotation may be, None aside."""
    options = typing.get_args(annotation) if typing.get_origin(annotation) is typing.Union else (annotation,)
    return [option for option in options if option is not type(None)]


def _inner(annotation: Any) -> tuple[Any, Any]:
    """The class of MDF that an annotation speaks of, and what holds many of them."""
    (option, *others) = _arguments(annotation)
    arguments = typing.get_args(option)
    holder = typing.get_origin(option) if arguments and typing.get_origin(option) in (list, dict) else None
    held = arguments[-1] if holder else option
    return (held, holder) if not others and isinstance(held, type) and hasattr(held, "__attrs_attrs__") else (None, None)


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
    for error in wrong_with_model(content):
        raise error


def wrong_with_model(content: Any) -> Iterator[Misplaced]:
    """Everything for which :func:`check_model` refuses a model; a misspelt key is read as the one that was meant."""
    from modeci_mdf.mdf import Model

    if not isinstance(content, Mapping) or not content:
        yield Misplaced(f"a model is a dict: its id, and what it holds; got {called(content)}", ())
    elif "id" in content:
        yield from _wrong(content, Model, ())
    elif len(content) > 1:
        yield Misplaced(f"a file holds one model, this one {len(content)}: {', '.join(map(str, content))}", ())
    else:
        yield from _wrong_of_many(content, Model, ())


def check_graph_content(content: Mapping[str, Any], place: Place) -> None:
    """See that a dict is a graph, as :func:`check_model` does.

    Raises
    ------
    Misplaced
    """
    from modeci_mdf.mdf import Graph

    for error in _wrong(content, Graph, place):
        raise error


def _wrong_of_many(content: Mapping[Any, Any], kind: Any, place: Place) -> Iterator[Misplaced]:
    for key, inner in content.items():
        where = (*place, key)
        if not isinstance(key, str):
            yield Misplaced(f"the id of {_article(kind)} is a text; {key!r} is {called(key)}: write it in quotes", where)
        elif isinstance(inner, Mapping | None) and (owner := _indented(key, inner or {}, kind)):
            yield Misplaced(
                f"{key!r} is a key of {_article(owner)}, not the id of {_article(kind)}: it is indented too far", where
            )
        elif not isinstance(inner, Mapping):
            said = f"{_article(kind)} is a mapping with {_listed(fields_of(kind))}; got {called(inner)}"
            yield Misplaced(f"{said}{_of_plain(key, inner, kind)}", where)
        else:
            yield from _wrong(inner, kind, where)


def _of_plain(key: str, value: Any, kind: Any) -> str:
    """What to write where a value stands in the place of a mapping."""
    if kind.__name__ == "Condition":
        return meant_by_condition(value)
    if ":" in key or " {" in key:
        colon = f"; a colon is missing: write {key.replace(' {', ': {', 1)}: {value}"
        return "; a space is missing behind the colon" if ":" in key else colon
    field = next((name for name in ("default_value", "value") if name in fields_of(kind)), None)
    return f"; write {key}: {{{field}: {value}}}" if field and isinstance(value, str | int | float) else example_of(kind)


def _wrong(content: Mapping[Any, Any], kind: Any, place: Place) -> Iterator[Misplaced]:
    """What is wrong with the keys of one thing, and below them."""
    fields = fields_of(kind)
    if kind.__name__ == "Node" and _is_graph(content):
        warn_user(f"{'/'.join(map(str, place))} is a graph where a node belongs, as old importers wrote; MDF ignores it")
        return
    said: dict[str, Any] = {}
    for key, value in content.items():
        if key in NOTES and isinstance(value, str):
            continue
        meant = key if key in fields else _meant_key(key, fields, content)
        if key not in fields:
            is_decimal = value is None and re.fullmatch(r"\d+\w*", str(key))
            comma = meant_by_comma(content) if value is None else meant_by_condition(content) * (kind.__name__ == "Condition")
            comma = comma or ("; a number has a point: 0.1, not 0,1" if is_decimal else "")
            comma = comma or (_AN_ID if kind.__name__ == "Model" and place[-1:] in (("graphs",), ("nodes",)) else "")
            yield Misplaced(f"{_unknown(key, fields, kind)}{comma}", (*place, key), meant=meant)
        if meant in fields:
            said[meant] = value
            yield from _wrong_value(value, fields[meant], kind, (*place, key))
    for key, field in fields.items():
        if field.required and key not in said:
            yield Misplaced(f"{_article(kind)} has to say its {key}{example_of(kind)}", place)
    yield from _wrong_below(said, kind, place)


def _wrong_below(said: Mapping[str, Any], kind: Any, place: Place) -> Iterator[Misplaced]:
    """What is wrong with bodies in one thing, and with names that a graph uses."""
    from modeci_mdf.mdf import Graph

    for inner, where in _bodies(said, kind, place):
        yield from _wrong(inner, Graph, where)
    if kind is Graph and isinstance(said.get("nodes", {}), Mapping | None):
        yield from _wrong_names(said, place)


def _wrong_value(value: Any, field: Field, kind: Any, place: Place) -> Iterator[Misplaced]:
    if field.kinds and not isinstance(value, field.kinds):
        if field.holder and isinstance(value, list) and (not value or field.inner.__name__ == LISTED):
            yield from _wrong_of_list(value, field.inner, place)
            return
        wanted = ", ".join(dict.fromkeys(NAMED[k] for k in field.kinds if k in NAMED and k is not type(None)))
        what = f" from ids to {place[-1]}" if field.holder else ""
        meant = f"; write [{value}]" if place[-1] == "shape" and type(value) is int else ""
        meant = meant_by_list(value) if isinstance(value, list) and str in field.kinds else meant
        meant = meant or example_of(field.inner) or example_of(kind)
        yield Misplaced(f"{place[-1]} of {_article(kind)} must be {wanted}{what}; got {called(value)}{meant}", place)
    elif field.inner is not None and value is not None:
        yield from (_wrong_of_many if field.holder else _wrong)(value, field.inner, place)


def _is_graph(content: Mapping[Any, Any]) -> bool:
    """Whether a node is a graph, as older importers of MDF wrote the bodies of loops."""
    return bool(content) and set(content) <= {"nodes", "edges"}


def _wrong_of_list(content: list[Any], kind: Any, place: Place) -> Iterator[Misplaced]:
    """What is wrong with things in a list: each has to say everything."""
    fields = fields_of(kind)
    for k, inner in enumerate(content):
        if isinstance(inner, Mapping) and set(fields) <= set(inner):
            yield from _wrong(inner, kind, (*place, k))
            continue
        said = f"without {_listed(set(fields) - set(inner))}" if isinstance(inner, Mapping) else called(inner)
        yield Misplaced(f"{_article(kind)} in a list is a mapping with {_listed(fields)}; got one {said}", (*place, k))


_AN_ID = "; a file begins with the id of the model: my_model: {graphs: {my_graph: {nodes: ...}}}"


def _unknown(key: Any, fields: Mapping[str, Field], kind: Any) -> str:
    if key in NEWER.get(kind.__name__, ()):
        return f"{key!r} of {_article(kind)} takes {needed()}"
    close = _close(key, fields)
    owner = next((other for other in _kinds() if key in fields_of(other)), None)
    meant = f" ({_article(owner)} has: see the indentation)" if owner else ""
    meant = f" (did you mean {close!r}?)" if close and (owner is None or str(key) in close) else meant
    if (kind.__name__, key) == ("Node", "nodes"):
        meant += ": MDF has no graphs inside graphs, so PsyNeuLink's nested compositions have no form in it"
    return f"{_article(kind)} has no {key!r}{meant}; it has {_listed(fields)}{example_of(kind)}"


def _indented(key: str, content: Mapping[Any, Any], kind: Any) -> Any:
    """The class that has a key, where it was written as the id of something inside of that."""
    fields = fields_of(kind)
    if set(content) & set(fields):
        return None
    owners = [other for other in _kinds() if key in fields_of(other)]
    return next((other for other in owners if kind in [field.inner for field in fields_of(other).values()]), None)


@cache
def _kinds() -> tuple[Any, ...]:
    """MDF's classes, from a model inwards."""
    from modeci_mdf.mdf import Model

    found: list[Any] = [Model]
    for kind in found:  # which grows
        found += [field.inner for field in fields_of(kind).values() if field.inner is not None and field.inner not in found]
    return tuple(dict.fromkeys(found))


def _close(key: Any, fields: Iterable[str]) -> str:
    """The key that is much like another one; empty if none is."""
    close = close_to(key, fields) or [name for name in fields if str(key) in name.split("_")]
    return close[0] if close else ""


def _meant_key(key: Any, fields: Iterable[str], content: Mapping[Any, Any]) -> str:
    """The key that is much like one that is not there, unless that is said as well, or meant by another."""
    close = _close(key, fields)
    others = [other for other in content if other not in fields and other != key and _close(other, fields) == close]
    return "" if close in content or others else close


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _article(kind: Any) -> str:
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in kind.__name__).split()
    return f"{'an' if words[0][0] in 'aeiou' else 'a'} {' '.join(words)}"


def called(value: Any) -> str:
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


def _wrong_names(graph: Mapping[str, Any], place: Place) -> Iterator[Misplaced]:
    """Edges and conditions that name what is not there.

    Where a graph is in the place of a node, edges lead into it.  Edges that the importer wrote are looked at when the
    graph is repaired: there is more to say of them.  What is malformed itself has been reported: nothing is known of it.
    """
    nodes, edges = graph.get("nodes") or {}, _mappings(graph.get("edges"))
    if any(map(_is_graph, _mappings(nodes).values())) or _is_imported(nodes, graph):
        return
    keys = ("sender", "sender_port", "receiver", "receiver_port")
    ends = [(id, *(edge[key] for key in keys)) for id, edge in edges.items() if all(isinstance(edge.get(k), str) for k in keys)]
    yield from wrong_with_edges({id: _ports(node) for id, node in nodes.items()}, ends, place)
    said = graph.get("conditions")
    for key in ("node_specific", "termination"):
        for name, condition in _mappings(said.get(key) if isinstance(said, Mapping) else None).items():
            where = (*place, "conditions", key, name)
            if key == "node_specific" and name not in nodes:
                yield Misplaced(f"a condition for node {name!r}, which is not there{there_are(name, nodes)}", where, place)
            yield from _wrong_with_condition(condition, nodes, where)


def _mappings(value: Any) -> dict[Any, Any]:
    """Those of many things that are mappings."""
    return {id: inner for id, inner in value.items() if isinstance(inner, Mapping)} if isinstance(value, Mapping) else {}


def _ports(node: Any) -> Ports:
    """The ports of a node by kind; without a kind that is not known, as it is malformed or a key is misspelt."""
    kinds = ("input_ports", "output_ports")
    if not isinstance(node, Mapping) or any(_close(key, kinds) for key in node if key not in kinds):
        return {}
    held = {kind: node.get(kind) or () for kind in kinds}
    return {kind: list(ports) for kind, ports in held.items() if not ports or isinstance(ports, Mapping)}


def _wrong_with_condition(condition: Mapping[str, Any], nodes: Collection[str], place: Place) -> Iterator[Misplaced]:
    """Nodes that a condition depends on and that are not there, and conditions in it that are none."""
    from modeci_mdf.mdf import Condition

    arguments = condition.get("kwargs")
    for key, value in arguments.items() if isinstance(arguments, Mapping) else ():
        for k, item in enumerate(value if isinstance(value, list) else [value]):
            where = (*place, "kwargs", key, *([k] if isinstance(value, list) else ()))
            if isinstance(item, Mapping) and "id" not in item:  # which a node has that is written out
                yield from _wrong(item, Condition, where)
                yield from _wrong_with_condition(item, nodes, where)
            elif key in ("dependency", "dependencies") and isinstance(item, str) and item not in nodes:
                yield Misplaced(f"a condition that depends on node {item!r}, which is not there{there_are(item, nodes)}", where)


def _says_types(metadata: Any) -> bool:
    return isinstance(metadata, Mapping) and "types" in metadata


def _is_imported(nodes: Mapping[str, Any], graph: Mapping[str, Any]) -> bool:
    """Whether a graph is as MDF's importer writes it: in each node one function, which is called like the node."""
    functions = [
        (id, [key for key, parameter in _mappings(node.get("parameters")).items() if parameter.get("function")])
        for id, node in _mappings(nodes).items()
    ]
    return all(held == [id] for id, held in functions) and not _says_types(graph.get("metadata"))


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
    for error in wrong_with_edges(nodes, edges, place):
        raise error


def wrong_with_edges(
    nodes: Mapping[str, Ports], edges: Iterable[tuple[str, str, str, str, str]], place: Place
) -> Iterator[Misplaced]:
    """Everything for which :func:`check_edges` refuses edges; a node without a kind of ports may have any."""
    for id, sender, sender_port, receiver, receiver_port in edges:
        for end, port, kind in ((sender, sender_port, "output_ports"), (receiver, receiver_port, "input_ports")):
            if end not in nodes:
                message = f"edge {id!r} names node {end!r}, which is not there{there_are(end, nodes)}"
                yield Misplaced(message, (*place, "edges", id), place)
            elif kind in nodes[end] and port not in (there := nodes[end][kind]):
                has = ", ".join(map(repr, there)) or "none"
                message = f"edge {id!r} names {kind[:-1].replace('_', ' ')} {port!r} of node {end!r}, which has {has}"
                yield Misplaced(message, (*place, "edges", id), place)
