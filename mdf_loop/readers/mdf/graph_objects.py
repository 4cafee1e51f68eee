"""MDF graphs as objects, whatever form they come in, and whether they hold what MDF's classes say.

Neither MDF's classes nor its reader look at that: a file that says ``nodes: 5`` becomes a graph whose nodes are 5.  What a
field holds is read off the classes of ``modeci_mdf.mdf``; what may be a value or an expression is looked at where it is read.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, cast

from mdf_loop.errors import MalformedBody, did_you_mean, let_through, shortened
from mdf_loop.readers.mdf.file_structure import check_graph_content, fields_of

Path = tuple[str, ...]


def check_structure(thing: Any, path: Path = ()) -> None:
    """See that a model or graph, and all that is in it, is made of what MDF's classes say.

    MDF does not look at texts without a validator either, such as versions: its own exporters write numbers there.

    Parameters
    ----------
    thing : modeci_mdf.mdf Model, Graph, Node, ...
    path : tuple of str
        Where it stands, for errors.

    Raises
    ------
    MalformedBody
    """
    cls, own = cast(Any, type(thing)), getattr(thing, "id", None)
    inside = (*path, own) if isinstance(own, str) else path
    for name, field in fields_of(cls).items():
        value: Any = getattr(thing, name, None)
        where = path if name == "id" else inside
        if value is None and type(None) in field.kinds and name != "id":
            continue
        held: Any = [value]
        kind = field.holder or (None if field.inner else field.kinds[0])
        if field.holder or (kind in (dict, str) and int not in field.kinds):
            _expected(value, kind, name, where)
            for key in value if kind is dict else ():
                _expected(key, str, f"the names in {name}", where)
            held = value.values() if kind is dict else value
        for inner in _objects(held, field.inner, name, where) if field.inner else ():
            check_structure(inner, where)


def _objects(values: Any, cls: Any, name: str, path: Path) -> Iterator[Any]:
    """Objects of one class; a condition may be the dict of one, as MDF's engine reads them."""
    for value in values:
        if isinstance(value, Mapping) and "Condition" in cls.__name__:
            if missing := [key for key in _CONDITIONS[cls.__name__] if key not in value]:
                raise MalformedBody(f"{name} holds a condition without {' and '.join(missing)}", path)
        else:
            yield _expected(value, cls, name, path)


_CONDITIONS = {"ParameterCondition": ("test", "value"), "Condition": ("type",), "ConditionSet": ()}
"""What the dict of a condition has to say."""

_WORDS: dict[Any, str] = {list: "a list (in a file a dict of things by their ids)", dict: "a dict", str: "a text"}


def _expected(value: Any, cls: Any, name: str, path: Path) -> Any:
    if not isinstance(value, cls):
        wanted = _WORDS.get(cls, f"made of {cls.__name__}s (in a file: a dict of what a {cls.__name__} has)")
        raise MalformedBody(f"{name} must be {wanted}; got {type(value).__name__} {shortened(repr(value), 60)}", path)
    return value


def as_graph(source: Any) -> Any:
    """An MDF graph, from any of the forms it comes in.

    Raises
    ------
    MalformedBody
        It is none.
    """
    if not isinstance(source, Mapping):
        return source
    if "nodes" in source:
        return _structured(dict(source), str(source.get("id", "body")))
    if len(source) != 1:
        raise MalformedBody(
            f'a body in a dict is {{"onnx": text}}, {{"onnx_file": path}} or {{"graph_<id>": graph}}; got keys '
            f"{', '.join(map(repr, source)) or 'none'}"
        )
    ((key, content),) = source.items()
    if not isinstance(content, Mapping):
        if hasattr(content, "nodes") and hasattr(content, "edges"):
            return content
        meant = did_you_mean(key, ("onnx", "onnx_file", "carried"))
        raise MalformedBody(f"a graph is a dict with nodes; got {type(content).__name__}{meant}", (str(key),))
    return _structured(dict(content), str(key).removeprefix("graph_"))


def _structured(content: dict[str, Any], name: str) -> Any:
    """A Graph, from what JSON or YAML make of one."""
    from modeci_mdf.mdf import Graph
    from modelspec.base_types import converter

    check_graph_content(content, (name,))
    try:
        graph = converter.structure(copy.deepcopy(content), Graph)  # a copy, for this writes into it
    except Exception as error:
        let_through(error)
        raise MalformedBody(f"is no MDF graph: {error.args[0] if error.args else error}", (name,)) from error
    graph.id = name
    return graph
