"""The region of a loop's body, lowered again and again until the types of carried values hold for every iteration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.ir import Body, Loop
from mdf_loop.plan.aliases import without_aliases
from mdf_loop.step.build import Builder
from mdf_loop.step.loop_types import joined, of_its_own, type_of_part
from mdf_loop.step.primitives import BOOL, INT64
from mdf_loop.step.records import UNKNOWN, Region, Type, Value
from mdf_loop.step.sequences import CarriedList, carried_lists

WIDENINGS = 6
"""How often the types of carried values may widen; then nothing is known of them."""

_CONDITION = -1
"""The place of the condition among what may stay the same."""


class Fixpoint:
    """One loop; ``body_of`` lowers a body with the names that it reads.

    Attributes
    ----------
    region : Region
        The body as it was lowered last.
    initial : list of Value
        Carried values at the beginning: lists, as far as they can be, are arrays.
    types : list of Type
        What is known of it in every iteration.
    first : Region
        The body as it is in the first iteration, before types widen.
    """

    def __init__(
        self,
        b: Builder,
        body_of: Callable[[Body, Mapping[str, Value]], Sequence[Value]],
        record: Loop,
        carried: Sequence[Value],
        scanned: Sequence[Value],
        scope: Mapping[str, Value],
        begun: int = 0,
    ) -> None:
        self.b, self.body_of, self.scanned, self.scope, self.begun = b, body_of, scanned, scope, begun
        self.record = without_aliases(record).loop
        self.lists: dict[int, CarriedList] = carried_lists(b, carried)
        self.carried, self.initial = list(carried), list(carried)
        self._begin_with_lists()
        self.types = [of_its_own(value.type) for value in self.initial]
        self.going = Type(BOOL, (1,) * len(record.body.type_of(record.condition or "").shape or ()))
        self.same = self._passed_on()

    @property
    def first_ends(self) -> list[Type]:
        """What is known of carried values behind the first iteration."""
        return [value.type for value in self.first.results[1 : 1 + len(self.types)]]

    def find(self) -> None:
        """Find the types that hold and the region; what never changes is outside it."""
        mark, attempt = self.b.mark(), 0
        while True:
            self.b.rewind(mark)
            if attempt >= WIDENINGS:
                self._know_nothing()
            self.region = self._loop_body()
            if self._have_learned():
                continue
            if not attempt:
                self.first = self.region
            attempt += 1
            if self._is_reached(self.region) or attempt >= WIDENINGS + len(self.types):
                return

    def comes_later(self) -> bool:
        """Whether types hold from the second iteration on of which nothing is known from the first one on."""
        if all(type.dtype is not None for type in self.types) or any(type.dtype is None for type in self.first_ends):
            return False
        mark = self.b.mark()
        then = [Value("param", (), type) for type in self.first_ends]
        later = Fixpoint(self.b, self.body_of, self.record, then, self.scanned, self.scope)
        later.find()
        self.b.rewind(mark)
        return all(type.dtype is not None for type in later.types)

    def results(self, items: Sequence[Value]) -> list[Value]:
        """The results of the loop, with lists where they were."""
        return [self.lists[k].behind(x) if k in self.lists else x for k, x in enumerate(items)]

    def _know_nothing(self) -> None:
        """It has widened too often."""
        if self.lists:
            self.lists, self.same = {}, {}
        self.initial, self.types, self.going = list(self.carried), [UNKNOWN] * len(self.types), UNKNOWN

    def _passed_on(self) -> dict[int, Value]:
        """What the body passes on as it gets it: that it stays the same is seen without lowering."""
        record, carried = self.record, enumerate(self.record.carried)
        same = {k: self.initial[k] for k, c in carried if c.input == c.output and k not in self.lists}
        if record.keep_going is not None and record.keep_going == record.condition and self.going == Type(BOOL, ()):
            same[_CONDITION] = self.b.const(np.True_)
        return same

    def _begin_with_lists(self) -> None:
        for k, found in self.lists.items():
            self.initial[k] = found.initial

    def _have_learned(self) -> bool:
        """Whether more is known of lists: what their elements are, or that they are no arrays.

        What else this lowering found counts for nothing then: it knew too little.
        """
        changed = {k: found for k, found in self.lists.items() if found.has_learned()}
        for k, found in changed.items():
            if found.is_none:
                del self.lists[k]
            self.initial[k], self.types[k] = found.initial, found.type
        if changed:
            self.same = self._passed_on()
        return bool(changed)

    def _is_reached(self, region: Region) -> bool:
        """Whether types hold and nothing more stays the same; what is known from now on."""
        n, initial = len(self.types), self.initial
        stays, *ends = region.results[: 1 + n]
        params = region.params[1 : 2 + n]
        unchanged = {k: initial[k] for k in range(n) if ends[k] is params[1 + k] and k not in self.same}
        if stays is params[0] and _CONDITION not in self.same and self.going == Type(BOOL, ()):
            unchanged[_CONDITION] = self.b.const(np.True_)
        wider = [joined(a, b.type) for a, b in zip(self.types, ends, strict=True)]
        going = joined(self.going, stays.type)
        if wider != self.types or going != self.going:
            self.types, self.going, self.same = wider, going, self._passed_on()  # what never changed may do so now
            return False
        self.same = {**self.same, **unchanged}
        return not unchanged

    def _loop_body(self) -> Region:
        """The region as the types are now."""
        b, record, body = self.b, self.record, self.record.body
        with b.region(is_loop=True) as close:
            index, condition = b.param(Type(INT64, ()), 0), b.param(self.going, 1)
            states = [b.param(type, 2 + k) for k, type in enumerate(self.types)]
            parts = [
                b.param(type_of_part(s.axis, x.type), 2 + len(states) + k)
                for k, (s, x) in enumerate(zip(record.scanned, self.scanned, strict=True))
            ]
            names = {**self.scope, **{c.input: self._inside(k, states[k]) for k, c in enumerate(record.carried)}}
            names |= {s.input: row for s, row in zip(record.scanned, parts, strict=True)}
            if record.index:
                names[record.index] = self._numbered(index, body.type_of(record.index).shape)
            if record.condition:
                names[record.condition] = self.same.get(_CONDITION, condition)
            values = dict(zip(body.outputs, self.body_of(body, names), strict=True))
            goes_on = values[record.keep_going] if record.keep_going else b.const(np.True_)
            ends = [self._end(k, states[k], values[c.output]) for k, c in enumerate(record.carried)]
            kept = [values[name] for name in (*record.last, *(what.output for what in record.collected))]
            return close([goes_on, *ends, *kept])

    def _inside(self, k: int, state: Value) -> Value:
        """A carried value as the body reads it; what never changes is what it was at the beginning."""
        value = self.same.get(k, state)
        return self.lists[k].inside(value) if k in self.lists else value

    def _end(self, k: int, state: Value, value: Value) -> Value:
        """A carried value as the body leaves it."""
        if k in self.lists:
            value = self.lists[k].end(state, value)
        return state if k in self.same else value

    def _numbered(self, index: Value, declared: tuple[Any, ...] | None) -> Value:
        """The iteration number, of the rank that the body declares; some may stand before the loop."""
        index = self.b.add(index, self.begun) if self.begun else index
        return self.b.reshape(index, (1,) * len(declared)) if declared else index
