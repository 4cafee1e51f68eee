"""A Step as text, for people: what ``explain(steps=True)`` shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mdf_loop.step.records import Apply, BranchRegion, LoopRegion, Reduction, Region, Shape, Value


def printed(region: Region) -> str:
    """The text of a Step.

    >>> from mdf_loop.step.build import Builder
    >>> from mdf_loop.step.records import Type
    >>> b = Builder()
    >>> x = b.param(Type(np.dtype(np.float64), (3,)))
    >>> print(printed(b.closed([b.add(b.mul(x, 2), 1)])))
    step (a: float64[3]) {
      v1: float64[3] = mul a, 2.0
      v2: float64[3] = add v1, 1.0
      give v2
    }
    """
    return "\n".join(_Text().whole(region))


class _Text:
    """Names for values, and lines."""

    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.given = self.made = 0

    def whole(self, region: Region) -> Iterator[str]:
        """The lines of a Step."""
        yield f"step ({self._params(region)}) {{"
        yield from ("  " + line for line in self._inside(region))
        yield "}"

    def _params(self, region: Region) -> str:
        for param in region.params:
            self.names[param] = _letters(self.given)
            self.given += 1
        return ", ".join(f"{self.names[param]}: {param.type}" for param in region.params)

    def _inside(self, region: Region) -> Iterator[str]:
        for value in region.values:
            self.made += 1
            self.names[value] = f"v{self.made}"
            yield from self._lines(value)
        yield f"give {', '.join(map(self._text, region.results))}"

    def _lines(self, value: Value) -> Iterator[str]:
        shown = f": {value.type}" if value.type.dtype is not None else ""
        args = ", ".join(map(self._text, value.args))
        line = f"{self.names[value]}{shown} = {value.op}{_attr(value.attr)} {args}".rstrip()
        if isinstance(value.attr, LoopRegion):
            yield f"{line} ({self._params(value.attr.body)}) {{"
            yield from ("  " + inner for inner in self._inside(value.attr.body))
            yield "}"
        elif isinstance(value.attr, BranchRegion):
            for start, region in ((f"{line} {{", value.attr.then), ("} else {", value.attr.other)):
                yield start
                yield from ("  " + inner for inner in self._inside(region))
            yield "}"
        else:
            yield line

    def _text(self, value: Value) -> str:
        if value.op != "const":
            return self.names.get(value, "?")
        if isinstance(value.attr, np.ndarray):
            return str(value.attr.tolist()) if value.attr.size <= 4 else str(value.type)
        return str(value.attr)


def _attr(attr: Any) -> str:
    """What an operation's attribute adds to its name."""
    if isinstance(attr, Apply):
        return f" {attr.node.op}"
    if isinstance(attr, Reduction):
        return f" {attr.kind} over {', '.join(map(str, attr.axes))}{', kept' if attr.keep else ''}"
    if isinstance(attr, Shape):
        return f" [{','.join('?' if n is None else str(n) for n in attr.lengths)}]"
    if isinstance(attr, LoopRegion | BranchRegion) or attr is None:
        return ""
    if isinstance(attr, tuple) and all(isinstance(s, slice) for s in attr):
        return f" [{', '.join(map(_slice, attr))}]"
    return f" {attr}"


def _slice(s: slice) -> str:
    parts = ["" if n is None else str(n) for n in (s.start, s.stop, s.step)]
    return ":".join(parts if parts[2] else parts[:2])


_LETTERS = "abcdefghijklmnopqrstuwxyz"
"""Of parameters; v is for what is computed."""


def _letters(number: int) -> str:
    """a, b, ..., z, a1, b1, ..."""
    rest, place = divmod(number, len(_LETTERS))
    return f"{_LETTERS[place]}{rest or ''}"
