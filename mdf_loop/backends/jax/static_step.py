"""A body as a Step for JAX, and that Step as a function of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import jax
import numpy as np
from jax import enable_x64

from mdf_loop.backends.jax import traced_loops
from mdf_loop.backends.jax.drawn import Draws
from mdf_loop.backends.jax.jnp_templates import canonical
from mdf_loop.backends.jax.kernels_over import NotOver, over_jax
from mdf_loop.backends.jax.walked import How, Walk
from mdf_loop.backends.static_lowering import CHOICES, StaticLowering
from mdf_loop.errors import ArgumentError
from mdf_loop.ir import Body, Loop, Node, ValueType
from mdf_loop.ops.registry import Kernel, facts
from mdf_loop.ops.rows import Bound, Call
from mdf_loop.readers import read
from mdf_loop.readers.expressions.values import DOMAIN
from mdf_loop.readers.onnx.inlining import written_out
from mdf_loop.step.build import CannotLower
from mdf_loop.step.check import checked
from mdf_loop.step.failing import guessing
from mdf_loop.step.fixpoint import Fixpoint
from mdf_loop.step.loop_types import is_no_limit
from mdf_loop.step.lower import Names
from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import Apply, Region, Type, Value
from mdf_loop.step.structure import Uses, is_always_true, read_by, uses_of, values_in

TURN_ON = 'JAX has 32 bits until one says jax.config.update("jax_enable_x64", True), once, before anything else of JAX'
"""What to do where 64 bits are needed."""

WIDE = (np.dtype(np.float64), np.dtype(np.complex128))


class JaxLowering(StaticLowering):
    """One graph on its way into a Step for JAX."""

    fitted_as = 1.5

    may_be_empty = False
    """Whether the loop that is lowered may have no iteration."""

    def _defined(
        self, node: Node, bound: Bound, entry: Kernel, args: Sequence[Value | None], make: Call, mark: Sequence[int]
    ) -> Sequence[Value]:
        if entry.facts.factorises:
            raise CannotLower("JAX has it as a whole")
        return super()._defined(node, bound, entry, args, make, mark)

    def _applied(self, node: Node, bound: Bound, entry: Kernel, args: Sequence[Value | None], names: Names) -> Sequence[Value]:
        if node.op in CHOICES and node.domain == DOMAIN:
            _, x, y = (cast(Value, args[place]) for place in CHOICES[node.op])
            if is_open(x) or is_open(y):
                return [y if is_open(x) else x]
        if not entry.native and (body := self._written_out(node, args)) is not None:
            return self.body(body, dict(zip(body.inputs, [x for x in args if x is not None], strict=True)))
        mark = self.b.mark()
        found = super()._applied(node, bound, entry, args, names)
        if all(x.type.dtype is not None for x in found) or (types := self._inferred(node, bound, args)) is None:
            return found
        self.b.rewind(mark)
        return self.b.apply(Apply(node, bound.call, results=len(types)), cast(Sequence[Value], args), types)

    def _written_out(self, node: Node, args: Sequence[Value | None]) -> Body | None:
        """An operator of ONNX in other operators; None if ONNX does not say it so."""
        types = [None if x is None else ValueType(x.type.dtype, x.type.shape) for x in args]  # type: ignore[arg-type]
        model = written_out(node, types)
        return None if model is None else read(model, kind="branch")

    def _inferred(self, node: Node, bound: Bound, args: Sequence[Value | None]) -> list[Type] | None:
        """The types of what a kernel gives over arrays of JAX; None where it does not run over them."""
        if bound.needs_run or node.captures or any(x is None or not x.type.is_static or x.type.kind == "O" for x in args):
            return None
        given = [x for x in args if x is not None]
        kinds = [jax.ShapeDtypeStruct(cast(Any, x.type.shape), x.type.dtype) for x in given if x.op != "const"]

        def call(*arrays: Any) -> Any:
            rest = iter(arrays)
            return over_jax(bound.call, [x.attr if x.op == "const" else next(rest) for x in given])

        try:
            with enable_x64(True):
                found = jax.eval_shape(call, *kinds)
        except (NotOver, ValueError, TypeError, IndexError):
            return None
        results = found if isinstance(found, tuple) else (found,)
        if len(results) != len(node.outputs) or not all(isinstance(x, jax.ShapeDtypeStruct) for x in results):
            return None
        return [Type(np.dtype(x.dtype), x.shape) for x in results]

    def _sides(self, bodies: Sequence[Body], names: Names) -> list[Region]:
        """Both branches of an If; a carried value that has no type yet is of that which the other branch gives."""
        mark = self.b.mark()
        regions = super()._sides(bodies, names)
        pairs = [*zip(*(region.results for region in regions), strict=False)]
        types = [y.type if is_open(x) else x.type if is_open(y) else None for x, y in pairs]
        if not any(type is not None and type.is_static for type in types):
            return regions
        self.b.rewind(mark)
        return [self._side(body, {**names, **self._begun(body, names, types)}) for body in bodies]

    def _begun(self, body: Body, names: Names, types: Sequence[Type | None]) -> dict[str, Value]:
        """Values in the place of carried ones that have no type yet and that a branch passes on."""
        found = {}
        for name, type in zip(body.outputs, types, strict=False):
            if type is not None and type.is_static and name in names and is_open(names[name]):
                found[name] = self.b.of_type(type)
        return found

    def fixpoint(self, record: Loop, carried: Sequence[Value], scanned: Sequence[Value], scope: Mapping[str, Value]) -> Fixpoint:
        """The body of a loop; a number that becomes an array is one from the start, where its elements are worked on alone."""
        found = super().fixpoint(record, carried, scanned, scope)
        for k, (given, initial) in enumerate(zip(carried, found.initial, strict=True)):
            if given.type.shape == () != initial.type.shape and not _is_elementwise(found.region, found.region.params[2 + k]):
                raise CannotLower(f"{record.carried[k].input!r} starts as a number and becomes an array: begin with an array")
        return found

    def loop(  # type: ignore[override]
        self,
        record: Loop,
        count: Value | None,
        condition: Value | None,
        obeyed: bool,
        carried: Sequence[Value],
        scanned: Sequence[Value],
        scope: Mapping[str, Value],
        *_: Any,
    ) -> Sequence[Value]:
        """A loop, which JAX never runs as a whole operator; it is kept in mind whether it has an iteration."""
        outer = self.may_be_empty
        has_count = count is None or (count.op == "const" and np.all(np.asarray(count.attr) > 0))
        has_rows = all(x.type.shape is None or x.type.shape[s.axis] != 0 for x, s in zip(scanned, record.scanned, strict=True))
        self.may_be_empty = not (has_rows and has_count and (condition is None or is_always_true(condition)))
        try:
            return super().loop(record, count, condition, obeyed, carried, scanned, scope)
        finally:
            self.may_be_empty = outer

    def number_for_now(self, x: Value, type: Type) -> Value:
        """A number that later iterations make an array of: that array."""
        if self.may_be_empty:
            raise CannotLower("a number becomes an array if there is an iteration: begin with an array")
        return self.b.broadcast(x, type.shape) if type.is_static and type.shape else super().number_for_now(x, type)


def is_open(x: Value) -> bool:
    """Whether a value is one that is carried and has no type yet: nothing reads it before the first iteration is over."""
    return x.type.dtype is None and (x.op == "param" or (x.op == "const" and x.attr is None))


def _is_elementwise(region: Region, param: Value) -> bool:
    """Whether a region works on the elements of a value one by one, so that it need not be known how many there are."""
    seen = {param}
    for value in region.values:
        if not seen.isdisjoint(read_by(value)):
            if value.op not in PRIMITIVES and value.op not in ("select", "cast"):
                return False
            seen.add(value)
    return True


@dataclass(frozen=True)
class JaxStep:
    """A body with types, ready to be computed.

    Attributes
    ----------
    region : Region
    origins : mapping of Value to Node
    """

    region: Region
    origins: Mapping[Value, Node]

    def giving(self, places: Sequence[int]) -> JaxStep:
        """The same with some of its results."""
        return JaxStep(replace(self.region, results=tuple(self.region.results[k] for k in places)), self.origins)

    @property
    def counting(self) -> JaxStep:
        """The same with two more results, if it has one loop and this has a limit: its iterations, and the limit."""
        loops = [value for value, depth in traced_loops.loops_in(self.region) if not depth]
        if len(loops) != 1 or not loops[0].attr.has_count:
            return self
        (loop,), region = loops, self.region
        place = loop.attr.n_carried + loop.attr.n_last + len(loop.attr.rows)
        iterations = Value("item", (loop,), Type(np.dtype(np.int64), ()), place)
        results = (*region.results, iterations, loop.args[0])
        return JaxStep(replace(region, values=(*region.values, iterations), results=results), self.origins)

    @cached_property
    def uses(self) -> Uses:
        """Who reads which value."""
        return uses_of(self.region)

    def __call__(self, given: Sequence[Any], draws: Draws, **how: Any) -> list[Any]:
        """Its results; what a loop that may end early collected is :class:`Padded`."""
        return self.computed(given, draws, **how)[0]

    def computed(self, given: Sequence[Any], draws: Draws, **how: Any) -> tuple[list[Any], Any]:
        """Its results, and whether something failed, such as a loop that wants too many iterations; None where nothing can."""
        if canonical(np.float64) != np.float64 and (reason := next(self._needing_64_bits(), "")):
            raise ArgumentError(f"the model {reason}, and {TURN_ON}")
        w = Walk(self.how(**how), draws)
        found = w.results(self.region, given)
        for value, x in zip(self.region.results, found, strict=True):
            w.refuse_text(value, x)
        return found, w.failed if w.failures else None

    def how(self, **how: Any) -> How:
        """How it is computed: ``max_steps``, ``checkpoint`` and ``checks``, as :func:`mdf_loop.to_jax` takes them."""
        return How(self.origins, self.uses, **how)

    def _needing_64_bits(self) -> Iterator[str]:
        """What needs 64 bits, in words: fractions of 64 bits, and whole numbers that 32 bits do not hold."""
        for value in values_in(self.region):
            if value.type.dtype is not None and value.type.dtype in WIDE:
                yield f"computes in {value.type.dtype}"
            for x in value.args:
                if (
                    x.op == "const"
                    and (long := long_number(x.attr)) is not None
                    and not (_is_open_ended(value) and is_no_limit(x))
                ):
                    yield f"has the whole number {long}"


def _is_open_ended(value: Value) -> bool:
    """Whether a value is of an operator to which exporters give the largest whole number for an end that is open."""
    return isinstance(value.attr, Apply) and facts(value.attr.node).is_open_ended


def long_number(value: Any) -> int | None:
    """The first of some whole numbers that 32 bits do not hold."""
    found = np.asarray(value)
    if found.dtype.kind not in "iuO" or not found.size or found.dtype.itemsize < 8:
        return None
    most = 1 << (32 if found.dtype.kind == "u" else 31)
    return next((int(x) for x in (found.min(), found.max()) if isinstance(x, int | np.integer) and not -most <= x < most), None)


def lowered(body: Body, types: Sequence[Type], obey: bool = False) -> JaxStep:
    """The Step of a body whose inputs, then captures, have these types.

    Raises
    ------
    UnsupportedOp
        It has none; names the node.
    """
    with guessing(True):  # that a part lies inside its array: JAX needs lengths that are known
        lowering = JaxLowering((body.name,), obey)
    names = (*body.inputs, *body.captures)
    scope = {name: lowering.b.param(type, k) for k, (name, type) in enumerate(zip(names, types, strict=True))}
    return JaxStep(checked(lowering.b.closed(lowering.body(body, scope))), lowering.origins)
