"""What a reader of expressions knows of values, and the body it builds from them.

MDF's numbers are Python's: weak next to arrays, and not of one type from iteration to iteration, since MDF's
engine makes ints of floats without a fraction.  So it is kept track of which values may be Python numbers.
Inputs, captures and carried values of a body never are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np

from mdf_loop.errors import KindError, MalformedBody, UnsupportedOp
from mdf_loop.ir import Body, Node, State, record
from mdf_loop.ir.fresh_names import FreshNames
from mdf_loop.ops.registry import lookup
from mdf_loop.types.fitting import as_tensor

T = TypeVar("T")

DOMAIN = "mdf"
"""Domain of the operators of expressions."""


class NotCompiled(Exception):
    """A meaning that MDF's engine has and that operators cannot express; says which, in words, and what to write instead."""

    def __init__(self, what: str, cure: str = "") -> None:
        super().__init__(what)
        self.cure = f"; {cure}" if cure else ""


class Number(IntEnum):
    """The widest kind of Python number that a value may be; NO is surely an array or a numpy scalar."""

    NO = 0
    BOOL = 1
    INT = 2
    FLOAT = 3
    COMPLEX = 4


_NUMBERS = {bool: Number.BOOL, int: Number.INT, float: Number.FLOAT, complex: Number.COMPLEX}

UNKNOWN = object()
"""In place of a value that is known only when the body runs."""


@record
class Value:
    """A value while a body is read.

    Attributes
    ----------
    name : str
        Its name in the body; "" for a value that has none yet: a literal or a display.
    number : Number
        Which Python number it may be.
    varies : bool
        Whether it may differ between two iterations.
    literal : object
        The value itself, where it is known.
    items : tuple of Value, or None
        The elements of a Python list or tuple, or the outputs of a function with several.
    display : str
        What it is in Python, where that is no tensor: ``"list"``, ``"tuple"``, ``"shape"`` (of the value ``of``),
        ``"outputs"`` of a function with several, or ``"first"`` if the others are optional.
    """

    name: str = ""
    number: Number = Number.NO
    varies: bool = True
    literal: Any = UNKNOWN
    items: tuple[Value, ...] | None = None
    display: str = ""
    of: Value | None = None

    @property
    def is_known(self) -> bool:
        """Whether the value itself is known."""
        return self.literal is not UNKNOWN


@record
class Unavailable:
    """A name whose value operators cannot express at this place, and why."""

    reason: str


Scope = Mapping[str, Value | Unavailable]


COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


def number_of(op: str, values: Sequence[Value]) -> Number:
    """Which Python number an operator gives, on one value or two."""
    if op == "not":
        return Number.BOOL
    if not all(value.number for value in values):
        return Number.NO
    if op in COMPARISONS:
        return Number.BOOL
    return arithmetic(op, *values) if len(values) > 1 else max(values[0].number, Number.INT)


def arithmetic(op: str, left: Value, right: Value) -> Number:
    """Which Python number an operator gives: none if either operand is surely numpy's."""
    if not left.number or not right.number:
        return Number.NO
    widest = max(left.number, right.number, Number.INT)
    if op.startswith("bitwise"):
        return max(left.number, right.number)
    if op == "divide":
        return max(widest, Number.FLOAT)
    if op == "power" and not (widest == Number.INT and type(right.literal) is int and right.literal >= 0):
        return Number.COMPLEX if widest > Number.INT else Number.FLOAT
    return widest


def literal(value: Any) -> Value:
    """A value that is known; Python lists and tuples become displays."""
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return Value(varies=False, items=tuple(map(literal, value)), display=kind)
    return Value(number=_NUMBERS.get(type(value), Number.NO), varies=False, literal=value)


def read(scope: Scope, name: str) -> Value:
    """The value of a name.

    Raises
    ------
    NotCompiled
        It has none that operators can express here.
    """
    return available(scope[name])


def available(value: Value | Unavailable, where: str = "") -> Value:
    """A value that operators can express here.

    Raises
    ------
    NotCompiled
        There is none; ``where`` is what has none.
    """
    if isinstance(value, Unavailable):
        raise NotCompiled(f"{where}: {value.reason}" if where else value.reason)
    return value


Part = tuple[Sequence[Node], Sequence[Value]]
"""The nodes of something that may be skipped, and its values."""


@dataclass
class Findings:
    """What reading a body to its end found out, for reading it again: until nothing new is found.

    Attributes
    ----------
    numbers : mapping of hashable to Number
        For each hidden value, which Python number it may become.
    reserved : set of str
        Names that inner bodies capture, so that no inner value may be called so.
    """

    numbers: dict[Hashable, Number] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)
    changed: bool = False

    def settled(self, make: Callable[[], T]) -> T:
        """What ``make`` reads; read again while that finds out something that the reading before needed to know."""
        while True:
            self.changed = False
            made = make()
            if not self.changed:
                return made


class BodyBuilder(FreshNames):
    """A body under construction: its nodes, constants, captures and hidden values."""

    mark = "~"

    def __init__(self, findings: Findings, inputs: Sequence[str], captures: Sequence[str], opset: int) -> None:
        super().__init__((*inputs, *captures, *findings.reserved))
        self.findings = findings
        self.inputs = tuple(inputs)
        self.captures = list(captures)
        self.opset = opset
        self.place = ""  # where the text of the value stands that is read now
        self.places: dict[str, str] = {}
        self.nodes: list[Node] = []
        self.constants: dict[str, Any] = {}
        self.untouched: set[str] = set()
        self.numbers: dict[str, str] = {}
        self.kept: set[str] = set()  # values that are computed though nothing may read them
        self._constant_names: dict[Any, str] = {}
        self._hidden: dict[Hashable, tuple[str, Any]] = {}
        self._updates: dict[Hashable, Value] = {}

    def capture(self, name: str, number: int = Number.NO) -> Value:
        """A value from outside, by its name there."""
        if name not in self.captures:
            if name in self.taken and name not in self.findings.reserved:
                self.findings.reserved.add(name)
                self.findings.changed = True
            self.taken.add(name)
            self.captures.append(name)
        return Value(name, Number(number), varies=False)

    def name(self, value: Value) -> str:
        """The name of a value in the body; literals become constants, displays arrays."""
        if value.name:
            return value.name
        if value.items is not None:
            return self.name(self.array(value, "array"))
        return self._constant(value.literal)

    def _constant(self, value: Any) -> str:
        is_short = type(value) in _NUMBERS and not (type(value) is int and value.bit_length() > 64)
        key = (type(value), repr(value)) if is_short else id(value)
        if key not in self._constant_names:
            name = self.fresh(repr(value) if is_short else "constant")
            self._constant_names[key] = name
            self.constants[name] = value
        return self._constant_names[key]

    def node(
        self,
        op: str,
        inputs: Sequence[Value | None],
        base: str,
        *,
        out: str = "",
        number: Number = Number.NO,
        domain: str = DOMAIN,
        **attrs: Any,
    ) -> Value:
        """Add a node with one output; ``base`` names it in messages, ``out`` is a name kept for its output."""
        opset = 1 if domain == DOMAIN else self.opset
        names = tuple(self.name(v) if v is not None else "" for v in inputs)
        output = out or self.fresh(base)
        added = Node(op, names, (output,), attrs, base, opset, domain)
        self._append(added)
        varies = any(v.varies for v in inputs if v is not None) or not _is_pure(added)
        return Value(output, number, varies)

    def add(self, node: Node, varies: bool, untouched: bool = False) -> tuple[Value, ...]:
        """Add a node as it is; ``untouched`` keeps outputs that nothing reads."""
        self._append(node)
        if untouched:
            self.untouched.update(node.outputs)
        varies = varies or not _is_pure(node)
        return tuple(Value(name, varies=varies) for name in node.outputs)

    def _append(self, node: Node) -> None:
        self.nodes.append(node)
        if self.place:
            self.places |= dict.fromkeys(node.outputs, self.place)

    def one_of(
        self, condition: Value, then: Part, otherwise: Part, outputs: Sequence[str], base: str, varies: bool = True
    ) -> tuple[Value, ...]:
        """Add an If: one of two branches runs."""
        bodies = [self._branch(*part, f"{base} {name}") for name, part in (("then", then), ("else", otherwise))]
        captures = tuple(dict.fromkeys(name for body in bodies for name in body.captures))
        attrs = {"then_branch": bodies[0], "else_branch": bodies[1]}
        return self.add(Node("If", (self.name(condition),), tuple(outputs), attrs, base, self.opset, "", captures), varies)

    def part(self, nodes: Sequence[Node], values: Sequence[Value], name: str) -> Body:
        """A body of some nodes, without those that these values do not need; what it reads besides constants it captures."""
        nodes, _ = _needed(nodes, {*map(self.name, values)}, self.untouched)
        body = self._branch(nodes, values, name)
        constants = {name: self.constants[name] for name in body.captures if name in self.constants}
        return replace(body, constants=constants, captures=tuple(name for name in body.captures if name not in constants))

    def _branch(self, nodes: Sequence[Node], values: Sequence[Value], name: str) -> Body:
        outputs = tuple(map(self.name, values))
        written = {out for node in nodes for out in node.outputs}
        reads = [read for node in nodes for read in node.reads] + list(outputs)
        captures = tuple(dict.fromkeys(read for read in reads if read not in written))
        return Body(name, (), outputs, tuple(nodes), {}, captures, opsets={"": self.opset, DOMAIN: 1}, typed=False)

    @contextlib.contextmanager
    def branch(self) -> Iterator[list[Node]]:
        """Nodes added meanwhile are kept aside, in the list this gives."""
        outer, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = outer

    def array(self, value: Value, base: str) -> Value:
        """A display as an array; other values as they are.

        Raises
        ------
        MalformedBody
            It is the outputs of a function that always has several; or a ragged list.
        """
        if value.items is None:
            return replace(value, display="")
        if value.display == "first":
            return value.items[0]
        if value.display == "outputs":
            raise MalformedBody(f"{base}: a function has {len(value.items)} outputs; take one of them: f[0], f[1], ...")
        elements = known(value)
        if elements is not UNKNOWN:
            return literal(as_array(elements, base))
        shape, leaves = _leaves(value)
        return self.node("array", leaves, base, shape=shape)

    def tensor(
        self, value: Value, base: str, *, like: Sequence[Value] = (), floating: bool = False, vector: bool = False
    ) -> Value:
        """A value that is no Python number; ``like`` are values it goes with, whose type it takes."""
        value = self.array(value, base)
        if not value.number:
            return value
        if value.literal is not UNKNOWN and not like:
            number = float(value.literal) if floating and type(value.literal) is int else value.literal
            return literal(np.array([number] if vector else number))
        attrs: dict[str, Any] = {key: True for key, wanted in (("floating", floating), ("vector", vector)) if wanted}
        return self.node("tensor", [value, *like], base, **attrs)

    def hidden(self, key: Hashable, base: str, initial: Any) -> Value:
        """A hidden carried value: ``initial`` first, then what :meth:`goes_on` says of its key."""
        name = self.fresh(base)
        self._hidden[key] = (name, initial)
        return Value(name, max(self.findings.numbers.get(key, Number.NO), literal(initial).number))

    def goes_on(self, key: Hashable, value: Value) -> None:
        """What a hidden value is in the next iteration."""
        value = self.array(value, self._hidden[key][0])
        self._updates[key] = value
        known = max(self.findings.numbers.get(key, Number.NO), literal(self._hidden[key][1]).number)
        if value.number > known:
            self.findings.numbers[key] = value.number
            self.findings.changed = True

    def finish(self, name: str, outputs: Sequence[Value]) -> Body:
        """The body, without nodes and hidden values that nothing reads."""
        names = tuple(self.name(value) for value in outputs)
        states = {hidden: (self.name(self._updates[key]), initial) for key, (hidden, initial) in self._hidden.items()}
        wanted, kept = {*names, *self.numbers, *self.kept}, [*self.nodes]
        while True:
            kept, needed = _needed(self.nodes, wanted, self.untouched)
            more = {states[hidden][0] for hidden in states if hidden in needed}
            if more <= wanted:
                break
            wanted |= more
        return Body(
            name,
            self.inputs,
            names,
            tuple(kept),
            {key: value for key, value in self.constants.items() if key in needed},
            tuple(name for name in self.captures if name in needed),
            opsets={"": self.opset, DOMAIN: 1},
            typed=False,
            state=tuple(State(hidden, output, initial) for hidden, (output, initial) in states.items() if hidden in needed),
            places=self.places,
            numbers=dict(self.numbers),
        )


def _needed(nodes: Sequence[Node], wanted: set[str], untouched: set[str]) -> tuple[list[Node], set[str]]:
    """The nodes that something reads, without outputs that nothing reads, and all names that are read."""
    kept, needed = [], set(wanted)
    for node in reversed(nodes):
        if not needed.intersection(node.outputs) and _is_pure(node):
            continue
        needed.update(node.reads)
        if not untouched.intersection(node.outputs):
            last = max((k for k, name in enumerate(node.outputs) if name in needed), default=0)
            node = replace(node, outputs=node.outputs[: last + 1])
        kept.append(node)
    return kept[::-1], needed


def _is_pure(node: Node) -> bool:
    if inner := [body for _, body in node.bodies]:
        return all(_is_pure(n) for body in inner for n in body.nodes)
    try:
        return lookup(node.op, node.opset, node.domain).pure
    except UnsupportedOp:
        return True  # said when the body is made ready to run


def known(value: Value) -> Any:
    """The Python list of a display whose elements are all known."""
    if value.items is None:
        return value.literal
    elements = [known(item) for item in value.items]
    return UNKNOWN if any(item is UNKNOWN for item in elements) else elements


def _leaves(value: Value) -> tuple[tuple[int, ...], list[Value]]:
    """The shape of nested displays and their elements in a row."""
    assert value.items is not None
    if not any(item.items is not None for item in value.items):
        return (len(value.items),), [*value.items]
    parts = [_leaves(item) if item.items is not None else ((), [item]) for item in value.items]
    shapes = {shape for shape, _ in parts}
    if len(shapes) > 1:
        raise MalformedBody("the rows of a list do not have the same length")
    return (len(parts), *shapes.pop()), [leaf for _, leaves in parts for leaf in leaves]


def as_array(value: Any, where: str) -> np.ndarray:
    """A Python list as an array.

    Raises
    ------
    MalformedBody
        It is ragged, or holds something that is neither number nor text.
    """
    try:
        return as_tensor(value, f"{where}: a list")
    except KindError as error:
        raise MalformedBody(str(error)) from error
