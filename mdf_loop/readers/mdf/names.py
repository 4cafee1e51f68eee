"""Names in an MDF graph that nothing has: in expressions, and in the arguments of functions."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mdf_loop.readers.expressions.calls import BUILTINS, MODULES
from mdf_loop.readers.expressions.text import number_in, variables
from mdf_loop.readers.mdf.node import CONTROL

ALWAYS = {"t", "true", "false", "inf", "nan", "pi", "e"} | set(MODULES)
"""What MDF's engine knows, or reads as a text or number, wherever it stands."""

PUBLISHED = ("iteration", "finished")
"""What a loop that runs in steps tells its node of itself, behind its id."""


@dataclass(frozen=True)
class UnknownName:
    """A name that an expression or an argument reads and that its node does not have.

    Attributes
    ----------
    place : tuple of str
        Graph, node and what it stands in there; for an argument its name as well.
    name, meant : str
        The name, and one that is there and much like it (empty if there is none).
    """

    place: tuple[str, ...]
    name: str
    meant: str

    def __str__(self) -> str:
        if "::" in self.name:
            said = f"{'/'.join(self.place)}: there is no function {self.name!r}"
            return said + (f"; did you mean {self.meant!r}?" if self.meant else "")
        what = f"argument {self.place[3]!r} reads" if len(self.place) > 3 else "it reads"
        said = f"{'/'.join(self.place[:3])}: {what} {self.name!r}, which the node does not have"
        return said + (f"; did you mean {self.meant!r}?" if self.meant else "")


def unknown_names(graph: Any) -> Iterator[UnknownName]:
    """Every name in a graph that is read and that nothing has, and functions that MDF does not know, in order."""
    from modeci_mdf.functions.standard import mdf_functions

    for node in graph.nodes:
        things = (*node.functions, *node.parameters)
        known = [thing.id for thing in (*node.input_ports, *things)]
        known += [f"{thing.id}_{what}" for thing in things if thing.function == "onnx::Loop" for what in PUBLISHED]
        for thing in (*things, *node.output_ports):
            arguments = getattr(thing, "args", None) or {}
            local = [*known, *(arguments if not getattr(thing, "function", None) else ())]
            place = (str(graph.id), node.id, thing.id)
            function = getattr(thing, "function", None)
            if isinstance(function, str) and "::" in function and function not in mdf_functions:
                close = difflib.get_close_matches(function, [*mdf_functions, *CONTROL], 1)
                yield UnknownName(place, function, close[0] if close else "")
            for attribute in ("value", "default_initial_value", "time_derivative"):
                yield from _unknown(getattr(thing, attribute, None), local, place)
            for key, value in arguments.items():
                yield from _unknown(value, known, (*place, str(key)))


def _unknown(source: Any, known: Iterable[str], place: tuple[str, ...]) -> Iterator[UnknownName]:
    """The unknown names in one text, each once."""
    if not isinstance(source, str) or source in known or not source or number_in(source) is not None:
        return
    try:
        tree = ast.parse(source.strip(), mode="eval").body
        names = variables(tree)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return  # a text, or what is told when it is read
    for name in dict.fromkeys(names):
        if name not in known and name not in ALWAYS and name not in BUILTINS:
            close = difflib.get_close_matches(name, list(known), 1)
            yield UnknownName(place, name, close[0] if close else "")
