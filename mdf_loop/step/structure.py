"""Questions about a Step: who reads a value, where, and how long; and whether it gives the same bits in every engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from mdf_loop.ir import Node
from mdf_loop.step.failing import may_fail
from mdf_loop.step.primitives import BOOL, PRIMITIVES
from mdf_loop.step.records import Apply, LoopRegion, Region, Type, Value


@dataclass
class Uses:
    """Every place where a value is read: what reads it (None: it is a region's result), as which argument, and the region."""

    places: dict[Value, list[tuple[Value | None, int, Region]]] = field(default_factory=dict)
    homes: dict[Value, Region] = field(default_factory=dict)
    items: dict[Value, list[Value]] = field(default_factory=dict)

    def count(self, value: Value) -> int:
        """How often a value is read."""
        return len(self.places.get(value, ()))

    def is_single(self, value: Value) -> bool:
        """Whether it is read once, in the region that makes it."""
        places = self.places.get(value, ())
        return len(places) == 1 and places[0][2] is self.homes.get(value)

    def only_in(self, value: Value, ops: Collection[str]) -> bool:
        """Whether only some operations read it."""
        return all(reader is not None and reader.op in ops for reader, _, _ in self.places.get(value, ()))

    def items_of(self, whole: Value) -> Iterator[tuple[int, Value]]:
        """The results that are read of a value of several."""
        return ((item.attr, item) for item in self.items.get(whole, ()) if self.count(item))


def regions_of(value: Value) -> tuple[Region, ...]:
    """The regions that a value holds and that run where it stands."""
    if value.op == "loop":
        return (value.attr.body,)
    return (value.attr.then, value.attr.other) if value.op == "branch" else ()


def definition_of(value: Value) -> tuple[Region, ...]:
    """What an operator as a whole is in primitives, where it says so."""
    return (value.attr.definition,) if isinstance(value.attr, Apply) and value.attr.definition is not None else ()


def is_always_true(value: Value) -> bool:
    """Whether a condition is a constant: one boolean, and true."""
    return value.op == "const" and value.type.dtype == BOOL and value.type.size == 1 and bool(value.attr)


def why_no_condition(kind: Type) -> str:
    """Why a value of a type cannot be a condition; empty if it may be one, as 0 and 1 pass for booleans."""
    is_number = kind.dtype is not None and kind.dtype.kind in "fcV"
    if not is_number and kind.size == 1:
        return ""
    shape = ",".join("?" if n is None else str(n) for n in kind.lengths or ())
    return f"its condition must be one boolean; got {kind.dtype}[{shape}]"


def may_end(loop: LoopRegion) -> bool:
    """Whether the condition of a loop's body may end it."""
    return loop.obeyed and not is_always_true(loop.stays)


def values_in(region: Region) -> Iterator[Value]:
    """The parameters and values of a region and of those inside it."""
    yield from region.params
    for value in region.values:
        yield value
        if value.op in ("loop", "branch"):
            for inner in regions_of(value):
                yield from values_in(inner)


def recurring(loop: LoopRegion) -> set[Value]:
    """What of a loop's body, and of the regions inside it, needs the iteration before: the rest could run for many at once."""
    ends = dict(zip(loop.states, loop.ends, strict=True))
    left = {state for state in loop.states if ends[state] is not state}
    while True:
        found = set(left)
        computed_from(loop.body, found)
        if not (shifted := {state for state in left if ends[state] not in found}):
            return found
        left -= shifted


def computed_from(region: Region, found: set[Value]) -> None:
    """Put in what values of a region are computed from those that are in."""
    for value in region.values:
        if not found.isdisjoint(value.args):
            found.add(value)
        for inner in regions_of(value):
            computed_from(inner, found)
            if value in found or not found.isdisjoint(inner.results):
                found |= {value, *inner.params}
                computed_from(inner, found)


def uses_of(region: Region) -> Uses:
    """Who reads what in a region and in those inside it; readers that are not read do not count unless they may fail."""
    found = Uses()

    def look(here: Region) -> None:
        for k, x in enumerate(here.results):
            found.places.setdefault(x, []).append((None, k, here))
        for value in reversed(here.values):
            found.homes[value] = here
            if value not in found.places and not may_fail(value):
                continue
            if value.op == "item":
                found.items.setdefault(value.args[0], []).append(value)
            for inner in regions_of(value):
                look(inner)
            for k, x in enumerate(value.args):
                found.places.setdefault(x, []).append((value, k, here))

    look(region)
    return found


# How long the memory of a value is read

END = 1 << 60
"""The place of what is read when a region is over."""

_FRESH = "cast pack concat gather broadcast put insert reduce dot const length place_in as_array no_nan"
FRESH = {*_FRESH.split()}
"""Operations besides the primitives whose result is memory of its own, where each value is computed where it is."""

Looks = Callable[[Value], bool]
"""Whether a value may be the memory of what it reads, or reads it later than where it is: a question to each back end."""


def may_be_memory_of_another(value: Value) -> bool:
    """Whether a value may be the memory of what it reads, where each value is computed where it is."""
    if value.type.is_number or value.op in PRIMITIVES or value.op in FRESH:
        return False
    if value.op == "select":
        return is_one_of_two(value)
    return not isinstance(value.attr, Apply) or value.attr.routine is None


def is_one_of_two(value: Value) -> bool:
    """Whether ``select`` gives one of two values rather than elements of both."""
    condition, x, y = value.args
    return condition.type.is_number and ((x.type == y.type and x.type.is_static) or value.type.weak)


def read_by(value: Value) -> Iterator[Value]:
    """What a value reads, inside its regions as well."""
    yield from value.args
    for region in (*regions_of(value), *definition_of(value)):
        yield from read_in(region)


def read_in(region: Region) -> Iterator[Value]:
    """All values that a region and those inside it read."""
    yield from region.results
    for value in region.values:
        yield from read_by(value)


class Liveness:
    """The values of one region, and the last place that reads the memory of each.

    Places are numbers of values in order; what an inner region reads is read at the place of the loop or branch that holds it.
    """

    def __init__(self, region: Region, looks: Looks) -> None:
        self.looks = looks
        self.place = {value: k for k, value in enumerate(region.values)}
        self.readers: dict[Value, list[Value | None]] = {}
        for value in region.values:
            for x in dict.fromkeys(read_by(value)):
                self.readers.setdefault(x, []).append(value)
        for x in region.results:
            self.readers.setdefault(x, []).append(None)

    def views(self, x: Value, but: Value | None = None) -> set[Value]:
        """A value, and all that may be its memory or read it later, other than through one that does not count."""
        found, new = {x}, [x]
        for view in new:
            for reader in self.readers.get(view, ()):
                if reader is not None and reader is not but and reader not in found and self.looks(reader):
                    found.add(reader)
                    new.append(reader)
        return found

    def last_read(self, x: Value, but: Value | None = None) -> int:
        """The last place that reads the memory of a value; before all others if nothing does."""
        readers = {r for view in self.views(x, but) for r in self.readers.get(view, ()) if r is None or r is not but}
        return max((END if r is None else self.place[r] for r in readers), default=-1)


# Whether a Step gives the same bits in every engine, and however many of it are computed at once

SHORT = 8
"""Terms from which on the order in which they are added up is each engine's own."""


def gives_same_bits(region: Region) -> bool:
    """Whether a Step gives the same bits in all engines, and however many are computed at once."""
    return not any(is_inexact(v) or adds_up(v) or _is_unknown(v) for v in _values_of(region))


def computed_exactly(region: Region, nodes: Sequence[Node]) -> bool:
    """Whether what the nodes of a graph compute, but for its loops, has the same bits in all engines."""
    names = next((names for some, names, _ in region.scopes if some is nodes), None)
    if names is None:
        return False
    known = {names[name] for name in names}
    left = [names[name] for node in nodes if node.loop is None for name in node.outputs if name]
    while left:
        value = left.pop()
        if any(is_inexact(v) or adds_up(v) or _is_unknown(v) for v in _values_of(Region((), (value,)))):
            return False
        left += [x for x in value.args if x not in known]
        known.add(value)
    return True


def adds_up_little(region: Region) -> bool:
    """Whether a Step adds up, or multiplies, no more numbers than all engines do in one order."""
    return not any(map(adds_up, _values_of(region)))


def is_inexact(value: Value) -> bool:
    """Whether the last place of an operation's floats depends on how many numbers a processor works on."""
    return value.op in PRIMITIVES and not PRIMITIVES[value.op].is_exact and value.type.kind not in "biu"


def _is_unknown(value: Value) -> bool:
    """Whether it is an operator of which only its kernel says what it computes; what draws does so in every engine alike."""
    return isinstance(value.attr, Apply) and value.attr.definition is None and value.attr.drawn is None


def adds_up(value: Value) -> bool:
    """Whether an operation adds up or multiplies so many floats that their order counts."""
    if value.op == "dot":
        return value.type.kind not in "biu"
    if value.op != "reduce" or value.attr.kind not in ("sum", "prod"):
        return False
    shape = value.args[0].type.shape
    lengths = [None if shape is None else shape[axis] for axis in value.attr.axes]
    return math.prod(n if isinstance(n, int) else SHORT for n in lengths) >= SHORT


def _values_of(region: Region) -> Iterator[Value]:
    """The values of a Step, those of its operators as a whole among them."""
    for value in values_in(region):
        yield value
        for definition in definition_of(value):
            yield from _values_of(definition)
