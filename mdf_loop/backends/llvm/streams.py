"""Random streams without numpy's objects: where numpy keeps how far a stream has come, for many at once.

Making a Generator takes longer than many a run.  What a program, and numpy's own functions that it calls, read of one is a
``bitgen_t`` of C: addresses of functions, and of a state.  Those of many streams of PCG64 are written into one array here,
if that is found to give the numbers that numpy's own objects give.
"""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from mdf_loop.backends.llvm.randomness import FILLS, MULTIPLIER, address_of, drawing, filling, next_of_pcg

WORDS = 12
"""Words of 64 bits for one stream: four of its state, two that say where that is, five of a ``bitgen_t``, and one to spare."""

STATE, HOLDER, STREAM = 0, 4, 6
"""Where these three begin."""

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


class Streams:
    """Streams of PCG64, each at its beginning.

    Parameters
    ----------
    seeds : array of uint64, of shape (n, 4)
        For each stream what its SeedSequence gives: ``generate_state(4, np.uint64)``.

    Attributes
    ----------
    addresses : array of uint64
        Where a program looks for each, as long as this object lives.
    """

    def __init__(self, seeds: np.ndarray) -> None:
        room = np.empty(len(seeds) * WORDS + 1, np.uint64)
        start = room.ctypes.data % 16 // 8  # C reads numbers of 128 bits, which do not stand just anywhere
        self.rows = room[start : start + len(seeds) * WORDS].reshape(len(seeds), WORDS)
        self.rows[:, STATE:HOLDER] = _begun(seeds)
        places = self.rows.ctypes.data + self.rows.strides[0] * np.arange(len(seeds), dtype=np.uint64)
        self.rows[:, HOLDER] = places
        self.rows[:, HOLDER + 1] = 0  # no half of a number is kept for later
        self.rows[:, STREAM] = places + np.uint64(8 * HOLDER)
        self.rows[:, STREAM + 1 :] = 0
        self.rows[:, STREAM + 1 : STREAM + 5] = _functions()
        self.addresses = places + np.uint64(8 * STREAM)


@functools.cache
def can_be_made() -> bool:
    """Whether streams made here draw what numpy's own draw, as far as a few numbers show."""
    if not next_of_pcg():
        return False
    sequences = [np.random.SeedSequence(k) for k in (3, 1 << 70)]
    made = Streams(np.array([each.generate_state(4, np.uint64) for each in sequences]))
    for address, sequence in zip(made.addresses, sequences, strict=True):
        generator = np.random.default_rng(sequence)
        found = [[drawing(name)(int(address), 0.0, 1.0) for _ in range(500)] for name in ("random_normal", "random_uniform")]
        if not np.array_equal(found, [generator.normal(size=500), generator.uniform(size=500)]):
            return False  # pragma: no cover - another numpy
        if not np.array_equal(_filled(int(address)), [generator.standard_normal(500), generator.random(500)]):
            return False  # pragma: no cover - another numpy
    return True


def _filled(address: int) -> np.ndarray:
    """Numbers of each distribution that numpy draws many of at once; nothing where it does not offer that."""
    found = np.zeros((len(FILLS), 500))
    for row, kind in zip(found, FILLS, strict=True):
        fill = filling(kind)
        if fill is not None:
            fill(address, len(row), row.ctypes.data)
    return found


@functools.cache
def _functions() -> np.ndarray:
    """The addresses of numpy's functions for a stream of PCG64."""
    generator = np.random.default_rng(1)
    words = (ctypes.c_uint64 * 5).from_address(address_of(generator))
    found = np.array(words[1:], np.uint64)
    del generator  # not before: the words are its own
    return found


def _begun(seeds: np.ndarray) -> np.ndarray:
    """State and increment of PCG64, low words first: twice a step from 0, with the seed added in between."""
    high, low, step_high, step_low = seeds.T
    step = step_low << np.uint64(1) | np.uint64(1), step_high << np.uint64(1) | step_low >> np.uint64(63)
    state = _added(*_times(*_added(low, high, *step)), *step)
    return np.stack([*state, *step], axis=1)


def _added(low: np.ndarray, high: np.ndarray, more_low: np.ndarray, more_high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum of numbers of 128 bits, each as its low and its high word."""
    total: np.ndarray = low + more_low
    return total, high + more_high + (total < low)


def _times(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of 128 bits times PCG64's multiplier."""
    factor_low, factor_high = np.uint64(MULTIPLIER & (1 << 64) - 1), np.uint64(MULTIPLIER >> 64)
    return low * factor_low, _high_product(low, factor_low) + low * factor_high + high * factor_low


def _high_product(x: np.ndarray, y: np.uint64) -> np.ndarray:
    """The high word of a product of two words."""
    x_high, x_low, y_high, y_low = x >> HALF, x & LOW, y >> HALF, y & LOW
    middle = x_high * y_low + (x_low * y_low >> HALF)
    other = x_low * y_high + (middle & LOW)
    result: np.ndarray = x_high * y_high + (middle >> HALF) + (other >> HALF)
    return result
