"""What may go wrong in a Step: the values that are computed for that even if they have no readers, and how programs give up."""

from __future__ import annotations

from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import Value


class FallBack(Exception):
    """Something a program was not written for: the interpreter runs the same work."""


class TooLong(FallBack):
    """A loop has more iterations than one program runs without a pause."""


_HARMLESS_PLACES = {"item", "rows", "length", "insert", "erase"}
"""What cannot go wrong: places of rows are looked at before."""


def may_refuse(value: Value) -> bool:
    """Whether Python may raise an error for it, so that it must be computed where it stands, read or not."""
    if value.type.dtype is None or not any(x.type.weak for x in value.args):
        return False
    refuses = PRIMITIVES[value.op].refuses if value.op in PRIMITIVES else value.op not in ("cast", "select")
    if value.op == "cast" or (value.type.kind == "f" and value.op != "select"):
        return refuses or any(x.type.weak and x.type.kind != value.type.kind != "b" for x in value.args)
    return value.type.weak and (refuses or (value.op == "mul" and value.type.kind in "iO"))


def may_fail(value: Value) -> bool:
    """Whether something may go wrong with a value, so that it is computed even if it has no readers."""
    if value.op in ("apply", "loop", "branch", "place_in", "gather") or may_refuse(value):
        return True
    return value.op not in _HARMLESS_PLACES and not all(x.type.is_static for x in (value, *value.args))  # shapes may not fit
