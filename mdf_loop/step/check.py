"""What a legal Step is, as a table: run between passes, so that a wrong pass fails where it stands.

Every pass hands what it made to :func:`checked`, which looks at it where the environment says ``MDF_LOOP_CHECK=1``, as it does
in the tests; elsewhere it costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from mdf_loop.step.primitives import BOOL, INT64, PRIMITIVES, either_kind, type_of_result
from mdf_loop.step.python_values import row_of
from mdf_loop.step.records import Apply, BranchRegion, LoopRegion, Reduction, Region, Shape, Type, Value
from mdf_loop.step.structure import definition_of, regions_of

Rule = Callable[[Value], bool]


class IllegalStep(BaseException):
    """A Step breaks a rule: a defect of ours, never of a model.

    It is no ``Exception``: who falls back to the interpreter, whatever is the matter, must not hide it.
    """


def same(one: Type, other: Type) -> bool:
    """Whether two types say the same, open lengths aside."""
    if (one.dtype, one.weak, one.rank) != (other.dtype, other.weak, other.rank):
        return False
    pairs = zip(one.shape or (), other.shape or (), strict=True)
    return all(n == m or not (isinstance(n, int) and isinstance(m, int)) for n, m in pairs)


def _is_index(value: Value) -> bool:
    return value.type.dtype is not None and value.type.shape == () and value.type.kind in "iu"


def _open_lengths(v: Value) -> bool:
    return isinstance(v.attr, Shape) and sum(n is None for n in v.attr.lengths) == len(v.args) - 1


def _repeats(one: Type, other: Type) -> bool:
    """Whether a shape becomes another by repeating axes of length 1; trailing axes go together."""
    pairs = zip(reversed(one.shape or ()), reversed(other.shape or ()), strict=False)
    return all(n in (1, m) or not (isinstance(n, int) and isinstance(m, int)) for n, m in pairs)


RULES: dict[str, Sequence[tuple[str, Rule]]] = {
    "const": [("has no arguments", lambda v: not v.args)],
    "param": [("has no arguments", lambda v: not v.args)],
    "cast": [
        ("converts one value", lambda v: len(v.args) == 1),
        ("keeps the shape", lambda v: v.type.rank == v.args[0].type.rank),
        ("gives a type that is known", lambda v: v.type.dtype is not None),
        ("makes numbers Python's own, not arrays", lambda v: not v.type.weak or v.args[0].type.shape == ()),
    ],
    "as_array": [("makes an array of one number", lambda v: v.type.is_array and v.args[0].type.shape == ())],
    "select": [
        ("asks a bool", lambda v: len(v.args) == 3 and v.args[0].type.dtype == BOOL),
        ("chooses between values of its type", lambda v: v.type.weak or all(x.type.dtype == v.type.dtype for x in v.args[1:])),
    ],
    "reshape": [
        ("has a number for each open length", _open_lengths),
        ("keeps the type", lambda v: v.type.dtype == v.args[0].type.dtype),
    ],
    "broadcast": [
        ("has a number for each open length", _open_lengths),
        ("repeats axes of length 1", lambda v: _repeats(v.args[0].type, v.type)),
        ("keeps the type", lambda v: v.type.dtype == v.args[0].type.dtype),
    ],
    "transpose": [("orders every axis", lambda v: sorted(v.attr) == list(range(len(v.args[0].type.shape or ()))))],
    "slice": [("has a slice for each axis", lambda v: len(v.attr) == v.args[0].type.rank == v.type.rank)],
    "window": [
        ("has a number for each axis", lambda v: len(v.args) - 1 == v.args[0].type.rank == v.type.rank),
        ("begins at numbers", lambda v: all(x.type == Type(INT64, ()) for x in v.args[1:])),
    ],
    "fraction": [("takes a float of Python's", lambda v: len(v.args) == 1 and v.type.weak and v.type == v.args[0].type)],
    "pack": [("packs numbers of its type", lambda v: all(x.type.shape == () and x.type.dtype == v.type.dtype for x in v.args))],
    "rows": [("has one array or none", lambda v: len(v.args) < 2 and v.type.dtype is None)],
    "insert": [
        ("puts in at a whole number", lambda v: len(v.args) == 3 and _is_index(v.args[2])),
        ("puts in a row", lambda v: same(row_of(v.args[0].type), v.args[1].type)),
        ("keeps the rows", lambda v: same(row_of(v.args[0].type), row_of(v.type))),
    ],
    "erase": [
        ("takes out at a whole number", lambda v: len(v.args) == 2 and _is_index(v.args[1])),
        ("keeps the rows", lambda v: same(row_of(v.args[0].type), row_of(v.type))),
    ],
    "length": [("is an int64", lambda v: v.type == Type(INT64, ()) and isinstance(v.attr, int))],
    "concat": [("joins values of its type", lambda v: all(x.type.dtype == v.type.dtype for x in v.args))],
    "gather": [("takes by whole numbers", lambda v: len(v.args) == 2 and v.args[1].type.kind in ("i", "u"))],
    "place": [
        ("takes by whole numbers", lambda v: all(map(_is_index, v.args[1:]))),
        ("leaves the other axes", lambda v: v.type.shape == (v.args[0].type.shape or ())[len(v.args) - 1 :]),
    ],
    "place_in": [("counts a whole number from the front", lambda v: len(v.args) == 2 and all(map(_is_index, v.args)))],
    "no_nan": [
        ("asks one bool", lambda v: v.args[0].type == Type(BOOL, ())),
        ("looks at floats, at one at least", lambda v: 0 < v.attr < len(v.args) and all(x.type.kind == "f" for x in v.args[1:])),
    ],
    "put": [
        ("puts by whole numbers", lambda v: all(map(_is_index, v.args[2:]))),
        ("keeps the type", lambda v: v.type == v.args[0].type),
        ("puts what fits", lambda v: v.args[1].type.dtype == v.type.dtype),
    ],
    "reduce": [
        (
            "knows its axes",
            lambda v: isinstance(v.attr, Reduction) and all(0 <= a < (v.args[0].type.rank or 0) for a in v.attr.axes),
        ),
        (
            "keeps the axes it does not reduce",
            lambda v: v.type.rank == (v.args[0].type.rank or 0) - (0 if v.attr.keep else len(v.attr.axes)),
        ),
    ],
    "dot": [("multiplies two of its type", lambda v: len(v.args) == 2 and all(x.type.dtype == v.type.dtype for x in v.args))],
    "apply": [("holds an operator", lambda v: isinstance(v.attr, Apply))],
    "item": [
        (
            "takes one of several results",
            lambda v: len(v.args) == 1 and isinstance(v.attr, int) and v.args[0].op in ("apply", "loop", "branch"),
        )
    ],
    "branch": [
        ("asks one condition", lambda v: len(v.args) == 1 and isinstance(v.attr, BranchRegion)),
        ("takes nothing else", lambda v: not v.attr.then.params and not v.attr.other.params),
    ],
    "loop": [
        ("holds a loop", lambda v: isinstance(v.attr, LoopRegion)),
        ("is given what it asks for", lambda v: _is_given(v, v.attr)),
        ("passes on what it was given", lambda v: _passes_on(v.attr)),
    ],
}
"""By operation: what has to hold, in words and as a question."""


def _is_given(v: Value, attr: LoopRegion) -> bool:
    """Whether carried values begin as what the body says they are, and there is something to take parts of."""
    if len(v.args) < 2 + attr.n_carried + len(attr.scanned) or len(attr.states) < attr.n_carried:
        return False
    _, _, initial, *_ = attr.split(v.args)
    return all(_holds(state.type, x.type) for x, state in zip(initial, attr.states, strict=True))


def _holds(type: Type, other: Type) -> bool:
    """Whether a value of one type can also hold one of another."""
    return type.dtype is None or type.rank is None or same(type, other) or (type.weak and either_kind(type, other) == type)


def _passes_on(attr: LoopRegion) -> bool:
    body, n = attr.body, attr.n_carried
    if len(body.params) != 2 + n + len(attr.scanned) or len(body.results) != 1 + n + attr.n_last + len(attr.collected):
        return False
    return all(_holds(state.type, end.type) for state, end in zip(attr.states, attr.ends, strict=True))


def checked(region: Region) -> Region:
    """What a pass made, looked at if that is asked for."""
    return check(region) if os.environ.get("MDF_LOOP_CHECK", "0") not in ("", "0") else region


def check(region: Region) -> Region:
    """The Step itself, if it is legal.

    Raises
    ------
    IllegalStep
        A value breaks a rule, or is read where it is not there.
    """
    _check_region(region, frozenset())
    return region


def _check_region(region: Region, outside: frozenset[Value]) -> None:
    there: set[Value] = {*outside, *region.params}
    for value in region.values:
        for x in value.args:
            _require(x in there or x.op == "const", value, f"reads {x!r} before it is there")
        _check_value(value)
        for inner in (*regions_of(value), *definition_of(value)):
            _check_region(inner, frozenset(there))
        there.add(value)
    for x in region.results:
        if x not in there and x.op != "const":
            raise IllegalStep(f"a region gives {x!r}, which is not there")


def _check_value(value: Value) -> None:
    if value.op in PRIMITIVES:
        found = type_of_result(value.op, [x.type for x in value.args])
        _require(same(found, value.type), value, f"is {value.type}, the rule says {found}")
        _require(len({x.type.weak for x in value.args}) == 1, value, "has numbers of Python's beside numpy's")
        return
    _require(value.op in RULES, value, "is no operation")
    for words, holds in RULES[value.op]:
        _require(holds(value), value, f"breaks the rule: {value.op} {words}")


def _require(holds: Any, value: Value, words: str) -> None:
    if not holds:
        raise IllegalStep(f"{value!r} {words}")
