"""Which arrays of a Step are written to memory, and over which others.

A value is written where it is made when it would otherwise be computed more than once and that costs more than reading it:
it is read by several loops over elements, in an inner loop, or again and again by what it is broadcast to.  Others are
computed where they are read.

Updates of one part of an array are written over it if what it was has no readers after that.  A carried value may be
written over in the branches of its loop as well, and in inner loops that carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from mdf_loop.ops.registry import facts
from mdf_loop.step.memory import END, read_by
from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import Apply, BranchRegion, LoopRegion, Region, Type, Value
from mdf_loop.step.structure import regions_of

CHEAP = 2
"""Cost of an element up to which computing it once more is no slower than reading it."""

LONGEST = 48
"""Cost of an element from which on it is written: code must end somewhere."""

ELEMENTWISE = {*PRIMITIVES, "cast", "bitcast", "select", "as_array"}
VIEWS = {"reshape", "transpose", "slice", "window", "broadcast", "place", "gather"}
"""Operations that are computed where they are read; all others are written where they stand."""

_COSTS = {"cast": 1, "bitcast": 1, "select": 1, "as_array": 1, "gather": 2}
"""Of operations that are no primitives; what only says where an element stands costs nothing."""


@dataclass
class Fusion:
    """The decisions for a Step and all regions inside it.

    Attributes
    ----------
    written : set of Value
        What is written where it is made.
    whole : set of Value
        What is only read element by element, as it lies, or reduced, in the region that makes it: it need not be in memory.
    costs : dict
        What an element costs where it is read.
    copied : set of Value
        Rows of lists that are copied, as the list is written over before they are read.
    """

    written: set[Value] = field(default_factory=set)
    whole: set[Value] = field(default_factory=set)
    costs: dict[Value, int] = field(default_factory=dict)
    copied: set[Value] = field(default_factory=set)
    _homes: dict[Value, Region] = field(default_factory=dict)
    _readers: dict[Value, list[tuple[Value | None, int, Region]]] = field(default_factory=dict)
    _loops: dict[Value, frozenset[object]] = field(default_factory=dict)

    def cost(self, value: Value) -> int:
        """What an element costs where it is read."""
        return self.costs.get(value, 0)


def fused(region: Region) -> Fusion:
    """The decisions for a Step."""
    found = Fusion()
    regions = [region]
    for here in regions:
        regions += [inner for value in here.values for inner in regions_of(value)]
        _note(found, here)
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

    return value.type.is_static and all(where is home and is_whole(x) for x, _, where in found._readers.get(value, ()))


def is_lazy(value: Value) -> bool:
    """Whether a value may be computed where it is read."""
    return (value.op in ELEMENTWISE or value.op in VIEWS) and not is_number(value.type)


def is_number(type: Type) -> bool:
    """Whether a value has one element, and is kept in a register."""
    return type.shape is not None and all(n == 1 for n in type.shape)


def _note(found: Fusion, here: Region) -> None:
    for value in here.values:
        found._homes[value] = here
        for k, x in enumerate(value.args):
            found._readers.setdefault(x, []).append((value, k, here))
    for x in here.results:
        found._readers.setdefault(x, []).append((None, 0, here))


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
    for reader, k, where in found._readers.get(value, ()):
        if where is not found._homes[value]:
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


def overwriting(region: Region, owned: Collection[Value], fusion: Fusion) -> set[Value]:
    """The updates of a region that may be written over their first argument, and states of loops inside, over where they begin.

    Parameters
    ----------
    region : Region
    owned : collection of Value
        Values whose memory is this region's own.
    fusion : Fusion
        What is written where it is made; all else is computed where it is read, which may be later.
    """
    return _Overwriting(region, owned, fusion).found


class _Overwriting:
    """One region; ``own`` are the values whose memory is its own, ``found`` is what may be written over."""

    def __init__(self, region: Region, owned: Collection[Value], fusion: Fusion) -> None:
        self.fusion, self.own, self.found = fusion, set(owned), set[Value]()
        self.place = {value: k for k, value in enumerate(region.values)}
        self.readers: dict[Value, list[Value | None]] = {}
        self._known: dict[tuple[Value, Value], int] = {}
        for value in region.values:
            for x in dict.fromkeys(read_by(value)) if value.op != "rows" else ():
                self.readers.setdefault(x, []).append(value)
        for x in region.results:
            self.readers.setdefault(x, []).append(None)
        for value in region.values:
            self._look_at(value)

    def _look_at(self, value: Value) -> None:
        if _is_fresh(value, self.fusion):
            self.own.add(value)
        if isinstance(value.attr, BranchRegion):
            self._branch(value, value.attr)
        elif isinstance(value.attr, LoopRegion):
            self._loop(value, value.attr)
        elif replaces_parts(value) and value.args[0] in self.own and self._is_last(value):
            self.found.add(value)

    def _is_last(self, value: Value) -> bool:
        """Whether the first argument of an update has no later readers, nor what else was given where that comes from."""
        return self._holds_of(value.args[0], lambda x: self._is_over(x, value))

    def last_read(self, value: Value, but: Value) -> int:
        """The last place at which a value is read, by what is computed later on as well."""
        if (value, but) not in self._known:
            self._known[value, but] = self._look_for_last_read(value, but)
        return self._known[value, but]

    def _look_for_last_read(self, value: Value, but: Value) -> int:
        found = -1
        for reader in self.readers.get(value, ()):
            if reader is None:
                found = END
            elif reader is not but:
                found = max(found, self.place[reader], self.last_read(reader, but) if self._looks(reader) else -1)
        return found

    def _looks(self, reader: Value) -> bool:
        return reader not in self.fusion.copied and _may_look_at(reader, self.fusion)

    def _is_over(self, x: Value, value: Value) -> bool:
        """Whether a value, or what a branch gave with it, has no other readers once another one is computed."""
        return max(self.last_read(x, value), self.last_read(_given_with(x), value)) <= self.place[value]

    def _holds_of(self, x: Value, holds: Callable[[Value], bool]) -> bool:
        """Whether something holds of a value; if not, whether it does if the rows that are read of it are copied."""
        if holds(x):
            return True
        rows = {r for r in self.readers.get(x, ()) if r is not None and _is_row(r)} - self.fusion.copied
        if not rows:
            return False
        self.fusion.copied |= rows
        self._known.clear()
        if holds(x):
            return True
        self.fusion.copied -= rows
        self._known.clear()
        return False

    # Regions inside

    def _branch(self, value: Value, attr: BranchRegion) -> None:
        """What is left to a branch may be written over in it; what both sides leave there is the region's own again."""
        given = {x for x in set(read_by(value)) & self.own if self._is_left_to(value, x)}
        sides = [(region, _Overwriting(region, given, self.fusion)) for region in (attr.then, attr.other)]
        for _, side in sides:
            self.found |= side.found
        for item in self._items_of(value):
            if all(region.results[item.attr] in side.own for region, side in sides):
                self.own.add(item)

    def _loop(self, value: Value, attr: LoopRegion) -> None:
        """A list that only a loop carries on stays where it is."""
        (_, _, initial, *_), states, ends = attr.split(value.args), attr.states, attr.ends
        changing = {state for state, end in zip(states, ends, strict=True) if end is not state}
        over = overwriting(attr.body, changing, self.fusion)
        inside = {x for inner in attr.body.values for x in read_by(inner)} | set(attr.body.results)
        for item in self._items_of(value):
            if item.attr < attr.n_carried and (state := states[item.attr]) in changing and not state.type.is_static:
                x, end = initial[item.attr], ends[item.attr]
                is_left = x in self.own and x not in inside and value.args.count(x) == 1 and self._is_left_to(value, x)
                if is_left and stays_over(end, state, over):
                    self.found |= {state, *over}
                    self.own.add(item)

    def _items_of(self, value: Value) -> list[Value]:
        return [x for x in self.readers.get(value, ()) if x is not None and x.op == "item"]

    def _is_left_to(self, value: Value, x: Value) -> bool:
        """Whether only one value reads another one, or what looks at it, from there on, and the value only reads itself."""
        inside = set(read_by(value)) - {x}
        return self._holds_of(x, lambda x: self._is_over(x, value) and not self._looking_at(x) & inside)

    def _looking_at(self, x: Value) -> set[Value]:
        """The values that are computed later, from the memory of a value or of what a branch gave with it."""
        found: set[Value] = set()
        new = [x, _given_with(x)]
        while new:
            readers = {r for r in self.readers.get(new.pop(), ()) if r is not None and self._looks(r)}
            new += readers - found
            found |= readers
        return found


def stays_over(end: Value, state: Value, over: set[Value]) -> bool:
    """Whether a list becomes another one where it stands."""
    if end is state:
        return True
    if (end.op == "put" or changes_length(end)) and end in over:
        return stays_over(end.args[0], state, over)
    whole, k = (end.args[0], end.attr) if end.op == "item" else (end, 0)
    if isinstance(whole.attr, BranchRegion):
        return all(stays_over(side.results[k], state, over) for side in (whole.attr.then, whole.attr.other))
    if not isinstance(whole.attr, LoopRegion) or k >= whole.attr.n_carried:
        return False
    _, _, initial, *_ = whole.attr.split(whole.args)
    return whole.attr.states[k] in over and stays_over(initial[k], state, over)


def replaces_parts(value: Value) -> bool:
    """Whether a value is its first argument with parts replaced, put in, or taken out."""
    if value.op == "put" or changes_length(value):
        return True
    return isinstance(value.attr, Apply) and facts(value.attr.node).replaces_parts


def _given_with(x: Value) -> Value:
    """The branch that gave a value, and others that may look at the same memory; what a loop gives has memory of its own."""
    return x.args[0] if x.op == "item" and isinstance(x.args[0].attr, BranchRegion) else x


def _is_row(value: Value) -> bool:
    """Whether a value is a row of a list, and has several elements: it is read where it stands in the list."""
    return value.op == "place" and value.type.is_static and not value.args[0].type.is_static and not is_number(value.type)


def changes_length(value: Value) -> bool:
    """Whether a value is its first argument with rows put in, or taken out."""
    return value.op in ("insert", "erase") or is_longer(value)


def is_longer(value: Value) -> bool:
    """Whether a value is its first argument with more behind it."""
    shape = value.type.shape
    return value.op == "concat" and shape is not None and all(n == 1 for n in shape[: value.attr])


def _may_look_at(value: Value, fusion: Fusion) -> bool:
    """Whether the memory of an argument may be read when a value is, later than where it stands."""
    if value.op in ELEMENTWISE:
        return is_lazy(value) and value not in fusion.written
    if is_number(value.type) and (value.op in VIEWS or value.op == "item"):
        return False
    return not (value.op in ("reduce", "dot", "concat", "pack", "length", "place_in", "no_nan") or replaces_parts(value))


def _is_fresh(value: Value, fusion: Fusion) -> bool:
    """Whether a value has memory of its own."""
    return value.op in ("concat", "dot", "reduce") or replaces_parts(value) or value in fusion.written
