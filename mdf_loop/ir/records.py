"""The records every reader ends in and everything else works on.

All are frozen: a change makes a new record.  There are no use-lists and no parents; a body has tens of
nodes, and code that wants the consumers of a value builds that dict in one line.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar, dataclass_transform

import numpy as np

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(kind: type[T]) -> type[T]:
    """A class of records: frozen for type checkers, and made in a sixth of the time of a frozen dataclass, as is the class."""
    made = entity(kind)
    for name, method in (("__eq__", _is_equal), ("__hash__", _hash), ("__repr__", _called)):
        if vars(kind).get(name) is None:
            setattr(made, name, method)
    return made


@dataclass_transform(frozen_default=True, eq_default=False)
def entity(kind: type[T]) -> type[T]:
    """The same where each record is equal to itself alone."""
    return dataclass(slots=True, eq=False, repr=False)(kind)


def _fields(made: Any) -> tuple[Any, ...]:
    return tuple([getattr(made, name) for name in made.__match_args__])


def _is_equal(self: Any, other: object) -> bool:
    return _fields(self) == _fields(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_fields(self))


def _called(self: Any) -> str:
    shown = (f"{name}={value!r}" for name, value in zip(self.__match_args__, _fields(self), strict=True))
    return f"{type(self).__qualname__}({', '.join(shown)})"


Dim = int | str | None
"""One dimension of a declared shape: known, symbolic, or not said."""


@record
class ValueType:
    """What is declared of a value.

    Attributes
    ----------
    dtype : numpy.dtype or None
        Element type; None where the declaration does not say.
    shape : tuple of (int, str or None), or None
        Dimensions; None where even the rank is unknown.
    kind : str
        ``"tensor"``, ``"sequence"``, ``"optional"`` or ``"map"``.  For a sequence or an optional,
        ``element`` says what is inside; for a map it is the values.
    key : numpy.dtype or None
        Element type of the keys of a map.
    """

    dtype: np.dtype | None = None
    shape: tuple[Dim, ...] | None = None
    kind: str = "tensor"
    element: ValueType | None = None
    key: np.dtype | None = None

    def __eq__(self, other: object) -> bool:
        """Whether both say the same: numpy takes None for float64, and so does its ``==``."""
        if not isinstance(other, ValueType):
            return NotImplemented
        return (self.dtype is None, self.key is None, *self._said()) == (other.dtype is None, other.key is None, *other._said())

    def _said(self) -> tuple[Any, ...]:
        return self.dtype, self.shape, self.kind, self.element, self.key

    def __str__(self) -> str:
        if self.key is not None:
            return f"map({self.key.name},{self.element})"
        if self.element is not None:
            return f"{self.kind}({self.element})"
        dims = "" if self.shape is None else "[" + ",".join("?" if d is None else str(d) for d in self.shape) + "]"
        return f"{self.dtype.name if self.dtype is not None else '?'}{dims}"


@record
class Node:
    """One operation.

    A loop is a node ``Loop`` whose attribute ``loop`` is its record, whatever a file called it.  Its inputs stand in the order
    of the record: trip count, condition, carried, scanned and invariant values; its outputs are carried, last and collected
    ones.

    Attributes
    ----------
    op, domain, opset
        Operator, its domain ("" is ONNX's own) and the version of that domain, already resolved.
    inputs : tuple of str
        Value names; "" is an omitted input.
    outputs : tuple of str
        Value names; "" is an output that is not wanted.
    attrs : mapping
        Plain Python and numpy values; a sub-graph is a :class:`Body`.
    name : str
        For messages.
    captures : tuple of str
        What the sub-graphs of this node read from the scope the node stands in.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    opset: int = 0
    domain: str = ""
    captures: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Every value this node needs: inputs that are there, then captures."""
        inputs = tuple(filter(None, self.inputs)) if "" in self.inputs else self.inputs
        return inputs + self.captures

    @property
    def loop(self) -> Loop | None:
        """The record of a loop; None for what is none."""
        found = self.attrs.get("loop")
        return found if isinstance(found, Loop) else None

    @property
    def called(self) -> str:
        """What the file called the operator."""
        loop = self.loop
        return self.op if loop is None else loop.name.partition(" ")[0] or self.op

    @property
    def bodies(self) -> Sequence[tuple[str, Body]]:
        """The sub-graphs of this node, by attribute name; that of a loop is called ``body``."""
        if not self.attrs:
            return ()
        found = [(key, value) for key, value in self.attrs.items() if isinstance(value, (Body, Loop))]
        if not found:
            return ()
        return [(key, value) if isinstance(value, Body) else ("body", value.body) for key, value in found]

    def with_bodies(self, bodies: Mapping[str, Body]) -> Node:
        """The same node with other sub-graphs, by attribute name; those that are not among them stay."""
        if not bodies:
            return self
        changed = bodies if self.loop is None else {"loop": self.loop.with_body(bodies["body"])}
        return replace(self, attrs={**self.attrs, **changed})

    def __str__(self) -> str:
        attrs, inputs = ", ".join(f"{k}={_shown(v)}" for k, v in self.attrs.items()), self.inputs
        if self.loop is not None:
            attrs = self.loop.details
            inputs = inputs[2:] if self.loop.scanned and not any(inputs[:2]) else inputs
        outs, ins = ", ".join(n or "_" for n in self.outputs), ", ".join(n or "_" for n in inputs)
        return f"{outs} = {self.called}{f' <{attrs}>' if attrs else ''} ({ins})"

    def __repr__(self) -> str:
        return f"<Node {self}>"


@record
class State:
    """A hidden carried value: a body input of its own, and the value that feeds it in the next iteration.

    Each run of a loop starts with ``initial``; a body without a loop runs with it.
    """

    input: str
    output: str
    initial: Any


@dataclass(frozen=True)
class Body:
    """A graph: what runs in each iteration, a branch of an If, or a whole model's graph.

    Attributes
    ----------
    nodes : tuple of Node
        In an order in which they can run; every name is written once.
    constants : mapping of str to array
        Initializers and Constant nodes: values that are the same in every run.  No input is among them.
    captures, unread : tuple of str
        Names read from outside, and those that are declared so and nothing reads: a call may give these too.
    types : mapping of str to ValueType
        What is declared of inputs, outputs and inner values.
    opsets : mapping of str to int
        Version of each domain the nodes were read under.
    typed : bool
        Whether values must have the types that operators ask for (ONNX), or keep their own (MDF graphs, Python functions).
    state : tuple of State
        Hidden carried values; the body's caller does not see them.
    defaults : mapping of str to array
        Values of inputs, and of captures, that the caller may leave out.  What runs a body gives it all of them, so only
        what is called by users, and what writes a body to a file, reads these.
    ends : bool
        Whether it says itself when a loop ends, so that an omitted condition is a true one (``while`` in equations).
    places : mapping of str to str
        For messages: where its author wrote a value, such as ``model.py, line 12: 'y = x * 2'``.
    numbers : mapping of str to str
        Values that must not be arrays, and what is wrong where one is: a Python function changes it in place.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)
    captures: tuple[str, ...] = ()
    types: Mapping[str, ValueType] = field(default_factory=dict)
    opsets: Mapping[str, int] = field(default_factory=dict)
    typed: bool = True
    state: tuple[State, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    ends: bool = False
    places: Mapping[str, str] = field(default_factory=dict, compare=False)
    numbers: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    @property
    def values(self) -> Mapping[str, Any]:
        """Constants, and defaults of inputs: what a file writes down."""
        return {**self.constants, **self.defaults} if self.defaults else self.constants

    def with_values(self, values: Mapping[str, Any]) -> Body:
        """The same body with these values: those of inputs and captures are defaults, all others constants."""
        given = {*self.inputs, *self.captures}
        constants = {name: value for name, value in values.items() if name not in given}
        return replace(self, constants=constants, defaults={name: values[name] for name in values if name in given})

    def taking(self, count: int | None) -> Body:
        """The same body for a caller that gives it so many inputs in order: of more, those that have defaults are captured.

        Files of ONNX's first versions list each initializer of a body among its inputs.  None is as many as have no default.
        """
        needed = tuple(name for name in self.inputs if name not in self.defaults)
        if len(needed) == len(self.inputs) or count == len(self.inputs) or count not in (None, len(needed)):
            return self
        return replace(self, inputs=needed, captures=tuple(dict.fromkeys((*self.captures, *self.defaults))))

    def closed(self, given: Container[str] = ()) -> Body:
        """The same body, in which captured values that have defaults, and are not given, are constants."""
        left = {name: value for name, value in self.defaults.items() if name in self.captures and name not in given}
        defaults = {name: value for name, value in self.defaults.items() if name in self.inputs}
        if len(defaults) == len(self.defaults):
            return self
        captures = tuple(name for name in self.captures if name not in left)
        return replace(self, captures=captures, constants={**self.constants, **left}, defaults=defaults)

    def at(self, name: str | None) -> str:
        """The place of a value, for the beginning of a message; empty where nothing says it."""
        return f"{self.places[name]}: " if name and name in self.places else ""

    def type_of(self, name: str) -> ValueType:
        """What is declared of a value; an empty ValueType where nothing is."""
        return self.types.get(name, _UNKNOWN)

    def __str__(self) -> str:
        lines = [f"{self.name} ({', '.join(map(self._declared, self.inputs))}) => ({', '.join(self.outputs)}) {{"]
        if self.captures:
            lines.append(f"  captures {', '.join(self.captures)}")
        lines += [f"  default {name} = {_shown(value)}" for name, value in self.defaults.items()]
        lines += [f"  {name} = {_shown(value)}" for name, value in self.constants.items()]
        lines += [f"  state {s.input} = {_shown(s.initial)}, then {s.output}" for s in self.state]
        for node in self.nodes:
            lines.append(f"  {node}")
            for key, inner in node.bodies:
                lines += [f"    {key}: {line}" if k == 0 else f"    {line}" for k, line in enumerate(str(inner).split("\n"))]
        return "\n".join([*lines, "}"])

    def __repr__(self) -> str:
        return f"<Body {self.name!r}: {len(self.inputs)} inputs, {len(self.nodes)} nodes, {len(self.outputs)} outputs>"

    def _declared(self, name: str) -> str:
        known = str(self.type_of(name))
        return name if known == "?" else f"{known} {name}"


@record
class Carried:
    """A carried value: body input, and the body output that feeds it in the next iteration."""

    input: str
    output: str


@record
class Scanned:
    """An input of which each iteration gets one part, along ``axis``.

    ``part`` is the number of rows of a part; None takes single rows and drops the axis (ONNX Scan).
    ``stride`` is the step from part to part; ``reverse`` starts at the last one.
    """

    input: str
    axis: int = 0
    start: int = 0
    stride: int = 1
    part: int | None = None
    reverse: bool = False


@record
class Collected:
    """A body output kept of every iteration, put together along ``axis``: a new one (``stack``, ONNX), or one it has (OpenVINO).

    Where ``widens``, numbers of another type are kept as well; where ``ragged`` any values, in a list.
    """

    output: str
    axis: int = 0
    stack: bool = True
    reverse: bool = False
    widens: bool = False
    ragged: bool = False


@dataclass(frozen=True)
class Loop:
    """Every kind of loop: ONNX Loop and Scan, OpenVINO Loop and TensorIterator all end here.

    Every name in it is one of the body's inputs or outputs.

    Attributes
    ----------
    carried, scanned, collected
        How values are given, carried and returned.
    last : tuple of str
        Body outputs of which the last iteration's value is returned.
    invariant : tuple of str
        Body inputs that get the same outer value in every iteration.
    index : str or None
        Body input that gets the iteration number.
    condition : str or None
        Body input that gets the condition.
    keep_going : str or None
        Body output that says whether to go on; None goes on.
    name : str
        What messages call it; where a file has it as a node, the first word is what the file calls the operator.
    obeys : bool
        Whether the body's condition ends the loop where the condition before it is omitted; ONNX says that a Loop's does not.
    unlimited : bool
        Whether a trip count of -1 has no limit, as OpenVINO says.  No other one may be below 0 then, and it is an error if
        scanned values end while the loop would go on.
    batched : bool
        Whether it runs once for each row of all its values, the trip count being one number for each row (Scan of opset 8).
    said : tuple of str
        Attributes of ONNX's Scan that the file has; a writer says them again, also where they say nothing new.
    """

    body: Body
    carried: tuple[Carried, ...] = ()
    scanned: tuple[Scanned, ...] = ()
    collected: tuple[Collected, ...] = ()
    last: tuple[str, ...] = ()
    invariant: tuple[str, ...] = ()
    index: str | None = None
    condition: str | None = None
    keep_going: str | None = None
    name: str = ""
    obeys: bool = True
    unlimited: bool = False
    batched: bool = False
    said: tuple[str, ...] = ()

    def split(self, values: Sequence[Any]) -> tuple[Any, Any, Sequence[Any], Sequence[Any], Sequence[Any], Sequence[Any]]:
        """What a node is given: trip count, condition, carried, scanned, invariant, and behind them captured values."""
        a = 2 + len(self.carried)
        b = a + len(self.scanned)
        c = b + len(self.invariant)
        return values[0], values[1], values[2:a], values[a:b], values[b:c], values[c:]

    @property
    def n_inputs(self) -> int:
        """How many inputs a node has."""
        return 2 + len(self.carried) + len(self.scanned) + len(self.invariant)

    def with_body(self, body: Body) -> Loop:
        """The same loop over another body, in which its inputs and outputs stand at the same places; there may be more."""
        into = dict(zip(self.body.inputs, body.inputs, strict=False))
        out = dict(zip(self.body.outputs, body.outputs, strict=False))
        return replace(
            self,
            body=body,
            carried=tuple(Carried(into[c.input], out[c.output]) for c in self.carried),
            scanned=tuple(replace(s, input=into[s.input]) for s in self.scanned),
            collected=tuple(replace(c, output=out[c.output]) for c in self.collected),
            last=tuple(out[name] for name in self.last),
            invariant=tuple(into[name] for name in self.invariant),
            index=self.index and into[self.index],
            condition=self.condition and into[self.condition],
            keep_going=self.keep_going and out[self.keep_going],
        )

    @property
    def details(self) -> str:
        """What a printed node says: the body, and how values are cut up and put together where that is not by rows in order."""
        parts: dict[str, Scanned | Collected] = {s.input: s for s in self.scanned}
        parts |= {c.output: c for c in self.collected}
        said = [f"body={_shown(self.body)}"]
        for name, part in parts.items():
            others = {f.name: value for f in fields(part)[1:] if (value := getattr(part, f.name)) != f.default}
            said += [f"{name}: {' '.join(f'{k}={v}' for k, v in others.items())}"] if others else []
        return ", ".join(said)

    @property
    def results(self) -> tuple[str, ...]:
        """The body's outputs that the loop's results are of: carried values, last values, then collected ones."""
        return (*(c.output for c in self.carried), *self.last, *(c.output for c in self.collected))

    @property
    def all_carried(self) -> dict[str, str]:
        """Loop-carried body inputs, hidden ones included, each with the value that feeds it."""
        carried = {value.input: value.output for value in self.carried}
        return carried | {value.input: value.output for value in self.body.state}

    def with_state_carried(self, chosen: Sequence[State] | None = None) -> Loop:
        """The same loop with its hidden values, or some, carried behind those that are: who runs it gives them."""
        states = self.body.state if chosen is None else chosen
        inputs, outputs = tuple(s.input for s in states), tuple(s.output for s in states)
        left = tuple(s for s in self.body.state if s.input not in inputs)
        body = replace(self.body, inputs=self.body.inputs + inputs, outputs=self.body.outputs + outputs, state=left)
        return replace(self, body=body, carried=self.carried + tuple(map(Carried, inputs, outputs)))


_UNKNOWN = ValueType()


def _shown(value: Any) -> str:
    """A short form of a constant or attribute for printed bodies and messages."""
    if isinstance(value, Body):
        return f"{value.name} {{...}}"
    if isinstance(value, np.ndarray | np.generic):
        return str(value) if value.ndim == 0 else f"{value.dtype.name}{list(value.shape)}"
    return repr(value)
