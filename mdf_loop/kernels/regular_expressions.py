"""Regular expressions in RE2's syntax, which ONNX asks for: from a text to the parts it is made of.

What RE2 does not have (backreferences, lookaround, atomic groups) is refused, so that no pattern means something else
here.  :mod:`mdf_loop.kernels.matching` matches, in time that grows with pattern and text and never faster.
"""

from __future__ import annotations

import functools
import re
import sys
from dataclasses import dataclass

from mdf_loop.kernels.matching import Alternatives, Assertion, Characters, Item, Matcher, Part, Repeated, Row

DEEPEST, MOST_TIMES = 100, 1000
"""How deep groups may be nested, and how often a part may be repeated, with the repetitions around it: RE2's bound."""

_NAMED = {
    "alnum": "09AZaz",
    "alpha": "AZaz",
    "ascii": "\0\x7f",
    "blank": "\t\t  ",
    "cntrl": "\0\x1f\x7f\x7f",
    "digit": "09",
    "graph": "!~",
    "lower": "az",
    "print": " ~",
    "punct": "!/:@[`{~",
    "space": "\t\r  ",
    "upper": "AZ",
    "word": "09AZ__az",
    "xdigit": "09AFaf",
}
"""The named classes, by the first and last characters of their ranges."""

_LETTERS = {"d": "09", "s": "\t\n\f\r  ", "w": "09AZ__az"}
"""Classes such as ``\\d``, which are ASCII's in RE2, and whose white space has no vertical tab."""

_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

_PLACES = {"A": "begin", "z": "end", "b": "border", "B": "no border"}

_GROUP = re.compile(r"\((?:\?(?:P?<(?P<name>\w+)>|(?P<flags>[imsU]*(?:-[imsU]+)?)(?P<end>[:)])))?")

_REPEAT = re.compile(r"(?:[*+?]|\{(?P<least>[0-9]+)(?P<to>,(?P<most>[0-9]*))?\})(?P<lazy>\??)")

_CODE = re.compile(r"\\(?:x\{([0-9A-Fa-f]{1,8})\}|x([0-9A-Fa-f]{2})|(0[0-7]{0,2}|[1-7][0-7]{1,2}))")

_PROPERTY = re.compile(r"\\(?P<sign>[pP])(?:\{(?P<caret>\^?)(?P<name>\w+)\}|(?P<letter>\w))")

_MINOR = {"C": "cfos", "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps"}

_CATEGORIES = {"Any"} | {major + minor for major, minors in _MINOR.items() for minor in ("", *minors)}
"""Unicode's general categories."""


@functools.lru_cache(maxsize=16)
def compiled(pattern: str) -> Matcher:
    """A pattern of RE2, ready to match.

    Raises
    ------
    ValueError
        It is not a pattern of RE2.
    NotImplementedError
        It asks for a script of Unicode, or for single bytes.
    """
    if not isinstance(pattern, str):
        raise ValueError(f"{pattern!r} is not a regular expression: it is not UTF-8 text")
    return Matcher(_Reader(pattern).read())


@dataclass
class _Group:
    """A group that is open: what it is made of so far, and the flags around it."""

    flags: frozenset[str]
    alternatives: list[Part]
    row: list[Part]
    start: int


class _Reader:
    """Reads one pattern, from left to right; groups that are open are a stack."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0
        self.flags: frozenset[str] = frozenset()
        self.groups = [_Group(self.flags, [], [], 0)]
        self.is_repeatable = False

    def wrong(self, what: str) -> ValueError:
        """An error that says where it is."""
        return ValueError(f"{self.pattern!r} is not a regular expression of RE2: {what}, at {self.at}")

    def read(self) -> Part:
        """The whole pattern."""
        while self.at < len(self.pattern):
            self._part()
        if len(self.groups) > 1:
            self.at = self.groups[-1].start
            raise self.wrong("a ( without )")
        return self._closed()

    def _part(self) -> None:
        letter = self.pattern[self.at]
        repeat = _REPEAT.match(self.pattern, self.at)
        if repeat is not None:
            self._repeat(repeat)
        elif letter == "(":
            self._open()
        elif letter == ")":
            self._close()
        elif letter == "|":
            self._alternative()
        elif letter == "\\":
            self._escape()
        else:
            self._add(self._plain(letter))

    def _add(self, part: Part) -> None:
        self.groups[-1].row.append(part)
        self.is_repeatable = True

    def _plain(self, letter: str) -> Part:
        """A set, a place or a character."""
        if letter == "[":
            return self._set()
        self.at += 1
        if letter in "^$":
            return Assertion({"^": "begin", "$": "end"}[letter] + (" of line" if "m" in self.flags else ""))
        if letter == ".":
            return Characters((Item(() if "s" in self.flags else (("\n", "\n"),)),), is_negated=True)
        return self._characters((letter, letter))

    def _characters(self, *ranges: tuple[str, str]) -> Characters:
        return Characters((Item(ranges),), folded="i" in self.flags)

    def _open(self) -> None:
        found = _GROUP.match(self.pattern, self.at)
        if found is None or (self.pattern.startswith("(?", self.at) and len(found[0]) == 1):
            raise self.wrong(f"{self.pattern[self.at : self.at + 4]!r} begins something that RE2 does not have")
        if len(self.groups) > DEEPEST:
            raise self.wrong(f"groups are nested more than {DEEPEST} deep")
        if found["end"] != ")":
            self.groups.append(_Group(self.flags, [], [], self.at))
        if found["flags"]:
            on, _, off = found["flags"].partition("-")
            self.flags = (self.flags | set(on)) - set(off)
        self.at, self.is_repeatable = found.end(), bool(self.groups[-1].row)  # flags alone are no part

    def _close(self) -> None:
        if len(self.groups) == 1:
            raise self.wrong("a ) without (")
        part = self._closed()
        self.flags = self.groups.pop().flags
        self.at += 1
        self._add(part)

    def _closed(self) -> Part:
        self._alternative()
        made = self.groups[-1].alternatives
        return made[0] if len(made) == 1 else Alternatives(tuple(made))

    def _alternative(self) -> None:
        group = self.groups[-1]
        group.alternatives.append(Row(tuple(group.row)))
        group.row = []
        self.at, self.is_repeatable = self.at + (self.pattern[self.at : self.at + 1] == "|"), False

    def _repeat(self, found: re.Match[str]) -> None:
        """A repetition; whether it takes few or many does not matter where the whole text has to match."""
        if not self.is_repeatable:
            raise self.wrong(f"nothing in front of {found[0]} can be repeated, in RE2")
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(found[0][0], (0, None))
        if found["least"]:
            least = self._times(found["least"])
            most = self._times(found["most"]) if found["most"] else None if found["to"] else least
        row = self.groups[-1].row
        part = Repeated(row[-1], least, most)
        if (most is not None and most < least) or part.times > MOST_TIMES:
            raise self.wrong(f"RE2 repeats at most {MOST_TIMES} times, and {found[0]} is more, or runs backwards")
        row[-1] = part
        self.at, self.is_repeatable = found.end(), False

    def _times(self, digits: str) -> int:
        return int(digits) if len(digits) < 10 else MOST_TIMES + 1

    def _escape(self) -> None:
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter == "Q":
            end = self.pattern.find("\\E", self.at)
            text = self.pattern[self.at + 2 : end if end >= 0 else None]
            self.at = end + 2 if end >= 0 else len(self.pattern)
            for character in text:
                self._add(self._characters((character, character)))
            self.is_repeatable = bool(self.groups[-1].row)
        elif letter and letter in _PLACES:
            self.at += 2
            self._add(Assertion(_PLACES[letter]))
        else:
            item = self._class() or Item(((character := self._character(), character),))
            self._add(Characters((item,), folded="i" in self.flags))

    def _class(self) -> Item | None:
        """A class that begins with a backslash; None if there is none here."""
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter and letter.lower() in _LETTERS:
            self.at += 2
            return Item(_ranges(_LETTERS[letter.lower()]), is_negated=letter.isupper())
        if letter == "C":
            raise NotImplementedError(f"single bytes (\\C), as in {self.pattern!r}, are not known here")
        if letter not in ("p", "P"):
            return None
        found = _PROPERTY.match(self.pattern, self.at)
        if found is None:
            raise self.wrong(f"RE2 has no class {self.pattern[self.at : self.at + 4]}")
        name = found["name"] or found["letter"]
        if name not in _CATEGORIES:
            raise NotImplementedError(f"of Unicode's classes only general categories are known here, not {name!r}")
        self.at = found.end()
        return Item((), name, (found["sign"] == "P") != bool(found["caret"]))

    def _character(self) -> str:
        """One character, which may be written with a backslash."""
        letter, after = self.pattern[self.at], self.pattern[self.at + 1 : self.at + 2]
        if letter != "\\":
            self.at += 1
            return letter
        code = _CODE.match(self.pattern, self.at)
        if code is not None:
            number = int(code[1] or code[2], 16) if code[3] is None else int(code[3], 8)
            if number > sys.maxunicode:
                raise self.wrong(f"there is no character {code[0]}")
            self.at = code.end()
            return chr(number)
        if not after or not after.isascii() or (after.isalnum() and after not in _CONTROLS):
            raise self.wrong(f"RE2 has no \\{after}")
        self.at += 2
        return _CONTROLS.get(after, after)

    def _set(self) -> Characters:
        """What stands between brackets."""
        start = self.at
        negated = self.pattern.startswith("[^", start)
        self.at += 1 + negated
        first, items, ranges = self.at, [], []
        while self.at < len(self.pattern):
            if self.pattern[self.at] == "]" and self.at > first:
                self.at += 1
                return Characters((*items, Item(tuple(ranges))), negated, "i" in self.flags)
            item = self._named() or (self._class() if self.pattern[self.at] == "\\" else None)
            if item is not None:
                items.append(item)
            else:
                ranges.append(self._range())
        self.at = start
        raise self.wrong("a [ without ]")

    def _named(self) -> Item | None:
        end = self.pattern.find(":]", self.at) if self.pattern.startswith("[:", self.at) else -1
        if end < 0:
            return None
        name = self.pattern[self.at + 2 : end]
        if name.removeprefix("^") not in _NAMED:
            raise self.wrong(f"there is no class [:{name}:]; RE2 has {', '.join(_NAMED)}")
        self.at = end + 2
        return Item(_ranges(_NAMED[name.removeprefix("^")]), is_negated=name.startswith("^"))

    def _range(self) -> tuple[str, str]:
        """The first and last character of a range; one character is both."""
        first = last = self._character()
        if self.pattern.startswith("-", self.at) and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
            self.at += 1
            last = self._character()
        if last < first:
            raise self.wrong(f"the range {first}-{last} runs backwards")
        return first, last


def _ranges(ends: str) -> tuple[tuple[str, str], ...]:
    return tuple(zip(ends[::2], ends[1::2], strict=True))
