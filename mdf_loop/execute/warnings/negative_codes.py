"""A run says where data has a negative index: a choice that is coded as -1, by which ``q[c[i]]`` is the last element.

Only captured whole numbers are looked at that a body reads by the iteration number, for indices alone: a code that is compared
may mean something else, and the body sees to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator
from typing import NamedTuple

import numpy as np

from mdf_loop.errors import LoopError
from mdf_loop.execute.endless import computing
from mdf_loop.execute.interpret import InterpretedBody
from mdf_loop.execute.warnings.ended_loop import EndedLoop, value_kind
from mdf_loop.execute.warnings.shared_draws import is_of_elements
from mdf_loop.execute.warnings.wrapped_indices import FROM_END, single
from mdf_loop.ir import Body, Loop, Node
from mdf_loop.plan.invariants import is_pure


class Codes(NamedTuple):
    """Data that a body reads as an index.

    It has what reads by it, the data with its place among captured values and its column, and what computes the index of it.
    """

    output: str
    data: str
    place: int
    column: tuple[int, ...]
    made: InterpretedBody

    def negative(self, values: np.ndarray, ended: EndedLoop) -> str:
        """What to say of the first index that is negative, if there is one."""
        with contextlib.suppress(LoopError, TypeError, ValueError, ArithmeticError), np.errstate(all="ignore"):
            index = np.asarray(self.made([values], (), ended.run)[0])
            rows = np.flatnonzero((index < 0).reshape(len(index), -1).any(axis=1))
            if index.dtype.kind == "i" and len(rows):
                shown = f"{self.data}[{', '.join([ended.loop.index or '', *map(str, self.column)])}]"
                said = f"in iteration {rows[0]} an index that is made of {shown} is {index[rows[0]].min()}, {FROM_END}"
                cure = f"give codes from 0 on, or write where({shown} < 0, ..., ...) with another value there"
                return f"{ended.loop.body.at(self.output)}{said}; {cure}"
        return ""


def warn_of_negative_codes(ended: EndedLoop) -> None:
    """Say that an index in the data counted from the end of an array."""
    captured = ended.given.captured
    if not captured or not (codes := ended.once(_codes)):
        return
    data = [captured[each.place] for each in codes]
    key = [ended.lasted, *[(x.dtype, x.shape, x.tobytes()) for x in data if isinstance(x, np.ndarray)]]
    latest = ended.noted("negative codes")
    if latest.get("key") != key:
        latest.update(key=key, found=_found_in(ended, codes))
    for name, said in latest["found"].items():
        ended.say(f"{ended.name}: {said}", "negative code", name)


def _found_in(ended: EndedLoop, codes: list[Codes]) -> dict[str, str]:
    """What to say, by the data."""
    found = dict[str, str]()
    for each in codes:
        value = ended.given.captured[each.place]
        if value_kind(value) == "i" and value.ndim > len(each.column) and each.data not in found:
            said = each.negative(value[(slice(ended.lasted), *each.column)], ended)
            found |= {each.data: said} if said else {}
    return found


def _codes(ended: EndedLoop) -> list[Codes]:
    return list(_codes_in(ended.loop))


def _codes_in(loop: Loop) -> Iterator[Codes]:
    """The data of a loop that is read for indices alone."""
    body = loop.body
    for name in set(body.captures).difference(body.outputs):
        readers = [(node, _column(node, name, loop.index)) for node in body.nodes if name in node.reads]
        columns = {column for _, column in readers if column is not None}
        for column in columns if all(each is not None for _, each in readers) else ():
            codes = {node.outputs[0] for node, each in readers if each == column}
            for reading, index in _readings(body, codes):
                made = computing(body, [index], codes)
                if len(made.body.inputs) == 1 and all(is_pure(node) and is_of_elements(node) for node in made.body.nodes):
                    yield Codes(reading.outputs[0], name, body.captures.index(name), column, made)


def _column(node: Node, name: str, number: str | None) -> tuple[int, ...] | None:
    """What follows the iteration number where a node reads an array by it; None if it reads it otherwise."""
    if node.op != "getitem" or number is None or node.inputs != (name, number):
        return None
    index = node.attrs["index"]
    first, *column = index[1:] if index[0] == "tuple" else (index,)
    return tuple(column) if first == ("value", 0) and all(type(each) is int for each in column) else None


def _readings(body: Body, codes: set[str]) -> list[tuple[Node, str]]:
    """What reads arrays by codes, or what is made of them, with the index; nothing if they are there for something else too."""
    of_code, found = set(codes), list[tuple[Node, str]]()
    for node in body.nodes:
        by = _indices(node)
        found += [(node, name) for name in by if name in of_code]
        if not of_code.isdisjoint(name for name in node.reads if name not in by):
            of_code.update(node.outputs)
    return [] if _is_for_more(body, of_code, {name for _, name in found}) else found


def _is_for_more(body: Body, of_code: Container[str], indices: set[str]) -> bool:
    """Whether something is made of a code that is no index."""
    used = set(indices)
    for node in reversed(body.nodes):
        if not used.isdisjoint(node.outputs):
            used.update(node.reads)
    made = {name for node in body.nodes for name in node.outputs if name in of_code}
    return not made.isdisjoint(body.outputs) or not made <= used


def _indices(node: Node) -> list[str]:
    """The values by which a node reads an array, or sets an element."""
    first = {"getitem": 1, "setitem": 2}.get(node.op)
    return [] if first is None else [node.inputs[first + k] for k in single(node.attrs["index"])]
