"""Matching a regular expression against a whole text, in time that grows with both and never faster.

The parts of the pattern become steps of a machine, which is in many places at once (Thompson's construction): for each
character of the text the set of places is followed.  Sets that were seen are kept, within bounds, with where each character
leads.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

MOST_STEPS = 100_000
"""Steps that a pattern may become; RE2 refuses larger ones as well."""

MOST_KEPT = 50_000
"""Places in all the sets that are kept of one pattern, each with where its characters lead."""

EDGE, NEWLINE, WORD, OTHER = range(4)
"""Kinds of characters, as far as a place in the text depends on them; EDGE is none at all."""


@dataclass(frozen=True)
class Item:
    """Some characters: ranges of them, a general category of Unicode, or all others."""

    ranges: tuple[tuple[str, str], ...]
    category: str = ""
    is_negated: bool = False

    def holds(self, character: str) -> bool:
        """Whether a character is among those that are named, negated or not."""
        if self.category:
            found = unicodedata.category(character)
            return self.category == "Any" or (found.startswith(self.category) and found != "Cn")
        return any(first <= character <= last for first, last in self.ranges)


@dataclass(frozen=True)
class Characters:
    """One character of some; with ``folded`` upper and lower case are the same."""

    items: tuple[Item, ...]
    is_negated: bool = False
    folded: bool = False
    times: int = 1

    def holds(self, character: str) -> bool:
        """Whether a character is one of them."""
        alike = _alike().get(character, character) if self.folded else character
        return any(any(map(item.holds, alike)) != item.is_negated for item in self.items) != self.is_negated


@dataclass(frozen=True)
class Assertion:
    """A place in the text: its begin or end, that of a line, or the border of a word."""

    place: str
    times: int = 1

    def is_met(self, before: int, after: int) -> bool:
        """Whether it is between characters of these kinds."""
        if self.place.endswith("border"):
            return ((before == WORD) != (after == WORD)) == (self.place == "border")
        beside = before if self.place.startswith("begin") else after
        return beside == EDGE or (beside == NEWLINE and self.place.endswith("line"))


@dataclass(frozen=True)
class Row:
    """Parts one behind the other."""

    parts: tuple[Part, ...]

    @property
    def times(self) -> int:
        """How often the most repeated part in it is repeated."""
        return max((part.times for part in self.parts), default=1)


class Alternatives(Row):
    """Parts of which one is there."""


@dataclass(frozen=True)
class Repeated:
    """A part so many times; ``most`` is None for any number."""

    part: Part
    least: int
    most: int | None
    times: int = field(init=False)

    def __post_init__(self) -> None:
        count = self.least if self.most is None else self.most
        object.__setattr__(self, "times", max(count, 1) * self.part.times)


Part = Characters | Assertion | Row | Repeated


@cache
def _alike() -> dict[str, str]:
    """The characters that differ in case alone, for each of them."""
    groups: dict[str, str] = {}
    for character in map(chr, range(0x1E944)):
        folded = next((text for text in (character.casefold(), character.lower()) if len(text) == 1), character)
        groups[folded] = groups.get(folded, "") + character
    return {character: group for group in groups.values() if len(group) > 1 for character in group}


@dataclass
class _Places:
    """Where the machine is, and behind what kind of character; ``then`` keeps where characters lead."""

    steps: frozenset[int]
    before: int
    then: dict[str, _Places] = field(default_factory=dict)


class Matcher:
    """A pattern, ready to match.

    Parameters
    ----------
    pattern : Part

    Raises
    ------
    ValueError
        It is too large.
    """

    def __init__(self, pattern: Part) -> None:
        self._steps: list[tuple[Characters | Assertion | None, tuple[int, ...]]] = [(None, ())]
        start = self._add(pattern, 0)
        self._looks_around = any(isinstance(what, Assertion) for what, _ in self._steps)
        self._first = frozenset([start])
        self._forget()

    def _forget(self) -> None:
        self._kept: dict[tuple[frozenset[int], int], _Places] = {}
        self._size = 0

    def fullmatch(self, text: str) -> bool:
        """Whether the whole of a text matches."""
        places = self._places(self._first, EDGE)
        for character in text:
            places = places.then.get(character) or self._step(places, character)
            if not places.steps:
                return False
        return 0 in self._reached(places, EDGE)

    def _new(self, what: Characters | Assertion | None, *following: int) -> int:
        if len(self._steps) >= MOST_STEPS:
            raise ValueError(f"the regular expression is too large: written out it has more than {MOST_STEPS} parts")
        self._steps.append((what, following))
        return len(self._steps) - 1

    def _add(self, part: Part, following: int) -> int:
        """Add the steps of a part that leads to a step; returns where it begins.  Step 0 is the end."""
        if isinstance(part, Alternatives):
            return self._new(None, *(self._add(inner, following) for inner in part.parts))
        if isinstance(part, Row):
            for inner in reversed(part.parts):
                following = self._add(inner, following)
            return following
        if isinstance(part, Repeated):
            return self._add_repeated(part, following)
        return self._new(part, following)

    def _add_repeated(self, part: Repeated, following: int) -> int:
        start = following
        if part.most is None:
            start = self._new(None)
            self._steps[start] = (None, (self._add(part.part, start), following))
        for _ in range((part.most or part.least) - part.least):
            start = self._new(None, self._add(part.part, start), following)
        for _ in range(part.least):
            start = self._add(part.part, start)
        return start

    def _places(self, steps: frozenset[int], before: int) -> _Places:
        before = before if self._looks_around else OTHER
        found = self._kept.get((steps, before))
        if found is None:
            if self._size > MOST_KEPT:
                self._forget()
            found = self._kept[steps, before] = _Places(steps, before)
            self._size += len(steps) + 1
        return found

    def _step(self, places: _Places, character: str) -> _Places:
        """Where a character leads."""
        kind = _kind(character)
        holds: dict[int, bool] = {}  # by identity: repeated parts are the same object
        following: set[int] = set()
        for step in self._reached(places, kind):
            what, then = self._steps[step]
            if isinstance(what, Characters):
                if id(what) not in holds:
                    holds[id(what)] = what.holds(character)
                if holds[id(what)]:
                    following.update(then)
        self._size += 1
        places.then[character] = found = self._places(frozenset(following), kind)
        return found

    def _reached(self, places: _Places, after: int) -> Iterable[int]:
        """The steps that are reached without a character, in front of one of a kind."""
        seen, todo = set(places.steps), list(places.steps)
        while todo:
            what, following = self._steps[todo.pop()]
            if what is None or (isinstance(what, Assertion) and what.is_met(places.before, after)):
                new = [step for step in following if step not in seen]
                seen.update(new)
                todo += new
        return seen


def _kind(character: str) -> int:
    if character == "\n":
        return NEWLINE
    return WORD if character.isascii() and (character.isalnum() or character == "_") else OTHER
