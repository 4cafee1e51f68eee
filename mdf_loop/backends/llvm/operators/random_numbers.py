"""Random numbers: each is drawn from the stream of the run, one after the other as a kernel draws them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from mdf_loop.backends.llvm.emitter import Emitter
from mdf_loop.backends.llvm.lanes.casts import converted
from mdf_loop.backends.llvm.lanes.element_types import INT64, element, literal
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Length, can_hold, in_memory, in_register, lanes_for, number
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes, Place
from mdf_loop.backends.llvm.linking.numpy_draws import BITS, LAYERS, addresses, ziggurat
from mdf_loop.backends.llvm.linking.prologue import DRAWN
from mdf_loop.backends.llvm.operations.elementwise import computed
from mdf_loop.backends.llvm.operators.operator_table import Call, gives
from mdf_loop.settings.random_streams import MULTIPLIER

FLOAT64 = np.dtype(np.float64)

Distribution = Callable[[Emitter, Lanes, Sequence[str]], tuple[str, list[str]]]
"""Of numbers of the stream: the numbers drawn, side by side, and margins, which are negative if that is all there is to them."""

STANDARD = 0.0, 1.0
"""Parameters with which nothing is left to do but to draw."""


@gives("RandomNormal", "RandomNormalLike")
def normal(call: Call) -> Array:
    """Numbers of a normal distribution."""
    mean, scale = _parameter(call, "mean", 0.0), _parameter(call, "scale", 1.0)
    if not scale >= 0 or math.copysign(1.0, scale) < 0:
        raise call.refuse("with a negative scale")
    return _drawn(call, "random_normal", (mean, scale), _normal_of)


@gives("RandomUniform", "RandomUniformLike")
def uniform(call: Call) -> Array:
    """Numbers that are equally likely anywhere from one to another."""
    low, high = _parameter(call, "low", 0.0), _parameter(call, "high", 1.0)
    if not 0 <= high - low < math.inf:
        raise call.refuse("between such numbers")
    return _drawn(call, "random_uniform", (low, high - low), _uniform_of)


def _parameter(call: Call, name: str, default: float) -> float:
    found = call.attrs.get(name)
    return default if found is None else float(found)


def _drawn(call: Call, name: str, parameters: tuple[float, float], of: Distribution) -> Array:
    """So many numbers as the result has, rounded to its type."""
    if call.attrs.get("seed") is not None:
        raise call.refuse("with a seed of its own")
    if name not in addresses():
        raise call.refuse("with this build of numpy")
    e, dtype = call.e, call.dtype
    e.element(dtype)
    shape: Sequence[Length] = call.input(0).shape if call.has(0) else [int(n) for n in call.attrs["shape"]]
    e.draws = True
    function = e.text.declare(name, "double", "ptr", "double", "double", pure=False)
    one = f"{function}(ptr %stream, {', '.join(f'double {literal(FLOAT64, x)}' for x in parameters)})"
    for result, drawn in zip(("i64", "double"), DRAWN, strict=True):
        e.text.declare(drawn, result, "ptr", pure=False)
    steps_itself = parameters == STANDARD
    if steps_itself and can_hold(e, call.v):
        return _few(e, one, of, tuple(shape), dtype)
    draw = (lambda: _one(e, one, of)) if steps_itself else (lambda: e.text.new(one))
    if all(n == 1 for n in shape):
        return number(dtype, converted(Lanes(e.text), draw(), FLOAT64, dtype), shape)
    return _many(e, draw, shape, dtype)


def _many(e: Emitter, draw: Callable[[], str], shape: Sequence[Length], dtype: np.dtype) -> Array:
    """Numbers in memory, drawn one by one."""
    room, count = e.room(FLOAT64, shape), e.product_of(shape)
    if count != "0":
        _fill(e, room, count, draw)
    found = in_memory(FLOAT64, shape, room)
    if dtype == FLOAT64:
        return found
    return e.materialised(computed(e, dtype, [found], lambda lanes, x: converted(lanes, x, FLOAT64, dtype)))


def _fill(e: Emitter, room: str, count: str | int, draw: Callable[[], str]) -> None:
    """Draw so many numbers, one behind the other."""
    with e.text.counted(0, count) as k:
        drawn = draw()
        e.text.line(f"store double {drawn}, ptr {e.text.element_pointer('double', room, k)}")


def _few(e: Emitter, one: str, of: Distribution, shape: tuple[Length, ...], dtype: np.dtype) -> Array:
    """Numbers in a register; where they are drawn again, one by one."""
    count = int(np.prod([int(n) for n in shape]))
    lanes = lanes_for(e, count)

    def again() -> str:
        room = e.room(FLOAT64, [count])
        _fill(e, room, count, lambda: _one(e, one, of))
        return lanes.load(FLOAT64, room, Place("0", 1))

    return in_register(dtype, converted(lanes, _together(e, of, lanes, count, again), FLOAT64, dtype), shape)


def _one(e: Emitter, one: str, of: Distribution) -> str:
    """One number, or numpy's number."""
    return _together(e, of, Lanes(e.text), 1, lambda: e.text.new(one))


def _together(e: Emitter, of: Distribution, lanes: Lanes, count: int, again: Callable[[], str]) -> str:
    """Numbers, and the stream goes on: if all are what one number of the stream each gives; else what is drawn again."""
    text, here, there, after = e.text, e.text.label("d"), e.text.label("d"), e.text.label("d")
    state, numbers = text.new("load i128, ptr %pcg, align 8"), list[str]()
    for _ in range(count):
        state = text.new(f"add i128 {text.new(f'mul i128 {state}, {MULTIPLIER}')}, %step")
        numbers.append(_number_of(e, state))
    found, margins = of(e, lanes, numbers)
    text.fork(_all_hold(e, margins), here, there)
    text.start(here)
    text.line(f"store i128 {state}, ptr %pcg, align 8")
    text.jump(after)
    text.start(there)
    other, there = again(), text.block
    text.jump(after)
    text.start(after)
    return text.new(f"phi {lanes.of('double')} [{found}, %{here}], [{other}, %{there}]")


def _normal_of(e: Emitter, lanes: Lanes, numbers: Sequence[str]) -> tuple[str, list[str]]:
    """Normal numbers by numpy's ziggurat: mostly one number of the stream times a factor."""
    text, layers, whole, real = e.text, ziggurat(), lanes.of("i64"), lanes.of("double")
    factors, margins = [], []
    for drawn in numbers:
        layer = text.new(f"and i64 {drawn}, {LAYERS - 1}")
        bound = text.new(f"load i64, ptr {text.element_pointer('i64', e.table(layers.bounds), layer)}")
        margins.append(text.new(f"sub i64 {_size(Lanes(text), drawn)}, {bound}"))
        factors.append(text.new(f"load double, ptr {text.element_pointer('double', e.table(layers.factors), layer)}"))
    drawn = _side_by_side(lanes, INT64, numbers)
    size = text.new(f"sitofp {whole} {_size(lanes, drawn)} to {real}")
    product = text.new(f"fmul {real} {size}, {_side_by_side(lanes, FLOAT64, factors)}")
    sign = text.new(f"shl {whole} {text.new(f'lshr {whole} {drawn}, {lanes.number(INT64, 8)}')}, {lanes.number(INT64, 63)}")
    bits = text.new(f"xor {whole} {text.new(f'bitcast {real} {product} to {whole}')}, {sign}")
    found = text.new(f"bitcast {whole} {bits} to {real}")
    return text.new(f"fadd {real} {found}, {lanes.number(FLOAT64, 0.0)}"), margins  # numpy adds the mean: 0 of -0


def _size(lanes: Lanes, drawn: str) -> str:
    """The whole number in a number of the stream that a factor is for."""
    many = lanes.of("i64")
    shifted = lanes.text.new(f"lshr {many} {drawn}, {lanes.number(INT64, 9)}")
    return lanes.text.new(f"and {many} {shifted}, {lanes.number(INT64, (1 << BITS) - 1)}")


def _uniform_of(e: Emitter, lanes: Lanes, numbers: Sequence[str]) -> tuple[str, list[str]]:
    """Numbers of 53 bits, from 0 to 1."""
    text, many = e.text, lanes.of("i64")
    drawn = text.new(f"lshr {many} {_side_by_side(lanes, INT64, numbers)}, {lanes.number(INT64, 11)}")
    whole = text.new(f"sitofp {many} {drawn} to {lanes.of('double')}")
    return text.new(f"fmul {lanes.of('double')} {whole}, {lanes.number(FLOAT64, 2.0**-53)}"), []


def _side_by_side(lanes: Lanes, dtype: np.dtype, values: Sequence[str]) -> str:
    """Numbers as lanes; those that are missing are zero."""
    if lanes.width == 1:
        return values[0]
    found = "zeroinitializer"
    for k, value in enumerate(values):
        found = lanes.text.new(f"insertelement {lanes.register(dtype)} {found}, {element(dtype).register} {value}, i64 {k}")
    return found


def _all_hold(e: Emitter, margins: Sequence[str]) -> str:
    """Whether all margins are negative."""
    found = "-1"
    for margin in margins:
        found = e.text.new(f"and i64 {found}, {margin}")
    return e.text.new(f"icmp slt i64 {found}, 0")


def _number_of(e: Emitter, state: str) -> str:
    """The number that a state of PCG64 gives."""
    text = e.text
    high = text.new(f"trunc i128 {text.new(f'lshr i128 {state}, 64')} to i64")
    mixed = text.new(f"xor i64 {high}, {text.new(f'trunc i128 {state} to i64')}")
    call = text.declare("llvm.fshr.i64", "i64", "i64", "i64", "i64")
    return text.new(f"{call}(i64 {mixed}, i64 {mixed}, i64 {text.new(f'lshr i64 {high}, 58')})")
