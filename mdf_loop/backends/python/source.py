"""The text of a program while it is written: lines, names for what is given, and names that are new."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

_TAKEN = frozenset(dir(builtins)) | {"run", "end", "rng"}
"""Names that mean something else in every program: numpy has a ``bool`` as well."""


class Source:
    """Lines of Python, and what the names in them mean.

    Everything in the text was made here: names and numbers, never a text of a model.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.given: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._count = 0
        self.depth = 1

    def line(self, text: str) -> None:
        """One more line."""
        self.lines.append("    " * self.depth + text)

    def insert(self, place: int, texts: Sequence[str]) -> None:
        """Lines in front of others."""
        self.lines[place:place] = ["    " * self.depth + text for text in texts]

    def fresh(self, letter: str) -> str:
        """A new name."""
        self._count += 1
        return f"{letter}{self._count}"

    def use(self, thing: Any, letter: str = "k") -> str:
        """The name under which an object is at hand; functions are called what they are called."""
        known = self._names.get(id(thing))
        if known is not None:
            return known
        own = getattr(thing, "__name__", "")
        is_free = own.isidentifier() and own not in self.given and own not in _TAKEN and callable(thing)
        name = own if is_free else self.fresh(letter)
        self._names[id(thing)], self.given[name] = name, thing
        return name

    def text(self, parameters: str) -> str:
        """The whole function."""
        return "\n".join([f"def program({parameters}):", *self.lines])

    def compiled(self, text: str) -> Callable[..., Any]:
        """The function, of its text."""
        space = dict(self.given)
        exec(compile(text, "<program>", "exec"), space)  # the text is ours alone
        return space["program"]
