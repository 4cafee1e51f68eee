"""A Step without operators that have a definition: their primitives stand in their place, and what is computed twice once.

What does not change from iteration to iteration moves in front of the loop on the way, as the builder has it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.backends.llvm.opened import opened
from mdf_loop.step.build import Builder
from mdf_loop.step.records import Apply, BranchRegion, LoopRegion, Region, Value
from mdf_loop.step.structure import Uses, uses_of

_ONCE = {"loop", "branch", "item", "param", "apply"}
"""What is never taken for the same as another value."""


def inlined(region: Region) -> Region:
    """The same Step in primitives, as far as there are definitions."""
    return _Rewriting(uses_of(region)).whole(region)


class _Rewriting:
    """Values of the old Step by values of the new one."""

    def __init__(self, uses: Uses) -> None:
        self.b, self.uses = Builder(), uses
        self.now: dict[Value, Value] = {}
        self.known: list[dict[Any, Value]] = [{}]
        self.numbers: dict[Any, Value] = {}

    def whole(self, region: Region) -> Region:
        """All of it."""
        self._params(region)
        return self.b.closed(self._values(region))

    def _params(self, region: Region) -> None:
        for param in region.params:
            self.now[param] = self.b.param(param.type, param.attr)

    def _values(self, region: Region) -> list[Value]:
        for value in region.values:
            self._value(value)
        return [self.of(x) for x in region.results]

    def of(self, value: Value) -> Value:
        """The new value; numbers of one type and of the same bits are one."""
        if value.op != "const":
            return self.now[value]
        if not isinstance(value.attr, np.generic):
            return value
        return self.numbers.setdefault((value.type, value.attr.tobytes()), value)

    def _value(self, value: Value) -> None:
        attr = value.attr
        if isinstance(attr, LoopRegion):
            self._loop(value, attr)
        elif isinstance(attr, BranchRegion):
            then, other = (self._inside(region, is_loop=False) for region in (attr.then, attr.other))
            self.now[value] = self.b.put_in("branch", [self.of(value.args[0])], value.type, BranchRegion(then, other))
        elif isinstance(attr, Apply) and attr.definition is not None:
            self._definition(value, attr)
        elif isinstance(attr, Apply) and (found := opened(self.b, attr, [self.of(x) for x in value.args])) is not None:
            self.now[value] = found
        elif value not in self.now and (value.op != "item" or self.uses.count(value)):
            self.now[value] = self._put(value)

    def _definition(self, value: Value, attr: Apply) -> None:
        assert attr.definition is not None
        results = self._values(attr.definition)
        if attr.results == 1:
            self.now[value] = results[0]
        for k, item in self.uses.items_of(value):
            self.now[item] = results[k]

    def _loop(self, value: Value, attr: LoopRegion) -> None:
        count = 2 + attr.n_carried + len(attr.scanned)  # the operands of the operator as a whole stay behind
        body = self._inside(attr.body, is_loop=True)
        args = [self.of(x) for x in value.args[:count]]
        self.now[value] = self.b.put_in("loop", args, value.type, replace(attr, body=body, whole=None))

    def _inside(self, region: Region, is_loop: bool) -> Region:
        with self.b.region(is_loop=is_loop) as close:
            self.known.append({})
            self._params(region)
            found = close(self._values(region))
            self.known.pop()
        return found

    def _put(self, value: Value) -> Value:
        args = [self.of(x) for x in value.args]
        key = None if value.op in _ONCE else (value.op, tuple(args), value.type, _as_key(value.attr))
        for scope in self.known if key is not None else ():
            if key in scope:
                return scope[key]
        found = self.b.put_in(value.op, args, value.type, value.attr)
        if key is not None:
            self.known[self.b.depth_of(found)][key] = found
        return found


def _as_key(attr: Any) -> Any:
    if isinstance(attr, tuple):
        return tuple(map(_as_key, attr))
    return (attr.start, attr.stop, attr.step) if isinstance(attr, slice) else attr
