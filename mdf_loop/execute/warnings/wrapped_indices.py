"""A run says where ``s[i - 1]`` is the last element in its first iteration: negative indices count from the end, as in Python.

Only an index ``i - constant`` into a captured array is looked at, and only if the iteration number is for indices alone: one that
is compared, or chooses, may see to the first iteration.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from mdf_loop.execute.endless import computed, computing
from mdf_loop.execute.warnings.ended_loop import EndedLoop
from mdf_loop.ir import Body, Loop
from mdf_loop.options import Run
from mdf_loop.plan.invariants import is_pure

FAR = 1 << 30
"""An iteration in which an index that grows with the iterations is positive; one that counts from the end on purpose is not."""


def warn_of_wrapped_indices(ended: EndedLoop) -> None:
    """Say that an index counted from the end of an array."""
    for place, said in ended.once(_found).items() if ended.given.captured else ():
        ended.say(f"{ended.name}: {said}", "wrapped index", place)


def _found(ended: EndedLoop) -> dict[str, str]:
    return dict(wrapped_indices(ended.loop, ended.run))


def wrapped_indices(loop: Loop, run: Run) -> Iterator[tuple[str, str]]:
    """What to say of a loop, by the places in its body."""
    body, number = loop.body, loop.index
    parts = [node for node in body.nodes if node.op == "getitem"]
    indices = {name for node in parts for name in node.inputs[1:]}
    uses = [node for node in body.nodes if number in node.reads and node.op != "getitem"]
    if number is None or not uses or any(indices.isdisjoint(node.outputs) for node in uses):
        return
    for node in parts:
        for k in _single(node.attrs["index"]) if node.inputs[0] in body.captures else ():
            first = first_index(body, number, node.inputs[1 + k], run)
            if first is not None and first < 0:
                index, array = f"{number} - {-first}", node.inputs[0]
                said = f"in iteration 0 the index {index} of {array} is {first}, which counts from the end, as in Python"
                cure = f"write maximum({index}, 0) there, or where({number} >= {-first}, ..., ...) with another value for it"
                yield f"{array}[{index}]", f"{body.at(node.outputs[0])}{said}; {cure}"


def _single(index: Any) -> Iterator[int]:
    """The numbers of computed values that are an index, and no bound of a slice."""
    kind, *parts = index if isinstance(index, tuple) else ("", ())
    if kind == "value":
        yield parts[0]
    for part in parts if kind == "tuple" else ():
        yield from _single(part)


def first_index(body: Body, number: str, name: str, run: Run) -> int | None:
    """What the iteration number, or a constant more or less than that, is in the first iteration; None for any other value."""
    if name == number:
        return 0
    made = computing(body, [name], {number})
    if made.body.inputs != (number,) or len(made.body.nodes) != 1 or not is_pure(made.body.nodes[0]):
        return None
    with contextlib.suppress(TypeError, ValueError, ArithmeticError):  # several numbers, or none
        first, later = (int((computed(made, {number: iteration}, run) or [0])[0]) for iteration in (0, FAR))
        return first if later == FAR + first else None
    return None
