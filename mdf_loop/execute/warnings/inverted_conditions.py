"""A run says where a condition looks inverted: false of the initial values already, so that the first iteration is the last."""

from __future__ import annotations

from mdf_loop.execute.endless import computing, holds
from mdf_loop.execute.interpret import InterpretedBody
from mdf_loop.execute.warnings.ended_loop import EndedLoop
from mdf_loop.plan.invariants import is_pure

INVERTED = "is the condition to go on, and false at the beginning, so only one iteration runs; if it is meant to end the loop, "


def warn_of_inverted(ended: EndedLoop) -> None:
    """Say that a condition ended a loop behind its first iteration, and was false of the initial values too."""
    loop, run, count = ended.loop, ended.run, ended.given.trip_count
    if ended.lasted != 1 or (count is not None and count <= 1) or loop.scanned:
        return
    condition = ended.once(_of_carried)
    if (id(loop.body), "nan") in run.warned:  # for which no comparison holds
        return
    if condition is None or ended.is_inner or _goes_on(condition, ended) is not False:
        return
    what = f"while {INVERTED}write while: not (...)" if loop.body.ends else f"what the body returns first {INVERTED}negate it"
    ended.say(f"{ended.name}: {loop.body.at(loop.keep_going)}{what}", "inverted")


def _of_carried(ended: EndedLoop) -> InterpretedBody | None:
    """What computes the condition of carried and captured values; None if there is more that it is computed of."""
    loop = ended.loop
    if loop.keep_going is None or loop.keep_going not in loop.body.places:
        return None
    carried = {name for c in loop.carried for name in (c.input, c.output)}
    made = computing(loop.body, [loop.keep_going], carried.union(loop.body.captures))
    reads = {*made.body.inputs}
    is_known = not reads.isdisjoint(carried) and reads <= carried.union(loop.body.captures)
    return made if is_known and all(map(is_pure, made.body.nodes)) else None


def _goes_on(condition: InterpretedBody, ended: EndedLoop) -> bool | None:
    """Whether the condition is true of the initial values; None if that is not known."""
    loop, given = ended.loop, ended.given
    known = dict(zip(loop.body.captures, given.captured, strict=True))
    known |= {name: value for c, value in zip(loop.carried, given.carried, strict=True) for name in (c.input, c.output)}
    return holds(condition, known, ended.run)
