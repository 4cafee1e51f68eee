"""What in a graph nothing reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mdf_loop.readers.expressions.derivatives import STEP
from mdf_loop.readers.expressions.equation_texts import DERIVATIVES, NUMBERS, names_hidden_by
from mdf_loop.readers.mdf.node import CONTROL


def unread_inputs(graph: Any) -> set[str]:
    """The parameters of a graph that nothing reads, as ``node.id``, and by their ids where no other thing is called so.

    Those of nodes with functions are left out: MDF gives a function what it takes by name.
    """
    said = words_of_conditions(graph)
    nodes = [node for node in graph.nodes if {each.function for each in (*node.functions, *node.parameters)} <= {None, *CONTROL}]
    found = {f"{node.id}.{id}": id for node in nodes for id in unread_in(node, said)}
    ids = [each.id for node in graph.nodes for each in (*node.parameters, *node.input_ports)]
    return {*found, *(id for id in found.values() if ids.count(id) == 1)}


def unread_in(node: Any, said: set[str]) -> dict[str, str]:
    """Parameters, functions and hidden ports that nothing in a node reads, nor a condition (``said`` are the names in those)."""
    things = (*node.functions, *node.parameters)
    words = [(thing, {name for part in _texts(thing) for name in _words(part)}) for thing in (*things, *node.output_ports)]
    known_by_name = {"body", "then_branch", "else_branch", *(port.id for port in node.output_ports)}
    unread = dict[str, str]()
    if any(isinstance(thing.value, dict) and "onnx_file" in thing.value for thing in things):
        return unread  # the file may read anything
    for thing in things:
        others = {name for other, names in words if other is not thing for name in names}
        if thing.id not in others | said | known_by_name:
            number = next((name for name in NUMBERS if name in others and thing.id.startswith(name)), "")
            meant = f"; {number} is read, which is a number of its own: did you mean {thing.id!r}?" if number else ""
            unread[thing.id] = f"nothing reads it{meant}"
    inside = {name for thing in things for name in names_hidden_by(getattr(thing, "value", None))}
    for port in node.input_ports:
        if port.id in inside - said and not any(port.id in names for _, names in words):
            unread[port.id] = (
                f"nothing reads it: the body has a value of its own with this name, args: {{{port.id}: {port.id}}} begins with it"
            )
    return unread


def words_of_conditions(graph: Any) -> set[str]:
    """Every word in the conditions of a graph."""
    todo, words = [graph.conditions], set[str]()
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            words |= _words(value)
        elif isinstance(value, dict):
            todo += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            todo += value
        elif (value is not None and hasattr(value, "__dict__")) or hasattr(value, "__slots__"):
            todo += [getattr(value, name, None) for name in ("node_specific", "termination", "kwargs")]
    return words


def _texts(thing: Any) -> Iterator[Any]:
    for attribute in ("value", "default_initial_value", "time_derivative"):
        value = getattr(thing, attribute, None)
        yield _words(value) - (hidden := names_hidden_by(value))
        if isinstance(value, dict) and DERIVATIVES in value and STEP not in hidden:
            yield STEP  # which a body of derivatives reads without saying it
    args = getattr(thing, "args", None)
    yield from args.values() if isinstance(args, dict) else [args]
    for condition in getattr(thing, "conditions", None) or ():
        is_dict = isinstance(condition, dict)  # as MDF's engine reads them as well
        yield from (condition.get(key) if is_dict else getattr(condition, key) for key in ("test", "value"))


def _words(value: Any) -> set[str]:
    """Every name in a value and what is inside it."""
    return set(re.findall(r"[^\W\d]\w*", str(value)))
