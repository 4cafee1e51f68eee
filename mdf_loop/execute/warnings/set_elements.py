"""What a run says of arrays that a body changes in place, and of what they cannot hold.

A Python function that changes a row in place changes its array in numpy, and only a copy here.  Elements of whole numbers cut
fractions off, and a sum of booleans is a boolean.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.execute.interpret import Arguments, InterpretedLoop
from mdf_loop.execute.warnings.ended_loop import EndedLoop, value_kind
from mdf_loop.ir import Carried, Node
from mdf_loop.options import Run

LOOKED_AT = 100
"""In so many iterations a fraction is looked for that an array of whole numbers cuts off."""


def refuse_arrays(executor: InterpretedLoop, given: Arguments, run: Run) -> None:
    """See in the first iteration that values that must be numbers are: once for values of the same ranks.

    Raises
    ------
    MalformedBody
        One is an array, and what a Python function does to it would be lost.
    """
    if executor.loop.body.numbers:
        ranks = tuple([getattr(x, "ndim", 0) for x in (*given.carried, *given.captured, *given.scanned)])
        EndedLoop(executor, (), given, run, run.stream.save(), 0).once(_first_iteration, ranks)


def _first_iteration(begun: EndedLoop) -> None:
    for _ in begun.first_iterations(1):  # the iteration itself sees to it
        return


def warn_of_set_elements(ended: EndedLoop) -> None:
    """Say that a fraction was cut off, or that a sum stayed a boolean, if that happened."""
    for carried, before, after in zip(ended.loop.carried, ended.given.carried, ended.results, strict=False):
        kind = value_kind(before)
        if kind == "b" and value_kind(after) == "b":
            _warn_of_boolean(carried, ended)
        elif kind in _WHOLE and value_kind(after) == kind and ended.once(_set_elements) and not ended.is_inner:
            return _warn_of_fractions(ended)
    return None


def _set_elements(ended: EndedLoop) -> list[Node]:
    return [node for node in ended.loop.body.nodes if node.op == "setitem"]


def _warn_of_boolean(carried: Carried, ended: EndedLoop) -> None:
    body = ended.loop.body
    node = next((node for node in body.nodes if carried.output in node.outputs), None)
    if node is not None and node.op == "add":
        said = (
            f"{body.at(carried.output)}{carried.input} begins as a boolean, and a sum of booleans is one too, which "
            "counts nothing; begin with 0, or write logical_or(...) if that is meant"
        )
        ended.say(said, "boolean", carried.input)


def _warn_of_fractions(ended: EndedLoop) -> None:
    kinds_that_stay, kinds = ended.noted("kinds of which no fraction is cut off"), ended.kinds
    if kinds in kinds_that_stay:
        return
    for session, program in ended.first_iterations(min(ended.lasted, LOOKED_AT)):
        triples = [(node, *(session.env[program.slot(name)] for name in node.inputs[:2])) for node in ended.once(_set_elements)]
        pairs = [(node, np.asarray(new)) for node, old, new in triples if value_kind(old) in _WHOLE and value_kind(new) == "f"]
        if not pairs:
            kinds_that_stay[kinds] = True
            return
        for node, new in pairs:
            if np.any(np.isfinite(new) & (new != np.trunc(new))):
                place = ended.loop.body.at(node.outputs[0])
                said = f"{place}a fraction is set into an array of whole numbers, which cuts it off; begin with 0.0"
                return ended.say(said, "fraction")


_WHOLE = "i", "u"
