"""The lowering for back ends that know all element types before anything runs: files of ONNX, functions of JAX.

A number of Python's is of one type there, carried values begin with a type that holds what they become, and hidden ones are
carried like others.
"""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from mdf_loop.errors import KindError, UnsupportedOp
from mdf_loop.ir import Body, Carried, Loop, Node
from mdf_loop.kernels.definitions.mdf_operators import DOMAIN, to_onnx, truth
from mdf_loop.ops.registry import Kernel, facts
from mdf_loop.ops.rows import Bound
from mdf_loop.step.build import Builder, CannotLower
from mdf_loop.step.fixpoint import Fixpoint
from mdf_loop.step.loop_types import joined
from mdf_loop.step.lower import Lowering, Names
from mdf_loop.step.primitives import FLOAT64, PRIMITIVES
from mdf_loop.step.records import UNKNOWN, Apply, BranchRegion, Region, Type, Value
from mdf_loop.step.structure import computed_from, values_in
from mdf_loop.types.fitting import fit_values
from mdf_loop.types.required import Asked

IS_FIRST, IS_NOT_FIRST = "is first", "is not first"
"""A carried value where hidden ones have no value before the first iteration: whether it is that one."""

CHOICES = {"choose": (0, 1, 2), "and": (0, 1, 0), "or": (0, 0, 1)}
"""Operators that give one of their inputs: the places of what is asked, and of what is given if it is true and if not."""

PYTHONS = {"b": bool, "i": int}
"""Python's numbers by kind; all others are floats."""

MOST_WIDER = 8
"""How often the types of carried values are widened."""


def dtype_of(type: Type) -> np.dtype | None:
    """The element type of a value of a type: where only the run could tell an int from a float it is float64."""
    return FLOAT64 if type.dtype is not None and type.kind == "O" else type.dtype


def sample(type: Type) -> Any:
    """What numpy promotes as it promotes a value of a type."""
    return {"b": True, "i": 1}.get(type.kind, 1.0) if type.weak else dtype_of(type)


class StaticBuilder(Builder):
    """A builder of Steps all of whose element types are known."""

    def strong(self, x: Value, dtype: np.dtype | None = None) -> Value:
        """A value with an element type of ONNX's: Python's numbers get that which they have in numpy."""
        own = FLOAT64 if x.type.kind == "O" else x.type.dtype
        return super().strong(x, dtype or own) if x.type.weak or dtype is not None else x

    def common_type(self, *inputs: Value, as_numpys: bool = False) -> np.dtype:
        """The common element type of values; what may be an int or a float is a float."""
        return super().common_type(*(self.strong(x) if x.type.kind == "O" else x for x in inputs), as_numpys=as_numpys)

    def as_array(self, x: Value) -> Value:
        """A number as an array without dimensions, which is what a number is there."""
        return self.strong(x)

    def has_no_end(self, x: Value) -> bool:
        """Whole numbers of Python's have 64 bits there."""
        return False

    def of_type(self, type: Type) -> Value:
        """Any value of a type."""
        shape = [n if isinstance(n, int) else 0 for n in type.shape or ()]
        return self.const(_number(type, 0) if type.weak else np.zeros(shape, type.dtype))


class StaticLowering(Lowering):
    """One graph on its way into a Step all of whose element types are known.

    Attributes
    ----------
    path : tuple of str
        Where it stands, for messages.
    origins : dict of Value to Node
        The nodes that values come from.
    """

    has_copies = False  # a graph that others read says each node once

    fitted_as = 1.0
    """The number that is tried for all others where it is asked whether a body takes them: a whole one fits in whole numbers."""

    def __init__(self, path: tuple[str, ...], obey: bool = False) -> None:
        super().__init__(obey)
        self.b: StaticBuilder = StaticBuilder()
        self.path = path
        self.origins: dict[Value, Node] = {}

    @contextlib.contextmanager
    def inside(self, *path: str) -> Iterator[None]:
        """What is lowered stands in something that has a name."""
        self.path = (*self.path, *path)
        try:
            yield
        finally:
            self.path = self.path[: -len(path)]

    def refusal(self, node: Node, why: object) -> UnsupportedOp:
        """The error that a node has no form."""
        return UnsupportedOp(f"{'/'.join((*self.path, node.name or node.op))}: {why}")

    def body(self, body: Body, scope: Mapping[str, Value]) -> list[Value]:
        """The values of a body's outputs; hidden values of a graph that runs once are what they start with."""
        names = {**scope, **{state.input: self.b.const(state.initial) for state in body.state}}
        return super().body(replace(body, state=()), names)

    def node(self, node: Node, names: Names) -> Sequence[Value]:
        """The values of a node's outputs."""
        mark = self.b.mark()
        if node.op == "initially":
            found = self._initially(node, names)
        elif node.op == "whole" and names[node.inputs[0]].type.kind == "f":
            found = [names[node.inputs[0]]]  # a float without a fraction stays a float
        else:
            found = super().node(node, names)
        for value in self.b.since(mark):
            self.origins.setdefault(value, node)
        return found

    def _initially(self, node: Node, names: Names) -> Sequence[Value]:
        """The first value of a hidden one in the first iteration, the previous one later."""
        previous, first = (names[name] for name in node.inputs)
        if previous.type.dtype is None or IS_FIRST not in names:
            return [first]
        if not (previous.type.weak and first.type.weak):
            dtype = _promoted(previous.type, first.type)
            previous, first = self.b.cast(previous, dtype), self.b.cast(first, dtype)
        return [self.b.select(names[IS_FIRST], first, previous)]

    # Operators

    def _applied(self, node: Node, bound: Bound, entry: Kernel, args: Sequence[Value | None], names: Names) -> Sequence[Value]:
        """What MDF's engine does around operators, choices between values of two types, and draws, have forms of their own."""
        try:
            if (drawn := scaled_draw(self.b, node, args)) is not None:
                return [drawn]
        except CannotLower as error:
            self.refused = str(error)
        given = [x for x in args if x is not None]
        if node.domain == DOMAIN and all(x.type.dtype is not None for x in given):
            if node.op == "fit":
                try:
                    return fitted_values(self.b, given, number=self.fitted_as, **node.attrs)
                except KindError as error:
                    raise self.refusal(node, error) from error
            if node.op == "to_onnx":
                return [to_onnx(self.b, given[0])]
            if node.op in CHOICES:
                test, x, y = (given[place] for place in CHOICES[node.op])
                return [one_of_two(self.b, truth(self.b, test), x, y)]
        return self.as_a_whole(node, bound, entry, args, names)

    def as_a_whole(self, node: Node, bound: Bound, entry: Kernel, args: Sequence[Value | None], names: Names) -> Sequence[Value]:
        """An operator of which nothing is known but its kernel."""
        return super()._applied(node, bound, entry, args, names)

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
        n, hidden = len(record.carried), CarriedHidden.of(record)
        initial = [self.b.const(value) for value in hidden.initial]
        with self.inside(node.name or node.op):
            try:
                given = [*args[: 2 + n], *initial, *args[2 + n :]]
                found = super().node_of_loop(node, bound, hidden.record, given, names)
            except CannotLower as error:
                raise UnsupportedOp(f"{'/'.join(self.path)}: {error}") from error
        return [*found[:n], *found[n + len(initial) :]]

    def fixpoint(self, record: Loop, carried: Sequence[Value], scanned: Sequence[Value], scope: Mapping[str, Value]) -> Fixpoint:
        """The body of a loop; carried values begin with a type that holds what they become."""
        mark, given = self.b.mark(), list(carried)
        for _ in range(MOST_WIDER):
            found = super().fixpoint(record, given, scanned, scope)
            narrow = [k for k, type in enumerate(found.types) if type.dtype is None or type.shape is None or type.kind == "O"]
            targets = {k: found.first_ends[k] for k in narrow if found.first_ends[k].dtype is not None}
            targets |= {k: Type(FLOAT64, (), weak=True) for k in narrow if found.types[k].kind == "O"}
            targets = {k: type for k, type in targets.items() if not _holds(given[k], type)}
            if not targets:
                return found
            self.b.rewind(mark)
            for k, type in targets.items():
                if given[k].type.kind in "iu" and type.kind == "f":
                    _refuse_whole_apart(record.carried[k].input, found.first, found.first.params[2 + k])
                given[k] = self._wider(record.carried[k].input, given[k], type)
            mark = self.b.mark()  # what is wider now stays
        raise CannotLower("the element types of what is carried change from iteration to iteration")

    def _wider(self, name: str, x: Value, type: Type) -> Value:
        """What a carried value begins with, in a type that holds what an iteration gives as well."""
        if x.op == "const" and x.attr is None:  # not read before the first iteration is over
            return self.b.of_type(type)
        if x.type.kind == "b" != type.kind:  # True + True is True, and 1 + 1 is 2
            raise CannotLower(f"{name!r} is a truth value first and becomes a number: begin with a number")
        if type.weak and x.type.rank == 0:
            return self.b.python(x, builtins.type(_number(type)))
        dtype = _promoted(x.type, type)
        if x.type.rank == type.rank or type.rank is None:
            return self.b.cast(x, dtype)
        if x.type.rank == 0:
            return self.number_for_now(self.b.cast(x, dtype), type)
        raise CannotLower(
            f"{name!r} starts with {x.type.rank} axes and goes on with {type.rank}; what is written is for one number of axes"
        )

    def number_for_now(self, x: Value, type: Type) -> Value:
        """A value in the place of a number that later iterations make an array of.

        Raises
        ------
        CannotLower
            There is none.
        """
        raise CannotLower(f"a carried value starts as a number and becomes an array of {type.rank} axes; begin with an array")


def _refuse_whole_apart(name: str, first: Region, begins: Value) -> None:
    """Refuse to make a float of a whole number by which, or which, the first iteration divides in its own way.

    Raises
    ------
    CannotLower
    """
    found = {begins}
    computed_from(first, found)
    for value in values_in(first):
        row = PRIMITIVES.get(value.op)
        if row is not None and row.is_whole_apart and value in found and value.type.kind in "iu":
            divisor = value.args[-1]
            if divisor.op != "const" or not np.all(divisor.attr):
                raise CannotLower(
                    f"{name!r} begins as a whole number and becomes a float. What is written has one type for it, and "
                    "divided by 0 they differ (1 // 0 is 0, 1.0 // 0.0 is infinite): begin with a float, such as 0.0"
                )


def _common(one: Value, other: Value) -> np.dtype | None:
    """The element type of what is one of two values; None if it need not change."""
    if one.type.dtype is None or other.type.dtype is None or (one.type == other.type and one.type.weak):
        return None
    return _promoted(one.type, other.type)


def _promoted(one: Type, other: Type) -> np.dtype:
    return np.result_type(*map(sample, (one, other) if one.weak != other.weak else (_strong(one), _strong(other))))


def _strong(type: Type) -> Type:
    return replace(type, weak=False)


def _number(type: Type, number: int = 1) -> bool | int | float:
    """A number of Python's of a type; one of which only the run can tell is a float."""
    return PYTHONS.get(type.kind, float)(number)


def _holds(x: Value, type: Type) -> bool:
    """Whether a carried value begins as what an iteration gives."""
    return x.type.rank == type.rank and x.type.dtype == type.dtype and x.type.weak == type.weak


@dataclass(frozen=True)
class CarriedHidden:
    """A loop whose hidden values are carried behind the others, and what they begin with."""

    record: Loop
    initial: tuple[Any, ...]

    @classmethod
    def of(cls, record: Loop) -> CarriedHidden:
        """The same loop with its hidden values carried."""
        body, states = record.body, record.body.state
        if not states:
            return cls(record, ())
        carried, initial, constants = [Carried(s.input, s.output) for s in states], [s.initial for s in states], {}
        if any(state.initial is None for state in states):
            carried.append(Carried(IS_FIRST, IS_NOT_FIRST))
            initial.append(np.True_)
            constants = {IS_NOT_FIRST: np.False_}
        outputs = tuple(dict.fromkeys((*body.outputs, *(c.output for c in carried))))
        body = replace(body, outputs=outputs, constants={**body.constants, **constants}, state=())
        return cls(replace(record, body=body, carried=(*record.carried, *carried)), tuple(initial))


def computed_in(value: Value) -> tuple[np.dtype, ...]:
    """The element type that each argument of a primitive has where it is computed, by numpy's rules."""
    row, types = PRIMITIVES[value.op], [x.type for x in value.args]
    result = dtype_of(value.type)
    assert result is not None
    if value.op == "ldexp" or (len(types) == 1 and (types[0].kind == "c" or row.is_question)):
        return tuple(dtype_of(type) for type in types)  # type: ignore[misc]
    if row.is_question:
        result = np.result_type(*map(sample, types))
    elif row.is_python and result.kind in "bi":
        is_whole = value.op != "python.round" and result.kind == "i" and all(type.kind in "bi" for type in types)
        result = result if is_whole else FLOAT64
    return (result,) * len(types)


def fitted_values(
    b: Builder, inputs: Sequence[Value], names: Sequence[str], asked: Mapping[str, Asked], number: float = 1.0
) -> tuple[Value, ...]:
    """Values in the element types that a body asks for, as those of ``number`` in each of them are."""
    given = {name: np.full((1,) * (x.type.rank or 0), number, dtype_of(x.type)) for name, x in zip(names, inputs, strict=True)}
    found = fit_values(asked, given)
    return tuple(b.cast(x, found[name].dtype) for name, x in zip(names, inputs, strict=True))


def one_of_two(b: Builder, test: Value, x: Value, y: Value) -> Value:
    """One of two values in the element type that holds both: element by element if they have one shape, else by a branch."""
    both_weak = x.type.weak and y.type.weak
    dtype = np.result_type(*((dtype_of if both_weak else sample)(z.type) for z in (x, y)))
    x, y = (b.python(z, PYTHONS.get(dtype.kind, float)) if both_weak else b.cast(z, dtype) for z in (x, y))
    if test.op == "const":
        return x if test.attr else y
    if x.type.shape == y.type.shape:
        return b.select(test, x, y)
    regions = []
    for side in (x, y):
        with b.region() as close:
            regions.append(close([side]))
    return b.items(b.put_in("branch", (test,), UNKNOWN, BranchRegion(*regions)), [joined(x.type, y.type)])[0]


def scaled_draw(b: Builder, node: Node, inputs: Sequence[Value | None]) -> Value | None:
    """numpy's random numbers whose mean or bounds are computed: standard ones, moved and scaled; None for another node.

    Raises
    ------
    CannotLower
        Their number is computed.
    """
    draws = facts(node).draws
    if draws is None or len(inputs) > 3 or not any(x is not None for x in inputs[:2]):
        return None
    given, size = [x for x in inputs[:2] if x is not None], [*inputs, None, None, None][2]
    if any(not x.type.is_static for x in given) or (size is not None and size.op != "const"):
        raise CannotLower("of a size that is computed")
    shape = (
        np.broadcast_shapes(*(cast(tuple[int, ...], x.type.shape) for x in given))
        if size is None
        else tuple(np.ravel(size.attr).tolist())
    )
    op, attrs = draws(0.0, 1.0, shape or None) or (None, {})
    if op is None:
        return None
    drawing = Apply(Node(op, (), node.outputs, {**attrs, "shape": shape}, "", 1), _never, needs_run=True)
    (drawn,) = b.apply(drawing, (), [Type(FLOAT64, shape, weak=not shape)])
    first, second = [*given, *map(b.const, (0.0, 1.0)[len(given) :])]
    return b.add(b.mul(drawn, b.sub(second, first) if "high" in attrs else second), first)


def _never(*_: Any) -> Any:
    raise NotImplementedError("an operator that is written, not run")
