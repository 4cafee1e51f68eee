"""The text of one function of LLVM while it is written: lines, names, blocks, what it declares.

Where elements stand is computed in front of the loops in which it stays the same: LLVM is not asked to find that out.  Its own
pass for it, the reduction of strength, would take a third of the time of compiling.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from mdf_loop.backends.llvm.linking.prologue import LOOK, STOPPED

MOST_WORK, MOMENT = 1_000_000, 5_000_000
"""Nanoseconds, about, that a loop takes at the most which does not look whether it has to stop; and between two looks."""

ENTRY = 8
"""Nanoseconds for a loop that does nothing."""

RARELY, RARE = ", !prof !0", '!0 = !{!"branch_weights", i32 1, i32 4096}'
"""What is said of a branch that is hardly ever taken, and what a text ends with that says so."""


class Text:
    """Lines of one function.

    Everything in the text was made here: names and numbers, never a text of a model.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.declarations: dict[str, str] = {}
        self.globals: list[str] = []
        self.block = "entry"
        self._count = 0
        self._addresses = Addresses()
        self._here: dict[str, str] = {}  # what has been computed in this block
        self._repeated = 0  # work of short loops in the one that is being written, besides that of their lines

    def line(self, text: str) -> None:
        """One more line."""
        self.lines.append("  " + text)

    def name(self) -> str:
        """A new name of a value that is made here."""
        name = self._unused()
        self._addresses.made(name)
        return name

    def outer_name(self) -> str:
        """A name of a value that is made when the function begins."""
        return self._unused()

    def _unused(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def new(self, text: str) -> str:
        """The value that an instruction gives."""
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self, letter: str = "b") -> str:
        """A name of a block."""
        self._count += 1
        return f"{letter}{self._count}"

    def start(self, label: str) -> None:
        """A block begins here."""
        self.lines.append(f"{label}:")
        self.block = label
        self._here.clear()

    def jump(self, label: str) -> None:
        """The block ends: go on there."""
        self.line(f"br label %{label}")

    def fork(self, condition: str, yes: str, no: str, is_rare: bool = False) -> None:
        """The block ends: go on in one of two, in the first one only rarely perhaps."""
        self.line(f"br i1 {condition}, label %{yes}, label %{no}{RARELY if is_rare else ''}")

    def open_line(self) -> Callable[[str], None]:
        """A line whose text is known later."""
        place = len(self.lines)
        self.lines.append("")

        def fill(text: str) -> None:
            self.lines[place] = text

        return fill

    def mark(self) -> tuple[int, str]:
        """Where the text ends now."""
        return len(self.lines), self.block

    def back_to(self, mark: tuple[int, str]) -> None:
        """Forget the lines that were written since."""
        del self.lines[mark[0] :]
        self.block = mark[1]
        self._here.clear()

    def slot(self, type: str, count: int = 1, align: int = 0) -> str:
        """Room on the stack, made when the function begins."""
        self._count += 1
        name = f"%s{self._count}"
        counted = f"[{count} x {type}]" if count > 1 else type
        self.slots.append(f"  {name} = alloca {counted}{f', align {align}' if align else ''}")
        return name

    def declare(self, name: str, result: str, *args: str, pure: bool = True) -> str:
        """Say that there is a function elsewhere; gives how it is called."""
        tail = " nounwind willreturn memory(none)" if pure and not name.startswith("llvm.") else ""
        self.declarations[name] = f"declare {result} @{name}({', '.join(args)}){tail}"
        return f"call {result} @{name}"

    def constant(self, type: str, values: str) -> str:
        """A table that stands beside the code."""
        self._count += 1
        name = f"@c{self._count}"
        self.globals.append(f"{name} = private unnamed_addr constant {type} {values}, align 64")
        return name

    # What is written often

    def add(self, a: str | int, b: str | int) -> str:
        """The sum of two places (i64); literals are added here."""
        if _is_number(a) and _is_number(b):
            return str(int(a) + int(b))
        if str(a) == "0":
            return str(b)
        if str(b) == "0":
            return str(a)
        return self._place("add", a, b)

    def sub(self, a: str | int, b: str | int) -> str:
        """The difference of two places."""
        if _is_number(a) and _is_number(b):
            return str(int(a) - int(b))
        return str(a) if str(b) == "0" else self._place("sub", a, b)

    def mul(self, a: str | int, b: str | int) -> str:
        """The product of two places."""
        if _is_number(a) and _is_number(b):
            return str(int(a) * int(b))
        if "0" in (str(a), str(b)):
            return "0"
        if str(a) == "1":
            return str(b)
        return str(a) if str(b) == "1" else self._place("mul", a, b)

    def _place(self, what: str, a: str | int, b: str | int) -> str:
        """A place, in front of all loops in which it stays the same."""
        text, loop = f"{what} i64 {a}, {b}", self._addresses.outermost(str(a), str(b))
        return self._once(text) if loop is None else self._addresses.moved(loop, text, self._unused())

    def _once(self, text: str) -> str:
        """The value that an instruction gives wherever it stands, written once in a block."""
        if text not in self._here:
            self._here[text] = self.new(text)
        return self._here[text]

    def element_pointer(self, type: str, pointer: str, place: str | int) -> str:
        """The address of an element."""
        return pointer if str(place) == "0" else self._once(f"getelementptr {type}, ptr {pointer}, i64 {place}")

    @contextlib.contextmanager
    def counted(self, start: str | int, stop: str | int, step: int = 1) -> Iterator[str]:
        """A loop over ``range(start, stop, step)``, whose body is written inside the ``with``; gives the number."""
        before, head, after = self.block, self.label("h"), self.label("x")
        put_in_front, first, around = self.open_line(), len(self.lines), self._repeated
        self._repeated = 0
        if not (_is_number(start) and _is_number(stop)):
            self.fork(self.new(f"icmp slt i64 {start}, {stop}"), head, after)
        elif int(start) < int(stop):
            self.jump(head)
        else:
            self.fork("false", head, after)
        loop = self._addresses.enter()
        self.start(head)
        number, following = self.name(), self.name()
        fill = self.open_line()
        try:
            yield number
        finally:
            self._addresses.leave()
        self.line(f"{following} = add nsw i64 {number}, {step}")
        each = self._work_since(first) + self._repeated
        count = max(-((int(start) - int(stop)) // step), 0) if _is_number(start) and _is_number(stop) else None
        if count is None or each * count > MOST_WORK:
            looks, self._repeated = _Looks(self, start, stop, step, each), around
            put_in_front("\n".join([*loop.lines, *looks.in_front()]))
            fill(looks.behind(number, following, head, after))
        else:
            self._repeated = around + each * max(count - 1, 0)
            put_in_front("\n".join(loop.lines))
            fill(f"  {number} = phi i64 [{start}, %{before}], [{following}, %{self.block}]")
            self.fork(self.new(f"icmp slt i64 {following}, {stop}"), head, after)
        self.start(after)

    def takes(self, nanoseconds: int) -> None:
        """What is written here takes so much longer than its lines look."""
        self._repeated += nanoseconds

    def _work_since(self, first: int) -> int:
        """About how many nanoseconds the lines take that were written since: a call takes longer than other instructions."""
        lines = "\n".join(self.lines[first:])
        return lines.count("\n") // 4 + 10 * lines.count(" call ") + 1

    @contextlib.contextmanager
    def where(self, condition: str) -> Iterator[None]:
        """What is written inside the ``with`` runs where the condition holds."""
        inside, after = self.label("t"), self.label("a")
        self.fork(condition, inside, after)
        self.start(inside)
        yield
        self.jump(after)
        self.start(after)


class _Looks:
    """A loop that may be long: it counts its work, and looks now and then whether it has to stop, without a call in between.

    It runs up to an end that it may reach in a moment, counts what that takes, and goes on from there.
    """

    def __init__(self, text: Text, start: str | int, stop: str | int, step: int, each: int) -> None:
        self.text, self.start, self.stop = text, start, stop
        self.each = max(each // step, 1)
        self.most = max(MOMENT // self.each // step, 1) * step
        self.limit = text.declare("llvm.smin.i64", "i64", "i64", "i64")
        self.look = text.declare(LOOK, "i1", "ptr", "ptr", "i64", "i1", pure=False)
        self.entry, self.first, self.end = text.label("e"), text.outer_name(), text.outer_name()

    def _next(self, here: str | int, found: str) -> list[str]:
        """The end of what comes next, and how much that is."""
        rest, some = (self.text.outer_name() for _ in range(2))
        return [
            f"  {rest} = sub i64 {self.stop}, {here}",
            f"  {some} = {self.limit}(i64 {rest}, i64 {self.most})",
            f"  {found} = add i64 {here}, {some}",
            some,
        ]

    def in_front(self) -> list[str]:
        """The lines in front of the loop: count what its first part takes."""
        *lines, some = self._next(self.start, self.first)
        work, all, left, less, is_low, stops = (self.text.outer_name() for _ in range(6))
        asks = self.text.label("l")
        return [
            *lines,
            f"  {work} = mul i64 {some}, {self.each}",
            f"  {left} = load i64, ptr %fuel",
            f"  {all} = add i64 {work}, {ENTRY}",
            f"  {less} = sub i64 {left}, {all}",
            f"  store i64 {less}, ptr %fuel",
            f"  {is_low} = icmp slt i64 {less}, 0",
            f"  br i1 {is_low}, label %{asks}, label %{self.entry}{RARELY}",
            f"{asks}:",
            f"  {stops} = {self.look}(ptr %thread, ptr %fuel, i64 0, i1 false)",
            f"  br i1 {stops}, label %leave{STOPPED}, label %{self.entry}{RARELY}",
            f"{self.entry}:",
        ]

    def behind(self, number: str, following: str, head: str, after: str) -> str:
        """Write the end of the loop; gives the lines that it begins with."""
        text, latch = self.text, self.text.block
        part, again, goes_on = text.label("p"), text.label("l"), text.label("m")
        text.fork(text.new(f"icmp slt i64 {following}, {self.end}"), head, part)
        text.start(part)
        text.fork(text.new(f"icmp slt i64 {following}, {self.stop}"), again, after, is_rare=True)
        text.start(again)
        end = text.outer_name()
        text.lines += self._next(following, end)[:3]
        stops = text.new(f"{self.look}(ptr %thread, ptr %fuel, i64 {self.most * self.each}, i1 false)")
        text.fork(stops, f"leave{STOPPED}", goes_on, is_rare=True)
        text.start(goes_on)
        text.jump(head)
        ways = f"[{following}, %{latch}], [{following}, %{goes_on}]"
        return (
            f"  {number} = phi i64 [{self.start}, %{self.entry}], {ways}\n"
            f"  {self.end} = phi i64 [{self.first}, %{self.entry}], [{self.end}, %{latch}], [{end}, %{goes_on}]"
        )


def _is_number(x: str | int) -> bool:
    return isinstance(x, int) or x.lstrip("-").isdigit()


@dataclass(eq=False)
class Counted:
    """A loop that is being written: the one around it, what has been moved in front of it, and under which names."""

    around: Counted | None
    lines: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)


class Addresses:
    """In which loop each value is made, and what can be moved out of it."""

    def __init__(self) -> None:
        self.loop: Counted | None = None
        self._made: dict[str, Counted] = {}

    def enter(self) -> Counted:
        """A loop begins."""
        self.loop = Counted(self.loop)
        return self.loop

    def leave(self) -> None:
        """The loop ends that began last."""
        assert self.loop is not None
        self.loop = self.loop.around

    def made(self, name: str) -> None:
        """A value is made where the text is now."""
        if self.loop is not None:
            self._made[name] = self.loop

    def outermost(self, *values: str) -> Counted | None:
        """The outermost loop around in which none of these is made; none if the innermost one makes one of them."""
        inside = [around for value in values for around in self._around(value)]
        found, loop = None, self.loop
        while loop is not None and loop not in inside:
            found, loop = loop, loop.around
        return found

    def _around(self, value: str) -> list[Counted]:
        found, loop = [], self._made.get(value)
        while loop is not None:
            found.append(loop)
            loop = loop.around
        return found

    def moved(self, loop: Counted, text: str, name: str) -> str:
        """An instruction moved in front of a loop; gives the name of its value, which it may have there already."""
        if text not in loop.names:
            loop.lines.append(f"  {name} = {text}")
            loop.names[text] = name
            if loop.around is not None:
                self._made[name] = loop.around
        return loop.names[text]
