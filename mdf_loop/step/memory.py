"""Where the arrays of a loop's body are written: buffers made once, or the memory of a carried value that has no readers left.

Decided on what operations are, never on operators: element-wise results, products and updates can be given a place.
A value is needed as long as anything reads what shares its memory.

``Updates`` says for each back end which updates of a part are written over what they are made of; ``assign`` places whole arrays,
for back ends that compute each value where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from mdf_loop.ops.registry import facts
from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import Apply, BranchRegion, LoopRegion, Region, Type, Value
from mdf_loop.step.structure import Liveness, Looks, is_one_of_two, may_be_memory_of_another, read_by, read_in


@dataclass
class Places:
    """The plan of one loop's memory.

    Attributes
    ----------
    buffers : list of Type
        Arrays to be made before the loop.
    written : mapping
        Values that are written into a buffer, by its number.
    over : mapping
        Values that are written over a carried value (its number): all that reads the old one has run, or reads the same element.
    turns : mapping
        Values that are written into a second array of a carried value (its number); the two change roles when the iteration ends.
    rows : mapping
        Values that are written where they stay, as a row of what is collected (its number).

    The last three also hold values that are over before the memory is needed for what it is there for.
    """

    buffers: list[Type] = field(default_factory=list)
    written: dict[Value, int] = field(default_factory=dict)
    over: dict[Value, int] = field(default_factory=dict)
    turns: dict[Value, int] = field(default_factory=dict)
    rows: dict[Value, int] = field(default_factory=dict)

    @property
    def owned(self) -> set[int]:
        """Carried values that are written into, so that the loop needs its own copy of the first one."""
        return {*self.over.values(), *self.turns.values()}


def assign(loop: LoopRegion, copied: Collection[Value], least: int = 0) -> Places:
    """Where the arrays of a loop's body go.

    Parameters
    ----------
    loop : LoopRegion
    copied : collection of Value
        Collected values that are copied when an iteration ends; the others are kept as they are.
    least : int
        Bytes of an array below which a new one costs no more.
    """
    if not any(size_of(x.type) >= least for x in (*copied, *loop.states, *loop.body.values)):
        return Places()
    updates = Updates(loop.body, loop.states, may_be_memory_of_another, set())
    found, live = Places(), updates.live
    for k, value in enumerate(loop.rows):
        is_first = value in copied and value in live.place and value not in found.rows
        if is_first and can_be_placed(value) and size_of(value.type) >= least:
            found.rows[value] = k
    ends = loop.ends + loop.last
    handed_on = [x for x in loop.body.results[1:] if x not in copied or x in ends]
    for k, state in enumerate(loop.states):
        others = {x for n, x in enumerate(handed_on) if n != k}
        if size_of(state.type) >= least and others.isdisjoint(live.views(ends[k]) | live.views(state)):
            _assign_end(found, updates, k, state, ends[k])
    kept = {loop.stays, *handed_on}
    cells = _cells_with_an_owner(found, live, loop)
    for value in loop.body.values:
        is_placed = value in found.over or value in found.turns or value in found.rows
        if (
            not is_placed
            and can_be_placed(value)
            and size_of(value.type) >= least
            and live.last_read(value) >= 0
            and kept.isdisjoint(live.views(value))
        ):
            _assign_temporary(found, live, cells, value)
    return found


@dataclass
class _Cell:
    """Memory that values of one iteration may use in turn.

    ``holder`` had it last and is read last at ``free``; ``owner`` gets it in the end.
    """

    table: dict[Value, int]
    number: int
    type: Type
    holder: Value | None = None
    free: int = -1
    owner: Value | None = None


def _cells_with_an_owner(found: Places, live: Liveness, loop: LoopRegion) -> list[_Cell]:
    """The memory of carried values, from the last reader to what takes its place, and of rows before they are known."""
    cells = []
    for value, k in found.over.items():
        state = loop.states[k]
        if value.op != "put":
            cells.append(_Cell(found.over, k, value.type, state, live.last_read(state), value))
    for table in (found.turns, found.rows):
        cells += [_Cell(table, k, value.type, None, -1, value) for value, k in table.items()]
    return cells


def _assign_end(found: Places, updates: Updates, k: int, state: Value, end: Value) -> None:
    """A value that feeds the next iteration: over the old one, or taking turns with it."""
    live = updates.live
    if end not in live.place or end.type != state.type or end in found.rows:
        return
    if can_be_placed(end):
        (found.over if _may_be_over(live, end, state, live.last_read(state)) else found.turns)[end] = k
        return
    puts = []
    while end.op == "put" and end in updates.over:
        puts.append(end)
        end = end.args[0]
    if end is state:
        found.over |= dict.fromkeys(puts, k)


def _may_be_over(live: Liveness, value: Value, old: Value, last: int) -> bool:
    """Whether a value may take the place of one that is read last at ``last``: before it, or by it, element by element."""
    if last != live.place[value]:
        return last < live.place[value]
    views = live.views(old)
    if value.op == "select":  # the last argument is there first, the other one is copied over it
        return views.isdisjoint(value.args[:2]) and (value.args[2] is old or value.args[2] not in views)
    return value.op in PRIMITIVES and views.isdisjoint(x for x in value.args if x is not old)


def _assign_temporary(found: Places, live: Liveness, cells: list[_Cell], value: Value) -> None:
    """A value that ends within the iteration: in place of one it is made of, in memory that is free, or in a new buffer."""
    last = live.last_read(value)

    def fits(cell: _Cell) -> bool:
        if cell.type != value.type:
            return False
        is_left = cell.holder is None or _may_be_over(live, value, cell.holder, cell.free)
        return is_left and (cell.owner is None or _may_be_over(live, cell.owner, value, last))

    fitting = [cell for cell in cells if fits(cell)]
    if not fitting:
        fitting = [_Cell(found.written, len(found.buffers), value.type)]
        found.buffers.append(value.type)
        cells += fitting
    cell = max(fitting, key=lambda cell: cell.free)
    cell.table[value], cell.holder, cell.free = cell.number, value, last


def size_of(type: Type) -> int:
    """Bytes of an array whose lengths are known; -1 of any other value."""
    if not type.is_static or not type.shape or type.dtype is None:
        return -1
    return type.size * type.dtype.itemsize


def can_be_placed(value: Value) -> bool:
    """Whether an operation can be given the place where to write its result."""
    if not value.type.is_static or not value.type.shape:
        return False
    if value.op in ("dot", "cast", "broadcast", "concat", "select"):
        return value.op != "select" or not is_one_of_two(value)
    if isinstance(value.attr, Apply):
        return value.attr.routine is not None
    if value.op == "reduce":
        return not value.attr.kind.startswith("arg")
    return value.op in PRIMITIVES and PRIMITIVES[value.op].ufunc is not None


# Updates of parts


class Updates:
    """The updates of a region that may be written over their first argument, and states of loops inside, over where they begin.

    Parameters
    ----------
    region : Region
    owned : collection of Value
        Values whose memory is this region's own.
    looks : callable
    copied : set of Value
        Rows of lists that are copied, as the list is written over before they are read; others are added.
    """

    def __init__(self, region: Region, owned: Collection[Value], looks: Looks, copied: set[Value]) -> None:
        self.owned, self.over, self.copied, self._looks = set(owned), set[Value](), copied, looks
        self.live = Liveness(region, lambda value: value not in copied and looks(value))
        for value in region.values:
            self._look_at(value)

    def _look_at(self, value: Value) -> None:
        if isinstance(value.attr, BranchRegion):
            self._branch(value, value.attr)
        elif isinstance(value.attr, LoopRegion):
            self._loop(value, value.attr)
        elif replaces_parts(value) and self.owns(x := value.args[0]) and self._unless_rows_are_read(x, value, self._is_over):
            self.over.add(value)

    def owns(self, x: Value) -> bool:
        """Whether the memory of a value is this region's own."""
        return x in self.owned or (x in self.live.place and (replaces_parts(x) or not self._looks(x)))

    def _is_over(self, x: Value, value: Value) -> bool:
        """Whether a value, or what a branch gave with it, has no other readers once another one is computed."""
        return max(self.live.last_read(y, value) for y in (x, _given_with(x))) <= self.live.place[value]

    def _unless_rows_are_read(self, x: Value, value: Value, holds: Callable[[Value, Value], bool]) -> bool:
        """Whether something holds of two values; if not, whether it does if the rows that are read of the first are copied."""
        if holds(x, value):
            return True
        rows = {r for r in self.live.readers.get(x, ()) if r is not None and _is_row(r)} - self.copied
        self.copied |= rows
        if rows and holds(x, value):
            return True
        self.copied -= rows
        return False

    def _branch(self, value: Value, attr: BranchRegion) -> None:
        """What is left to a branch may be written over in it; what both sides leave there is the region's own again."""
        given = {x for x in set(read_by(value)) if self.owns(x) and self._unless_rows_are_read(x, value, self._is_left_to)}
        sides = [(region, Updates(region, given, self._looks, self.copied)) for region in (attr.then, attr.other)]
        for _, side in sides:
            self.over |= side.over
        items = self._items_of(value)
        self.owned.update(x for x in items if all(side.owns(region.results[x.attr]) for region, side in sides))

    def _loop(self, value: Value, attr: LoopRegion) -> None:
        """A list that only a loop carries on stays where it is."""
        (_, _, initial, *_), states, ends = attr.split(value.args), attr.states, attr.ends
        changing = {state for state, end in zip(states, ends, strict=True) if end is not state}
        over = Updates(attr.body, changing, self._looks, self.copied).over
        inside = set(read_in(attr.body))
        for item in self._items_of(value):
            if item.attr < attr.n_carried and (state := states[item.attr]) in changing and not state.type.is_static:
                x, end = initial[item.attr], ends[item.attr]
                is_apart = self.owns(x) and x not in inside and value.args.count(x) == 1
                if is_apart and self._unless_rows_are_read(x, value, self._is_left_to) and stays_over(end, state, over):
                    self.over |= {state, *over}
                    self.owned.add(item)

    def _items_of(self, value: Value) -> list[Value]:
        return [x for x in self.live.readers.get(value, ()) if x is not None and x.op == "item"]

    def _is_left_to(self, x: Value, value: Value) -> bool:
        """Whether only one value reads another one, or what looks at it, from there on, and the value only reads itself."""
        views = self.live.views(x) | self.live.views(_given_with(x))
        return self._is_over(x, value) and not (views - {x}) & set(read_by(value))


def stays_over(end: Value, state: Value, over: Collection[Value]) -> bool:
    """Whether a carried value becomes the next one in the same memory."""
    if end is state:
        return True
    if end in over and (end.op == "put" or changes_length(end) != state.type.is_static):
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


def changes_length(value: Value) -> bool:
    """Whether a value is its first argument with rows put in, or taken out."""
    return value.op in ("insert", "erase") or _is_longer(value)


def _is_longer(value: Value) -> bool:
    """Whether a value is its first argument with more behind it."""
    shape = value.type.shape
    return value.op == "concat" and shape is not None and all(n == 1 for n in shape[: value.attr])


def _given_with(x: Value) -> Value:
    """The branch that gave a value, and others that may look at the same memory; what a loop gives has memory of its own."""
    return x.args[0] if x.op == "item" and isinstance(x.args[0].attr, BranchRegion) else x


def _is_row(value: Value) -> bool:
    """Whether a value is a row of a list, and has several elements: it is read where it is in the list."""
    is_of_list = value.op == "place" and value.type.is_static and not value.args[0].type.is_static
    return is_of_list and value.type.size != 1
