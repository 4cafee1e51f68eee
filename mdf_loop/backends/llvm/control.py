"""Loops and branches.

A carried number stays in a register.  A carried array has two places that change roles at the end of each iteration, or one,
where all that the body does with it is to replace parts; what is collected is written where it stays, row by row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdf_loop.backends.llvm.arrays import Array, Index, Length, in_memory, is_one, number
from mdf_loop.backends.llvm.elements import BOOL, INT64, CannotCompile, element
from mdf_loop.backends.llvm.emitter import STOPPED, Emitter, writes
from mdf_loop.backends.llvm.fusion import is_number
from mdf_loop.backends.llvm.lanes import Lanes, Place
from mdf_loop.backends.llvm.overwriting import is_longer, overwriting
from mdf_loop.backends.llvm.products import pack_ahead
from mdf_loop.backends.llvm.sweeps import store_all
from mdf_loop.backends.llvm.views import row_pointer, viewed
from mdf_loop.ir import Collected
from mdf_loop.step.records import BranchRegion, LoopRegion, Region, Value
from mdf_loop.step.structure import regions_of

LARGEST_ROWS = 1 << 33
"""Bytes of collected values from which on the program is not even tried."""

LARGEST_FIXED = 1 << 16
"""Bytes of collected values for which there is room in the program's own memory."""

FUEL, OFTEN = 10_000_000, 4096
"""Nanoseconds, as far as one can tell, after which the program looks whether it shall stop; how often it counts them."""

FEW = 4
"""Iterations up to which nothing is packed for products."""

ENDLESS = (1 << 63) - 1


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
        ends.append({k: _result(e, item, e.of(region.results[k])) for k, item in items.items()})
        ends.append(text.block)  # type: ignore[arg-type]
        text.jump(after)
    text.start(after)
    (yes, yes_block, no, no_block) = ends
    for k, item in items.items():
        e.known[item] = _met(e, [(yes[k], yes_block), (no[k], no_block)])  # type: ignore[index, list-item]
    return number(INT64, "0")


def _result(e: Emitter, item: Value, x: Array) -> Array:
    """A result of one side: a number, or in memory."""
    if is_number(item.type):
        return number(x.dtype, e.number_of(x), x.shape)
    return x if x.memory else e.materialised(x)


def _met(e: Emitter, sides: Sequence[tuple[Array, str]]) -> Array:
    """What one of several blocks gave."""
    first, other = sides[0][0], sides[1][0]
    if first.dtype != other.dtype or len(first.shape) != len(other.shape):
        raise CannotCompile("a branch with results of several types has no compiled form")
    if not first.memory:
        return number(first.dtype, _phi(e, element(first.dtype).register, [(x.value, b) for x, b in sides]), first.shape)
    shape = []
    for k, n in enumerate(first.shape):
        same = n == other.shape[k]
        shape.append(n if same else _phi(e, "i64", [(str(x.shape[k]), b) for x, b in sides]))
    return in_memory(first.dtype, shape, _phi(e, "ptr", [(x.memory, b) for x, b in sides]))


def _phi(e: Emitter, type: str, sides: Sequence[tuple[str, str]]) -> str:
    return e.text.new(f"phi {type} {', '.join(f'[{value}, %{block}]' for value, block in sides)}")


@writes("loop")
def loop(e: Emitter, v: Value) -> Array:
    """A loop; its results are items."""
    _Loop(e, v).write()
    return number(INT64, "0")


class _Phi:
    """A register that goes round: it is written when what comes round is known."""

    def __init__(self, e: Emitter, type: str, first: str) -> None:
        self.e, self.type, self.first = e, type, first
        self.name = e.text.name()
        self.fill = e.text.open_line()

    def close(self, before: str, following: str, latch: str) -> None:
        """What comes round."""
        self.following = following
        self.fill(f"  {self.name} = phi {self.type} [{self.first}, %{before}], [{following}, %{latch}]")


class _Carried:
    """A carried value: a number, an array with two places, with one, or of lengths that change."""

    def __init__(self, e: Emitter, state: Value, first: Array, end: Value, in_place: bool) -> None:
        self.e, self.state, self.end, self.first = e, state, end, first
        self.is_number, self.in_place = is_number(state.type), in_place
        if state.type.dtype is None or state.type.shape is None or first.dtype != state.type.dtype:
            raise CannotCompile("a carried value of unknown type has no compiled form")
        self.is_open = not state.type.is_static
        if self.is_number:
            self.start = e.number_of(first)
        elif self.is_open:
            self.memories = [e.growing_memory() for _ in range(1 if in_place else 2)]
            self.start = self._written(self.memories[0], first)
        else:
            self.start = e.room(first.dtype, first.shape)
            store_all(e, [(first, [self.start])])
            self.second = "" if in_place else e.room(first.dtype, first.shape)

    def _written(self, memory: str, x: Array) -> str:
        """An array written to memory that grows."""
        pointer = self.e.grown(memory, self.e.bytes_of(x.dtype, x.shape))
        store_all(self.e, [(x, [pointer])])
        return pointer

    def enter(self) -> None:
        """At the beginning of an iteration."""
        e, dtype = self.e, self.first.dtype
        if self.is_number:
            self.phis = [_Phi(e, element(dtype).register, self.start)]
            e.known[self.state] = number(dtype, self.phis[0].name, self.first.shape)
        elif self.is_open:
            self.phis = [_Phi(e, "ptr", x) for x in (self.start, *self.memories)]
            self.phis += [_Phi(e, "i64", str(n)) for n in self.first.shape]
            lengths = self.phis[1 + len(self.memories) :]
            shape = [n if isinstance(n, int) else phi.name for n, phi in zip(self.state.type.shape or (), lengths, strict=True)]
            e.known[self.state] = in_memory(dtype, shape, self.phis[0].name)
            if self.in_place:
                e.known[self.state].growing = self.memories[0]
        else:
            self.phis = [] if self.in_place else [_Phi(e, "ptr", self.start), _Phi(e, "ptr", self.second)]
            e.known[self.state] = in_memory(dtype, self.first.shape, self.phis[0].name if self.phis else self.start)

    def targets(self) -> list[str]:
        """Where the next value may be written as soon as it is computed."""
        return [] if self.is_number or self.is_open or not self.phis else [self.phis[1].name]

    def pending(self) -> list[tuple[Array, list[str]]]:
        """What has to be written at the end of an iteration."""
        if self.is_number or self.is_open or not self.phis:
            return []
        found = self.e.of(self.end)
        other = self.phis[1].name
        return [] if other in (found.memory, *self.e.filled) else [(self._fitted(found), [other])]

    def _fitted(self, x: Array) -> Array:
        if x.dtype != self.first.dtype or len(x.shape) != len(self.first.shape):
            raise CannotCompile("a carried value that changes its type has no compiled form")
        return self.e.fitted(x, self.first.shape)

    def _fitted_where_known(self, x: Array) -> Array:
        """Lengths that stay the same are looked at, the others may change."""
        kept = [n if isinstance(n, int) else m for n, m in zip(self.state.type.shape or (), x.shape, strict=True)]
        return self.e.fitted(x, kept)

    def following(self) -> list[str]:
        """What goes into the registers of the next iteration."""
        e = self.e
        found = e.of(self.end)
        if self.is_number:
            return [e.number_of(found, self.first.dtype)]
        if self.is_open:
            found = self._fitted_where_known(found)
            if self.in_place:
                return [found.memory, self.memories[0], *map(str, found.shape)]
            old, new = self.phis[1].name, self.phis[2].name
            return [self._written(new, found), new, old, *map(str, found.shape)]
        return [self.phis[1].name, self.phis[0].name] if self.phis else []

    def result(self, before: str, latch: str) -> Array:
        """The value behind the loop."""
        e, dtype = self.e, self.first.dtype
        if not self.phis:
            return in_memory(dtype, self.first.shape, self.start)
        ends = [_phi(e, phi.type, [*([(phi.first, before)] if phi.first else []), (phi.following, latch)]) for phi in self.phis]
        if self.is_number:
            return number(dtype, ends[0], self.first.shape)
        if not self.is_open:
            return in_memory(dtype, self.first.shape, ends[0])
        lengths = ends[1 + len(self.memories) :]
        shape = [n if isinstance(n, int) else end for n, end in zip(self.state.type.shape or (), lengths, strict=True)]
        return in_memory(dtype, shape, ends[0])


class _Rows:
    """Collected values, one behind the other; rows whose lengths only the run can tell have those of the first one."""

    def __init__(self, e: Emitter, value: Value, what: Collected, limit: str, may_end: bool) -> None:
        self.e, self.value, self.what = e, value, what
        if value.type.dtype is None or value.type.shape is None:
            raise CannotCompile("collected values of unknown type have no compiled form")
        self.dtype, self.is_open = value.type.dtype, not value.type.is_static
        self.shape: tuple[Length, ...] = tuple(n for n in value.type.shape if isinstance(n, int))
        self.bytes = element(self.dtype).size * value.type.size
        self.memory, self.pointer, self.row = "", "", ""
        self.grows = may_end or self.is_open
        if self.is_open:
            self.lengths = [e.text.slot("i64") for _ in value.type.shape]
        elif not may_end and limit.isdigit() and int(limit) * self.bytes <= LARGEST_FIXED:
            self.pointer = e.room(self.dtype, (int(limit), *self.shape))
            return
        self.memory = e.growing_memory()
        if not self.grows:
            e.leave_if(e.text.new(f"icmp ugt i64 {limit}, {LARGEST_ROWS // max(self.bytes, 1)}"))
            self.pointer = e.grown(self.memory, e.text.mul(limit, self.bytes))

    def enter(self, number_: str) -> None:
        """Where the row of this iteration stands."""
        text, base, self.number = self.e.text, self.pointer, number_
        if self.is_open:
            return
        if self.grows:
            base = self.e.grown(self.memory, text.mul(text.add(number_, 1), self.bytes))
        self.row = text.new(f"getelementptr i8, ptr {base}, i64 {text.mul(number_, self.bytes)}")

    def pending(self) -> list[tuple[Array, list[str]]]:
        """What has to be written at the end of an iteration."""
        found = self.e.of(self.value)
        if found.dtype != self.dtype or len(found.shape) != len(self.value.type.shape or ()):
            raise CannotCompile("collected values that change their type have no compiled form")
        if self.is_open:
            self._keep_lengths(found)
            size = self.e.bytes_of(self.dtype, found.shape)
            base = self.e.grown(self.memory, self.e.text.mul(self.e.text.add(self.number, 1), size))
            self.row = self.e.text.new(f"getelementptr i8, ptr {base}, i64 {self.e.text.mul(self.number, size)}")
        else:
            found = self.e.fitted(found, self.shape)
        return [] if self.row in (found.memory, *self.e.filled) else [(found, [self.row])]

    def _keep_lengths(self, x: Array) -> None:
        """The lengths of the first row; all others have to have them."""
        text = self.e.text
        is_first = text.new(f"icmp eq i64 {self.number}, 0")
        with text.where(is_first):
            for n, slot in zip(x.shape, self.lengths, strict=True):
                text.line(f"store i64 {n}, ptr {slot}")
        for n, slot in zip(x.shape, self.lengths, strict=True):
            self.e.leave_if(text.new(f"icmp ne i64 {n}, {text.new(f'load i64, ptr {slot}')}"))

    def result(self, done: str) -> Array:
        """All rows, along the axis and in the direction that is asked for."""
        e, what = self.e, self.what
        length: Length = int(done) if done.isdigit() else done
        if self.is_open:
            self.shape = tuple(e.text.new(f"load i64, ptr {slot}") for slot in self.lengths)
        pointer = self.pointer or e.text.new(f"load ptr, ptr {self.memory}")
        whole = in_memory(self.dtype, (length, *self.shape), pointer)
        axis = what.axis % len(whole.shape) if what.axis else 0
        if not axis and not what.reverse:
            return whole
        last = e.text.sub(done, 1)

        def back(lanes: Lanes, index: Index) -> Index:
            row = index[axis]
            if what.reverse:
                row = lanes.shifted(lanes.scaled(row, -1), Place(last))
            return (row, *index[:axis], *index[axis + 1 :])

        return viewed(whole, (*self.shape[:axis], length, *self.shape[axis:]), back)


class _Loop:
    """One loop while it is written."""

    def __init__(self, e: Emitter, v: Value) -> None:
        self.e, self.text, self.attr = e, e.text, v.attr
        attr: LoopRegion = v.attr
        self.items = dict(e.items_of(v))
        self.count, self.condition, *rest = v.args
        self.initial, self.scanned = rest[: attr.n_carried], rest[attr.n_carried : attr.n_carried + len(attr.scanned)]
        self.index, self.going, *others = attr.body.params
        self.states, self.parts = others[: attr.n_carried], others[attr.n_carried :]
        self.stays, *results = attr.body.results
        self.ends, kept = results[: attr.n_carried], results[attr.n_carried :]
        self.last, self.collected = kept[: attr.n_last], kept[attr.n_last :]
        self.may_end = attr.obeyed and not (self.stays.op == "const" and bool(np.all(self.stays.attr)))

    def write(self) -> None:
        """All of it."""
        e, text = self.e, self.text
        arrays = [e.of(x) for x in self.scanned]
        sources = [e.memory_of(x) for x in arrays]
        limit = self._limit(arrays)
        self._begin(limit)
        before, head, after = text.block, text.label("loop"), text.label("done")
        if limit.isdigit() and int(limit) > 0:
            text.jump(head)
        else:
            text.fork(text.new(f"icmp sgt i64 {limit}, 0"), head, after)
        text.start(head)
        self._enter(arrays, sources, limit)
        e.values(self.attr.body)
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
        if attr.has_condition and not (self.condition.op == "const" and bool(np.all(self.condition.attr))):
            limit = Lanes(e.text).select(INT64, e.truth(self.condition), limit, "0")
        if (self.collected or self.last) and not attr.in_block and not (limit.isdigit() and int(limit) > 0):
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
        over = overwriting(self.attr.body, owned, e.fusion)
        e.in_place |= over
        self.carried = [
            _Carried(e, self.states[k], e.of(self.initial[k]), self.ends[k], self._is_over(self.states[k], self.ends[k], over))
            for k in changing
        ]
        self.changing = changing
        self.rows = [_Rows(e, x, what, limit, self.may_end) for x, what in zip(self.collected, self.attr.collected, strict=True)]

    def _is_over(self, state: Value, end: Value, over: set[Value]) -> bool:
        """Whether a state becomes the next one by replaced parts alone."""
        if not state.type.is_static:
            return end in over and is_longer(end) and end.args[0] is state
        while end in over and not is_longer(end):
            end = end.args[0]
            if end is state:
                return True
        return False

    def _enter(self, arrays: Sequence[Array], sources: Sequence[str], limit: str) -> None:
        """The beginning of an iteration."""
        e = self.e
        self.number = _Phi(e, "i64", "0")
        self.truth = _Phi(e, "i1", "true")
        for carried in self.carried:
            carried.enter()
        e.known[self.index] = number(INT64, self.number.name)
        e.known[self.going] = number(BOOL, self.truth.name, [1] * len(self.going.type.shape or ()))
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
        if not self.attr.obeyed and not (self.stays.op == "const" and bool(np.all(self.stays.attr))):
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
            text.fork(text.new(f"icmp eq i64 {low}, {period - 1}"), inside, onwards)
            text.start(inside)
        left = text.new(f"sub i64 {text.new('load i64, ptr %fuel')}, {cost * period}")
        text.line(f"store i64 {left}, ptr %fuel")
        with text.where(text.new(f"icmp slt i64 {left}, 0")):
            text.line(f"store i64 {FUEL}, ptr %fuel")
            call = text.declare("look_around", "i1", pure=False)
            self.e.leave_if(text.new(f"{call}()"), STOPPED)
        if period > 1:
            text.jump(onwards)
            text.start(onwards)

    def _finish(self, limit: str, before: str, latch: str) -> None:
        """Names for the results."""
        e, attr = self.e, self.attr
        runs = limit.isdigit() and int(limit) > 0
        done = limit if runs and not self.may_end else self._behind("i64", "0", self.number.following, before, latch, runs)
        truth = self._behind("i1", "true", self.truth.following, before, latch, runs)
        carried = dict(zip(self.changing, self.carried, strict=True))
        results = [
            self._end_of(carried[k], before, latch, runs) if k in carried else e.of(self.states[k]) for k in range(attr.n_carried)
        ]
        for x in self.lasts:
            results.append(self._last(x, before, latch, runs))
        results += [rows.result(done) for rows in self.rows]
        results += [number(INT64, done), number(BOOL, truth, [1] * len(self.stays.type.shape or ()))]
        for k, item in self.items.items():
            e.known[item] = results[k]

    def _end_of(self, carried: _Carried, before: str, latch: str, runs: bool) -> Array:
        if runs:
            for phi in carried.phis:
                phi.first = ""
        return carried.result(before, latch)

    def _behind(self, type: str, first: str, following: str, before: str, latch: str, runs: bool) -> str:
        """A register behind the loop: what it was, or what came round last."""
        return _phi(self.e, type, [(following, latch)] if runs else [(first, before), (following, latch)])

    def _last(self, x: Array, before: str, latch: str, runs: bool) -> Array:
        if not x.value:
            return x
        row = element(x.dtype)
        none = "zeroinitializer"
        return number(x.dtype, self._behind(row.register, none, x.value, before, latch, runs), x.shape)


def work_of(region: Region) -> int:
    """About how many nanoseconds a region takes."""
    found = 1
    for value in region.values:
        size = value.type.size if value.type.is_static else 16
        if value.op == "dot" and value.args[0].type.is_static:
            terms = value.args[0].type.shape[-1]  # type: ignore[index]
            found += max(size * int(terms) // 16, 1)  # type: ignore[arg-type]
        elif isinstance(value.attr, LoopRegion):
            count = value.args[0]
            rounds = int(count.attr) if count.op == "const" and count.attr is not None else 16
            found += min(max(rounds, 1), 1 << 20) * work_of(value.attr.body)
        else:
            found += max(size // 4, 1) + sum(work_of(inner) for inner in regions_of(value))
    return found
