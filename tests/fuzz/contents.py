"""Arrays at random: every element type, small numbers and special ones, and shapes that change in time."""

from __future__ import annotations

import random

import ml_dtypes
import numpy as np

COMMON = tuple(np.dtype(name) for name in ("float32", "float64", "int64", "bool"))
OTHERS = tuple(np.dtype(f"{u}int{bits}") for bits in (8, 16, 32, 64) for u in ("", "u"))
OTHERS += (np.dtype("float16"), np.dtype(ml_dtypes.bfloat16), np.dtype(object), np.dtype("complex64"))
SHAPES = ((), (), (1,), (2,), (3,), (0,), (1, 1), (2, 3), (3, 1), (1, 2, 3))
FAMILIES = (
    [(), (1,), (3,)],
    [(), (1,), (2,), (2, 1)],
    [(1,), (3,), (1, 3), (2, 3)],
    [(), (1, 1), (3, 1), (3,)],
    [(0,), (1,), (2,)],
    list(SHAPES),
)
"""Shapes that broadcast to each other, most of them: the values of one body are of one family."""
LARGEST = 24
"""Elements of a value when it is drawn; it may grow from there."""


def element_type(choose: random.Random) -> np.dtype:
    """A common type, or now and then any."""
    return choose.choice(COMMON if choose.random() < 0.75 else OTHERS)


def array(choose: random.Random, dtype: np.dtype, shape: tuple[int, ...], special: float = 0.0) -> np.ndarray:
    """Small numbers, and with the given probability an extreme one."""
    count = int(np.prod(shape))
    elements = np.empty(count, dtype)
    for place in range(count):
        elements[place] = _extreme(choose, dtype) if choose.random() < special else _small(choose, dtype)
    return elements.reshape(shape)


def _small(choose: random.Random, dtype: np.dtype) -> object:
    if dtype.kind == "O":
        return choose.choice(["", "a", "b", "ab", "1", "-2.5", "ü"])
    if dtype.kind == "b":
        return choose.random() < 0.5
    number = choose.randint(-8, 8)
    return number / 4 if _is_float(dtype) else abs(number) if dtype.kind == "u" else number


def _extreme(choose: random.Random, dtype: np.dtype) -> object:
    if dtype.kind in "Ob":
        return _small(choose, dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return choose.choice([limits.min, limits.max, limits.max // 2 + 1, 0])
    if dtype.kind == "c":
        return choose.choice([complex(0, -1), complex("nan"), complex("inf"), -0.0])
    limits = ml_dtypes.finfo(dtype)
    least, most = float(limits.smallest_subnormal), float(limits.max)
    return choose.choice([np.inf, -np.inf, np.nan, -0.0, most, -most, least, -least, 0.1, 1e4])


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind in "fcV"


def timeline(choose: random.Random, items: int, count: int) -> list[int]:
    """For each iteration one of so many things: changing each time, once, there and back, or at random."""
    first, second = choose.randrange(items), choose.randrange(items)
    start = choose.randint(1, max(count - 1, 1))
    end = choose.randint(start, count)
    return {
        "once": [second if k >= start else first for k in range(count)],
        "back": [second if start <= k <= end else first for k in range(count)],
        "each": [(first + k) % items for k in range(count)],
        "any": [choose.randrange(items) for _ in range(count)],
    }[choose.choice(["once", "back", "each", "any"])]


def reshaped(choose: random.Random, value: np.ndarray) -> np.ndarray:
    """The same numbers or some of them, in another shape."""
    ways = [lambda v: v[None], lambda v: v.reshape(-1), lambda v: v.reshape(-1)[:0], lambda v: v.reshape(-1)[:1]]
    if value.ndim:
        ways += [lambda v: np.concatenate([v, v]), lambda v: v[:1], lambda v: v[..., ::-1]]
    if value.size:
        ways += [lambda v: v.reshape(-1)[-1:].reshape(()), lambda v: np.stack([v, v])]
    return np.array(choose.choice(ways)(value), copy=True)
