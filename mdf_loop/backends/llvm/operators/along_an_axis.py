"""Along an axis: the best elements of a row, in order."""

from __future__ import annotations

from mdf_loop.backends.llvm.emitter import Emitter
from mdf_loop.backends.llvm.lanes.arithmetic import written
from mdf_loop.backends.llvm.lanes.element_loops import rows
from mdf_loop.backends.llvm.lanes.element_types import INT64, element
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Length, in_memory
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes, Place
from mdf_loop.backends.llvm.operations.views import turned
from mdf_loop.backends.llvm.operators.operator_table import Call, gives
from mdf_loop.kernels.arrays.axes import place

MOST = 128
"""Elements up to which putting each where it belongs is fast enough."""


@gives("TopK")
def top_k(call: Call) -> tuple[Array, Array]:
    """The k best elements along an axis and their places, the best first, equal ones by place."""
    e, x = call.e, call.input(0)
    (k,) = call.known(1, "k") or [0]
    axis = place(int(call.attrs.get("axis", -1)), len(x.shape))
    if element(x.dtype).kind not in "fiu" or not 0 < k <= MOST:
        raise call.refuse(f"of {k} elements")
    length = x.shape[axis]
    if isinstance(length, str):
        e.leave_if(e.text.new(f"icmp slt i64 {length}, {k}"))
    elif length < k:
        raise call.refuse("of more elements than there are")
    return _few(call, k, x, axis)


def _few(call: Call, k: int, x: Array, axis: int) -> tuple[Array, Array]:
    """The best elements, one put among the others after the other."""
    e, length = call.e, x.shape[axis]
    order = [*(n for n in range(len(x.shape)) if n != axis), axis]
    rows_last = x if axis == len(x.shape) - 1 else turned(x, order)
    source = e.memory_of(rows_last)
    shape = (*rows_last.shape[:-1], k)
    results = in_memory(x.dtype, shape, e.room(x.dtype, shape)), in_memory(INT64, shape, e.room(INT64, shape))
    best = _Best(e, call, k, results)
    with rows(e, rows_last.shape[:-1]) as index:
        number: str = "0"
        for place, n in zip(index, rows_last.shape[:-1], strict=True):
            number = e.text.add(e.text.mul(number, n), place.base)
        best.row(source, number, length)
    back = [order.index(n) for n in range(len(order))]
    found = [y if rows_last is x else turned(y, back) for y in results]
    return e.settled(found[0]), e.settled(found[1])


class _Best:
    """The best elements of rows, kept in order where they stay."""

    def __init__(self, e: Emitter, call: Call, k: int, results: tuple[Array, Array]) -> None:
        self.e, self.text, self.k, self.dtype = e, e.text, k, results[0].dtype
        self.values, self.places = (y.memory for y in results)
        self.is_largest = bool(call.attrs.get("largest", 1))

    def row(self, source: str, number: str, length: Length) -> None:
        """One row after the other."""
        text, one = self.text, Lanes(self.text)
        start, first = text.mul(number, length), text.mul(number, self.k)
        with text.counted("0", length) as at:
            value = one.load(self.dtype, source, Place(text.add(start, at)))
            count = text.new(f"call i64 @llvm.smin.i64(i64 {at}, i64 {self.k})")
            text.declare("llvm.smin.i64", "i64", "i64", "i64")
            self._insert(value, at, first, count)

    def _insert(self, value: str, at: str, first: str, count: str) -> None:
        """Move what comes behind an element by one, from the end on, and put it there."""
        text, one = self.text, Lanes(self.text)
        before, head, moves, moved, done = text.block, *(text.label() for _ in range(4))
        text.jump(head)
        text.start(head)
        j = text.name()
        fill = text.open_line()
        text.fork(text.new(f"icmp sgt i64 {j}, 0"), moves, done)
        text.start(moves)
        previous = text.add(j, -1)
        other = one.load(self.dtype, self.values, Place(text.add(first, previous)))
        is_first = self._comes_first(value, other)
        text.fork(is_first, moved, done)
        text.start(moved)
        with text.where(text.new(f"icmp slt i64 {j}, {self.k}")):
            self._store(other, one.load(INT64, self.places, Place(text.add(first, previous))), text.add(first, j))
        fill(f"  {j} = phi i64 [{count}, %{before}], [{previous}, %{text.block}]")
        text.jump(head)
        text.start(done)
        with text.where(text.new(f"icmp slt i64 {j}, {self.k}")):
            self._store(value, at, text.add(first, j))

    def _store(self, value: str, place: str, at: str) -> None:
        one = Lanes(self.text)
        one.store(self.dtype, value, self.values, Place(at))
        one.store(INT64, place, self.places, Place(at))

    def _comes_first(self, value: str, other: str) -> str:
        """nan is larger than all numbers."""
        one, new = Lanes(self.text), self.text.new
        found = written(one, "gt" if self.is_largest else "lt", self.dtype, [value, other])
        if element(self.dtype).kind != "f":
            return found
        type = one.register(self.dtype)
        nan, number = (value, other) if self.is_largest else (other, value)
        is_nan = new(f"fcmp uno {type} {nan}, {nan}")
        is_number = new(f"fcmp ord {type} {number}, {number}")
        return new(f"or i1 {found}, {new(f'and i1 {is_nan}, {is_number}')}")
