"""Which arrays of a Step are written to memory.

A value is written where it is made when it would otherwise be computed more than once and that costs more than reading it:
it is read by several loops over elements, in an inner loop, or again and again by what it is broadcast to.  Others are
computed where they are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mdf_loop.step.memory import replaces_parts
from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import Region, Type, Value
from mdf_loop.step.structure import FRESH, Uses, regions_of

CHEAP = 2
"""Cost of an element up to which computing it once more is no slower than reading it."""

LONGEST = 48
"""Cost of an element from which on it is written: code must end somewhere."""

ELEMENTWISE = {*PRIMITIVES, "cast", "select", "as_array"}
VIEWS = {"reshape", "transpose", "slice", "window", "broadcast", "place", "gather"}
"""Operations that are computed where they are read; all others are written where they stand."""

_COSTS = {"cast": 1, "select": 1, "as_array": 1, "gather": 2}
"""Of operations that are no primitives; what only says where an element stands costs nothing."""


@dataclass
class Fusion:
    """The decisions for a Step and all regions inside it.

    Attributes
    ----------
    uses : Uses
        Who reads what.
    written : set of Value
        What is written where it is made.
    whole : set of Value
        What is only read element by element, as it lies, or reduced, in the region that makes it: it need not be in memory.
    costs : dict
        What an element costs where it is read.
    copied : set of Value
        Rows of lists that are copied, as the list is written over before they are read.
    """

    uses: Uses
    written: set[Value] = field(default_factory=set)
    whole: set[Value] = field(default_factory=set)
    costs: dict[Value, int] = field(default_factory=dict)
    copied: set[Value] = field(default_factory=set)
    _loops: dict[Value, frozenset[object]] = field(default_factory=dict)

    def cost(self, value: Value) -> int:
        """What an element costs where it is read."""
        return self.costs.get(value, 0)

    def looks(self, value: Value) -> bool:
        """Whether a value may be the memory of what it reads, or reads it later than where it is: also if it is written."""
        if value.op in ELEMENTWISE:
            return is_lazy(value) and value not in self.written
        if is_number(value.type) and (value.op in VIEWS or value.op == "item"):
            return False
        return value.op in VIEWS or not (value.op in FRESH or replaces_parts(value))


def fused(region: Region, uses: Uses) -> Fusion:
    """The decisions for a Step."""
    found = Fusion(uses)
    regions = [region]
    for here in regions:
        regions += [inner for value in here.values for inner in regions_of(value)]
    for here in regions:
        for value in here.values:
            _add_cost(found, value)
    for here in reversed(regions):
        for value in reversed(here.values):
            if is_lazy(value):
                _decide(found, value)
    for here in regions:
        found.whole.update(value for value in (*here.params, *here.values) if _is_read_whole(found, value, here))
    return found


def _is_read_whole(found: Fusion, value: Value, home: Region) -> bool:
    def is_whole(reader: Value | None) -> bool:
        if reader is None or reader.op in ("reduce", "apply", "loop", "item"):
            return True
        return reader.op in ELEMENTWISE and reader.type.is_static and reader.type.size == value.type.size

    return value.type.is_static and all(where is home and is_whole(x) for x, _, where in found.uses.places.get(value, ()))


def is_lazy(value: Value) -> bool:
    """Whether a value may be computed where it is read."""
    return (value.op in ELEMENTWISE or value.op in VIEWS) and not is_number(value.type)


def is_number(type: Type) -> bool:
    """Whether a value has one element, and is kept in a register."""
    return type.shape is not None and all(n == 1 for n in type.shape)


def _add_cost(found: Fusion, value: Value) -> None:
    if not is_lazy(value):
        return
    own = PRIMITIVES[value.op].cost if value.op in PRIMITIVES else _COSTS.get(value.op, 0)
    cost = own + sum(found.cost(x) for x in value.args)
    if cost > LONGEST:
        found.written.add(value)
        cost = 0
    found.costs[value] = cost


def _decide(found: Fusion, value: Value) -> None:
    """Look at all readers of a value, which have been decided on."""
    loops: set[object] = set()
    often = False
    for reader, k, where in found.uses.places.get(value, ()):
        if where is not found.uses.homes[value]:
            often = often or found.cost(value) > 0 or (reader is not None and reader.op == "dot")
        elif reader is None:
            loops.add(value.type.shape)
        elif reader.op in ELEMENTWISE:
            often = often or (is_smaller(value.type, reader.type) and found.cost(value) > CHEAP)
            loops |= _loops_of(found, reader)
        else:
            often = often or _is_read_often(reader, k, found.cost(value))
            loops.add(reader)
    if often or (len(loops) > 1 and found.cost(value) > CHEAP):
        found.written.add(value)
    found._loops[value] = frozenset(loops)


def _loops_of(found: Fusion, reader: Value) -> frozenset[object]:
    if reader in found.written or not is_lazy(reader):
        return frozenset((reader,))
    return found._loops.get(reader, frozenset())


def _is_read_often(reader: Value, k: int, cost: int) -> bool:
    """Whether an operation reads each element of an argument several times."""
    if reader.op == "dot":
        return cost > 0
    return cost > CHEAP and (reader.op == "broadcast" or (reader.op == "gather" and k == 0))


def is_smaller(one: Type, other: Type) -> bool:
    """Whether a value is repeated to become as large as another one."""
    ours, theirs = one.shape or (), other.shape or ()
    return len(ours) < len(theirs) or any(n == 1 != m for n, m in zip(ours, theirs, strict=False))
