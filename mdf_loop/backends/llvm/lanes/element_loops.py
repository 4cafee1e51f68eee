"""Loops over the elements of arrays: registers full of them, and what is left at the end of a row masked.

A row whose end is not the end of a register ends in a register that overlaps the one before where results are only stored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from mdf_loop.backends.llvm.lanes.element_types import BOOL, element
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Index, Length, get, get_flat, offset
from mdf_loop.backends.llvm.lanes.vector_lanes import ZERO, Lanes, Place, first_lanes

if TYPE_CHECKING:
    from mdf_loop.backends.llvm.emitter import Emitter

UNROLLED = 4
"""Registers of a row up to which they are written one after the other, without a loop."""

BLOCK = 1024
"""Bytes from which on a copy is a call: less text than a loop, and no slower."""

Visit = Callable[[Lanes, Index], None]


def width_for(e: Emitter, length: Length, widest: int) -> int:
    """How many lanes a row of such a length takes."""
    width = max(e.register_bytes // widest, 1)
    while isinstance(length, int) and width > 1 and width // 2 >= length:
        width //= 2
    return width


def chunks(e: Emitter, length: Length, widest: int, may_overlap: bool) -> Iterator[tuple[Lanes, Place]]:
    """The registers of a row: where each is given, its code is written."""
    width = width_for(e, length, widest)
    if isinstance(length, int):
        yield from _known(e, length, width, may_overlap)
    else:
        yield from _open(e, length, width)


def widths_of(e: Emitter, length: Length, widest: int, may_overlap: bool) -> list[int]:
    """The widths that ``chunks`` gives."""
    width = width_for(e, length, widest)
    if isinstance(length, str) or width == 1:
        return [width]
    has_single = length % width == 1 and not (may_overlap and length > width)
    return [width, 1] if has_single and length > 1 else [width]


def _known(e: Emitter, length: int, width: int, may_overlap: bool) -> Iterator[tuple[Lanes, Place]]:
    rest = length % width
    main, step = length - rest, 1 if width > 1 else 0
    if main // width <= UNROLLED:
        for base in range(0, main, width):
            yield Lanes(e.text, width), Place(str(base), step)
    else:
        with e.text.counted(0, main, width) as at:
            yield Lanes(e.text, width), Place(at, step)
    if rest and may_overlap and main:
        yield Lanes(e.text, width), Place(str(length - width), 1)
    elif rest == 1:
        yield Lanes(e.text), Place(str(main))
    elif rest:
        yield first_lanes(e.text, width, rest), Place(str(main), 1)


def _open(e: Emitter, length: str, width: int) -> Iterator[tuple[Lanes, Place]]:
    text = e.text
    rest = text.new(f"and i64 {length}, {width - 1}")
    main = text.sub(length, rest)
    with text.counted("0", main, width) as at:
        yield Lanes(text, width), Place(at, 1 if width > 1 else 0)
    if width > 1:
        with text.where(text.new(f"icmp sgt i64 {rest}, 0")):
            lanes = Lanes(text, width)
            numbers = lanes.number_of(Place("0", 1))
            left = Lanes(text, width).splat_place(rest)
            mask = text.new(f"icmp slt {lanes.of('i64')} {numbers}, {left}")
            yield Lanes(text, width, None, mask), Place(main, 1)


@contextlib.contextmanager
def rows(e: Emitter, shape: Sequence[Length]) -> Iterator[list[Place]]:
    """Loops over axes, one inside the other; gives the places, which are the same in all lanes."""
    with contextlib.ExitStack() as stack:
        yield [ZERO if n == 1 else Place(stack.enter_context(e.text.counted("0" if isinstance(n, str) else 0, n))) for n in shape]


def sweep(
    e: Emitter,
    shape: Sequence[Length],
    widest: int,
    visit: Visit,
    may_overlap: bool = True,
    last_axis: bool = False,
    inner: int | None = None,
) -> None:
    """Visit all elements of a shape, registers along its last axis that has more than one, or along the very last one.

    The loop over an ``inner`` axis goes on inside of that over the registers.
    """
    last = len(shape) - 1 if last_axis else max((k for k, n in enumerate(shape) if n != 1), default=-1)
    if last < 0:
        visit(Lanes(e.text), tuple(ZERO for _ in shape))
        return
    if any(n == 0 for n in shape):
        return
    behind = tuple(ZERO for _ in shape[last + 1 :])
    with rows(e, [1 if k == inner else n for k, n in enumerate(shape[:last])]) as outer:
        for lanes, place in chunks(e, shape[last], widest, may_overlap):
            if inner is None or inner >= last:
                visit(lanes, (*outer, place, *behind))
                continue
            with rows(e, shape[inner : inner + 1]) as (at,):
                visit(lanes, (*outer[:inner], at, *outer[inner + 1 :], place, *behind))


def store_all(e: Emitter, pairs: Sequence[tuple[Array, Sequence[str]]]) -> None:
    """Write values of one shape to memory, each to several places perhaps, in one loop over their elements."""
    first = pairs[0][0]
    if len(pairs) == 1 and _is_block(first):
        _copy(e, first, pairs[0][1])
        return
    widest = max(x.widest for x, _ in pairs)
    is_flat = first.is_static and all(x.value or x.flat is not None for x, _ in pairs)

    def visit(lanes: Lanes, index: Index) -> None:
        found = [get_flat(lanes, x, index[0]) if is_flat else get(lanes, x, index) for x, _ in pairs]
        place = index[0] if is_flat else offset(lanes, first.shape, index)
        for (x, pointers), value in zip(pairs, found, strict=True):
            for pointer in pointers:
                lanes.store(x.dtype, value, pointer, place)

    if is_flat:
        sweep(e, (first.size,), widest, visit)
    else:
        sweep(e, first.shape, widest, visit, inner=_inner_axis(first) if len(pairs) == 1 else None)


def _is_block(x: Array) -> bool:
    """Whether a value is moved in one piece; truths are not, which may be any number in memory of others."""
    return bool(x.memory) and x.is_static and x.dtype != BOOL and x.size * element(x.dtype).size >= BLOCK


def _copy(e: Emitter, x: Array, pointers: Sequence[str]) -> None:
    call = e.text.declare("memmove", "ptr", "ptr", "ptr", "i64", pure=False)
    for pointer in pointers:
        e.text.new(f"{call}(ptr {pointer}, ptr {x.memory}, i64 {x.size * element(x.dtype).size})")


def _inner_axis(x: Array) -> int | None:
    """The axis along which a transposed value is read side by side: registers across it meet the same lines of memory again."""
    if x.transposed is None or not x.transposed[0].memory:
        return None
    return x.transposed[1].index(len(x.shape) - 1)
