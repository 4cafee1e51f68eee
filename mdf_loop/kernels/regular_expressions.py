"""Regular expressions in RE2's syntax, which ONNX asks for, made into Python's.

Both read most patterns alike.  Where they differ, RE2's reading is spelled out, and what RE2 does not have
(backreferences, lookaround, atomic groups) is refused, so that no pattern means something else here.
"""

from __future__ import annotations

import functools
import re
import sys

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

_TOKEN = re.compile(
    r"""
      (?P<quoted> \\Q (?P<literal>.*?) (?: \\E | \Z ) )
    | (?P<escape> \\ (?: x\{[0-9A-Fa-f]+\} | x[0-9A-Fa-f]{2} | 0[0-7]{0,2} | [1-7][0-7]{1,2} | . ) )
    | \[ (?P<set> \^? \]? (?: \[:\^?[a-z]+:\] | \\. | [^]\\] )* ) \]
    | \(\? (?: P?<(?P<name>\w+)> | (?P<flags>[imsU]*(?:-[imsU]+)?) (?P<end>[:)]) )
    | (?P<refused> \(\? | (?: [*+?] | \{\d+(?:,\d*)?\} ) \+ )
    | (?P<brace> \{ (?! \d+(?:,\d*)?\} ) )
    | (?P<dollar> \$ )
    | .
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)

_IN_SET = re.compile(
    r"(?P<named>\[:(?P<negated>\^?)(?P<name>[a-z]+):\])"
    r"|(?P<escape>\\(?:x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|0[0-7]{0,2}|[1-7][0-7]{1,2}|.))|(?P<special>[][&|~])",
    re.DOTALL,
)


@functools.lru_cache(maxsize=64)
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern of RE2, ready to match.

    Raises
    ------
    ValueError
        It is not a pattern of RE2.
    NotImplementedError
        It uses what Python's patterns have no words for: Unicode's classes, ungreedy mode, flags in the middle.
    """
    try:
        return re.compile(_TOKEN.sub(_token, pattern))
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error


def _token(match: re.Match[str]) -> str:
    """One token outside of sets."""
    if match["quoted"] is not None:
        return re.escape(match["literal"])
    if match["escape"] is not None:
        return _escape(match["escape"], inside=False)
    if match["set"] is not None:
        return f"[{_set(match['set'])}]"
    if match["name"] is not None:
        return f"(?P<{match['name']}>"
    if match["end"] is not None:
        return _flags(match)
    if match["refused"] is not None:
        raise ValueError(f"{match['refused']!r}, at {match.start()} of {match.string!r}, begins something that RE2 does not have")
    if match["brace"] is not None:
        return r"\{"
    if match["dollar"] is not None:
        return _dollar(match.string)
    return match[0]


def _flags(match: re.Match[str]) -> str:
    """A group with flags, or flags for what follows, which Python takes at the very beginning only."""
    flags = match["flags"]
    if "U" in flags:
        raise NotImplementedError(f"ungreedy mode, as in {match.string!r}, is not known here")
    if match["end"] == ")" and (match.start() or "-" in flags):
        raise NotImplementedError(f"flags for the rest of a pattern must stand at its beginning; got {match.string!r}")
    return match[0]


def _dollar(pattern: str) -> str:
    """The end of the text, where Python's ``$`` is also the place before a last line break; with the flag m the end of a line."""
    if not re.search(r"\(\?[isU]*m", pattern):
        return r"\Z"
    if re.match(r"\(\?[imsU]*\)", pattern) is None:
        raise NotImplementedError(f"$ with the flag m in a part of the pattern is not known here; got {pattern!r}")
    return "$"


def _set(text: str) -> str:
    """What stands between brackets."""
    front = re.match(r"\^?\]?", text)[0]  # type: ignore[index]  # a first "]" is an element
    return front.replace("]", r"\]") + _IN_SET.sub(_element, text[len(front) :])


def _element(match: re.Match[str]) -> str:
    if match["escape"] is not None:
        return _escape(match["escape"], inside=True)
    if match["special"] is not None:
        return re.escape(match["special"])
    if match["name"] not in _NAMED:
        raise ValueError(f"there is no class {match[0]}; RE2 has {', '.join(_NAMED)}")
    return _ranges(_NAMED[match["name"]], bool(match["negated"]))


def _escape(text: str, *, inside: bool) -> str:
    """A backslash and what belongs to it, inside or outside of a set."""
    letter = text[1]
    if letter.lower() in _LETTERS:
        ranges = _ranges(_LETTERS[letter.lower()], letter.isupper())
        return ranges if inside else f"[{ranges}]"
    if letter == "x" and len(text) > 2:
        return re.escape(chr(int(text[2:].strip("{}"), 16)))
    if letter == "0" or len(text) > 2:
        return re.escape(chr(int(text[1:], 8)))
    if letter in "aftnrv" or (letter.isascii() and not letter.isalnum()):
        return text if letter.isalpha() else re.escape(letter)
    if not inside and letter in "AzbB":
        return {"A": r"\A", "z": r"\Z", "b": r"(?a:\b)", "B": r"(?a:\B)"}[letter]
    if letter in "pPC":
        raise NotImplementedError(f"Unicode's classes and single bytes ({text}...) are not known here")
    raise ValueError(f"RE2 has no {text}{' inside of a set' if inside else ''}")


def _ranges(ends: str, negated: bool) -> str:
    """Ranges by their first and last characters, or all that is between them, as a set has them."""
    if negated:
        inner = [
            chr(ord(end) + step) for end, step in zip(ends, (-1, 1) * (len(ends) // 2), strict=True) if end != "\0" or step > 0
        ]
        ends = "".join(inner if ends[0] == "\0" else ["\0", *inner]) + chr(sys.maxunicode)
    return "".join(f"{re.escape(a)}-{re.escape(b)}" for a, b in zip(ends[::2], ends[1::2], strict=True))
