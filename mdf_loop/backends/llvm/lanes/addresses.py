"""Where elements stand, computed in front of the loops in which it stays the same: LLVM is not asked to find that out.

Its own pass for it, the reduction of strength, would take a third of the time of compiling.
"""

from __future__ import annotations

from dataclasses import dataclass, field


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
