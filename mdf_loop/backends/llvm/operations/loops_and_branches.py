"""Loops and branches."""

from __future__ import annotations

from collections.abc import Sequence

from mdf_loop.backends.llvm.emitter import Emitter, writes
from mdf_loop.backends.llvm.fusion import is_number
from mdf_loop.backends.llvm.lanes.element_loops import store_all
from mdf_loop.backends.llvm.lanes.element_types import BOOL, INT64, CannotCompile, element
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Length, can_hold, in_memory, is_one, number
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes, Place
from mdf_loop.backends.llvm.linking.prologue import LOOK, STOPPED
from mdf_loop.backends.llvm.operations.carried import CarriedBuffers, Phi, Rows, met
from mdf_loop.backends.llvm.operations.products import pack_ahead
from mdf_loop.backends.llvm.operations.views import row_pointer, viewed
from mdf_loop.step.memory import Updates, stays_over
from mdf_loop.step.records import BranchRegion, LoopRegion, Region, Value
from mdf_loop.step.structure import is_always_true, may_end, regions_of

FUEL, OFTEN = 10_000_000, 4096
"""Nanoseconds, as far as one can tell, after which the program looks whether it shall stop; how often it counts them."""

FEW_LOOKS, MOST_LOOKS = 10, 200
"""How often it looks before it leaves what is so long to others, who watch it; and in a block, whose length they have chosen."""

FEW = 4
"""Iterations up to which nothing is packed for products."""

ENDLESS = (1 << 63) - 1

GUESSED = 16
"""Iterations of a loop that ends when it likes."""


@writes("branch")
def branch(e: Emitter, v: Value) -> Array:
    """Two blocks; their results meet behind them."""
    attr: BranchRegion = v.attr
    text = e.text
    items = dict(e.items_of(v))
    then, other, after = text.label("then"), text.label("else"), text.label("fi")
    text.fork(e.truth(v.args[0]), then, other)
    ends = []
    for label, region in ((then, attr.then), (other, attr.other)):
        text.start(label)
        e.values(region)
        ends.append(({k: _result(e, item, e.of(region.results[k])) for k, item in items.items()}, text.block))
        text.jump(after)
    text.start(after)
    (yes, yes_block), (no, no_block) = ends
    for k, item in items.items():
        e.known[item] = met_array(e, [(yes[k], yes_block), (no[k], no_block)])
    return number(INT64, "0")


def _result(e: Emitter, item: Value, x: Array) -> Array:
    """A result of one side: a number, or in memory."""
    if is_number(item.type):
        return number(x.dtype, e.number_of(x), x.shape)
    return x if x.memory else e.materialised(x)


def met_array(e: Emitter, sides: Sequence[tuple[Array, str]]) -> Array:
    """What one of several blocks gave."""
    first, other = sides[0][0], sides[1][0]
    if first.dtype != other.dtype or len(first.shape) != len(other.shape):
        raise CannotCompile("a branch with results of several types has no compiled form")
    if not first.memory:
        return number(first.dtype, met(e, element(first.dtype).register, [(x.value, b) for x, b in sides]), first.shape)
    shape = []
    for k, n in enumerate(first.shape):
        same = n == other.shape[k]
        shape.append(n if same else met(e, "i64", [(str(x.shape[k]), b) for x, b in sides]))
    found = in_memory(first.dtype, shape, met(e, "ptr", [(x.memory, b) for x, b in sides]))
    found.growing = first.growing if first.growing == other.growing else ""
    return found


@writes("loop")
def loop(e: Emitter, v: Value) -> Array:
    """A loop; its results are items."""
    _Loop(e, v).write()
    return number(INT64, "0")


class _Loop:
    """One loop while it is written."""

    def __init__(self, e: Emitter, v: Value) -> None:
        self.e, self.text, self.attr = e, e.text, v.attr
        attr: LoopRegion = v.attr
        self.items = dict(e.items_of(v))
        self.count, self.condition, self.initial, self.scanned, _ = attr.split(v.args)
        self.index, self.going, self.states, self.parts = attr.index, attr.going, attr.states, attr.parts
        self.stays, self.ends, self.last, self.collected = attr.stays, attr.ends, attr.last, attr.rows
        self.may_end = may_end(attr)

    def write(self) -> None:
        """All of it."""
        e, text = self.e, self.text
        arrays = [e.of(x) for x in self.scanned]
        sources = [e.memory_of(x) for x in arrays]
        limit = self._limit(arrays)
        self._begin(limit)
        before, head, after = text.block, text.label("loop"), text.label("done")
        text.fork(text.new(f"icmp sgt i64 {limit}, 0"), head, after)
        text.start(head)
        self._enter(arrays, sources)
        e.loops.append((self.attr, limit))
        e.values(self.attr.body)
        e.loops.pop()
        latch = self._leave(limit, before, head, after)
        text.start(after)
        self._finish(limit, before, latch)

    def _limit(self, arrays: Sequence[Array]) -> str:
        """How many iterations there are at the most."""
        e, attr = self.e, self.attr
        lengths = [x.shape[s.axis] for x, s in zip(arrays, attr.scanned, strict=True)]
        limit = str(e.same_length(lengths)) if lengths else str(ENDLESS)
        if attr.has_count:
            limit = self._count()
        gives_rows = (self.collected or self.last) and not attr.in_block
        if attr.has_condition and not is_always_true(self.condition):
            begins = e.truth(self.condition)
            if gives_rows:
                e.leave_if(e.text.new(f"xor i1 {begins}, true"))
            else:
                limit = Lanes(e.text).select(INT64, begins, limit, "0")
        if gives_rows and not (limit.isdigit() and int(limit) > 0):
            e.leave_if(e.text.new(f"icmp sle i64 {limit}, 0"))
        return limit

    def _count(self) -> str:
        """The trip count, which has to be one whole number."""
        x = self.e.of(self.count)
        if x.dtype.kind not in "iu" or not is_one(x.shape):
            raise CannotCompile("a trip count that is not one whole number has no compiled form")
        return self.e.number_of(x, INT64)

    def _begin(self, limit: str) -> None:
        """What stands in front of the loop."""
        e = self.e
        if not limit.isdigit() or int(limit) > FEW:
            pack_ahead(e, self.attr.body)
        changing = [k for k, (s, end) in enumerate(zip(self.states, self.ends, strict=True)) if end is not s]
        for k, (state, first) in enumerate(zip(self.states, self.initial, strict=True)):
            if k not in changing:
                x = e.of(first)
                e.known[state] = x if x.value or x.memory else e.materialised(x)
        owned = {self.states[k] for k in changing}
        over = Updates(self.attr.body, owned, e.fusion.looks, e.fusion.copied).over
        e.in_place |= over
        self.carried = [
            CarriedBuffers(e, self.states[k], e.of(self.initial[k]), self.ends[k], stays_over(self.ends[k], self.states[k], over))
            for k in changing
        ]
        self.changing = changing
        items = [self.items.get(len(self.states) + len(self.last) + k) for k in range(len(self.collected))]
        whats = zip(self.collected, self.attr.collected, items, strict=True)
        self.rows = [Rows(e, x, what, limit, self.may_end, item) for x, what, item in whats]

    def _enter(self, arrays: Sequence[Array], sources: Sequence[str]) -> None:
        """The beginning of an iteration."""
        e = self.e
        self.number = Phi(e, "i64", "0")
        self.truth = Phi(e, "i1", "true")
        for carried in self.carried:
            carried.enter()
        e.known[self.index] = number(INT64, self.number.name)
        if self.going.type.shape is not None:  # else it cannot be read
            e.known[self.going] = number(BOOL, self.truth.name, [1] * len(self.going.type.shape))
        elif e.uses.count(self.going):
            raise CannotCompile("a condition whose number of dimensions changes has no compiled form")
        for part, x, source, scanned in zip(self.parts, arrays, sources, self.attr.scanned, strict=True):
            e.known[part] = self._part(in_memory(x.dtype, x.shape, source), scanned.axis, scanned.reverse)
        for rows in self.rows:
            rows.enter(self.number.name)
        for carried in self.carried:
            e.targets.setdefault(carried.end, []).extend(carried.targets())
        for rows in self.rows:
            if rows.row and not is_number(rows.value.type):
                e.targets.setdefault(rows.value, []).append(rows.row)

    def _part(self, x: Array, axis: int, reverse: bool) -> Array:
        """The part of a scanned array that an iteration gets."""
        e, axis = self.e, axis % len(x.shape)
        at = self.number.name
        if reverse:
            at = e.text.sub(e.text.sub(x.shape[axis], 1), at)
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        if all(n == 1 for n in shape):
            places = tuple(Place(at) if k == axis else Place() for k in range(len(x.shape)))
            return number(x.dtype, x.at(Lanes(e.text), places), shape)
        if axis == 0:
            return in_memory(x.dtype, shape, row_pointer(e, x, [at]))
        return viewed(x, shape, lambda lanes, index: (*index[:axis], Place(at), *index[axis:]))

    def _leave(self, limit: str, before: str, head: str, after: str) -> str:
        """The end of an iteration."""
        e, text = self.e, self.text
        self._write_pending()
        self.lasts = [self._kept(x) for x in self.last]
        following = [carried.following() for carried in self.carried]
        stays = e.truth(self.stays)
        if not self.attr.obeyed and not is_always_true(self.stays):
            e.leave_if(text.new(f"xor i1 {stays}, true"))  # the condition was omitted: the interpreter says so
        self._burn_fuel()
        done = text.add(self.number.name, 1)
        goes_on = text.new(f"icmp slt i64 {done}, {limit}")
        if self.may_end:
            goes_on = text.new(f"and i1 {goes_on}, {stays}")
        latch = text.block
        text.fork(goes_on, head, after)
        self.number.close(before, done, latch)
        self.truth.close(before, stays, latch)
        for carried, values in zip(self.carried, following, strict=True):
            for phi, value in zip(carried.phis, values, strict=True):
                phi.close(before, value, latch)
        return latch

    def _write_pending(self) -> None:
        """What is carried and collected, arrays of one shape in one loop over their elements."""
        e = self.e
        together: dict[tuple[Length, ...], dict[Value, tuple[Array, list[str]]]] = {}
        ends = [(c.end, pair) for c in self.carried for pair in c.pending()]
        ends += [(rows.value, pair) for rows in self.rows for pair in rows.pending()]
        for value, (x, pointers) in ends:
            group = together.setdefault(x.shape, {})
            group.setdefault(value, (x, []))[1].extend(pointers)
        for group in together.values():
            store_all(e, list(group.values()))

    def _kept(self, value: Value) -> Array:
        """A value of the last iteration, for behind the loop."""
        e, x = self.e, self.e.of(value)
        if is_number(value.type):
            return number(x.dtype, e.number_of(x), x.shape)
        if not x.is_static:
            raise CannotCompile("a last value whose lengths change has no compiled form")
        return e.materialised(x)

    def _burn_fuel(self) -> None:
        """Now and then, see whether the program shall stop."""
        text, cost = self.text, work_of(self.attr.body)
        period = 1 << max(OFTEN // cost, 1).bit_length() - 1
        if period > 1:
            low = text.new(f"and i64 {self.number.name}, {period - 1}")
            inside, onwards = text.label("fuel"), text.label("on")
            text.fork(text.new(f"icmp eq i64 {low}, {period - 1}"), inside, onwards, is_rare=True)
            text.start(inside)
        self.e.is_looping = True
        call = text.declare(LOOK, "i1", "ptr", "ptr", "i64", "i1", pure=False)
        self.e.leave_if(text.new(f"{call}(ptr %thread, ptr %fuel, i64 {cost * period}, i1 true)"), STOPPED)
        if period > 1:
            text.jump(onwards)
            text.start(onwards)

    def _finish(self, limit: str, before: str, latch: str) -> None:
        """Names for the results."""
        e = self.e
        done, truth = (met(e, x.type, [(x.first, before), (x.following, latch)]) for x in (self.number, self.truth))
        if limit.isdigit() and not self.may_end:
            done = limit
        carried = dict(zip(self.changing, self.carried, strict=True))
        results = [carried[k].result(before, latch) if k in carried else e.of(x) for k, x in enumerate(self.states)]
        results += [self._last(x, before, latch) for x in self.lasts]
        results += [rows.result(done) for rows in self.rows]
        results += [number(INT64, done), number(BOOL, truth, [1] * len(self.stays.type.shape or ()))]
        for k, item in self.items.items():
            x = results[k]
            e.known[item] = e.materialised(x) if x.register and not can_hold(e, item) else x

    def _last(self, x: Array, before: str, latch: str) -> Array:
        if not x.value:
            return x
        found = met(self.e, element(x.dtype).register, [("zeroinitializer", before), (x.value, latch)])
        return number(x.dtype, found, x.shape)


def work_of(region: Region) -> int:
    """About how many nanoseconds a region takes."""
    found = 1
    for value in region.values:
        size = value.type.size if value.type.is_static else 16
        if value.op == "dot" and value.args[0].type.is_static:
            terms = value.args[0].type.shape[-1]  # type: ignore[index]
            found += max(size * int(terms) // 16, 1)  # type: ignore[arg-type]
        elif isinstance(value.attr, LoopRegion):
            count, inner = value.args[0], value.attr
            iterations = int(count.attr) if count.op == "const" and count.attr is not None else GUESSED
            if may_end(inner):  # it counts for itself if it takes longer
                iterations = min(iterations, GUESSED)
            found += min(max(iterations, 1), 1 << 20) * work_of(inner.body)
        else:
            found += max(size // 4, 1) + sum(work_of(inner) for inner in regions_of(value))
    return found
