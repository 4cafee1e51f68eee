"""Products of whole numbers of eight bits."""

from __future__ import annotations

import numpy as np

from mdf_loop.backends.llvm.arithmetic import written
from mdf_loop.backends.llvm.arrays import Array, in_memory
from mdf_loop.backends.llvm.conversions import converted
from mdf_loop.backends.llvm.elementwise import computed
from mdf_loop.backends.llvm.lanes import Lanes
from mdf_loop.backends.llvm.operators.table import Call, gives
from mdf_loop.backends.llvm.products import multiplied
from mdf_loop.backends.llvm.views import reshaped

INT32 = np.dtype(np.int32)


def centred(call: Call, k: int, zero_point: int, per_row: bool) -> Array:
    """An input less its zero point, in 32 bits; constants at once."""
    e, x = call.e, call.input(k)
    if x.dtype.kind not in "iu":
        raise call.refuse("of small floats")
    zero = call.input(zero_point) if call.has(zero_point) else None
    if zero is not None and per_row and len(zero.shape) == 1 and zero.shape != (1,):
        zero = reshaped(e, zero, (*zero.shape, 1))
    if x.const is not None and (zero is None or zero.const is not None):
        given = x.const.astype(np.int32) - (0 if zero is None or zero.const is None else zero.const.astype(np.int32))
        return in_memory(INT32, given.shape, e.table(np.ascontiguousarray(given)), given)

    def compute(lanes: Lanes, a: str, *b: str) -> str:
        wide = converted(lanes, a, x.dtype, INT32)
        return written(lanes, "sub", INT32, [wide, converted(lanes, b[0], x.dtype, INT32)]) if b else wide

    return e.materialised(computed(e, INT32, [x] if zero is None else [x, zero], compute))


@gives("MatMulInteger")
def matmul_integer(call: Call) -> Array:
    """The product of 8-bit matrices, less their zero points, in 32 bits."""
    return multiplied(call.e, call.v, centred(call, 0, 2, per_row=True), centred(call, 1, 3, per_row=False), INT32)
