"""The signature of a body that MDF's importer wrote without one.

The importer keeps the nodes of a body, and neither its inputs nor its outputs.  A *reading* says which of the names
that the body reads are the iteration number, the condition, the carried values and the parts of scanned inputs, and
which of its output ports are the condition, the carried and the collected values.  What is known:

* a name that a graph around the body has is captured from there;
* how many carried values and results there are: the node's arguments and output ports;
* element types: the operators that read and write a value, in the body and around it, must agree on one;
* shapes: those the importer wrote at input ports, and what ONNX infers from them;
* a port that no edge leaves is an output, or nobody would compute it, and so is one whose readers have no shape: the
  importer knows the shapes of all values but a graph's outputs;
* of two readings, the one in which more of the names the body reads are given to it.

A condition that no port gives is passed through.  Where several readings are left, names decide if they can: exporters
call the values of one variable ``x.3`` and ``x.11``.  One reading is taken; none or several are an error.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.analysis.element_types import Groups, Key, visit_body
from mdf_loop.analysis.empty import infer_types
from mdf_loop.convert.shapes import known_shape
from mdf_loop.element_types import DTYPES, kind_of
from mdf_loop.errors import LoopError
from mdf_loop.ir import Body, ValueType
from mdf_loop.readers import read
from mdf_loop.readers.mdf_signature import Port, Signature, ports_of, read_signature
from mdf_loop.readers.mdf_typed import GraphReader, settled, written_kind

Shape = tuple[int | None, ...] | None

MOST_CHECKS = 400
"""So many readings are looked at; who has more has more than one."""

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


def readings(place: Place) -> list[Reading]:
    """The readings of a body: none, the only one, or two of several."""
    search = _Search(place)
    for n_lost in range(len(search.free) + 1):
        for is_exact in (True, False):
            found = list(itertools.islice(search.run(n_lost, is_exact), 2))
            if len(found) > 1:
                by_name = list(itertools.islice(search.run(n_lost, is_exact, search.named()), 2))
                return by_name if len(by_name) == 1 else found
            if found:
                return found
    return []


class _Search:
    """All readings of a body, one after the other."""

    def __init__(self, place: Place) -> None:
        self.place, self.checks = place, 0
        reader = GraphReader(place.body, Signature((), {}, (), (), place.opset), self._inner, is_lenient=True)
        self.bare = reader.read()
        self.values = reader.names
        self.groups = Agreement()
        self.scope = visit_body(self.groups, self.bare, {})
        self.free = [name for name in self.bare.captures if name not in place.provided]
        self.shapes = self._shapes()
        ports = ports_of(place.body)
        silent = {(n.id, p.id) for n in place.body.nodes for p in n.input_ports if p.shape is None}
        unshaped = {(e.sender, e.sender_port) for e in place.body.edges if (e.receiver, e.receiver_port) in silent}
        self.ends = [port for port in ports.outputs if port in ports.ends]
        self.candidates = [port for port in ports.outputs if port in ports.ends or port in unshaped]

    def _inner(self, source: Any, n_carried: int, kind: str) -> Body | None:
        return unsettled(source, n_carried, kind, self.place.opset)

    def _shapes(self) -> dict[str, Shape]:
        """Shapes of the values of the body: as the importer wrote them, and as they follow."""
        written: dict[str, Shape] = {}
        for node in self.place.body.nodes:
            for port in node.input_ports:
                if written.get(port.id) is None:
                    written[port.id] = known_shape(port)
        usual = [*DTYPES.values()]
        given = {}
        for name in self.bare.captures:
            dtype = next((dtype for dtype in usual if self.groups.may_be(self.scope[name], dtype)), None)
            given[name] = ValueType(dtype, written.get(name))
        try:
            found = infer_types(Body(**{**vars(self.bare), "constants": settled(self.bare)}), given)
        except LoopError:
            found = {}
        inferred = {name: _plain(kind.shape) for name, kind in found.items() if name not in self.bare.captures}
        return {**inferred, **{name: shape for name, shape in written.items() if shape is not None}}

    def named(self) -> dict[int, str]:
        """Inputs whose name says which they are."""
        akin = {
            k: [name for name in self.free if any(_is_same_variable(name, other, self.place.body.id) for other in role.akin)]
            for k, role in enumerate(self.place.inputs)
        }
        claimed = [name for names in akin.values() for name in names]
        return {k: names[0] for k, names in akin.items() if len(names) == 1 and claimed.count(names[0]) == 1}

    def run(self, n_lost: int, is_exact: bool, named: Mapping[int, str] | None = None) -> Iterator[Reading]:
        """The readings in which so many names are provided by nobody."""
        for inputs in self._inputs(self.place.inputs, self.free, n_lost, is_exact, named or {}):
            for outputs in self._outputs(self.place.outputs, (), is_exact):
                self.checks += 1
                if self.checks > MOST_CHECKS:
                    return
                if (reading := self._checked(inputs, outputs)) is not None:
                    yield reading

    def _inputs(
        self, roles: Sequence[Role], names: Sequence[str], n_lost: int, is_exact: bool, named: Mapping[int, str]
    ) -> Iterator[tuple[str, ...]]:
        """Each way to give names to inputs, or "" to an input nobody reads."""
        if len(names) - n_lost > len(roles):
            return
        if not roles:
            if len(names) == n_lost:
                yield ()
            return
        place = len(self.place.inputs) - len(roles)
        for name in [named[place]] if place in named else [*names, ""]:
            if name and (name not in names or not self._can_be(name, roles[0], is_exact)):
                continue
            for rest in self._inputs(roles[1:], [n for n in names if n != name], n_lost, is_exact, named):
                yield (name, *rest)

    def _can_be(self, name: str, role: Role, is_exact: bool) -> bool:
        """Whether a value can have a role; the condition counts as read only where a boolean is needed."""
        key = self.scope[name]
        if role.name == CONDITION and role in self.place.inputs and self.groups.dtype.get(self.groups.find(key)) != DTYPES[9]:
            return False
        if role.dtype is not None and not self.groups.may_be(key, role.dtype):
            return False
        return _agree(self.shapes.get(name), role.shape, is_exact)

    def _outputs(self, roles: Sequence[Role], taken: tuple[Any, ...], is_exact: bool) -> Iterator[tuple[Any, ...]]:
        """Each way to give ports to outputs; a number is the input that is passed on."""
        if not roles:
            if set(self._needed()) <= set(taken):
                yield taken
            return
        left = [port for port in self.candidates if port not in taken]
        ports = [port for port in left if self._can_be(self.values[port], roles[0], is_exact)]
        for out in [*ports, *self._passed(roles[0])]:
            yield from self._outputs(roles[1:], (*taken, out), is_exact)

    def _needed(self) -> list[Port]:
        """The ports that must be outputs, as far as there are outputs for them."""
        count = len(self.place.outputs)
        return next((ports for ports in (self.candidates, self.ends) if len(ports) <= count), [])

    def _passed(self, role: Role) -> list[int]:
        """The inputs that an output may pass on, if the graph has too few ports."""
        if len(self.candidates) >= len(self.place.outputs):
            return []
        own = [k for k, other in enumerate(self.place.inputs) if other.name == role.name]
        return own or list(range(len(self.place.inputs)))

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
        body = GraphReader(self.place.body, signature, self._inner, is_lenient=True).read()
        known = {**self._fixed(self.place.inputs, body.inputs), **self._fixed(self.place.outputs, body.outputs)}
        body = Body(**{**vars(body), "types": known})
        groups, around = self._around(body)
        return Reading(tuple(names), said, self._types(groups, around, names, said)) if groups.holds else None

    def _fixed(self, roles: Sequence[Role], names: Sequence[str]) -> dict[str, ValueType]:
        pairs = zip(roles, names, strict=True)
        return {
            name: ValueType(role.dtype) for role, name in pairs if role.dtype is not None and role.name in (ITERATION, CONDITION)
        }

    def _around(self, body: Body) -> tuple[Agreement, Body]:
        """What the graph around says of types when the body is this one."""

        def inner(source: Any, n_carried: int, kind: str) -> Body | None:
            (graph,) = source.values() if isinstance(source, dict) and len(source) == 1 else (source,)
            return body if graph is self.place.body else unsettled(source, n_carried, kind, self.place.opset)

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


ITERATION, CONDITION = "iteration", "condition"


def unsettled(source: Any, n_carried: int, kind: str, opset: int) -> Body | None:
    """A body whose signature is known, with numbers as they are written; None if it is not known."""
    if not isinstance(source, dict) or len(source) != 1:
        return None
    (graph,) = source.values()
    try:
        if not hasattr(graph, "nodes"):
            return read(source, n_carried, kind)
        signature = read_signature(graph, n_carried, kind)
        return GraphReader(graph, signature, lambda *inner: unsettled(*inner, opset), is_lenient=True).read()
    except LoopError:
        return None


def _agree(one: Shape, other: Shape, is_exact: bool) -> bool:
    """Whether two shapes can be those of one value; inexactly only their ranks."""
    if one is None or other is None:
        return True
    if len(one) != len(other):
        return False
    return not is_exact or all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def _plain(shape: Any) -> Shape:
    return None if shape is None else tuple(dim if isinstance(dim, int) else None for dim in shape)


def _is_same_variable(name: str, other: str, graph: str) -> bool:
    """Whether an exporter gave two values of one variable these names: ``x.3`` and ``x.11``; ``h`` and ``h_<graph>__subgraph_in``."""
    if name == f"{other}_{graph}__subgraph_in":
        return True
    stems = [found[1] if (found := _OF_ONE_VARIABLE.fullmatch(text)) else text for text in (name, other)]
    return stems[0] == stems[1] and name != other


def _unused(name: str, taken: set[str]) -> str:
    return next(text for text in itertools.chain([name], (f"{name}_{k}" for k in itertools.count(2))) if text not in taken)
