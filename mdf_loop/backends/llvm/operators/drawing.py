"""Random numbers: each is drawn from the stream of the run, one after the other as a kernel draws them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from mdf_loop.backends.llvm.arrays import Array, Length, in_memory, number
from mdf_loop.backends.llvm.conversions import converted
from mdf_loop.backends.llvm.elements import literal
from mdf_loop.backends.llvm.elementwise import computed
from mdf_loop.backends.llvm.emitter import Emitter
from mdf_loop.backends.llvm.lanes import Lanes
from mdf_loop.backends.llvm.operators.table import Call, gives
from mdf_loop.backends.llvm.randomness import BITS, LAYERS, MULTIPLIER, addresses, next_of_pcg, ziggurat

FLOAT64 = np.dtype(np.float64)

STANDARD = 0.0, 1.0
"""Parameters with which nothing is left to do but to draw."""


@gives("RandomNormal", "RandomNormalLike")
def normal(call: Call) -> Array:
    """Numbers of a normal distribution."""
    mean, scale = _parameter(call, "mean", 0.0), _parameter(call, "scale", 1.0)
    if not scale >= 0 or math.copysign(1.0, scale) < 0:
        raise call.refuse("with a negative scale")
    return _drawn(call, "random_normal", (mean, scale), _normal)


@gives("RandomUniform", "RandomUniformLike")
def uniform(call: Call) -> Array:
    """Numbers that are equally likely anywhere from one to another."""
    low, high = _parameter(call, "low", 0.0), _parameter(call, "high", 1.0)
    if not 0 <= high - low < math.inf:
        raise call.refuse("between such numbers")
    return _drawn(call, "random_uniform", (low, high - low), _uniform)


def _parameter(call: Call, name: str, default: float) -> float:
    found = call.attrs.get(name)
    return default if found is None else float(found)


def _drawn(call: Call, name: str, parameters: tuple[float, float], itself: Callable[[Emitter, str], str]) -> Array:
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
    draw = (lambda: itself(e, one)) if parameters == STANDARD and next_of_pcg() else (lambda: e.text.new(one))
    if all(n == 1 for n in shape):
        return number(dtype, converted(Lanes(e.text), draw(), FLOAT64, dtype), shape)
    room, count = e.room(FLOAT64, shape), e.count_of(shape)
    if count != "0":
        with e.text.counted(0, count) as k:
            drawn = draw()
            e.text.line(f"store double {drawn}, ptr {e.text.element_pointer('double', room, k)}")
    found = in_memory(FLOAT64, shape, room)
    if dtype == FLOAT64:
        return found
    return e.materialised(computed(e, dtype, [found], lambda lanes, x: converted(lanes, x, FLOAT64, dtype)))


def _normal(e: Emitter, one: str) -> str:
    """A normal number by numpy's ziggurat, where that is one number of the stream times a factor; else numpy's function."""
    text, layers = e.text, ziggurat()
    state, drawn = _next(e)
    layer = text.new(f"and i64 {drawn}, {LAYERS - 1}")
    size = text.new(f"and i64 {text.new(f'lshr i64 {drawn}, 9')}, {(1 << BITS) - 1}")
    bound = text.new(f"load i64, ptr {text.element_pointer('i64', e.table(layers.bounds), layer)}")
    factor = text.new(f"load double, ptr {text.element_pointer('double', e.table(layers.factors), layer)}")
    product = text.new(f"fmul double {text.new(f'sitofp i64 {size} to double')}, {factor}")
    sign = text.new(f"shl i64 {text.new(f'lshr i64 {drawn}, 8')}, 63")
    bits = text.new(f"xor i64 {text.new(f'bitcast double {product} to i64')}, {sign}")
    found = text.new(f"fadd double {text.new(f'bitcast i64 {bits} to double')}, 0.0")  # numpy adds the mean: 0 of -0
    return _either(e, text.new(f"icmp ult i64 {size}, {bound}"), state, found, one)


def _uniform(e: Emitter, one: str) -> str:
    """A number of 53 bits, from 0 to 1."""
    text = e.text
    state, drawn = _next(e)
    whole = text.new(f"sitofp i64 {text.new(f'lshr i64 {drawn}, 11')} to double")
    return _either(e, "true", state, text.new(f"fmul double {whole}, {literal(FLOAT64, 2.0**-53)}"), one)


def _next(e: Emitter) -> tuple[str, str]:
    """The next state of a stream of PCG64, and the number that it gives."""
    text = e.text
    now = text.new("load i128, ptr %pcg, align 8")
    step = text.new(f"load i128, ptr {text.element_pointer('i128', '%pcg', 1)}, align 8")
    state = text.new(f"add i128 {text.new(f'mul i128 {now}, {MULTIPLIER}')}, {step}")
    high = text.new(f"trunc i128 {text.new(f'lshr i128 {state}, 64')} to i64")
    mixed = text.new(f"xor i64 {high}, {text.new(f'trunc i128 {state} to i64')}")
    call = text.declare("llvm.fshr.i64", "i64", "i64", "i64", "i64")
    return state, text.new(f"{call}(i64 {mixed}, i64 {mixed}, i64 {text.new(f'lshr i64 {high}, 58')})")


def _either(e: Emitter, holds: str, state: str, found: str, one: str) -> str:
    """What was found, and the stream goes on; or numpy's number."""
    text, here, there, after = e.text, e.text.label("d"), e.text.label("d"), e.text.label("d")
    text.fork(text.new(f"and i1 {holds}, %is_pcg"), here, there)
    text.start(here)
    text.line(f"store i128 {state}, ptr %pcg, align 8")
    text.jump(after)
    text.start(there)
    other = text.new(one)
    text.jump(after)
    text.start(after)
    return text.new(f"phi double [{found}, %{here}], [{other}, %{there}]")
