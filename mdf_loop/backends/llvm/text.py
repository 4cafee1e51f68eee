"""The text of one function of LLVM while it is written: lines, names, blocks, what it declares."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from mdf_loop.backends.llvm.addresses import Addresses

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

    def line(self, text: str) -> None:
        """One more line."""
        self.lines.append("  " + text)

    def name(self) -> str:
        """A name of a value that nobody has yet, and that is made here."""
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

    def read(self, type: str, slot: str) -> str:
        """What stands in a slot."""
        return self.new(f"load {type}, ptr {slot}")

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
        put_in_front = self.open_line()
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
        put_in_front("\n".join(loop.lines))
        self.line(f"{following} = add nsw i64 {number}, {step}")
        fill(f"  {number} = phi i64 [{start}, %{before}], [{following}, %{self.block}]")
        self.fork(self.new(f"icmp slt i64 {following}, {stop}"), head, after)
        self.start(after)

    @contextlib.contextmanager
    def repeated(self, condition: Callable[[], str]) -> Iterator[None]:
        """A loop that goes on while a condition holds, which is written in front of its body."""
        head, inside, after = self.label("h"), self.label("l"), self.label("x")
        self.jump(head)
        self.start(head)
        self.fork(condition(), inside, after)
        self.start(inside)
        yield
        self.jump(head)
        self.start(after)

    @contextlib.contextmanager
    def where(self, condition: str) -> Iterator[None]:
        """What is written inside the ``with`` runs where the condition holds."""
        inside, after = self.label("t"), self.label("a")
        self.fork(condition, inside, after)
        self.start(inside)
        yield
        self.jump(after)
        self.start(after)


def _is_number(x: str | int) -> bool:
    return isinstance(x, int) or x.lstrip("-").isdigit()
