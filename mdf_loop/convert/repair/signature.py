"""The signature of a body that MDF's importer wrote without one.

The importer keeps the nodes of a body, and neither its inputs nor its outputs.  A *reading* says which of the names
that the body reads are the iteration number, the condition, the carried values and the parts of scanned inputs, and
which of its output ports are the condition, the carried and the collected values.  What is known:

* a name that a graph around the body has is captured from there;
* how many carried values and results there are: the node's arguments and output ports;
* element types: the operators that read and write a value, in the body and around it, must agree on one;
* shapes: those the importer wrote at input ports, and what ONNX infers from them;
* a node that no edge leaves gives an output, or nobody would compute it; and a port whose readers have no shape is one:
  the importer knows the shapes of all values but a graph's outputs;
* a scalar whose shape is written as [] is an initializer, whose value is lost: the importer writes [1] for all others;
* of two readings, the one in which more of the names the body reads are given to it.

A condition that no port gives is passed through; another output that no port gives may be any input.  Where several
readings are left, names decide if they can: exporters call the values of one variable ``x.3`` and ``x.11``.  One
reading is taken; none or several are an error.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.convert.repair.shapes import known_shape
from mdf_loop.errors import LoopError
from mdf_loop.ir import Body, ValueType
from mdf_loop.plan.empty import infer_types
from mdf_loop.readers import read
from mdf_loop.readers.mdf.signature import Port, Signature, ports_of, read_signature
from mdf_loop.readers.mdf.typed import GraphReader
from mdf_loop.readers.mdf.written import settled, written_kind
from mdf_loop.types.elements import DTYPES, kind_of
from mdf_loop.types.required import Groups, Key, visit_body

Shape = tuple[int | None, ...] | None

ITERATION, CONDITION = "iteration", "condition"
"""Roles in the body of a Loop."""

MOST_CHECKS, MOST_STEPS = 400, 100_000
"""So many possible readings are looked at, and so many beginnings of one."""

_OF_ONE_VARIABLE = re.compile(r"(.+?)\.\d+")

_KINDS = {
    kind: frozenset(dtype for dtype in DTYPES.values() if kind_of(dtype) == kind)
    for kind in ("float", "integer", "bool", "string")
}


@dataclass(frozen=True)
class Role:
    """What a body is given or gives.

    Attributes
    ----------
    name : str
        What it is called where the graph has no name for it.
    dtype : numpy.dtype or None
        Its element type, where the role says it.
    shape : tuple of (int or None), or None
        Its shape, where it is known.
    akin : frozenset of str
        Names around the body of the same value.
    """

    name: str
    dtype: np.dtype | None = None
    shape: Shape = None
    akin: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Place:
    """Where a body stands.

    Attributes
    ----------
    around : modeci_mdf.mdf.Graph
        The graph with the node.
    node : modeci_mdf.mdf.Node
    body : modeci_mdf.mdf.Graph
    kind : str
        ``"loop"``, ``"scan"`` or ``"branch"``.
    inputs, outputs : tuple of Role
    n_carried : int
    provided : frozenset of str
        Names that the graphs around the body have.
    opset : int
    """

    around: Any
    node: Any
    body: Any
    kind: str
    inputs: tuple[Role, ...]
    outputs: tuple[Role, ...]
    n_carried: int
    provided: frozenset[str]
    opset: int


@dataclass(frozen=True)
class Reading:
    """One signature that a body may have: names of ports, in order; and the element types that follow."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, str]


class Agreement(Groups):
    """Groups of values with one element type each, and whether there are contradictions among them."""

    def __init__(self) -> None:
        super().__init__()
        self.is_broken = False

    def unite(self, keys: Any) -> None:
        """These values have one element type."""
        keys = list(keys)
        if len({dtype for key in keys if (dtype := self.dtype.get(self.find(key))) is not None}) > 1:
            self.is_broken = True
        super().unite(keys)

    def know(self, key: Key, dtype: np.dtype | None) -> None:
        """This value's element type is known."""
        if dtype is not None and self.dtype.get(self.find(key), dtype) != dtype:
            self.is_broken = True
        super().know(key, dtype)

    def hold(self, key: Key, value: Any) -> None:
        """A constant: of a number that was written without a type the kind is known."""
        if isinstance(value, np.ndarray | np.generic):
            self.know(key, value.dtype)
        elif kinds := _KINDS.get(written_kind(value)):
            self.allow(key, kinds)

    @property
    def holds(self) -> bool:
        """Whether every value can have a type."""
        fits = all(
            dtypes and self.dtype.get(self.find(key), next(iter(dtypes))) in dtypes for key, dtypes in self.allowed.items()
        )
        return fits and not self.is_broken

    def may_be(self, key: Key, dtype: np.dtype) -> bool:
        """Whether a value can have this type."""
        root = self.find(key)
        return self.dtype.get(root, dtype) == dtype and dtype in self.allowed.get(root, {dtype})


class TooManyReadings(Exception):
    """There are more possible readings than are looked at."""


def readings(place: Place) -> list[Reading]:
    """The readings of a body: none, the only one, or two of several.

    Raises
    ------
    TooManyReadings
        Not all could be looked at, so it is not known whether there is only one.
    """
    search = _Search(place)
    for n_lost in range(len(search.free) + 1):
        found = list(itertools.islice(search.run(n_lost), 2))
        if len(found) > 1:
            by_name = list(itertools.islice(search.run(n_lost, search.named()), 2))
            return by_name if len(by_name) == 1 else found
        if found:
            return found
    return []


class _Search:
    """All readings of a body, one after the other."""

    def __init__(self, place: Place) -> None:
        self.place, self.checks, self.steps = place, 0, 0
        self.given: tuple[str, ...] = ()
        reader = GraphReader(place.body, Signature((), {}, (), (), place.opset), unsettled, is_lenient=True)
        self.bare = reader.read()
        self.values = reader.names
        self.groups = Agreement()
        self.scope = visit_body(self.groups, self.bare, {})
        self.free = [name for name in self.bare.captures if name not in place.provided and not _is_initializer(name, place.body)]
        self.known_shapes = {"": [self._shapes()]}
        ports = ports_of(place.body)
        silent = {(n.id, p.id) for n in place.body.nodes for p in n.input_ports if p.shape is None}
        unshaped = {(e.sender, e.sender_port) for e in place.body.edges if (e.receiver, e.receiver_port) in silent}
        self.candidates = [port for port in ports.outputs if port in ports.ends or port in unshaped]
        self.ports = ports.outputs
        self.is_short = len(self.candidates) < len(place.outputs)
        self.idle = [[p for p in ports.outputs if p[0] == n.id] for n in place.body.nodes]  # of nodes that no edge leaves
        self.idle = [group for group in self.idle if group and set(group) <= set(ports.ends)]
        self.needed = self._needed({p for group in self.idle if len(group) == 1 for p in group}, unshaped)

    def _shapes(self, iteration: str = "", shape: Shape = None) -> dict[str, Shape]:
        """Shapes of the values of the body: as the importer wrote them, and as they follow; one of them may be known better."""
        written: dict[str, Shape] = {}
        for node in self.place.body.nodes:
            for port in node.input_ports:
                if written.get(port.id) is None:
                    written[port.id] = shape if port.id == iteration else known_shape(port)
        given = {}
        for name in self.bare.captures:
            dtype = next((dtype for dtype in DTYPES.values() if self.groups.may_be(self.scope[name], dtype)), None)
            given[name] = ValueType(dtype, written.get(name))
        try:
            found = infer_types(self.bare.with_values(settled(self.bare)), given)
        except LoopError:  # what cannot be inferred is not known
            found = {}
        inferred = {name: _plain(kind.shape) for name, kind in found.items() if name not in self.bare.captures}
        return {**inferred, **{name: shape for name, shape in written.items() if shape is not None}}

    def _shapes_with(self, iteration: str) -> list[dict[str, Shape]]:
        """The shapes if this is the iteration number, which has one element, in one of two ways."""
        if iteration not in self.known_shapes:
            self.known_shapes[iteration] = [self._shapes(iteration, shape) for shape in ((), (1,))]
        return self.known_shapes[iteration]

    def named(self) -> dict[int, str]:
        """Inputs whose name says which they are."""
        akin = {
            k: [name for name in self.free if any(_is_same_variable(name, other, self.place.body.id) for other in role.akin)]
            for k, role in enumerate(self.place.inputs)
        }
        claimed = [name for names in akin.values() for name in names]
        return {k: names[0] for k, names in akin.items() if len(names) == 1 and claimed.count(names[0]) == 1}

    def run(self, n_lost: int, named: Mapping[int, str] | None = None) -> Iterator[Reading]:
        """The readings in which so many names are provided by nobody."""
        for inputs in self._inputs(self.place.inputs, self.free, n_lost, named or {}):
            self.given = inputs
            shapes = self._shapes_with(inputs[0] if self.place.kind == "loop" else "")
            for outputs in self._outputs(self.place.outputs, (), shapes):
                self.checks += 1
                if (reading := self._checked(inputs, outputs)) is not None:
                    yield reading

    def _inputs(
        self, roles: Sequence[Role], names: Sequence[str], n_lost: int, named: Mapping[int, str]
    ) -> Iterator[tuple[str, ...]]:
        """Each way to give names to inputs, or "" to an input nobody reads."""
        self._step()
        if len(names) - n_lost > len(roles):
            return
        if not roles:
            if len(names) == n_lost:
                yield ()
            return
        place = len(self.place.inputs) - len(roles)
        for name in [named[place]] if place in named else [*names, ""]:
            if name and (name not in names or not self._can_be(name, roles[0], self.known_shapes[""])):
                continue
            for rest in self._inputs(roles[1:], [n for n in names if n != name], n_lost, named):
                yield (name, *rest)

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS or self.checks > MOST_CHECKS:
            raise TooManyReadings

    def _can_be(self, name: str, role: Role, shapes: Sequence[Mapping[str, Shape]]) -> bool:
        """Whether a value can have a role."""
        if role.dtype is not None and not self.groups.may_be(self.scope[name], role.dtype):
            return False
        return any(_agree(known.get(name), role.shape) for known in shapes)

    def _outputs(
        self, roles: Sequence[Role], taken: tuple[Any, ...], shapes: Sequence[Mapping[str, Shape]]
    ) -> Iterator[tuple[Any, ...]]:
        """Each way to give ports to outputs; a number is the input that is passed on."""
        self._step()
        if len(self.needed - set(taken)) > len(roles):
            return
        if not roles:
            if not self.needed or all(set(group) & set(taken) for group in self.idle):
                yield taken
            return
        known = self.candidates if roles[0].name == CONDITION or not self.is_short else self.ports
        ports = [port for port in known if port not in taken and self._can_be(self.values[port], roles[0], shapes)]
        for out in [*ports, *self._passed(roles[0], taken)]:
            yield from self._outputs(roles[1:], (*taken, out), shapes)

    def _needed(self, ends: set[Port], unshaped: set[Port]) -> set[Port]:
        """The ports that must be outputs, as far as there are outputs for them."""
        count = len(self.place.outputs)
        return next((ports for ports in (ends | unshaped, ends) if len(ports) <= count), set())

    def _passed(self, role: Role, taken: tuple[Any, ...]) -> list[Any]:
        """What an output may be if the graph has too few ports: an input that is passed on, or a port once more."""
        if not self.is_short:
            return []
        if role.name == CONDITION:
            carried = [
                k for k, name in enumerate(self.given) if k > 1 and name and self._is_boolean(self.groups, self.scope[name])
            ]
            return [1, *carried]
        inputs = [k for k, other in enumerate(self.place.inputs) if _agree(other.shape, role.shape)]
        return [*inputs, *dict.fromkeys(out for out in taken if not isinstance(out, int))]

    def _checked(self, inputs: tuple[str, ...], outputs: tuple[Any, ...]) -> Reading | None:
        """The reading, if all element types agree."""
        taken = {*self.scope, *self.place.provided, *self.values.values()}
        names: list[str] = []
        for name, role in zip(inputs, self.place.inputs, strict=True):
            names.append(name or _unused(role.name, taken))
            taken.add(names[-1])
        fed = {place: place[1] for place in ports_of(self.place.body).needy if place[1] in names}
        ends = tuple(names[out] if isinstance(out, int) else out for out in outputs)
        said = tuple(names[out] if isinstance(out, int) else self.values[out] for out in outputs)
        signature = Signature(tuple(names), fed, ends, said, self.place.opset)
        body = GraphReader(self.place.body, signature, unsettled, is_lenient=True).read()
        if not self._reads_condition_as_boolean(inputs, body):
            return None
        known = {
            name: ValueType(role.dtype)
            for role, name in (
                *zip(self.place.inputs, body.inputs, strict=True),
                *zip(self.place.outputs, body.outputs, strict=True),
            )
            if role.dtype is not None
        }
        body = Body(**{**vars(body), "types": known})
        groups, around = self._around(body)
        return Reading(tuple(names), said, self._types(groups, around, names, said)) if groups.holds else None

    def _reads_condition_as_boolean(self, inputs: Sequence[str], body: Body) -> bool:
        """Whether the condition is read where a boolean is needed, if it is read at all: almost anything reads a number."""
        if self.place.kind != "loop" or not inputs[1]:
            return True
        groups = Agreement()
        scope = visit_body(groups, Body(**{**vars(body), "types": {body.outputs[0]: ValueType(DTYPES[9])}}), {})
        return self._is_boolean(groups, scope[inputs[1]])

    @staticmethod
    def _is_boolean(groups: Agreement, key: Key) -> bool:
        root = groups.find(key)
        return groups.dtype.get(root) == DTYPES[9] or groups.allowed.get(root) == {DTYPES[9]}

    def _around(self, body: Body) -> tuple[Agreement, Body]:
        """What the graph around says of types when the body is this one."""

        def inner(source: Any, n_carried: int, kind: str) -> Body | None:
            is_this = isinstance(source, dict) and any(value is self.place.body for value in source.values())
            return body if is_this else unsettled(source, n_carried, kind)

        reader = GraphReader(self.place.around, Signature((), {}, (), (), self.place.opset), inner, is_lenient=True)
        around = reader.read()
        groups = Agreement()
        visit_body(groups, around, {})
        if not any(node.name == self.place.node.id for node in around.nodes):  # a branch whose other half is not known
            visit_body(groups, body, {})
        return groups, around

    def _types(self, groups: Agreement, around: Body, inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, str]:
        """Element types that are certain: of what goes in and comes out."""
        types = {
            name: str(ValueType(role.dtype))
            for role, name in zip((*self.place.inputs, *self.place.outputs), (*inputs, *outputs), strict=True)
            if role.dtype is not None
        }
        node = next((node for node in around.nodes if node.name == self.place.node.id), None)
        first = {"loop": 2, "scan": 0}.get(self.place.kind)
        if node is None or first is None:
            return types
        pairs = [*zip(node.inputs[first:], inputs[first:], strict=False)]
        pairs += zip(node.outputs, outputs[1 if self.place.kind == "loop" else 0 :], strict=False)
        for outside, name in pairs:
            if (dtype := groups.dtype.get(groups.find((0, outside)))) is not None:
                types.setdefault(name, str(ValueType(dtype)))
        return types


def is_signed(graph: Any) -> bool:
    """Whether a graph says something of its signature."""
    return any(key in (graph.metadata or {}) for key in ("inputs", "outputs"))


def unsettled(source: Any, n_carried: int, kind: str) -> Body | None:
    """A body whose signature is known, with numbers as they are written; None if it is not known."""
    graph = next((value for value in source.values() if hasattr(value, "nodes")), None) if isinstance(source, dict) else None
    try:
        if graph is None:
            return read(source, n_carried, kind)
        if is_signed(graph):
            return GraphReader(graph, read_signature(graph, n_carried, kind), unsettled, is_lenient=True).read()
    except LoopError:  # said when the loop runs
        pass
    return None


def _is_initializer(name: str, graph: Any) -> bool:
    """Whether a name is surely one of an initializer: the importer writes [1] for all other scalars."""
    ports = [port for node in graph.nodes for port in node.input_ports]
    shapes = [port.shape for port in ports if port.id == name and "original_shape" not in (port.metadata or {})]
    return any(port.shape for port in ports) and bool(shapes) and all(shape == () for shape in shapes)


def _agree(one: Shape, other: Shape) -> bool:
    """Whether two shapes can be those of one value."""
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def _plain(shape: Any) -> Shape:
    return None if shape is None else tuple(dim if isinstance(dim, int) else None for dim in shape)


def _is_same_variable(name: str, other: str, graph: str) -> bool:
    """Whether an exporter calls two values of one variable so: ``x.3`` and ``x.11``, or ``h`` and ``h_<graph>__subgraph_in``."""
    if name == f"{other}_{graph}__subgraph_in":
        return True
    stems = [found[1] if (found := _OF_ONE_VARIABLE.fullmatch(text)) else text for text in (name, other)]
    return stems[0] == stems[1] and name != other


def _unused(name: str, taken: set[str]) -> str:
    return next(text for text in itertools.chain([name], (f"{name}_{k}" for k in itertools.count(2))) if text not in taken)
