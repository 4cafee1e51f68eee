"""Models at the level of what their authors wrote: one box for an equation, with its text, instead of one for each operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mdf_loop.errors import LoopError
from mdf_loop.models.explaining import short
from mdf_loop.pictures.boxes import CONDITION, INPUT, PLAIN, Cluster
from mdf_loop.pictures.of_bodies import BodyDrawer, Scope
from mdf_loop.readers.expressions.derivatives import STEP
from mdf_loop.readers.expressions.equation_texts import Equations, check_names, equations_in, is_equations, texts_of
from mdf_loop.readers.expressions.expression_text import next_of, refuse_length, tree_of, variables

WIDEST = 44
"""Letters in a line of a box: longer equations are broken."""

MOST_LINES = 6
"""Lines of one equation that are shown; the tip has all of it."""


def equations_of(source: Any) -> Equations | None:
    """The equations of a body that is written as equations; None for any other form, and where they cannot be read."""
    if not is_equations(source):
        return None
    try:
        said = equations_in(source)
        check_names(said)
    except LoopError:  # check and run say what is wrong
        return None
    return said


def broken(text: str) -> list[str]:
    """An equation in lines that fit a box: broken where the fewest brackets are open, before an operator if possible."""
    lines, rest = list[str](), " ".join(text.split())
    while len(rest) > WIDEST:
        at = min(_breaks(rest), default=(0, False, -WIDEST))[2]
        lines.append(rest[:-at].rstrip())
        rest = "    " + rest[-at:].lstrip()
    lines.append(rest)
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "    ..."]


def _breaks(text: str) -> Iterator[tuple[int, bool, int]]:
    """Spaces where a line may end: how many brackets are open, whether no operator follows, and the place, far ones first."""
    depth = 0
    for at, letter in enumerate(text[: WIDEST + 1]):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == " " and at >= WIDEST // 4:
            yield depth, text[at + 1 : at + 2] not in {*"+-*/<>=&|%@"}, -at


def iteration_of(said: Equations) -> str:
    """The title of what runs in each iteration."""
    return "each iteration" + (f": a step of {STEP} by {said.method or 'euler'}" if said.derivatives else "")


class EquationDrawer:
    """Adds the equations of one body to a picture."""

    def __init__(self, drawer: BodyDrawer, cluster: Cluster, said: Equations) -> None:
        self.drawer, self.cluster, self.said = drawer, cluster, said

    def loop(self, outer: Scope, given: Mapping[str, Any]) -> list[str]:
        """What an iteration begins with, its equations and its condition.

        Parameters
        ----------
        outer : mapping
            Where the values around the loop come from.
        given : mapping
            The arguments of the loop by the names of what it carries and scans, as the model has them.

        Returns
        -------
        list of str
            The keys of the boxes of what the loop gives: carried values, then collected ones.
        """
        begin, said = self._begin(outer, given), self.said
        texts = {name: text for name, text in said.let.items() if name not in said.stages}
        begin |= {name: self._box(name, text) for name, text in texts.items()}
        carried = {name: self._carried(name, text) for name, text in said.carried.items()}
        new = {name: self._box(*shown) for name, shown in carried.items()}
        scope = {**begin, **{next_of(name): key for name, key in new.items()}}
        for name, text in texts.items():  # boxes first and arrows then: ``let`` has no order
            self._arrows(begin[name], text, scope)
        for name, (title, text) in carried.items():
            self._arrows(new[name], text if title == name else f"({text}) * {STEP}", scope)
        for name, key in new.items():
            self.drawer.arrow(key, begin[name], "next iteration", is_back=True)
        after = {**scope, **new}
        collected = [self._equation(name, text, after, "collect ") for name, text in said.collected.items()]
        if said.going is not None:
            self._equation("while", said.going, after, kind=CONDITION)
        return [*new.values(), *collected]

    def _begin(self, outer: Scope, given: Mapping[str, Any]) -> dict[str, str]:
        scope, each = (
            dict(outer),
            {**dict.fromkeys(self.said.carried, "starts at"), **dict.fromkeys(self.said.scanned, "rows of")},
        )
        read = set(names_in(self.said))
        if self.said.index in read and self.said.index not in outer:
            scope[self.said.index] = self.drawer.box(self.cluster, self.said.index, "iteration number", kind=INPUT)
        for name, word in each.items():
            text = short(given[name]) if name in given else ""
            scope[name] = self.drawer.box(self.cluster, name, *(broken(f"{word} {text}") if text else [""]), kind=INPUT)
            for source in names_read(text):
                self.drawer.arrow(outer.get(source), scope[name])
        return scope

    def _carried(self, name: str, text: str) -> tuple[str, str]:
        """The title and the equation of a carried value; that of a derivative as its author wrote it."""
        slope = self.said.derivatives.get(name)
        return (name, text) if slope is None else (f"d{name}/dt", slope)

    def _equation(self, name: str, text: str, scope: Scope, word: str = "", kind: str = PLAIN) -> str:
        key = self._box(name, text, word, kind)
        self._arrows(key, text, scope)
        return key

    def _box(self, name: str, text: str, word: str = "", kind: str = PLAIN) -> str:
        joint = " " if kind == CONDITION else " = "
        whole = f"{word}{name}{joint}{text}"
        return self.drawer.box(self.cluster, *broken(whole), kind=kind, tip=whole)

    def _arrows(self, key: str, text: str, scope: Scope) -> None:
        for name in names_read(text):
            self.drawer.arrow(scope.get(name), key)


def names_in(said: Equations) -> Iterator[str]:
    """The names that equations read."""
    for _, _, text in texts_of(said):
        yield from names_read(text)


def names_read(text: str) -> list[str]:
    """The names that an expression reads; none of what is no expression."""
    try:
        refuse_length(text, ())
        return list(dict.fromkeys(variables(tree_of(text))))
    except (LoopError, SyntaxError, ValueError, MemoryError, RecursionError):
        return []
