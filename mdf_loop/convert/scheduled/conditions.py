"""Conditions of graph-scheduler as records: what they look at, read from an MDF graph without running anything.

Only conditions that depend on nothing outside the graph are read: on passes, on calls of nodes, on values.  Time in
seconds, the random, and conditions written in Python are refused by name.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mdf_loop.errors import NotLowered, UnknownNode
from mdf_loop.ir import record
from mdf_loop.readers.mdf.stepped_loops import stepped_loop

PASS, UPDATE, SEQUENCE = "PASS", "ENVIRONMENT_STATE_UPDATE", "ENVIRONMENT_SEQUENCE"
"""What counts are relative to: the pass, one evaluation of the graph, everything since the graph was made."""

Key = tuple[str, ...]
"""What a value that lives from pass to pass is: its kind (``"parameter"``, ``"output"``, ``"calls"``, ...) and whose."""

INSIDE = "inside"
"""The kind of a value inside a loop of a node: behind the ids of both stand the name that it is recorded under, and the way."""


def way_inside(key: Key) -> Key:
    """The way to what is recorded inside a loop of a node, through that loop."""
    return f"{key[1]}.{key[2]}", *key[4:]


UPDATES: Key = ("evaluations",)
"""How many evaluations of the graph are over."""

SCALES = {"CONSIDERATION_SET_EXECUTION": PASS, PASS: PASS, UPDATE: UPDATE, SEQUENCE: SEQUENCE, "LIFE": SEQUENCE}

SINCE = ("usable", "iterations since")
"""Kinds of counts that begin at 0 again when the node that waits for them is called."""

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}

SYMBOLS = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal", "!=": "not_equal"}


@record
class Constant:
    """Always or never."""

    value: bool


@record
class Count:
    """A count, or the sum of several, compared with ``n``; or, ``comparison`` ``"remainder"``, whether it is a multiple of ``n``.

    Attributes
    ----------
    keys : tuple of Key
        What is counted: ``("passes", scale)``; ``("calls", node, scale)``; ``("usable", dependency, owner)``, calls of one node
        since another one was called; ``("iterations", node, scale)`` of a stepped loop, ``("iterations since", node, owner)``;
        ``("ended", node, scale)``, 1 once the loop has ended; evaluations of the graph that are over.
    comparison : str
    n : number
    """

    keys: tuple[Key, ...]
    comparison: str
    n: Any

    @property
    def nodes(self) -> set[str]:
        """The nodes whose calls are counted."""
        return {key[1] for key in self.keys if key[0] in ("calls", "usable")}

    @property
    def loops(self) -> set[str]:
        """The nodes whose stepped loops are looked at."""
        return {key[1] for key in self.keys if key[0] in ("iterations", "iterations since", "ended")}

    @property
    def waits(self) -> tuple[str, ...]:
        """The node that is waited for, and the one that waits; nothing where other things are counted."""
        return next((key[1:] for key in self.keys if key[0] == "usable"), ())


@record
class AllRan:
    """Every one of these nodes was called."""

    nodes: tuple[str, ...]
    scale: str


@record
class JustRan:
    """A node was in the last set of nodes that ran together."""

    node: str


@record
class Threshold:
    """A parameter's or output port's value compared with a number."""

    node: str
    kind: str
    name: str
    comparison: str
    threshold: Any
    indices: tuple[Any, ...]
    atol: Any
    rtol: Any

    def __str__(self) -> str:
        sign = next(sign for sign, name in SYMBOLS.items() if name == self.comparison)
        return f"{self.node}.{self.name}{''.join(f'[{index}]' for index in self.indices)} {sign} {self.threshold}"


@record
class Every:
    """All of several conditions, looked at in order."""

    parts: tuple[Condition, ...]


@record
class Some:
    """Any of several conditions, looked at in order."""

    parts: tuple[Condition, ...]


@record
class Not:
    """The contrary."""

    part: Condition


Condition = Constant | Count | AllRan | JustRan | Threshold | Every | Some | Not


def calls(nodes: tuple[str, ...], comparison: str, n: Any, scale: str) -> Count:
    """How often nodes were called, altogether."""
    return Count(tuple(("calls", name, scale) for name in nodes), comparison, n)


def usable(dependency: str, owner: str, n: Any) -> Count:
    """``dependency`` was called at least ``n`` times since ``owner`` was."""
    return Count((("usable", dependency, owner),), "greater_equal", n)


def ended(node: str) -> Count:
    """The stepped loop of a node has ended."""
    return Count((("ended", node, UPDATE),), "greater_equal", 1)


ALWAYS, NEVER = Constant(True), Constant(False)

_OF_COUNTS = {
    **dict.fromkeys(("BeforePass", "BeforeNCalls", "BeforeEnvironmentStateUpdate"), "less"),
    **dict.fromkeys(("AtPass", "AtNCalls", "AtEnvironmentStateUpdate"), "equal"),
    **dict.fromkeys(("AfterPass", "AfterCall", "AfterEnvironmentStateUpdate"), "greater"),
    **dict.fromkeys(("AfterNPasses", "AfterNCalls", "AfterNEnvironmentStateUpdates"), "greater_equal"),
    "EveryNPasses": "remainder",
}
"""Conditions on the number of passes, of calls or of evaluations, and how each compares it."""

_ON_ALL = ("AllHaveRun", "WhenFinished", "WhenFinishedAll", "WhenFinishedAny")
OF_ALL = ("All", "And")
"""Conditions that look at one part after the other, as long as these are true."""
ON_LOOPS = {"LoopFinished": 0, "AfterNLoopIterations": 0, "EveryNLoopIterations": 1}
"""Conditions on stepped loops, and the least number of iterations that they may be given."""
_STARTS: dict[str, Condition] = {
    "AtEnvironmentStateUpdateStart": Count((("passes", UPDATE),), "equal", 0),
    "AtEnvironmentSequenceStart": Count((UPDATES,), "equal", 0),
}


class ConditionReader:
    """Reads conditions of one graph.

    Parameters
    ----------
    graph : modeci_mdf.mdf.Graph
    owner : str
        The node whose condition it is; "" for a condition of termination.
    """

    def __init__(self, graph: Any, owner: str) -> None:
        self.graph, self.owner = graph, owner
        self.ids = {node.id: node for node in graph.nodes}
        self.where = f"the condition of node {owner!r}" if owner else "the condition of termination"

    def read(self, source: Any) -> Condition:
        """A condition: an MDF Condition, or the dict of one.

        Raises
        ------
        NotLowered
            It depends on something outside the graph, or is not said as graph-scheduler wants it.
        """
        if isinstance(source, Mapping):
            kind, arguments = source.get("type"), source.get("kwargs") or {}
        else:
            kind, arguments = getattr(source, "type", None), getattr(source, "kwargs", None) or {}
        if not isinstance(arguments, Mapping):
            raise self.refused(f"has arguments that are not a dict: {arguments!r}")
        arguments = dict(arguments)
        if not isinstance(kind, str):
            raise self.refused(f"is {type(source).__name__}, not a condition")
        if kind in ("Always", "Never"):
            return Constant(kind == "Always")
        if kind in (*OF_ALL, "Any", "Or"):
            return self._composite(kind, arguments)
        if kind == "Not":
            return Not(self.read(self._argument(kind, arguments, "condition")))
        if kind in _OF_COUNTS:
            return self._of_count(kind, arguments)
        return self._other(kind, arguments)

    def _of_count(self, kind: str, arguments: dict[str, Any]) -> Count:
        n, comparison = self._number(kind, arguments), _OF_COUNTS[kind]
        if "Call" in kind:
            return calls((self._dependency(kind, arguments),), comparison, n, self._scale(arguments))
        if "Pass" in kind:
            if kind == "EveryNPasses" and n == 0:
                raise self.refused("is EveryNPasses(0), a division by zero")
            return Count((("passes", self._scale(arguments, PASS)),), comparison, n)
        if self._scale({"time_scale": SEQUENCE, **arguments}) != SEQUENCE:
            raise self.refused(f"is {kind} in one evaluation of the graph, which is one")
        return Count((UPDATES,), comparison, n)

    def _other(self, kind: str, arguments: dict[str, Any]) -> Condition:
        if kind == "EveryNCalls":
            if not self.owner:
                raise self.refused("is EveryNCalls, which counts since the node it belongs to was called")
            return usable(self._dependency(kind, arguments), self.owner, self._number(kind, arguments))
        if kind == "JustRan":
            return JustRan(self._dependency(kind, arguments))
        if kind in ON_LOOPS:
            return self._on_loop(kind, arguments)
        if kind in _ON_ALL:
            return self._on_all(kind, self._dependencies(kind, arguments), self._scale(arguments))
        if kind == "AfterNCallsCombined":
            nodes = self._dependencies(kind, arguments)
            return calls(nodes, "greater_equal", self._number(kind, arguments), self._scale(arguments))
        if kind == "Threshold":
            return self._threshold(arguments)
        if kind in _STARTS:
            return _STARTS[kind]
        if kind == "AtEnvironmentStateUpdateNStart":
            return Every((_STARTS["AtEnvironmentStateUpdateStart"], self._of_count("AtEnvironmentStateUpdate", arguments)))
        raise self.refused(f"is {kind}, which a loop has no counterpart of")

    def refused(self, why: str) -> NotLowered:
        """The error for a condition that a loop has no counterpart of."""
        return NotLowered(f"{self.where} {why}", (self.graph.id,))

    def _composite(self, kind: str, arguments: dict[str, Any]) -> Condition:
        if len(arguments) != 1 or not isinstance(parts := next(iter(arguments.values())), list | tuple):
            raise self.refused(f"is {kind}, which takes one list of conditions")
        read = tuple(self.read(part) for part in parts)
        return Every(read) if kind in OF_ALL else Some(read)

    def _on_loop(self, kind: str, arguments: Mapping[str, Any]) -> Count:
        node = self._dependency(kind, arguments)
        if not self._is_stepped(node):
            raise self.refused(f"is {kind} of {node!r}, which is not a node with a stepped loop")
        if kind == "LoopFinished":
            return ended(node)
        n, least = self._number(kind, arguments), ON_LOOPS[kind]
        if not isinstance(n, int) or n < least:
            raise self.refused(f"is {kind} with n = {n!r}, which is not a whole number from {least} on")
        is_since = kind == "EveryNLoopIterations" and self.owner
        key = ("iterations since", node, self.owner) if is_since else ("iterations", node, UPDATE)
        return Count((key,), "greater_equal", n)

    def _is_stepped(self, name: str) -> bool:
        return stepped_loop(self.ids[name]) is not None

    def _on_all(self, kind: str, nodes: tuple[str, ...], scale: str) -> Condition:
        """Several nodes have run, or are finished: once a stepped loop has ended, any other node of MDF once it has run."""
        loops = [name for name in nodes if kind != "AllHaveRun" and self._is_stepped(name)]
        others = tuple(name for name in nodes if name not in loops)
        if kind == "WhenFinishedAny":
            return Some((*map(ended, loops), *(AllRan((name,), scale) for name in others)))
        parts: tuple[Condition, ...] = (*map(ended, loops), *([AllRan(others, scale)] if others else []))
        return parts[0] if len(parts) == 1 else Every(parts)

    def _threshold(self, arguments: dict[str, Any]) -> Threshold:
        node = self._dependency("Threshold", arguments)
        name = name_of(self.ids[node], self._argument("Threshold", arguments, "parameter"))
        symbol = arguments.get("comparator")
        if symbol not in SYMBOLS:
            raise self.refused(f"is a Threshold whose comparator is {symbol!r}, not one of {', '.join(SYMBOLS)}")
        indices = arguments.get("indices")
        listed = () if indices is None else tuple(indices) if isinstance(indices, list | tuple) else (indices,)
        if not all(type(index) is int for index in listed):
            raise self.refused(f"is a Threshold whose indices are {indices!r}, not whole numbers")
        numbers = [arguments.get(key, default) for key, default in (("threshold", None), ("atol", 0), ("rtol", 0))]
        if any(isinstance(x, bool) or not isinstance(x, int | float) for x in numbers):
            raise self.refused("is a Threshold whose threshold and tolerances are not all numbers")
        return Threshold(node, self._kind_of(node, name), name, SYMBOLS[symbol], numbers[0], listed, numbers[1], numbers[2])

    def _kind_of(self, node: str, name: str) -> str:
        """What MDF takes a name in a Threshold for: the first of ports, parameters, functions, output ports."""
        for kind in ("input_ports", "parameters", "functions", "output_ports"):
            if any(thing.id == name for thing in getattr(self.ids[node], kind)):
                if kind in ("input_ports", "functions"):
                    what = kind[:-1].replace("_", " ")
                    raise self.refused(f"is a Threshold on {what} {name!r} of node {node!r}, which MDF empties between calls")
                return kind
        raise self.refused(f"is a Threshold on {name!r}, which node {node!r} has not")

    def _argument(self, kind: str, arguments: Mapping[str, Any], key: str) -> Any:
        if key not in arguments:
            raise self.refused(f"is {kind} without {key}")
        return arguments[key]

    def _dependency(self, kind: str, arguments: Mapping[str, Any]) -> str:
        key = "dependency" if "dependency" in arguments else "dependencies"
        if key not in arguments:
            raise self.refused(f"is {kind} without dependency")
        return self._node(kind, arguments[key])

    def _dependencies(self, kind: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """The nodes that a condition names; all nodes if it names none."""
        named = arguments.get("dependencies", arguments.get("dependency", ()))
        nodes = tuple(self._node(kind, thing) for thing in (named if isinstance(named, list | tuple) else [named]))
        return nodes or tuple(self.ids)

    def _node(self, kind: str, thing: Any) -> str:
        name = getattr(thing, "id", thing)
        if not isinstance(name, str) or name not in self.ids:
            raise UnknownNode(f"{self.where} is {kind} of {name!r}, which is not a node of the graph", (self.graph.id,))
        return name

    def _number(self, kind: str, arguments: Mapping[str, Any]) -> Any:
        n = self._argument(kind, arguments, "n")
        if isinstance(n, bool) or not isinstance(n, int | float):
            raise self.refused(f"is {kind} with n = {n!r}, which is not a number")
        return n

    def _scale(self, arguments: Mapping[str, Any], refuse: str = "") -> str:
        given = arguments.get("time_scale", UPDATE)
        found = re.fullmatch(r"(?:TimeScale)?\.(\w+)", given) if isinstance(given, str) else None
        name = found[1] if found else getattr(given, "name", given)
        scale = SCALES.get(name) if isinstance(name, str) else None
        if scale is None or scale == refuse:
            raise self.refused(f"has the time scale {given!r}, which it cannot count in")
        return scale


def name_of(node: Any, name: Any) -> Any:
    """What a node calls something: PsyNeuLink writes ids with underscores, and its own names in conditions."""
    kinds = (node.input_ports, node.parameters, node.functions, node.output_ports)
    ids = {thing.id for things in kinds for thing in things}
    other = re.sub(r"\W", "_", name) if isinstance(name, str) else name
    return other if name not in ids and other in ids else name


def parts_of(condition: Condition) -> Iterator[Condition]:
    """A condition and all those inside it."""
    yield condition
    if isinstance(condition, Not):
        yield from parts_of(condition.part)
    elif isinstance(condition, Every | Some):
        for part in condition.parts:
            yield from parts_of(part)


def called_in(condition: Condition) -> set[str]:
    """The nodes whose calls a condition counts."""
    found: set[str] = set()
    for part in parts_of(condition):
        if isinstance(part, Count | AllRan):
            found.update(part.nodes)
    return found


def simplified(condition: Condition, true: Callable[[Condition], bool]) -> Condition:
    """The condition with parts that are surely true taken for that."""
    if true(condition):
        return ALWAYS
    if isinstance(condition, Not):
        part = simplified(condition.part, true)
        return Constant(not part.value) if isinstance(part, Constant) else Not(part)
    if isinstance(condition, Every | Some):
        end = isinstance(condition, Some)  # what decides it alone
        parts = [simplified(part, true) for part in condition.parts]
        parts = [part for part in parts if part != Constant(not end)]
        if Constant(end) in parts[:1]:
            return Constant(end)
        if not parts:
            return Constant(not end)
        return parts[0] if len(parts) == 1 else type(condition)(tuple(parts))
    return condition
