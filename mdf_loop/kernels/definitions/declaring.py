"""Saying what element-wise operators compute in one line, old opsets included: the counterpart of ``kernels/elementwise.py``."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mdf_loop.kernels.numbers.ufuncs import fitted
from mdf_loop.ops.registry import definition
from mdf_loop.ops.rows import Call


def defines(op: str, since: int = 6) -> Call:
    """The definition of an operator from a version on; before opset 6 there is ``consumed_inputs``, which means nothing."""

    def decorate(define: Call) -> Call:
        def first(b: Any, *inputs: Any, consumed_inputs: Any = None, **attrs: Any) -> Any:
            return define(b, *inputs, **attrs)

        definition(op, since=since)(define)
        if since == 6:
            definition(op, until=6)(first)
        return define

    return decorate


def defines_of_two(op: str) -> Call:
    """The definition of an operator of two inputs: numpy's broadcasting from opset 7 on, ``axis`` before."""

    def decorate(define: Call) -> Call:
        def before_7(b: Any, x: Any, y: Any, *, axis: Any = None, broadcast: int = 0, consumed_inputs: Any = None) -> Any:
            return define(b, x, _fitted(b, x, y, axis, broadcast))

        definition(op, since=7)(define)
        definition(op, until=7)(before_7)
        return define

    return decorate


def _fitted(b: Any, x: Any, y: Any, axis: int | None, broadcast: int) -> Any:
    if not x.type.is_static or not y.type.is_static:
        raise ValueError("open lengths")
    wholes = [np.broadcast_to(np.False_, v.type.shape) for v in (x, y)]  # shapes alone: they have no memory
    return b.reshape(y, fitted(*wholes, axis, broadcast).shape)


def in_float32(define: Call) -> Call:
    """Compute float16 and bfloat16 in float32 and round once, at the end."""

    @functools.wraps(define)
    def wide(b: Any, *inputs: Any, **attrs: Any) -> Any:
        dtype = inputs[0].type.dtype
        if dtype.itemsize > 2:
            return define(b, *inputs, **attrs)
        return b.cast(define(b, *[b.cast(x, np.dtype(np.float32)) for x in inputs], **attrs), dtype)

    return wide
