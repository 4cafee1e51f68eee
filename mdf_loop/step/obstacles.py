"""What keeps a Step from being machine code, in words: the first value that machine code cannot hold, as the model calls it."""

from __future__ import annotations

from collections.abc import Callable

from mdf_loop.ir import Node
from mdf_loop.step.records import Apply, Region, Type, Value
from mdf_loop.step.structure import uses_of, values_in


def obstacle(region: Region, can_hold: Callable[[Type], bool]) -> str:
    """The first value that cannot be held, and where it comes from; empty if there is none.

    >>> from mdf_loop.step.build import Builder
    >>> from mdf_loop.step.records import UNKNOWN
    >>> b = Builder()
    >>> text = b.param(UNKNOWN)
    >>> step = Region((text,), (), (text,), [((), {"greeting": text}, "")])
    >>> obstacle(step, lambda type: type.dtype is not None)
    "input 'greeting' is text, a list or an optional"
    """
    uses = uses_of(region)
    for value in values_in(region):
        if not (can_hold(value.type) or _is_several(value)) and uses.count(value):
            return _said(region, value)
    return ""


def first_unknown(region: Region) -> Apply | None:
    """The first operator as a whole that gives something of which too little is known, although all is known of its inputs."""
    uses = uses_of(region)
    for value in values_in(region):
        whole = value.args[0] if value.op == "item" else value
        if not isinstance(whole.attr, Apply) or value.type.is_known or _is_several(value) or not uses.count(value):
            continue
        if all(x.type.is_known or (x.op == "const" and x.attr is None) for x in whole.args):
            return whole.attr
    return None


def _is_several(value: Value) -> bool:
    """Whether only the items of a value count, or it is the list of an array's rows."""
    return value.op in ("loop", "branch", "rows") or (isinstance(value.attr, Apply) and value.attr.results > 1)


def _said(region: Region, value: Value) -> str:
    name, node, why = _named(region, value)
    if value in region.params:
        return f"input {name!r} is {_words(value.type, 'text, a list or an optional')}"
    if value.op == "param" and node is None:
        return f"{name.partition('~')[0]!r} has another type, or another number of axes, in later iterations"
    what = _words(value.type, "a value of a type that only the run knows")
    if value.op == "item" and value.args[0].op == "branch":
        what = " or ".join(_side(side, value.attr) for side in (value.args[0].attr.then, value.args[0].attr.other))
    whole = value.args[0] if value.op == "item" else value
    why = why or (whole.attr.why if isinstance(whole.attr, Apply) else "")
    return f"{_source(name, node)} gives {what}{f': {why}' if why else ''}"


def _named(region: Region, value: Value) -> tuple[str, Node | None, str]:
    """What the model calls a value, the node that gives it, and why nothing is known of it, as far as that is known."""
    found: tuple[str, Node | None, str] = "", None, ""
    for nodes, names, why in region.scopes:
        for name in [name for name, x in names.items() if x is value]:
            node = next((one for one in nodes if name in one.outputs), None)
            found = (name, node, why) if node is not None or not found[0] else found
    return found


def _side(side: Region, k: int) -> str:
    """What one side of a branch gives."""
    type = side.results[k].type
    return "what is no tensor" if type.dtype is None else str(type)


def _source(name: str, node: Node | None) -> str:
    """Where a value comes from."""
    return f"node {node}" if node is not None else f"a node behind {name!r}" if name else "a node"


def _words(type: Type, unknown: str) -> str:
    """A type, as far as it is known."""
    if type.dtype is None:
        return unknown
    if type.shape is None:
        return f"{type.dtype.name} of a number of axes that only the run knows"
    return f"{type}, for which there is no machine code"
