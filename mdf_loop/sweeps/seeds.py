"""The seed of each trial: independent streams from one number, the same wherever and whenever the trial runs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.settings.random_streams import Seed, begun


def seed_of(seed: Seed, point: int, trial: int, common_noise: bool = False) -> np.random.SeedSequence:
    """The seed of one trial at one point of a grid.

    Parameters
    ----------
    seed : int or SeedSequence
        Of the whole sweep.
    point, trial : int
        Which it is; points are numbered in C order.
    common_noise : bool
        Every point gets the same streams.

    Examples
    --------
    >>> seed_of(1, 2, 3)
    SeedSequence(
        entropy=1,
        spawn_key=(2, 3),
    )
    """
    key = (trial,) if common_noise else (point, trial)
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *key))
    return np.random.SeedSequence(int(seed), spawn_key=key)


def streams_of(seed: Seed, points: np.ndarray, trials: np.ndarray, common_noise: bool = False) -> np.ndarray:
    """The beginnings of the random streams of many trials: for each a row of the state and the increment of PCG64.

    Hashing seeds costs more than many a trial, so the hash of numpy's SeedSequence (M. O'Neill's, for ever the same) is
    computed for all of them with arrays, unless the seed is of a form of which only numpy makes it.
    """
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(int(seed))
    keys = [trials] if common_noise else [*_words_of(points), trials]
    start: Any = root.entropy
    is_plain = type(start) is int and root.pool_size == POOL and all(0 <= k < 1 << 32 for k in root.spawn_key)
    if not is_plain or any(key.max(initial=0) >= 1 << 32 for key in keys):
        places = zip(points.tolist(), trials.tolist(), strict=True)
        words = [seed_of(seed, point, trial, common_noise).generate_state(4, np.uint64) for point, trial in places]
        return begun(np.array(words, np.uint64).reshape(-1, 4))
    entropy = _words(start)
    entropy += [0] * (POOL - len(entropy))
    return begun(_hashed((*entropy, *root.spawn_key), keys))


POOL = 4
INIT_A, MULT_A, INIT_B, MULT_B = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
MIX_L, MIX_R, SHIFT, MASK = np.uint32(0xCA01F9DD), np.uint32(0x4973F715), np.uint32(16), 0xFFFFFFFF
"""Constants of the hash of numpy's SeedSequence."""


def _words(number: int) -> list[int]:
    """A whole number in words of 32 bits, the lowest first."""
    words = [number & MASK]
    while number := number >> 32:
        words.append(number & MASK)
    return words


def _words_of(numbers: np.ndarray) -> list[np.ndarray]:
    """The same for many numbers at once, where all have the same number of words."""
    is_long = len(numbers) > 0 and numbers.min() >= 1 << 32
    return [numbers & MASK, numbers >> 32] if is_long else [numbers]


class _Hash:
    """A hash whose constant changes with each use."""

    def __init__(self, constant: int, factor: int) -> None:
        self.constant, self.factor = constant, factor

    def __call__(self, value: np.ndarray) -> np.ndarray:
        value = value ^ np.uint32(self.constant)
        self.constant = self.constant * self.factor & MASK
        value = value * np.uint32(self.constant)
        return value ^ np.right_shift(value, SHIFT)


def _mixed(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    result: np.ndarray = MIX_L * x - MIX_R * y
    return result ^ np.right_shift(result, SHIFT)


def _mix_in(pool: list[np.ndarray], word: np.ndarray, hashed: _Hash) -> None:
    for place in range(POOL):
        pool[place] = _mixed(pool[place], hashed(word))


@functools.lru_cache(maxsize=64)
def _root(words: tuple[int, ...]) -> tuple[tuple[np.ndarray, ...], int]:
    """The pool, and the constant of its hash, when the words that all trials have in common are in it."""
    given, hashed = [np.array([word], np.uint32) for word in words], _Hash(INIT_A, MULT_A)
    pool = [hashed(word) for word in given[:POOL]]
    for source in range(POOL):
        for place in range(POOL):
            if source != place:
                pool[place] = _mixed(pool[place], hashed(pool[source]))
    for word in given[POOL:]:
        _mix_in(pool, word, hashed)
    return tuple(pool), hashed.constant


def _hashed(common: tuple[int, ...], keys: Sequence[np.ndarray]) -> np.ndarray:
    """The four words of 64 bits that seed PCG64, for each trial."""
    known, constant = _root(common)
    pool, hashed = list(known), _Hash(constant, MULT_A)
    for key in keys:
        _mix_in(pool, key.astype(np.uint32), hashed)
    give = _Hash(INIT_B, MULT_B)
    words = np.stack([give(pool[k % POOL]) for k in range(8)], axis=1).astype("<u4")
    return np.ascontiguousarray(words).view("<u8").astype(np.uint64)
