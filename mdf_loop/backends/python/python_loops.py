"""Loops and branches as Python's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.backends.python import runtime
from mdf_loop.backends.python.numbers import is_native
from mdf_loop.ir import Collected
from mdf_loop.ops.rows import FEW_STEPS
from mdf_loop.step.failing import FallBack, TooLong
from mdf_loop.step.memory import assign, size_of
from mdf_loop.step.records import BranchRegion, LoopRegion, Type, Value
from mdf_loop.step.structure import is_always_true, may_end, values_in

if TYPE_CHECKING:
    from mdf_loop.backends.python.printer import Printer

UNWATCHED = 1 << 62
"""No limit: the program is a block of iterations, whose number the caller has bounded."""

LARGEST_BLOCK = 1 << 26
"""Bytes of collected values for which there is room from the start."""


def write_branch(p: Printer, v: Value) -> None:
    """An ``if``: each side assigns its results to the same names."""
    attr: BranchRegion = v.attr
    items = list(p.uses.items_of(v))
    for _, item in items:
        p.texts[item] = p.source.fresh("y")
    for start, region in ((f"if {truth(p, v.args[0])}:", attr.then), ("else:", attr.other)):
        p.source.line(start)
        p.source.depth += 1
        p.values(region)
        for k, item in items:
            p.source.line(f"{p.texts[item]} = {p.as_type(region.results[k], is_native(item.type))}")
        p.source.line("pass")
        p.source.depth -= 1


def truth(p: Printer, value: Value) -> str:
    """A condition as Python's own."""
    if is_native(value.type) and value.type.kind == "b":
        return p.text(value)
    return f"{p.source.use(runtime.truth)}({p.boxed(value)})"


def write_loop(p: Printer, v: Value) -> None:
    """A ``for`` over a range, or over the parts of scanned arrays."""
    LoopWriter(p, v).write()


class LoopWriter:
    """One loop on its way into the source.

    Attributes
    ----------
    inside : set of Value
        What may be another value in the next iteration.
    front : list of str
        Lines that belong in front of it.
    """

    def __init__(self, p: Printer, v: Value) -> None:
        self.p, self.source, self.attr = p, p.source, v.attr
        attr: LoopRegion = v.attr
        self.count, self.condition, self.initial, self.scanned, self.operands = attr.split(v.args)
        self.index, self.going, self.states, self.parts = attr.index, attr.going, attr.states, attr.parts
        self.stays, self.ends, self.last, self.collected = attr.stays, attr.ends, attr.last, attr.rows
        self.items = dict(p.uses.items_of(v))
        self.number = p.source.fresh("i")
        self.limit = p.source.fresh("n")
        self.lasts = [p.source.fresh("y") for _ in self.last]
        self.gathered = [p.source.fresh("l") for _ in self.collected]
        self.is_limited = attr.has_count or bool(self.scanned)
        self.is_cut = False
        self.may_end = may_end(attr)
        self.most = UNWATCHED if attr.in_block else p.most
        self.least = self.most if attr.worth is None else FEW_STEPS
        self.worth = str(self.least)
        self.in_rows = [self._has_room(x.type) for x in self.collected]
        copied = [x for x, in_rows in zip(self.collected, self.in_rows, strict=True) if in_rows]
        self.places = assign(attr, copied, p.least)
        self.others: dict[Value, str] = {}
        self.inside = set(values_in(attr.body))
        self.front: list[str] = []

    def write(self) -> None:
        """All of it."""
        p, source = self.p, self.source
        self._limit()
        is_whole = self.attr.whole is not None and self.is_limited and not (self.count.op == "const" and self.is_cut)
        if is_whole:
            self._as_a_whole()
            source.line("else:")
            source.depth += 1
        self._start()
        place, head = len(source.lines), self._head()
        p.loops.append(self)
        source.line(head)
        source.depth += 1
        p.look_at_clock(self.number, self.attr.body)
        p.values(self.attr.body)
        self._keep()
        self._hand_on()
        source.depth -= 1
        p.loops.pop()
        source.insert(place, self.front)
        if self.is_cut or not self.is_limited:
            source.line("else:")
            cut = f"cut_{self.limit} and " if self.is_cut else ""  # no iteration at all, by the condition, is not too many
            source.line(f"    if {cut}{self.limit}: raise {source.use(TooLong)}")
        self._finish()
        source.depth -= is_whole

    def _as_a_whole(self) -> None:
        """More iterations than are worth stepping, as one call of the operator."""
        p, source, whole = self.p, self.source, self.attr.whole
        assert whole is not None
        for item in self.items.values():
            p.texts[item] = source.fresh("v")
        source.line(f"if {self.limit} > {self.worth}:")
        name = source.fresh("v")
        source.line(
            f"    {name} = {source.use(runtime.whole)}({source.use(whole.call)}, run, {', '.join(map(p.boxed, self.operands))})"
        )
        for k, item in self.items.items():
            source.line(f"    {p.texts[item]} = {name}[{k}]{'.item()' if is_native(item.type) else ''}")
        p.renew_end("    ")

    def _limit(self) -> None:
        """How many iterations there are at the most; loops without one may need what only the interpreter knows."""
        p, source, n = self.p, self.source, self.limit
        for k, (part, array) in enumerate(zip(self.attr.scanned, self.scanned, strict=True)):
            p.texts[self.parts[k]] = source.fresh("s")
            if self.attr.in_block:
                source.line(f"rows_{p.texts[self.parts[k]]} = {p.text(array)}")
                continue
            how = f"{part.axis}, {part.reverse}"
            source.line(f"rows_{p.texts[self.parts[k]]} = {source.use(runtime.rows_of)}({p.boxed(array)}, {how})")
        rows = [f"rows_{p.texts[part]}" for part in self.parts]
        if self.attr.has_count:
            self._count()
        elif len(rows) > 1:
            source.line(f"{n} = {source.use(runtime.same_length)}({', '.join(rows)})")
        else:
            source.line(f"{n} = len({rows[0]})" if rows else f"{n} = {self.most}")
        if self.scanned and not self.attr.has_count:
            self._see_worth()
        if self.attr.has_condition and not is_always_true(self.condition):
            source.line(f"if not {truth(p, self.condition)}: {n} = 0")
        if (self.collected or self.last) and not self.attr.in_block:
            source.line(f"if {n} <= 0: raise {source.use(FallBack)}")

    def _count(self) -> None:
        """The trip count; a loop that may end by its condition runs as far as a program goes."""
        p, source, n = self.p, self.source, self.limit
        if is_native(self.count.type) and self.count.type.kind == "i":
            source.line(f"{n} = {p.text(self.count)}")
        else:
            source.line(f"{n} = {source.use(runtime.trip_count)}({p.boxed(self.count)})")
        if p.bound(self.count) <= self.least or self.least == UNWATCHED:
            return
        self._see_worth()
        if self.may_end:
            self.is_cut = True
            source.line(f"cut_{n} = {n} > {self.worth}")
            source.line(f"if cut_{n}: {n} = {self.worth}")
        elif self.attr.whole is None:
            source.line(f"if {n} > {self.worth}: raise {source.use(TooLong)}")

    def _see_worth(self) -> None:
        """How many iterations are stepped at the most: planning the loop says it, which a short run does without."""
        if self.attr.worth is not None:
            self.worth = self.source.fresh("w")
            self.source.line(f"{self.worth} = {self.source.use(self.attr.worth)}({self.limit})")

    def _start(self) -> None:
        """Carried values and room for what is collected."""
        p, source = self.p, self.source
        firsts = [p.as_type(value, is_native(state.type)) for value, state in zip(self.initial, self.states, strict=True)]
        for k, (state, first) in enumerate(zip(self.states, firsts, strict=True)):
            name = p.texts[state] = source.fresh("x")
            source.line(f"{name} = {first}.copy()" if k in self.places.owned else f"{name} = {first}")
        self._make_places()
        if p.uses.count(self.going):
            p.texts[self.going] = source.fresh("c")
            source.line(f"{p.texts[self.going]} = {self._first_condition()}")
        p.texts[self.index], p.bounds[self.index] = self.number, self.most
        for name, value, in_rows in zip(self.gathered, self.collected, self.in_rows, strict=True):
            if in_rows:
                shape = "".join(f", {n}" for n in value.type.shape or ())
                source.line(f"{name} = {source.use(np.empty)}(({self.limit}{shape},), {source.use(value.type.dtype, 'd')})")
            else:
                source.line(f"{name} = []; keep_{name} = {name}.append")
        self.counts = self.may_end and (any(self.in_rows) or self.attr.place_of_count in self.items)
        if self.counts:
            source.line(f"done_{self.number} = {self.limit}")

    def _make_places(self) -> None:
        """Arrays that values are written into."""
        p, source = self.p, self.source
        names = []
        for type in self.places.buffers:
            names.append(source.fresh("b"))
            source.line(f"{names[-1]} = {source.use(np.empty)}({type.shape!r}, {source.use(type.dtype, 'd')})")
        p.targets |= {value: names[number] for value, number in self.places.written.items()}
        p.targets |= {value: p.texts[self.states[k]] for value, k in self.places.over.items()}
        p.targets |= {value: f"w_{self.gathered[k]}" for value, k in self.places.rows.items()}
        p.targets |= {value: f"t_{p.texts[self.states[k]]}" for value, k in self.places.turns.items()}
        for state in {self.states[k]: None for k in self.places.turns.values()}:
            self.others[state] = f"t_{p.texts[state]}"
            source.line(f"t_{p.texts[state]} = {source.use(np.empty_like)}({p.texts[state]})")

    def _first_condition(self) -> str:
        if is_native(self.going.type):
            return "True"
        rank = self.going.type.rank or 0
        return self.source.use(np.ones((1,) * rank, bool) if rank else np.True_, "k")

    def _has_room(self, kept: Type) -> bool:
        """Whether collected values are written where they stay."""
        if not self.is_limited or not kept.is_static or is_native(kept):  # numbers of Python's are faster kept in a list
            return False
        if self.attr.in_block:
            return True
        return size_of(kept) * self.most <= LARGEST_BLOCK

    def _head(self) -> str:
        parts = [self.p.texts[part] for part in self.parts]
        written = sorted(set(self.places.rows.values()))
        if not parts and not written:
            return f"for {self.number} in range({self.limit}):"
        as_list = {s for s, x in zip(parts, self.parts, strict=True) if is_native(x.type) and not self.attr.in_block}
        rows = [f"rows_{s}.tolist()" if s in as_list else f"rows_{s}" for s in parts]
        parts += [f"w_{self.gathered[k]}" for k in written]
        rows += [self.gathered[k] for k in written]
        return f"for {self.number}, {', '.join(parts)} in zip(range({self.limit}), {', '.join(rows)}):"

    def _keep(self) -> None:
        for k, (name, value, in_rows) in enumerate(zip(self.gathered, self.collected, self.in_rows, strict=True)):
            if self.places.rows.get(value) == k:
                continue
            text = self.p.text(value) if in_rows or is_native(value.type) else self.p.boxed(value)
            self.source.line(f"{name}[{self.number}] = {text}" if in_rows else f"keep_{name}({text})")
        for name, value in zip(self.lasts, self.last, strict=True):
            self.source.line(f"{name} = {self.p.boxed(value)}")

    def _hand_on(self) -> None:
        """The values of the next iteration, all at once, and the condition."""
        p, source = self.p, self.source
        stays = ""
        if self.may_end or not is_always_true(self.stays):
            stays = truth(p, self.stays)
            if not stays.isidentifier() or self.states:
                name = source.fresh("g")
                source.line(f"{name} = {stays}")
                stays = name
        self.condition_text = stays if is_native(self.stays.type) and stays else p.boxed(self.stays)
        targets = {p.texts[s]: p.as_type(e, is_native(s.type)) for s, e in zip(self.states, self.ends, strict=True)}
        if p.uses.count(self.going):
            targets[p.texts[self.going]] = p.as_type(self.stays, is_native(self.going.type))
        targets |= {other: p.texts[state] for state, other in self.others.items()}
        changed = {name: text for name, text in targets.items() if name != text}
        if changed:
            source.line(f"{', '.join(changed)} = {', '.join(changed.values())}")
        if stays and self.may_end:
            done = f"done_{self.number} = {self.number} + 1; " if self.counts else ""
            source.line(f"if not {stays}: {done}break")
        elif stays:  # the condition was omitted and does not count: the interpreter says so
            source.line(f"if not {stays}: raise {source.use(FallBack)}")
        if source.lines[-1].startswith("    " * (source.depth - 1) + "for "):
            source.line("pass")

    def _finish(self) -> None:
        """Names for the results."""
        p, source, attr = self.p, self.source, self.attr
        done = f"done_{self.number}" if self.counts else self.limit
        results = [*(p.texts[state] for state in self.states), *self.lasts, *self.gathered, done, self.condition_text]
        collected = dict(zip(self.gathered, zip(attr.collected, self.collected, self.in_rows, strict=True), strict=True))
        for k, item in self.items.items():
            name = results[k]
            if name in collected:
                what, value, in_rows = collected[name]
                self._put_together(name, what, value, in_rows)
            if item not in p.texts and not p.loops:
                p.texts[item] = name
                continue
            if item not in p.texts:
                p.texts[item] = source.fresh("v")
            source.line(f"{p.texts[item]} = {name}")  # its own name: the loop may run again, around it, before this is read

    def _put_together(self, name: str, what: Collected, value: Value, in_rows: bool) -> None:
        source = self.source
        stays = self.attr.in_block and (not is_native(value.type) or value.type.weak)
        if not in_rows and stays:
            return
        if not in_rows and value.type.weak and value.type.kind == "O":
            source.line(f"{name} = {source.use(runtime.numbers_together)}({name})")
        elif not in_rows and is_native(value.type):
            source.line(f"{name} = {source.use(np.array)}({name}, {source.use(value.type.dtype, 'd')})")
        elif not in_rows:
            source.line(f"{name} = {source.use(runtime.stacked)}({name}, {source.use(what, 'k')})")
            return
        elif self.may_end:
            source.line(f"{name} = {name}[:done_{self.number}]")
        if what.axis or what.reverse:
            source.line(f"{name} = {source.use(runtime.arranged)}({name}, {source.use(what, 'k')})")
