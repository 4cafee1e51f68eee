"""The text of an emitted function, and the objects that its names stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdf_loop.execute.kinds import Changed
from mdf_loop.execute.scalars import FUNCTIONS


@dataclass
class Source:
    """Lines being written, and the objects that their names stand for."""

    lines: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)
    depth: int = 1
    _counts: dict[str, int] = field(default_factory=dict)
    _given: dict[tuple[str, int], str] = field(default_factory=dict)

    def line(self, text: str) -> None:
        """Write a line at the present depth."""
        self.lines.append("    " * self.depth + text)

    def assign(self, values: Mapping[str, str]) -> None:
        """Write one assignment of several values at once."""
        if values:
            self.line(f"{', '.join(values)} = {', '.join(values.values())}")

    def fresh(self, letter: str) -> str:
        """A name that was not used before."""
        self._counts[letter] = self._counts.get(letter, -1) + 1
        return f"{letter}{self._counts[letter]}"

    def given(self, letter: str, value: Any) -> str:
        """A name for an object of ours."""
        key = letter, id(value)
        if key not in self._given:
            self._given[key] = self.fresh(letter)
            self.names[self._given[key]] = value  # which keeps it alive, and its id its own
        return self._given[key]

    def compiled(self, parameters: str) -> Callable[..., Any]:
        """The function that the lines are the body of.  Every name and number in them was made by this package."""
        text = f"def part({parameters}):\n" + "\n".join(self.lines)
        space = {**FUNCTIONS, **self.names, "Changed": Changed, "__name__": __name__}
        exec(compile(text, "<emitted by mdf_loop>", "exec"), space)
        return space["part"]

    @property
    def text(self) -> str:
        """What was written."""
        return "\n".join(self.lines)


def literal(value: Any) -> str | None:
    """A finite number as it stands in Python; None for others."""
    if type(value) is bool or type(value) is int:
        return repr(value) if not isinstance(value, int) or value >= 0 else f"({value!r})"
    if type(value) is float and np.isfinite(value):
        return repr(value) if value >= 0 and not (value == 0 and str(value)[0] == "-") else f"({value!r})"
    return None
