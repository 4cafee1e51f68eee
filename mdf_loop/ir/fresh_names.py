"""Names that nothing has yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


class FreshNames:
    """Names of values in a graph: a new one is none of those that it has, or a graph around it.

    Parameters
    ----------
    taken : iterable of str
    outer : FreshNames, optional
        Those of the graph around it.
    """

    mark = "_"
    """What stands in front of a number that makes a name a new one."""

    def __init__(self, taken: Iterable[str] = (), outer: Any = None) -> None:
        self.outer, self.taken, self._counts = outer, {*taken}, dict[str, int]()

    def outwards(self) -> Iterator[Any]:
        """These names and those around them."""
        scope: Any = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def is_taken(self, name: str) -> bool:
        """Whether something has a name."""
        return any(name in scope.taken for scope in self.outwards())

    def fresh(self, *wanted: str) -> str:
        """The first of some names that nothing has yet; if there is none, the first of all with a number behind it."""
        base = wanted[0]
        name = next((each for each in wanted if each and not self.is_taken(each)), "")
        while not name or self.is_taken(name):
            self._counts[base] = self._counts.get(base, 1) + 1
            name = f"{base}{self.mark}{self._counts[base]}"
        self.taken.add(name)
        return name
