"""Products of stacks of matrices, and running sums."""

from __future__ import annotations

from mdf_loop.backends.llvm.inlined import are_large
from mdf_loop.backends.llvm.lanes.arithmetic import written
from mdf_loop.backends.llvm.lanes.casts import converted
from mdf_loop.backends.llvm.lanes.element_loops import sweep
from mdf_loop.backends.llvm.lanes.element_types import FLOAT32, element, literal
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Index, get, in_memory, mapped, offset
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes, Place
from mdf_loop.backends.llvm.operations.products import multiplied
from mdf_loop.backends.llvm.operators.operator_table import Call, gives
from mdf_loop.kernels.arrays.axes import place


@gives("MatMul")
def matmul(call: Call) -> Array:
    """Stacks of matrices, half precision in float32."""
    e, x, y = call.e, call.input(0), call.input(1)
    dtype = x.dtype
    if min(len(x.shape), len(y.shape)) > 1 and are_large(*x.shape[-2:], y.shape[-1]):
        raise call.refuse("of so many products")
    if element(dtype).kind != "h":
        return multiplied(e, call.v, x, y, dtype)
    wide = [mapped(FLOAT32, z.shape, lambda lanes, a: converted(lanes, a, dtype, FLOAT32), [z]) for z in (x, y)]
    e.targets.pop(call.v, None)
    found = multiplied(e, call.v, wide[0], wide[1], FLOAT32)
    return e.settled(mapped(dtype, found.shape, lambda lanes, a: converted(lanes, a, FLOAT32, dtype), [found]))


@gives("CumSum")
def running(call: Call) -> Array:
    """The sum of the elements so far along an axis."""
    e, x = call.e, call.input(0)
    (axis,) = call.known(1, "axis") or [0]
    axis = place(axis, len(x.shape))
    if element(x.dtype).kind not in "fiu" or call.attrs.get("exclusive"):
        raise call.refuse("without the element itself, or of half precision")
    pointer = e.place_for(call.v, x.dtype, x.shape)
    others = [*x.shape[:axis], 1, *x.shape[axis + 1 :]]
    is_reversed, last = bool(call.attrs.get("reverse", 0)), e.text.sub(x.shape[axis], 1)

    def visit(lanes: Lanes, index: Index) -> None:
        type = lanes.register(x.dtype)
        slot = e.text.slot(type)
        e.text.line(f"store {type} {lanes.all(element(x.dtype).register, literal(x.dtype, 0))}, ptr {slot}")
        with e.text.counted("0", x.shape[axis]) as at:
            inner = lanes.again()
            there = Place(e.text.sub(last, at) if is_reversed else at)
            where = tuple(there if k == axis else place for k, place in enumerate(index))
            total = written(inner, "add", x.dtype, [e.text.new(f"load {type}, ptr {slot}"), get(inner, x, where)])
            e.text.line(f"store {type} {total}, ptr {slot}")
            inner.store(x.dtype, total, pointer, offset(inner, x.shape, where))

    sweep(e, others, x.widest, visit, last_axis=True)
    return e.settled(in_memory(x.dtype, x.shape, pointer))
