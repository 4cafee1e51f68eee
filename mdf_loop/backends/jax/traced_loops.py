"""Loops of a Step in JAX: a scan where the number of iterations is known and nothing ends it early, else a while.

A ``lax.while_loop`` has no gradient in reverse mode.  There the same loop is a scan over as many iterations as there may be, each
of which computes only while the loop goes on; JAX takes it where it differentiates, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import linear_call

from mdf_loop.backends.jax.jnp_templates import canonical, jax_dtype, no_number
from mdf_loop.backends.jax.walked import GROWS, STRUCTURE, Padded, Walk, as_typed, manual_axes, varying
from mdf_loop.errors import UnsupportedOp
from mdf_loop.step.records import LoopRegion, Region, Value
from mdf_loop.step.structure import is_always_true, may_end, read_in, regions_of


def unlimited() -> int:
    """The most iterations that can be counted."""
    return int(np.iinfo(canonical(np.int64)).max)


class Operands(NamedTuple):
    """All that a loop computes with: gradients go to what is passed, not to what is closed over."""

    count: Any
    goes: Any
    states: tuple[Any, ...]
    parts: tuple[Any, ...]
    outer: tuple[Any, ...]
    shared: Any
    noise: Any


class LoopMoment(NamedTuple):
    """What goes from one iteration to the next; ``failed`` is that of :class:`Walk`."""

    stays: Any
    states: tuple[Any, ...]
    last: tuple[Any, ...]
    failed: Any


Step = Callable[[Any, Any], tuple[Any, Any]]


def traced_loop(w: Walk, v: Value, *args: Any) -> tuple[Any, ...]:
    """The results of a loop: carried, last and collected values, the number of iterations and the last condition."""
    return TracedLoop(w, v, args).results()


STRUCTURE["loop"] = traced_loop


@dataclass(eq=False)
class TracedLoop:
    """One loop while it is traced; ``args`` are the arrays that it is given."""

    w: Walk
    v: Value
    args: Sequence[Any]

    def __post_init__(self) -> None:
        self.loop: LoopRegion = self.v.attr
        self.draws = self.w.draws.of_loop(self.v)
        self.outer = [x for x in dict.fromkeys(read_in(self.loop.body)) if x in self.w.known]
        for x in self.outer:
            self.w.plain(x, self.w.known[x], self.v)
        read = {place for place, _ in self.w.how.uses.items_of(self.v)}
        first = self.loop.n_carried + self.loop.n_last
        self.kept = [k for k in range(len(self.loop.rows)) if self.w.how.whole or first + k in read]
        self.rows = [self.loop.rows[k] for k in self.kept]
        for x in (*self.loop.last, *self.rows, *self.loop.states):
            if not x.type.is_static:
                name = self._name_of(x)
                raise self.w.how.refusal(
                    self.v, f"it gives or carries {name}{x.type}: JAX needs types and lengths that stay the same; {GROWS}"
                )

    def _name_of(self, x: Value) -> str:
        """What the body calls a carried or last value; "" where that is not known."""
        node = self.w.how.origins.get(self.v)
        if node is None or node.loop is None:
            return ""
        record = node.loop
        carried = [*(c.input for c in record.carried), *(s.input for s in record.body.state)]
        for values, names in ((self.loop.states, carried), (self.loop.last, record.last)):
            if x in values and len(names) == len(values):
                return f"{names[values.index(x)]!r}, "
        return ""

    @cached_property
    def operands(self) -> Operands:
        """What it is given, as JAX has it."""
        count, goes, initial, scanned, _ = cast(Any, self.loop.split(self.args))  # of arrays, as of values
        parts = (jnp.moveaxis(jnp.asarray(x), s.axis, 0) for x, s in zip(scanned, self.loop.scanned, strict=True))
        return Operands(
            jnp.reshape(jnp.asarray(count), ()) if self.loop.has_count else None,
            self.w.truth(self.v, goes) if self.loop.has_condition else jnp.asarray(True),
            tuple(as_typed(state, x) for state, x in zip(self.loop.states, initial, strict=True)),
            tuple(x[::-1] if s.reverse else x for x, s in zip(parts, self.loop.scanned, strict=True)),
            tuple(jnp.asarray(self.w.known[x]) for x in self.outer),
            self.draws.shared,
            self.draws.rows,
        )

    @cached_property
    def count(self) -> int | None:
        """The number of iterations, as far as it is known now and nothing ends the loop early."""
        if self.loop.scanned:
            return min(len(x) for x in self.operands.parts)
        if not self.loop.has_count or isinstance(self.args[0], jax.core.Tracer):
            return None
        return max(int(np.asarray(self.args[0]).reshape(())), 0)

    @cached_property
    def most(self) -> int | None:
        """The most iterations that there may be; None where nothing says it."""
        known = [n for n in (self.count, self.w.how.max_steps) if n is not None]
        return min(known) if known else None

    @property
    def may_end(self) -> bool:
        """Whether it may end before its last iteration."""
        has_condition = self.loop.has_condition and not is_always_true(self.v.args[1])
        return may_end(self.loop) or has_condition

    def results(self) -> tuple[Any, ...]:
        """What it gives."""
        if self.count is not None and not (self.count and self.may_end):
            if not self.count and self.loop.last:
                raise self.w.how.refusal(self.v, "there is no last value of a loop without iterations")
            return self._arranged(*self._counted(self.operands), None)
        if self.rows and self.most is None:
            raise self.w.how.refusal(self.v, f"it collects values, and its number of iterations is not known: {_GIVE}")
        if self.rows and self.w.how.together:
            return self._arranged(*self._masked(self.operands))
        found = _differentiable(self._ending, self._masked if self.most is not None else None)(self.operands)
        return self._arranged(*found)

    def _arranged(self, end: LoopMoment, rows: Sequence[Any], number: Any) -> tuple[Any, ...]:
        self.w.failures += [] if end.failed is None else [end.failed]
        if self.loop.last and number is not None:
            self.w.check(number > 0, "there was no iteration, so there is no last value")
        collected: list[Any] = [None] * len(self.loop.rows)
        for k, x in zip(self.kept, rows, strict=True):
            what = self.loop.collected[k]
            if number is not None and (what.axis or what.reverse):
                raise self.w.how.refusal(
                    self.v, "it may end early, and collects along another axis than the first or from behind"
                )
            array = jnp.moveaxis(x[::-1] if what.reverse else x, 0, what.axis)
            collected[k] = array if number is None else Padded(array, number)
        return *end.states, *end.last, *collected, self.count if number is None else number, end.stays  # type: ignore[arg-type]

    # One iteration

    def _iteration(
        self, given: Operands, i: Any, now: LoopMoment, parts: Any, noise: Any, selects: bool = False
    ) -> tuple[LoopMoment, tuple[Any, ...]]:
        """What an iteration makes, and what is collected of it."""
        known = dict(zip(self.outer, given.outer, strict=True))
        w = Walk(replace(self.w.how, selects=selects or self.w.how.selects), self.draws.at(i, given.shared, noise), known)
        index, going = as_typed(self.loop.index, i), jnp.broadcast_to(now.stays, self.loop.going.type.shape or ())
        found = w.arrays(self.loop.body, (index, going, *now.states, *parts))
        n, behind = 1 + self.loop.n_carried, 1 + self.loop.n_carried + self.loop.n_last
        states = tuple(as_typed(state, x) for state, x in zip(self.loop.states, found[1:n], strict=True))
        for x, state in zip(states, now.states, strict=True):
            if x.shape != state.shape:
                raise self.w.how.refusal(self.v, f"a carried value of shape {list(state.shape)} becomes {list(x.shape)}")
        stays = w.truth(self.v, found[0]) if may_end(self.loop) else now.stays
        failed = None if now.failed is None else now.failed | w.failed
        now = LoopMoment(stays, states, tuple(found[n:behind]), failed)
        return now, tuple(found[behind + k] for k in self.kept)

    def _first(self, given: Operands) -> LoopMoment:
        """What the first iteration begins with."""
        dtypes = [jax_dtype(x.type) for x in self.loop.last]
        last = tuple(jnp.full(x.type.shape, no_number(t), t) for x, t in zip(self.loop.last, dtypes, strict=True))
        return LoopMoment(given.goes, given.states, last, jnp.asarray(False) if self.w.how.may_fail else None)

    def _no_rows(self, length: int | None = None) -> tuple[Any, ...]:
        lead = () if length is None else (length,)
        return tuple(jnp.zeros((*lead, *(x.type.shape or ())), jax_dtype(x.type)) for x in self.rows)

    # Ways to run it

    def _counted(self, given: Operands) -> tuple[LoopMoment, Any]:
        """All iterations, none of which can be the last before its time."""

        def step(now: LoopMoment, x: Any) -> tuple[LoopMoment, Any]:
            return self._iteration(given, x[0], now, x[1], x[2])

        assert self.count is not None
        return self._scan(step, self._first(given), given, self.count)

    def _ending(self, given: Operands) -> tuple[LoopMoment, Any, Any]:
        """Iterations until the condition ends them."""
        if self.most == 0:
            return self._first(given), self._no_rows(0), jnp.zeros((), int)
        limit = unlimited() if self.most is None or not self.rows else self.most
        limit = limit if self.count is None else min(self.count, limit)
        counted = jnp.asarray(limit if given.count is None else jnp.minimum(given.count, limit), int)

        def goes_on(x: Any) -> Any:
            i, now, _ = x
            return self._obeyed(now, i == 0, given) & (i < counted)

        def step(x: Any) -> Any:
            i, now, rows = x
            noise = jax.tree.map(lambda z: z[i], given.noise)
            now, row = self._iteration(given, i, now, tuple(part[i] for part in given.parts), noise)
            return i + 1, now, tuple(all_.at[i].set(one) for all_, one in zip(rows, row, strict=True))

        start, axes = (jnp.zeros((), int), self._first(given), self._no_rows(self.most or 0)), manual_axes(given)
        number, now, rows = lax.while_loop(goes_on, lambda x: varying(step(x), axes), varying(start, axes))
        return self._limited(given, now, number), rows, number

    def _obeyed(self, now: LoopMoment, is_first: Any, given: Operands) -> Any:
        """Whether there is an iteration by the condition; one that is not obeyed counts before the first alone."""
        return now.stays if may_end(self.loop) else given.goes

    def _masked(self, given: Operands) -> tuple[LoopMoment, Any, Any]:
        """The same as a scan over as many iterations as there may be: those behind the last one change nothing."""
        assert self.most is not None
        counted = self.most if given.count is None else jnp.minimum(given.count, self.most)
        first = self._first(given)

        def step(x: Any, each: Any) -> Any:
            number, now = x
            i, parts, noise = each
            going = self._obeyed(now, i == 0, given) & (i < counted)
            safe = _chosen(going, now, first)  # what is computed in a dead iteration has no nan of its own
            new, row = self._iteration(given, jnp.where(going, i, 0), safe, parts, noise, selects=True)
            now, row = _chosen(going, new, now), _chosen(going, row, self._no_rows())
            return (number + going, now), row

        (number, now), rows = self._scan(step, (jnp.zeros((), int), first), given, self.most)
        return self._limited(given, now, number), rows, number

    def _limited(self, given: Operands, now: LoopMoment, number: Any) -> LoopMoment:
        """The last moment, which knows whether there would have been one more iteration."""
        if self.most is None or self.most == self.count:
            return now
        wanted = unlimited() if given.count is None else given.count
        wanted = wanted if self.count is None else self.count
        goes_on = self._obeyed(now, False, given) & (number >= self.most) & (number < wanted)
        alone = Walk(self.w.how, self.w.draws)  # what it finds is carried out of here in ``failed``
        alone.check(~goes_on, "a loop wants more than max_steps iterations, which are {most}", most=self.most)
        return now._replace(failed=now.failed | goes_on)

    def _scan(self, step: Step, start: Any, given: Operands, length: int) -> tuple[Any, Any]:
        """A scan; of a long one only each k-th state is kept for gradients, where that is asked for."""
        k, axes = self.w.how.checkpoint, manual_axes(given)

        def once(now: Any, x: Any) -> tuple[Any, Any]:
            now, row = step(now, x)
            return varying(now, axes), row

        start = varying(start, axes)
        each = jnp.arange(length), tuple(x[:length] for x in given.parts), jax.tree.map(lambda x: x[:length], given.noise)
        if not k or length <= k:
            return lax.scan(once, start, each, length)
        whole = length - length % k
        pieces = jax.tree.map(lambda x: x[:whole].reshape(whole // k, k, *x.shape[1:]), each)
        now, rows = lax.scan(jax.checkpoint(lambda now, piece: lax.scan(once, now, piece)), start, pieces)
        rows = jax.tree.map(lambda x: x.reshape(whole, *x.shape[2:]), rows)
        now, rest = lax.scan(once, now, jax.tree.map(lambda x: x[whole:], each))
        return now, jax.tree.map(lambda x, y: jnp.concatenate([x, y]), rows, rest)


_GIVE = "give to_jax(..., max_steps=N), a number that it never exceeds"


def _chosen(condition: Any, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), new, old)


def _differentiable(run: Callable[[Operands], Any], masked: Callable[[Operands], Any] | None) -> Callable[[Operands], Any]:
    """A function that runs in one way and is differentiated in another."""
    call = jax.custom_jvp(run)

    @call.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        if masked is not None:
            return jax.jvp(masked, primals, tangents)
        found, changes = jax.jvp(run, primals, tangents)
        return found, jax.tree.map(_forward_alone, changes)

    return call


def _forward_alone(tangent: Any) -> Any:
    """A derivative that is there in forward mode; reverse mode, which reverses it, raises an error that says what to give."""
    if tangent.dtype == jax.dtypes.float0:
        return tangent
    return linear_call(lambda _, x: x, _refuse_reverse, (), tangent)


def _refuse_reverse(_: Any, __: Any) -> Any:
    raise UnsupportedOp(
        f"a gradient in reverse mode goes through a loop that may end early, whose steps have to be kept: {_GIVE}"
    )


def loops_in(region: Region, depth: int = 0) -> Iterator[tuple[Value, int]]:
    """The loops of a region and of those inside it, and how deep each stands."""
    for value in region.values:
        is_loop = isinstance(value.attr, LoopRegion)
        if is_loop:
            yield value, depth
        for inner in regions_of(value):
            yield from loops_in(inner, depth + is_loop)
