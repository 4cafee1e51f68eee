"""How long values are needed inside a region, with everything that shares their memory."""

from __future__ import annotations

from collections.abc import Iterable

from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import Apply, BranchRegion, Region, Value
from mdf_loop.step.structure import regions_of

_FRESH = "cast pack concat gather broadcast put insert reduce dot const length place_in as_array"
FRESH = {*_FRESH.split()}
"""Operations besides the primitives whose result is memory of its own."""

END = 1 << 60
"""The place of what is read when an iteration is over."""


class Liveness:
    """The values of one region: whose memory they may be, and the last place that reads that memory.

    Places are numbers of values in order; what an inner region reads is read where the loop or branch stands that holds it.
    """

    def __init__(self, region: Region) -> None:
        self.region = region
        self.place = {value: k for k, value in enumerate(region.values)}
        self._roots: dict[Value, frozenset[Value]] = {}
        self._last: dict[Value, int] = {}
        for k, value in enumerate(region.values):
            for x in read_by(value):
                self._read(x, k)
        for x in region.results:
            self._read(x, END)

    def roots(self, value: Value) -> frozenset[Value]:
        """The values whose memory a value may be: itself, or what it looks at."""
        found = self._roots.get(value)
        if found is None:
            found = self._roots[value] = frozenset((value,))  # while it is worked out, and for what is outside
            if value in self.place and not _is_fresh(value):
                found = self._roots[value] = found.union(*[self.roots(x) for x in _looked_at(value)])
        return found

    def last_read(self, value: Value) -> int:
        """The last place that reads the memory of a value; before all others if nothing does."""
        return self._last.get(value, -1)

    def _read(self, value: Value, place: int) -> None:
        for root in self.roots(value):
            if self._last.get(root, -1) < place:
                self._last[root] = place


def read_by(value: Value) -> Iterable[Value]:
    """What a value reads, inside its regions as well."""
    yield from value.args
    for region in regions_of(value):
        yield from region.results
        for inner in region.values:
            yield from read_by(inner)


def is_one_of_two(value: Value) -> bool:
    """Whether ``select`` gives one of two values rather than elements of both."""
    condition, x, y = value.args
    return condition.type.is_number and ((x.type == y.type and x.type.is_static) or value.type.weak)


def _is_fresh(value: Value) -> bool:
    if value.op == "select" and not is_one_of_two(value):
        return True
    if isinstance(value.attr, Apply) and value.attr.routine is not None:
        return True
    return value.op in PRIMITIVES or value.op in FRESH or value.type.is_number


def _looked_at(value: Value) -> Iterable[Value]:
    """What the memory of a value may be, if it is not its own."""
    if value.op == "select":
        return value.args[1:]
    if isinstance(value.attr, Apply | BranchRegion) or value.op in ("loop", "item"):
        return read_by(value)
    return value.args[:1]
