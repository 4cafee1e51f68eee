"""The random numbers of a run: one stream of PCG64, from which numpy's Generator and machine code draw in turn.

Machine code steps a stream itself.  It is shown the state and the increment as words of its own, made of what numpy says of a
bit generator (``bit_generator.state``), and numpy is given the state where its turn comes: nothing here knows how numpy keeps it.
"""

from __future__ import annotations

import ctypes
import os
import random
from typing import Any, TypeAlias

import numpy as np

Seed: TypeAlias = "int | np.random.SeedSequence"
"""What a stream of random numbers starts from."""

_SEEDS = random.Random()
"""Seeds of runs that have none: begun by the system once, since to ask it takes as long as a small run."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SEEDS.seed)  # which draws others than its parent

_NOTHING_DRAWN: tuple[None, dict[object, Any]] = None, {}
"""How far a stream has come from which nothing was drawn."""

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
"""Of PCG64: its state times this, plus its increment, is the next one (M. O'Neill)."""

LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)

BYTES, MOST = 16, (1 << 128) - 1
"""Of the state, and of the increment behind it: numbers of 128 bits, the low ones first."""

_Room = ctypes.c_uint8 * (2 * BYTES)

_WHOLE = {"bit_generator": "PCG64", "has_uint32": 0, "uinteger": 0}
"""What numpy says of PCG64 besides, where no half of a number is left."""


def generator_of(seed: Any) -> np.random.Generator:
    """A Generator of PCG64, which ``numpy.random.default_rng`` makes today: here whatever numpy prefers later."""
    return np.random.Generator(np.random.PCG64(seed))


def words_of(known: Any) -> bytes:
    """State and increment of PCG64, out of what numpy says of one."""
    return _words(known["state"]["state"], known["state"]["inc"])


def _words(state: int, step: int) -> bytes:
    return (state | step << 8 * BYTES).to_bytes(2 * BYTES, "little")


def first_words(seed: Seed) -> bytes:
    """State and increment at the beginning of the stream of a seed: a Generator takes twice as long to make."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    high, low, step_high, step_low = sequence.generate_state(4, np.uint64).tolist()
    step = (step_high << 65 | step_low << 1 | 1) & MOST
    return _words(((high << 64 | low) + step) * MULTIPLIER + step & MOST, step)


class RandomStream:
    """The random numbers of one run: one numpy Generator, made when first asked for.

    A node with a ``seed`` attribute has a generator of its own, as the ONNX standard requires.

    Attributes
    ----------
    seed : int or SeedSequence
        What it starts from; drawn if none was given, so that the run can be repeated.
    """

    __slots__ = "_are_ahead", "_known", "_own", "_saved", "_seed", "_shared", "_words"

    def __init__(self, seed: Seed | None) -> None:
        self._seed = seed
        self._shared: np.random.Generator | None = None
        self._own: dict[object, np.random.Generator] = {}
        self._saved: Any = None
        self._words: tuple[memoryview, int] | None = None
        self._known: dict[str, Any] = _WHOLE
        self._are_ahead = False

    @property
    def seed(self) -> Seed:
        """What it starts from."""
        if self._seed is None:  # asking for it takes longer than a small run, and few draw
            self._seed = _SEEDS.getrandbits(63)
        return self._seed

    @classmethod
    def over(cls, generator: np.random.Generator) -> RandomStream:
        """A stream that draws from a generator of PCG64 that is there already."""
        stream = cls(0)
        stream._shared = generator
        return stream

    def shared(self) -> np.random.Generator:
        """The generator of all nodes without a seed of their own; it is asked for again for each draw."""
        self._saved = None
        if self._shared is None:
            self._shared = generator_of(self.seed)
        if self._are_ahead:
            self._shared.bit_generator.state = self._state()
            self._are_ahead = False
        return self._shared

    def words(self) -> int:
        """The address of the state and the increment, for a program that moves them on; ``shared`` takes over from there.

        It is the same each time, and holds as long as this object.
        """
        self._saved = None
        if self._words is None:
            room = _Room()
            self._words = memoryview(room).cast("B"), ctypes.addressof(room)
        view, address = self._words
        if not self._are_ahead:
            if self._shared is None:
                view[:] = first_words(self.seed)
            else:
                self._known = dict(self._shared.bit_generator.state)
                view[:] = words_of(self._known)
            self._are_ahead = True
        return address

    def own(self, node: object, seed: float) -> np.random.Generator:
        """The generator of one node that states its seed, kept through the run; it is asked for again for each draw."""
        self._saved = None
        if node not in self._own:
            self._own[node] = generator_of(np.float64(seed).view(np.uint64))
        return self._own[node]

    def _state(self) -> Any:
        """How far the shared generator has come, or what drew since: as numpy says it."""
        if not self._are_ahead or self._words is None:
            return None if self._shared is None else self._shared.bit_generator.state
        state, step = (int.from_bytes(self._words[0][k : k + BYTES], "little") for k in (0, BYTES))
        return {**self._known, "state": {"state": state, "inc": step}}

    def save(self) -> object:
        """How far every generator has come; ``restore`` goes back there.  The same object as before if nothing was drawn."""
        saved = self._saved
        if saved is None and self._shared is None and not self._own and not self._are_ahead:
            saved = self._saved = _NOTHING_DRAWN
        elif saved is None:
            saved = self._saved = self._state(), {node: rng.bit_generator.state for node, rng in self._own.items()}
        return saved

    def restore(self, saved: Any) -> None:
        """Go back to where ``save`` was called, as if nothing had been drawn since."""
        if saved is self._saved:
            return
        shared, own = saved
        self._are_ahead = False
        if shared is None:
            self._shared, self._known = None, _WHOLE
        else:
            self.shared().bit_generator.state = shared
        self._own = {node: rng for node, rng in self._own.items() if node in own}
        for node, state in own.items():
            self._own.setdefault(node, generator_of(0)).bit_generator.state = state
        self._saved = saved


# Many streams at their beginnings: a Generator of numpy's takes longer to make than many a run


def begun(seeds: np.ndarray) -> np.ndarray:
    """State and increment of PCG64, low words first, as numpy begins it: twice a step from 0, with the seed added in between.

    Parameters
    ----------
    seeds : array of uint64, of shape (n, 4)
        For each stream what its SeedSequence gives: ``generate_state(4, np.uint64)``.

    Returns
    -------
    array of uint64, of shape (n, 4)
    """
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
