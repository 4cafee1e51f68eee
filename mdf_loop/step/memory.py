"""Where the arrays of a loop's body are written: buffers made once, or the memory of a carried value that has no readers left.

Decided on what operations are, never on operators: element-wise results, products and updates can be given a place.
A value is needed as long as anything reads what shares its memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import Apply, BranchRegion, LoopRegion, Region, Type, Value
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
    found, live = Places(), Liveness(loop.body)
    for k, value in enumerate(loop.rows):
        is_first = value in copied and value in live.place and value not in found.rows
        if is_first and can_be_placed(value) and size_of(value.type) >= least:
            found.rows[value] = k
    ends = loop.ends + loop.last
    handed_on = [x for x in loop.body.results[1:] if x not in copied or x in ends]
    for k, state in enumerate(loop.states):
        others = [live.roots(x) for n, x in enumerate(handed_on) if n != k]
        if size_of(state.type) >= least and not any(ends[k] in roots or state in roots for roots in others):
            _assign_end(found, live, k, state, ends[k])
    kept = frozenset[Value]().union(*map(live.roots, [loop.stays, *handed_on]))
    cells = _cells_with_an_owner(found, live, loop)
    for value in loop.body.values:
        is_placed = value in found.over or value in found.turns or value in found.rows
        if (
            not is_placed
            and value not in kept
            and live.last_read(value) >= 0
            and can_be_placed(value)
            and size_of(value.type) >= least
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


def _assign_end(found: Places, live: Liveness, k: int, state: Value, end: Value) -> None:
    """A value that feeds the next iteration: over the old one, or taking turns with it."""
    if end not in live.place or end.type != state.type or end in found.rows:
        return
    place = live.place[end]
    if end.op == "put":
        if end.args[0] is state and live.last_read(state) <= place:
            found.over[end] = k
    elif can_be_placed(end):
        (found.over if _may_be_over(live, end, state, live.last_read(state)) else found.turns)[end] = k


def _may_be_over(live: Liveness, value: Value, old: Value, last: int) -> bool:
    """Whether a value may take the place of one that is read last at ``last``: before it, or by it, element by element."""
    if last != live.place[value]:
        return last < live.place[value]
    if value.op == "select":  # the last argument is there first, the other one is copied over it
        return all(old not in live.roots(x) for x in value.args[:2]) and _is_or_is_not(live, value.args[2], old)
    return value.op in PRIMITIVES and all(_is_or_is_not(live, x, old) for x in value.args)


def _is_or_is_not(live: Liveness, x: Value, old: Value) -> bool:
    """Whether a value is another one, or has nothing to do with its memory."""
    return x is old or old not in live.roots(x)


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
