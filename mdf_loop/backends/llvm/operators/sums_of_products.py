"""Convolutions, whose windows slide over the last axes: sums of products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mdf_loop.backends.llvm.emitter import Emitter
from mdf_loop.backends.llvm.inlined import are_large
from mdf_loop.backends.llvm.lanes.arithmetic import written
from mdf_loop.backends.llvm.lanes.element_loops import rows, store_all, sweep
from mdf_loop.backends.llvm.lanes.element_types import element, literal
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Index, get, in_memory, number, offset
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes, Place
from mdf_loop.backends.llvm.operations.elementwise import computed
from mdf_loop.backends.llvm.operations.products import Given, Product
from mdf_loop.backends.llvm.operations.views import reshaped
from mdf_loop.backends.llvm.operators.operator_table import Call, gives
from mdf_loop.kernels.networks.sliding_windows import Windows, windows


def _laid_out(call: Call, x: Array, kernel: Sequence[int]) -> Windows:
    if not x.is_static or element(x.dtype).kind != "f":
        raise call.refuse("of open lengths, or of half precision")
    names = ("auto_pad", "strides", "dilations", "pads", "ceil_mode")
    layout: dict[str, Any] = {name: call.attrs[name] for name in names if call.attrs.get(name) is not None}
    return windows([n for n in x.shape[2:] if isinstance(n, int)], kernel, **layout)


def padded(e: Emitter, x: Array, where: Windows) -> Array:
    """x with zeros around it, as far as the windows reach."""
    spatial = [n for n in x.shape[2:] if isinstance(n, int)]
    behind = [max(end, r - n - begin) for n, r, (begin, end) in zip(spatial, where.reach, where.pads, strict=True)]
    begins = [begin for begin, _ in where.pads]
    if not any((*begins, *behind)):
        return x if x.memory else e.materialised(x)
    lengths = [n + a + b for n, a, b in zip(spatial, begins, behind, strict=True)]
    shape = (*x.shape[:2], *lengths)
    whole = in_memory(x.dtype, shape, e.room(x.dtype, shape))
    store_all(e, [(number(x.dtype, literal(x.dtype, 0), shape), [whole.memory])])

    def visit(lanes: Lanes, index: Index) -> None:
        there = [lanes.shifted(place, Place(str(begin))) for place, begin in zip(index[2:], begins, strict=True)]
        lanes.store(x.dtype, get(lanes, x, index), whole.memory, offset(lanes, shape, (*index[:2], *there)))

    sweep(e, x.shape, x.widest, visit, last_axis=True)
    return whole


def _seen(lanes: Lanes, where: Windows, window: Sequence[Place], tap: Sequence[Place]) -> list[Place]:
    """Where in the padded input an element of a window stands."""
    return [
        lanes.shifted(lanes.scaled(place, s), lanes.scaled(k, d))
        for place, k, s, d in zip(window, tap, where.strides, where.dilations, strict=True)
    ]


def _check_filters(call: Call, x: Array, w: Array, group: int) -> None:
    """What the kernel asks of channels, filters and biases."""
    fits = len(x.shape) == len(w.shape) > 2 and x.shape[1] == int(w.shape[1]) * group and int(w.shape[0]) % group == 0
    named = call.attrs.get("kernel_shape")
    if not fits or (named is not None and tuple(named) != w.shape[2:]) or x.dtype != w.dtype:
        raise call.refuse("with filters that do not fit")
    if call.has(2) and (call.input(2).shape != w.shape[:1] or call.input(2).dtype != x.dtype):
        raise call.refuse("with biases that do not fit")


@gives("Conv")
def conv(call: Call) -> Array:
    """The sum of products of each window with each filter, plus the filter's bias: products of matrices."""
    e, x, w, group = call.e, call.input(0), call.input(1), int(call.attrs.get("group", 1))
    if not w.is_static:
        raise call.refuse("with filters of open lengths")
    _check_filters(call, x, w, group)
    where = _laid_out(call, x, [n for n in w.shape[2:] if isinstance(n, int)])
    count, channels, *_ = (n for n in x.shape if isinstance(n, int))
    filters = int(w.shape[0])
    each, terms, places = filters // group, w.size // filters, math.prod(where.out)
    if are_large((each, terms), (terms, places)):
        raise call.refuse("of so many products")
    source, weights = padded(e, x, where), e.memory_of(w)
    shape = (count, filters, *where.out)
    # with a bias the sum is computed where it is read
    out = e.room(x.dtype, shape) if call.has(2) else e.place_for(call.v, x.dtype, shape)
    columns = (channels // group, *where.kernel, *where.out)
    product = Product(e, x.dtype, each, terms, places)
    memory, text = element(x.dtype).memory, e.text
    with rows(e, (count, group)) as (sample, part):

        def at(lanes: Lanes, index: Index) -> str:
            rank = len(where.out)
            channel = lanes.shifted(Place(text.mul(part.base, channels // group)), index[0])
            place = _seen(lanes, where, index[1 + rank :], index[1 : 1 + rank])
            return get(lanes, source, (sample, channel, *place))

        seen = e.materialised(Array(x.dtype, columns, at, widest=element(x.dtype).size)).memory
        a = text.element_pointer(memory, weights, text.mul(part.base, each * terms))
        number_ = text.add(text.mul(sample.base, group), part.base)
        into = text.element_pointer(memory, out, text.mul(number_, each * places))
        product.write(Given(weights), Given(seen), a, seen, into)
    found = in_memory(x.dtype, shape, out)
    if not call.has(2):
        return found
    bias = reshaped(e, call.input(2), (filters, *[1] * len(where.out)))
    return computed(e, x.dtype, [found, bias], lambda lanes, a, b: written(lanes, "add", x.dtype, [a, b]))
