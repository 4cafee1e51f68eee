"""What a run says of arrays that a body changes in place, and of what they cannot hold.

A Python function that changes a row in place changes its array in numpy, and only a copy here.  Elements of whole numbers cut
fractions off, and a sum of booleans is a boolean.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.execute.interpret import Arguments, InterpretedLoop
from mdf_loop.execute.warnings.ended_loop import EndedLoop
from mdf_loop.ir import Body, Carried
from mdf_loop.options import Run

LOOKED_AT = 100
"""In so many iterations a fraction is looked for that an array of whole numbers cuts off."""


class SetElements:
    """What there is to look at in a body; nothing for nearly all.

    Parameters
    ----------
    body : Body
    """

    def __init__(self, body: Body) -> None:
        self.body, self._ranks, self._whole = body, set[tuple[int, ...]](), set[tuple[str, ...]]()
        self._sets = [] if body.typed else [node for node in body.nodes if node.op == "setitem"]

    def refuse_arrays(self, executor: InterpretedLoop, given: Arguments, run: Run) -> None:
        """See in the first iteration that values that must be numbers are: once for values of the same ranks.

        Raises
        ------
        MalformedBody
            One is an array, and what a Python function does to it would be lost.
        """
        if not self.body.numbers:
            return
        ranks = tuple([getattr(x, "ndim", 0) for x in (*given.carried, *given.captured, *given.scanned)])
        if ranks in self._ranks:
            return
        begun = EndedLoop(executor, (), given, run, run.stream.save(), 0)
        for _ in begun.first_iterations(1):  # the iteration itself sees to it
            self._ranks.add(ranks)

    def warn(self, ended: EndedLoop) -> None:
        """Say that a fraction was cut off, or that a sum stayed a boolean, if that happened."""
        for carried, before, after in zip(ended.loop.carried, ended.given.carried, ended.results, strict=False):
            kind = value_kind(before)
            if kind == "b" and value_kind(after) == "b":
                self._warn_of_boolean(carried, ended.run)
            elif kind in _WHOLE and self._sets and value_kind(after) == kind and not ended.is_inner:
                return self._warn_of_fractions(ended)
        return None

    def _warn_of_boolean(self, carried: Carried, run: Run) -> None:
        node = next((node for node in self.body.nodes if carried.output in node.outputs), None)
        if node is not None and node.op == "add":
            said = (
                f"{self.body.at(carried.output)}{carried.input} begins as a boolean, and a sum of booleans is one too, which "
                "counts nothing; begin with 0, or write logical_or(...) if that is meant"
            )
            run.warn_once((id(self.body), "boolean", carried.input), said)

    def _warn_of_fractions(self, ended: EndedLoop) -> None:
        given = ended.given
        kinds = tuple(map(value_kind, (*given.carried, *given.captured, *given.scanned)))
        if kinds in self._whole:
            return
        for session, program in ended.first_iterations(min(ended.lasted, LOOKED_AT)):
            triples = [(node, *(session.env[program.slot(name)] for name in node.inputs[:2])) for node in self._sets]
            pairs = [
                (node, np.asarray(new)) for node, old, new in triples if value_kind(old) in _WHOLE and value_kind(new) == "f"
            ]
            if not pairs:  # types stay as they are
                self._whole.add(kinds)
                return
            for node, new in pairs:
                if np.any(np.isfinite(new) & (new != np.trunc(new))):
                    said = (
                        f"{self.body.at(node.outputs[0])}a fraction is set into an array of whole numbers, which cuts it off; "
                        "begin with 0.0"
                    )
                    ended.run.warn_once((id(self.body), "fraction"), said)
                    return


_WHOLE = "i", "u"


def value_kind(value: Any) -> str:
    """The kind of numpy's type of a value; empty for what has none."""
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind
    return {bool: "b", int: "i", float: "f", complex: "c"}.get(type(value), "")
