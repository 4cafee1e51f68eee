"""Looks for nan: a program ends that made nan of finite numbers, and the run is left to the interpreter, which says so."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from mdf_loop.backends.llvm.emitter import Emitter, writes
from mdf_loop.backends.llvm.lanes.element_types import BOOL, element
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, is_one, number
from mdf_loop.backends.llvm.linking.prologue import BEYOND
from mdf_loop.step.records import Value
from mdf_loop.step.structure import is_always_true


@writes("no_nan")
def no_nan(e: Emitter, v: Value) -> Array:
    """A look at what was made; what was given is looked at only where nan is in that."""
    condition, *values = v.args
    made, given = values[: v.attr], values[v.attr :]
    is_made = _one_is(e, made, "nan")
    if not is_always_true(condition):
        is_made = e.text.new(f"and i1 {is_made}, {e.truth(condition)}")
    if given:
        with e.text.where(is_made):
            e.leave_if(e.text.new(f"xor i1 {_one_is(e, given, 'not finite')}, true"))
    else:
        e.leave_if(is_made)
    return number(BOOL, "false")


def _one_is(e: Emitter, values: Sequence[Value], what: str) -> str:
    """Whether one element of some values is nan, or not finite."""
    looks = [_is(e, e.of(x), what) for x in values]
    return functools.reduce(lambda a, b: e.text.new(f"or i1 {a}, {b}"), looks)


def _is(e: Emitter, x: Array, what: str) -> str:
    """Whether an element of a value is nan, or not finite: its bits without the sign are beyond a limit."""
    text, row = e.text, element(x.dtype)
    bits = 8 * row.size
    infinity = int(np.array(np.inf, x.dtype).view(f"u{row.size}"))
    limit = infinity if what == "nan" else infinity - 1
    if x.value or is_one(x.shape):
        found = text.new(f"bitcast {row.register} {e.number_of(x)} to i{bits}")
        size = text.new(f"and i{bits} {found}, {(1 << bits - 1) - 1}")
        return text.new(f"icmp ugt i{bits} {size}, {limit}")
    call = text.declare(BEYOND[bits], "i1", "ptr", "i64", f"i{bits}", pure=False)
    return text.new(f"{call}(ptr {e.memory_of(x)}, i64 {e.product_of(x.shape)}, i{bits} {limit})")
