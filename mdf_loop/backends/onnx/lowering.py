"""From a body to a Step whose operators are ONNX's, and on to a body in operators of ONNX alone.

Nodes that are ONNX already stay as they are.  What MDF's expressions compute becomes what it is defined as in primitives; where
no definition fits, :mod:`mdf_loop.backends.onnx.rewritten` says it in operators of ONNX.
"""

from __future__ import annotations

import builtins
import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdf_loop.backends.onnx import arranging, indices, open_lengths, structural  # noqa: F401  (they fill tables)
from mdf_loop.backends.onnx.emission import Emission
from mdf_loop.backends.onnx.graph_printer import FLOAT64, GraphPrinter, declared, dtype_of
from mdf_loop.backends.onnx.rewritten import REWRITTEN, OnnxBuilder, kept
from mdf_loop.errors import UnsupportedOp, malformed
from mdf_loop.ir import Body, Carried, Loop, Node, ValueType
from mdf_loop.ops.registry import INTERNAL_DOMAINS, Kernel
from mdf_loop.ops.rows import Bound, Call
from mdf_loop.step.build import CannotLower
from mdf_loop.step.check import checked
from mdf_loop.step.fixpoint import Settling
from mdf_loop.step.lower import Lowering, Names
from mdf_loop.step.records import Region, Size, Type, Value

LEAST_OPSET = 18
"""Version of ONNX that the operators written here are of; a model may say a later one."""

IS_FIRST, IS_NOT_FIRST = "is first", "is not first"
"""A carried value where hidden ones have no value before the first iteration: whether it is that one."""

MOST_WIDER = 8
"""How often the types of carried values are widened."""


def lower(body: Body, inputs: Mapping[str, tuple[Any, ValueType]]) -> Body:
    """A body in operators of ONNX alone.

    Parameters
    ----------
    body : Body
        As it was read; what it captures becomes inputs.
    inputs : mapping of str to (sample, ValueType)
        For each input a value that it might have, and what is declared of it.

    Raises
    ------
    UnsupportedOp
        ONNX cannot say something; names it.
    MalformedBody
        The body is broken.
    """
    with malformed("this graph cannot be written in operators of ONNX", (body.name,)):
        lowering = OnnxLowering(max(LEAST_OPSET, _newest(body)), (body.name,))
        params = {}
        for k, (name, (sample, kind)) in enumerate(inputs.items()):
            params[name] = lowering.b.param(_type_of_input(sample, kind), k)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            outputs = lowering.body(body, params)
        region = checked(lowering.b.closed(outputs))
        printer = GraphPrinter(Emission(lowering.opset, path=(body.name,)), lowering.called, lowering.origins)
        for name, param in params.items():
            printer.names[param] = printer.e.fresh(name)
        names = [printer.e.call(made, name) for made, name in zip(printer.region(region), body.outputs, strict=True)]
        written = printer.e.body(body.name, tuple(inputs), names)
    types = {name: declared(x.type) for name, x in zip(written.outputs, outputs, strict=True)}
    return replace(written, types={**types, **{name: kind for name, (_, kind) in inputs.items()}})


def _type_of_input(sample: Any, kind: ValueType) -> Type:
    """The type of an input: lengths that are not declared may be others than those of its default."""
    shape = np.shape(sample)
    if kind.shape is not None and len(kind.shape) == len(shape):
        shape = tuple(n if isinstance(n, int) else Size() for n in kind.shape)
    return Type(np.asarray(sample).dtype, shape)


def _newest(body: Body) -> int:
    """The newest version of ONNX in a body and those in it."""
    versions = [node.opset for node in body.nodes if node.domain == ""]
    return max([*versions, *(_newest(inner) for node in body.nodes for _, inner in node.bodies)], default=0)


class OnnxLowering(Lowering):
    """One graph on its way into a Step whose operators are ONNX's.

    Attributes
    ----------
    called : dict of Value to str
        What values are called in the bodies that they come from.
    origins : dict of Value to Node
        The nodes that they come from.
    """

    b: OnnxBuilder

    def __init__(self, opset: int, path: tuple[str, ...]) -> None:
        super().__init__(obey=False)
        self.b, self.opset, self.path = OnnxBuilder(opset), opset, path
        self.called: dict[Value, str] = {}
        self.origins: dict[Value, Node] = {}

    @contextlib.contextmanager
    def _inside(self, *path: str) -> Iterator[None]:
        self.path = (*self.path, *path)
        try:
            yield
        finally:
            self.path = self.path[: -len(path)]

    def refusal(self, node: Node, why: object) -> UnsupportedOp:
        """The error that a node cannot be written."""
        return UnsupportedOp(f"{'/'.join((*self.path, node.name or node.op))}: {why}")

    def body(self, body: Body, scope: Mapping[str, Value]) -> list[Value]:
        """The values of a body's outputs; hidden values of a graph that runs once are what they start with."""
        names = {**scope, **{state.input: self.b.const(state.initial) for state in body.state}}
        for name in (*body.inputs, *body.captures):
            self.called.setdefault(names[name], name)
        return super().body(replace(body, state=()), names)

    def node(self, node: Node, names: Names) -> Sequence[Value]:
        """The values of a node's outputs."""
        mark = self.b.mark()
        if node.op == "initially":
            found = self._initially(node, names)
        elif node.op == "whole" and names[node.inputs[0]].type.kind == "f":
            found = [names[node.inputs[0]]]  # a float without a fraction stays a float: element types are known before it runs
        else:
            found = super().node(node, names)
        for value in self.b.since(mark):
            self.origins.setdefault(value, node)
        for name, value in zip(node.outputs, found, strict=False):
            if name:
                self.called.setdefault(value, name)
        return found

    # Operators

    def _initially(self, node: Node, names: Names) -> Sequence[Value]:
        """The first value of a hidden one in the first iteration, the previous one later."""
        previous, first = (names[name] for name in node.inputs)
        if previous.type.dtype is None or IS_FIRST not in names:
            return [first]
        if not (previous.type.weak and first.type.weak):
            dtype = _promoted(previous.type, first.type)
            previous, first = self.b.cast(previous, dtype), self.b.cast(first, dtype)
        return [self.b.select(names[IS_FIRST], first, previous)]

    def _defined(self, node: Node, bound: Bound, entry: Kernel, args: Sequence[Value | None], make: Call) -> Sequence[Value]:
        """What MDF's expressions compute in primitives; an operator of ONNX stays one."""
        if node.domain not in INTERNAL_DOMAINS:
            raise CannotLower("stays an operator")
        with self.b.region() as close:
            found = make(self.b, *args)
            results = found if isinstance(found, tuple) else (found,)
            region = close(results)
        self.b.take_over(region)
        return results

    def _folded(self, node: Node, bound: Bound, entry: Kernel, args: Sequence[Value | None]) -> Sequence[Value] | None:
        return super()._folded(node, bound, entry, args) if node.domain in INTERNAL_DOMAINS else None

    def _kept(self, node: Node, args: Sequence[Value | None], names: Names) -> Sequence[Value]:
        try:
            return kept(self.b, node, args, [names[name] for name in node.captures])
        except CannotLower as error:
            raise self.refusal(node, error) from error

    def _applied(self, node: Node, bound: Bound, entry: Kernel, args: Sequence[Value | None], names: Names) -> Sequence[Value]:
        if node.domain not in INTERNAL_DOMAINS:
            return self._kept(node, args, names)
        why = node.attrs.get("reason", f"{node.op} has no ONNX operator")
        if node.op in REWRITTEN and all(x is None or x.type.dtype is not None for x in args):
            try:
                found = REWRITTEN[node.op](self.b, *args, **node.attrs)
            except (CannotLower, ValueError) as error:
                why = f"{why}: {error}"
            else:
                return found if isinstance(found, tuple) else (found,)
        return self.b.unwritten(node, why, [x for x in args if x is not None])

    # Control flow

    def _sides(self, bodies: Sequence[Body], names: Names) -> list[Region]:
        """Both branches of an If, whose results have one element type each."""
        mark = self.b.mark()
        regions = super()._sides(bodies, names)
        common = [_common(*pair) for pair in zip(*(region.results for region in regions), strict=False)]
        pairs = [(x, dtype) for region in regions for x, dtype in zip(region.results, common, strict=False)]
        if all(dtype is None or (x.type.dtype == dtype and not x.type.weak) for x, dtype in pairs):
            return regions
        self.b.rewind(mark)
        return [self._side(body, names, common) for body in bodies]

    def node_of_loop(self, node: Node, bound: Bound, record: Loop, args: Sequence[Value | None], names: Names) -> Sequence[Value]:
        """A Loop or Scan; hidden values of its body are carried as well."""
        n, hidden = len(record.carried), _hidden(record)
        initial = [self.b.const(value) for value in hidden.initial]
        with self._inside(node.name or node.op):
            try:
                given = [*args[: 2 + n], *initial, *args[2 + n :]]
                found = super().node_of_loop(node, bound, hidden.record, given, names)
            except CannotLower as error:
                raise UnsupportedOp(f"{'/'.join(self.path)}: {error}") from error
        return [*found[:n], *found[n + len(initial) :]]

    def settled(self, record: Loop, carried: Sequence[Value], scanned: Sequence[Value], scope: Mapping[str, Value]) -> Settling:
        """The body of a loop; carried values begin with a type that holds what they become."""
        mark, given = self.b.mark(), list(carried)
        for _ in range(MOST_WIDER):
            found = super().settled(record, given, scanned, scope)
            narrow = [k for k, type in enumerate(found.types) if type.dtype is None or type.shape is None or type.kind == "O"]
            targets = {k: found.first_ends[k] for k in narrow if found.first_ends[k].dtype is not None}
            targets |= {k: Type(FLOAT64, (), weak=True) for k in narrow if found.types[k].kind == "O"}
            targets = {k: type for k, type in targets.items() if not _holds(given[k], type)}
            if not targets:
                return found
            self.b.rewind(mark)
            for k, type in targets.items():
                given[k] = self._wider(record.carried[k].input, given[k], type)
        raise CannotLower("the element types of what is carried change from iteration to iteration")

    def _wider(self, name: str, x: Value, type: Type) -> Value:
        """What a carried value begins with, in a type that holds what an iteration gives as well."""
        if x.op == "const" and x.attr is None:  # not read before the first iteration is over
            shape = [n if isinstance(n, int) else 0 for n in type.shape or ()]
            return self.b.const(_number(type, 0) if type.weak else np.zeros(shape, type.dtype))
        if x.type.kind == "b":  # True + True is True, and 1 + 1 is 2
            raise CannotLower(f"{name!r} is a truth value first and becomes a number: begin with a number")
        if type.weak and x.type.rank == 0:
            return self.b.python(x, builtins.type(_number(type)))
        dtype = _promoted(x.type, type)
        if x.type.rank == type.rank or type.rank is None:
            return self.b.cast(x, dtype)
        if x.type.rank == 0:
            return self.b.number_for_now(self.b.cast(x, dtype), type.rank)
        raise CannotLower(
            f"{name!r} starts with {x.type.rank} axes and goes on with {type.rank}; what is written in ONNX is for one number "
            "of axes"
        )


def _common(one: Value, other: Value) -> np.dtype | None:
    """The element type in which two values are written where either may be the result; None if it need not change."""
    if one.type.dtype is None or other.type.dtype is None:
        return None
    return _promoted(one.type, other.type)


def _promoted(one: Type, other: Type) -> np.dtype:
    dtypes = [dtype_of(type) for type in (one, other)]
    if one.weak != other.weak:
        return np.result_type(*[_number(t) if t.weak else dtype for t, dtype in zip((one, other), dtypes, strict=True)])
    return np.result_type(*dtypes)


def _number(type: Type, number: int = 1) -> bool | int | float:
    """A number of Python's of a type; one of which only the run can tell is a float."""
    return {"b": bool, "i": int}.get(type.kind, float)(number)


def _holds(x: Value, type: Type) -> bool:
    """Whether a carried value begins as what an iteration gives."""
    return x.type.rank == type.rank and x.type.dtype == type.dtype and x.type.weak == type.weak


@dataclass(frozen=True)
class _Hidden:
    """A loop whose hidden values are carried, and what they begin with."""

    record: Loop
    initial: tuple[Any, ...]


def _hidden(record: Loop) -> _Hidden:
    body, states = record.body, record.body.state
    if not states:
        return _Hidden(record, ())
    carried, initial, constants = [Carried(s.input, s.output) for s in states], [s.initial for s in states], {}
    if any(state.initial is None for state in states):
        carried.append(Carried(IS_FIRST, IS_NOT_FIRST))
        initial.append(np.True_)
        constants = {IS_NOT_FIRST: np.False_}
    outputs = tuple(dict.fromkeys((*body.outputs, *(c.output for c in carried))))
    body = replace(body, outputs=outputs, constants={**body.constants, **constants}, state=())
    return _Hidden(replace(record, body=body, carried=(*record.carried, *carried)), tuple(initial))
