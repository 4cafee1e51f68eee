"""A run says where ``s[i - 1]`` is the last element in its first iteration: negative indices count from the end, as in Python.

Only an index into a captured array is looked at that grows with the iteration number and is computed of this, constants and
captured values (a delay), and only if the iteration number is for indices alone: one that is compared, or chooses, may see to
the first iteration.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from mdf_loop.errors import LoopError
from mdf_loop.execute.endless import computing
from mdf_loop.execute.interpret import InterpretedBody
from mdf_loop.execute.warnings.ended_loop import EndedLoop
from mdf_loop.ir import Body, Loop
from mdf_loop.options import Run
from mdf_loop.plan.invariants import is_pure

FROM_END = "which counts from the end, as in Python"

FAR = 1 << 30
"""An iteration in which an index that grows with the iterations is positive; one that counts from the end on purpose is not."""


class Index(NamedTuple):
    """An index into a captured array: what reads it, the array, and what computes it."""

    output: str
    array: str
    made: InterpretedBody

    def first(self, number: str, values: Mapping[str, Any], run: Run) -> Any:
        """What it is in the first iteration; None if it does not grow with the iteration number, or there is none."""
        with contextlib.suppress(LoopError, TypeError, ValueError, ArithmeticError, IndexError), np.errstate(all="ignore"):
            given = [[iteration if name == number else values[name] for name in self.made.body.inputs] for iteration in (0, FAR)]
            first, later = (np.asarray(self.made(each, (), run)[0]) for each in given)
            return first if first.dtype.kind in "iu" and np.array_equal(later, FAR + first) else None
        return None


def warn_of_wrapped_indices(ended: EndedLoop) -> None:
    """Say that an index counted from the end of an array."""
    loop, given = ended.loop, ended.given
    if not given.captured or not (indices := ended.once(_growing)):
        return
    values = dict(zip(loop.body.captures, given.captured, strict=True))
    key = [np.asarray(values[name]).tobytes() for index in indices for name in index.made.body.inputs if name in values]
    latest = ended.noted("wrapped indices")  # with the values that indices are computed of
    if latest.get("key") != key:
        firsts = [(index, index.first(loop.index or "", values, ended.run)) for index in indices]
        found = [_in_words(index, loop, first, values) for index, first in firsts if first is not None and (first < 0).any()]
        latest.update(key=key, found=found)
    for said in latest["found"]:
        ended.say(f"{ended.name}: {said}", "wrapped index", said)


def _growing(ended: EndedLoop) -> list[Index]:
    return list(_growing_in(ended.loop))


def _in_words(index: Index, loop: Loop, first: np.ndarray, values: Mapping[str, Any]) -> str:
    """What to say of an index that is negative at first."""
    number, array = loop.index, index.array
    names = [name for name in index.made.body.inputs if name != number]
    is_name = len(names) == 1 and np.array_equal(first, -np.asarray(values[names[0]]))
    back = names[0] if is_name else "..." if first.ndim else str(-first)
    shown = f"{number} - {back}"
    of_names = f" (of {', '.join(names)})" if names and not is_name else ""
    said = f"in iteration 0 the index {shown} of {array}{of_names} is {first.min()}, {FROM_END}"
    cure = f"write maximum({shown}, 0) there, or where({number} >= {back}, ..., ...) with another value for it"
    return f"{loop.body.at(index.output)}{said}; {cure}"


def _growing_in(loop: Loop) -> Iterator[Index]:
    """The indices of a loop that may grow with its iteration number, if this is for indices alone."""
    body, number = loop.body, loop.index
    of_number, parts = {number}, [node for node in body.nodes if node.op == "getitem"]
    indices = {name for node in parts for name in node.inputs[1:]}
    for node in reversed(body.nodes):
        if not indices.isdisjoint(node.outputs) and node.op != "getitem":
            indices.update(node.reads)
    for node in body.nodes:
        if not of_number.isdisjoint(node.reads) and node.op != "getitem":
            of_number.update(node.outputs)
    uses = [node for node in body.nodes if not of_number.isdisjoint(node.reads) and node.op != "getitem"]
    if number is None or any(indices.isdisjoint(node.outputs) for node in uses):
        return
    for node in parts:
        for k in single(node.attrs["index"]) if node.inputs[0] in body.captures else ():
            made = computing_index(body, number, node.inputs[1 + k], body.captures)
            if made is not None and made.body.nodes:
                yield Index(node.outputs[0], node.inputs[0], made)


def computing_index(body: Body, number: str, name: str, captures: Container[str] = ()) -> InterpretedBody | None:
    """What computes an index of the iteration number and captured values; None if it depends on others, or not on the number."""
    made = computing(body, [name], {number})
    is_known = number in made.body.inputs and all(each == number or each in captures for each in made.body.inputs)
    return made if is_known and all(map(is_pure, made.body.nodes)) else None


def single(index: Any) -> Iterator[int]:
    """The numbers of computed values that are an index, and no bound of a slice."""
    kind, *parts = index if isinstance(index, tuple) else ("", ())
    if kind == "value":
        yield parts[0]
    for part in parts if kind == "tuple" else ():
        yield from single(part)
