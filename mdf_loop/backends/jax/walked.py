"""A region of a Step, computed value by value while JAX traces.

An array has exactly the element type that the Step says: numpy's rules for types, and for numbers of Python's, stand in the Step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.checkify import debug_check

from mdf_loop.backends.jax.drawn import Draws, is_draw, numbers_of
from mdf_loop.backends.jax.jnp_templates import TEMPLATES, canonical, cast_to, jax_dtype, no_number
from mdf_loop.backends.jax.kernels_over import NotOver, over_jax
from mdf_loop.backends.static_lowering import computed_in
from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import Node
from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import BranchRegion, LoopRegion, Reduction, Region, Type, Value
from mdf_loop.step.structure import Uses, may_end, why_no_condition

STRUCTURE: dict[str, Callable[..., Any]] = {}
"""By structural operation: ``compute(walk, value, *arguments)``."""


class Padded(NamedTuple):
    """What a loop that may end early collected: rows, of which those from ``length`` on are zeros."""

    array: Any
    length: Any


@dataclass(frozen=True)
class How:
    """How a Step is computed.

    Attributes
    ----------
    origins : mapping of Value to Node
        Where values come from, for messages.
    uses : Uses
        Who reads them: nothing is computed that is not read.
    max_steps : int or None
        The most iterations of a loop that says no number itself.
    checkpoint : int
        From how many iterations one is kept for gradients; 0 keeps all.
    checks : bool
        Whether ``jax.experimental.checkify`` finds what is an error of a run.
    flags : bool
        Whether it is known in the end that something was an error of a run, as engine ``jax`` wants it.
    selects : bool
        Whether both branches of an If are computed and one is chosen: JAX 0.10 has no gradient of a ``cond`` that is
        differentiated while it is vectorised.
    together : bool
        Whether many runs are computed at once: a ``while`` that is vectorised copies all rows that it collects in each iteration,
        so that a loop that collects is a scan over as many iterations as there may be.
    whole : bool
        Whether all of it is computed: it is not known who reads what in the definition of an operator.
    """

    origins: Mapping[Value, Node]
    uses: Uses
    max_steps: int | None = None
    checkpoint: int = 0
    checks: bool = False
    flags: bool = False
    selects: bool = False
    together: bool = False
    whole: bool = False

    def way_of(self, value: Value) -> str:
        """How a loop runs, in words."""
        loop: LoopRegion = value.attr
        count, scanned = value.args[0], loop.split(value.args)[3]
        lengths = [x.type.shape[s.axis] for x, s in zip(scanned, loop.scanned, strict=True) if x.type.shape]
        number = lengths[0] if lengths else int(np.asarray(count.attr).item()) if count.op == "const" and loop.has_count else None
        if isinstance(number, int) and not may_end(loop):
            return f"a scan over {number} iterations"
        most = number if isinstance(number, int) else self.max_steps
        if most is None:
            return "a while; for gradients in reverse mode give max_steps"
        return f"a while; for gradients in reverse mode a scan over at most {most} iterations"

    @property
    def may_fail(self) -> bool:
        """Whether each loop carries whether something has failed."""
        return self.flags or self.max_steps is not None

    def refusal(self, value: Value, why: str) -> UnsupportedOp:
        """The error that a value cannot be computed; names its node."""
        node = self.origins.get(value) or getattr(value.attr, "node", None)
        return UnsupportedOp(f"{value.op if node is None else node.name or f'{node.op} {node.outputs[0]!r}'}: {why}")


GROWS = "keep the elements in an array of fixed length, and count them"
"""What to do instead of a list, or of an array that grows."""


class Walk:
    """One region under way; ``known`` are the values so far, ``failures`` what may have failed in it."""

    def __init__(self, how: How, draws: Draws, known: Mapping[Value, Any] | None = None) -> None:
        self.how, self.draws, self.known = how, draws, dict(known or {})
        self.failures: list[Any] = []

    @property
    def failed(self) -> Any:
        """Whether something so far has failed; None where that is not carried."""
        return functools.reduce(jnp.logical_or, self.failures, jnp.asarray(False)) if self.how.may_fail else None

    def check(self, holds: Any, message: str, **numbers: Any) -> None:
        """Say what has to hold, where that was asked for: JAX calls what may be checked in a slower way."""
        if self.how.checks:
            debug_check(jnp.all(holds), message, **{name: jnp.asarray(number) for name, number in numbers.items()})
        if self.how.flags:
            self.failures.append(~jnp.all(holds))

    def truth(self, value: Value, condition: Any) -> Any:
        """A condition as one boolean; 0 and 1 pass for one.

        Raises
        ------
        UnsupportedOp
            It is not one, by its type or shape.
        """
        x = jnp.asarray(condition)
        if why := why_no_condition(Type(np.dtype(x.dtype), x.shape)):
            raise self.how.refusal(value, why)
        if x.dtype.kind != "b":
            self.check((x == 0) | (x == 1), "a condition must be one boolean")
        return jnp.reshape(x, ()) != 0

    def results(self, region: Region, given: Sequence[Any]) -> list[Any]:
        """What a region gives."""
        self.known |= zip(region.params, given, strict=True)
        for value in region.values:
            if self.how.whole or self.how.uses.count(value):
                self.known[value] = self._computed(value)
        return [x.attr if x.op == "const" else self.known[x] for x in region.results]

    def arrays(self, region: Region, given: Sequence[Any]) -> list[Any]:
        """The same as arrays of the types that the Step says."""
        found = self.results(region, given)
        for value, x in zip(region.results, found, strict=True):
            self.plain(value, x)
        return [as_typed(value, x) for value, x in zip(region.results, found, strict=True)]

    def _computed(self, value: Value) -> Any:
        args = [x.attr if x.op == "const" else self.known[x] for x in value.args]
        if value.op == "item":
            return args[0][value.attr]
        for x, found in zip(value.args, args, strict=True):
            self.plain(x, found, value)
        if value.op in PRIMITIVES:
            return self._primitive(value, args)
        if value.op not in STRUCTURE:
            raise self.how.refusal(value, f"a list, or an array that grows, has no form in JAX: {GROWS}")
        return STRUCTURE[value.op](self, value, *args)

    def plain(self, value: Value, found: Any, reader: Value | None = None) -> None:
        """See that something can be computed with.

        Raises
        ------
        UnsupportedOp
            Only the run knows how long it is.
        """
        if isinstance(found, Padded):
            raise self.how.refusal(
                reader or value,
                "it reads what a loop collected that may end early; JAX needs lengths that are known before: give the loop a "
                "trip count and no condition, or carry what is made of the values",
            )
        self.refuse_text(reader or value, found)

    def refuse_text(self, value: Value, found: Any) -> None:
        """See that something is numbers.

        Raises
        ------
        UnsupportedOp
            It is text.
        """
        if isinstance(found, str) or (isinstance(found, np.ndarray | np.generic) and found.dtype.kind in "OUS"):
            raise self.how.refusal(value, "a text has no form in JAX")

    def _primitive(self, value: Value, args: Sequence[Any]) -> Any:
        name = value.op.partition(".")[2] or value.op
        if name not in TEMPLATES:
            raise self.how.refusal(value, f"{name} has no function in JAX")
        if any(x.dtype is None for x in (value.type, *(x.type for x in value.args))):
            raise self.how.refusal(value, "the element type is known only when it runs")
        given = (
            args
            if name == "round"
            else [jnp.asarray(x).astype(canonical(t)) for x, t in zip(args, computed_in(value), strict=True)]
        )
        found = TEMPLATES[name](*given).astype(jax_dtype(value.type))
        if name == "pow" and value.type.weak and value.type.kind == "i":  # to a negative power it is a fraction in Python
            found = jnp.where(given[1] < 0, no_number(found.dtype), found)
        if (self.how.checks or self.how.flags) and value.type.weak and PRIMITIVES[value.op].refuses:
            self._check_python(name, value, given, found)
        return found

    def _check_python(self, name: str, value: Value, given: Sequence[Any], found: Any) -> None:
        """Say what is an error for numbers of Python's, where numpy has nan, infinity or 0."""
        if PRIMITIVES[value.op].divides:
            self.check(given[1] != 0, "division by zero")
        elif name in ("shl", "shr"):
            self.check(given[1] >= 0, "negative shift count")
        elif name == "pow" and value.type.kind == "i":
            self.check(given[1] >= 0, "a whole number to a negative power, which is a fraction")
        elif (name == "pow" or PRIMITIVES[value.op].is_python) and value.type.kind == "f":
            is_given = jnp.stack([jnp.isfinite(x) for x in given]).all(0)
            self.check(jnp.isfinite(found) | ~is_given, f"math domain error, or a result that is too large: {name}")


def manual_axes(tree: Any) -> frozenset[str]:
    """The axes of a ``shard_map`` around over which some of these values differ from device to device."""
    types = [jax.typeof(x) for x in jax.tree.leaves(tree)]
    found: list[Any] = [getattr(getattr(t, "mat", None), "varying", None) or getattr(t, "vma", ()) for t in types]
    return frozenset().union(*found)


def varying(tree: Any, axes: frozenset[str]) -> Any:
    """Values of the type of those that differ over these axes: a loop carries one type, and branches give one."""
    cast: Any = getattr(lax, "pcast", None) or getattr(lax, "pvary", None)

    def one(x: Any) -> Any:
        missing = tuple(axes - manual_axes(x))
        named = {"to": "varying"} if hasattr(lax, "pcast") else {}
        return cast(x, missing, **named) if missing else x

    return jax.tree.map(one, tree) if axes else tree


def as_typed(value: Value, x: Any) -> Any:
    """An array of the element type that the Step says."""
    return x if value.type.dtype is None else jnp.asarray(x).astype(jax_dtype(value.type))


def _shape(w: Walk, v: Value, lengths: Sequence[Any]) -> tuple[int, ...]:
    rest = iter(lengths)
    try:
        return tuple(int(next(rest)) if n is None else n for n in v.attr.lengths)
    except jax.errors.ConcretizationTypeError:
        raise w.how.refusal(v, "a shape depends on values that are known only when it runs") from None


def _reduce(w: Walk, v: Value, x: Any) -> Any:
    how: Reduction = v.attr
    if how.kind.startswith("arg"):
        return getattr(jnp, how.kind)(x, how.axes[0], keepdims=how.keep).astype(jax_dtype(v.type))
    found = getattr(jnp, how.kind)(x, axis=how.axes, keepdims=how.keep)
    return found.astype(jax_dtype(v.type))


def _place_in(w: Walk, v: Value, index: Any, length: Any) -> Any:
    index, length = jnp.asarray(index), jnp.asarray(length)
    w.check((index >= -length) & (index < length), "index {i} is out of bounds for axis of size {n}", i=index, n=length)
    return jnp.where(index < 0, index + length, index)


def _place(w: Walk, v: Value, x: Any, *at: Any) -> Any:
    """What is at a place; JAX refuses every place of an array without elements, also where no iteration reads it."""
    x = jnp.asarray(x)
    return x[at] if x.size else jnp.zeros(x.shape[len(at) :], x.dtype)


def _gather(w: Walk, v: Value, x: Any, index: Any) -> Any:
    length = x.shape[v.attr]
    index = _place_in(w, v, index, length) if np.size(index) else index
    return jnp.take(x, index, v.attr, mode="clip")


def _apply(w: Walk, v: Value, *args: Any) -> Any:
    how = v.attr
    if how.definition is not None:
        inside = Walk(replace(w.how, whole=True), w.draws, w.known | dict(zip(v.args, args, strict=True)))
        found = inside.results(how.definition, ())
        w.failures += inside.failures
        return found if how.results > 1 else found[0]
    if is_draw(v):
        return numbers_of(v, w.draws, args)
    if how.needs_run or how.node.captures:
        why = how.why or "it draws random numbers, or runs a graph that has none"
        raise w.how.refusal(v, f"{how.node.op} has no form in JAX: {why}")
    if any(x.type.weak for x in v.args) and len({jnp.result_type(x) for x in args if x is not None}) > 1:
        raise w.how.refusal(v, f"{how.node.op} has no form in JAX for a number of Python's beside arrays of another type")
    try:
        found = over_jax(how.call, args, w.check)
    except (NotOver, ValueError, TypeError, IndexError) as error:
        raise w.how.refusal(v, f"{how.node.op} has no form in JAX: {error}") from error
    return found if how.results > 1 or not isinstance(found, tuple) else found[0]


def _branch(w: Walk, v: Value, condition: Any) -> Any:
    branch: BranchRegion = v.attr
    condition = w.truth(v, condition)
    axes = manual_axes([x for x in w.known.values() if isinstance(x, jax.Array)])

    def side(region: Region) -> Any:
        inside = Walk(w.how, w.draws, w.known)
        return varying((inside.arrays(region, ()), inside.failed), axes)

    sides = [functools.partial(side, region) for region in (branch.then, branch.other)]
    then, other = (jax.eval_shape(side)[0] for side in sides)
    if then != other:
        raise w.how.refusal(v, f"its branches give values of different types or shapes: {then} and {other}")
    if w.how.selects:
        found, failed = jax.tree.map(lambda x, y: jnp.where(condition, x, y), *(side() for side in sides))
    else:
        found, failed = lax.cond(condition, *sides)
    w.failures += [] if failed is None else [failed]
    return found


def _window(w: Walk, v: Value, x: Any, *at: Any) -> Any:
    shape = v.type.shape or ()
    inside = [(begin >= 0) & (begin + length <= n) for begin, length, n in zip(at, shape, x.shape, strict=True)]
    w.check(jnp.stack(inside), "a slice reaches beyond its array")
    return lax.dynamic_slice(x, at, shape)


def _put(w: Walk, v: Value, x: Any, update: Any, *at: Any) -> Any:
    return jnp.asarray(x).at[at].set(update)


STRUCTURE |= {
    "const": lambda w, v: v.attr,
    "cast": lambda w, v, x: cast_to(jnp.asarray(x), jax_dtype(v.type)),
    "fraction": lambda w, v, x: x,
    "as_array": lambda w, v, x: x,
    "select": lambda w, v, condition, x, y: jnp.where(condition, x, y).astype(jax_dtype(v.type)),
    "reshape": lambda w, v, x, *lengths: jnp.reshape(x, _shape(w, v, lengths)),
    "broadcast": lambda w, v, x, *lengths: jnp.broadcast_to(x, _shape(w, v, lengths)),
    "transpose": lambda w, v, x: jnp.transpose(x, v.attr),
    "slice": lambda w, v, x: jnp.asarray(x)[v.attr],
    "window": _window,
    "pack": lambda w, v, *numbers: jnp.stack([jnp.asarray(x).astype(jax_dtype(v.type)) for x in numbers]),
    "length": lambda w, v, x: np.int64(x.shape[v.attr]),
    "concat": lambda w, v, *parts: jnp.concatenate(parts, v.attr),
    "gather": _gather,
    "place": _place,
    "place_in": _place_in,
    "put": _put,
    "reduce": _reduce,
    "dot": lambda w, v, x, y: jnp.matmul(x, y),
    "apply": _apply,
    "branch": _branch,
}
