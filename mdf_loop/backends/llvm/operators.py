"""Operators as a whole: those that no definition says are written here by name, others have no compiled form."""

from __future__ import annotations

from mdf_loop.backends.llvm.arrays import Array
from mdf_loop.backends.llvm.elements import CannotCompile
from mdf_loop.backends.llvm.emitter import Emitter, writes
from mdf_loop.step.records import Apply, Value


@writes("apply")
def apply(e: Emitter, v: Value) -> Array:
    """An operator without a definition."""
    attr: Apply = v.attr
    raise CannotCompile(f"{attr.node.op} has no compiled form")
