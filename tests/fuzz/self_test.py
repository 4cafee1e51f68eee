"""Cases that fail, crash, hang and eat memory on purpose: what runs the cases has to get by with them."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator

from .target import Failure, Settings, Target

WAYS = ("passes", "fails", "dies", "hangs", "eats memory", "raises", "passes")


def make(choose: random.Random) -> list[int]:
    """Some numbers."""
    return [choose.randrange(100) for _ in range(20)]


def check(case: list[int], settings: Settings) -> None:
    """Each case in its own way: the first number says in which."""
    way = WAYS[case[0] % len(WAYS)]
    if way == "fails":
        raise Failure("a number", f"{case}")
    if way == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    if way == "hangs":
        while True:
            pass
    if way == "eats memory":
        bytearray(1 << 40)
    if way == "raises":
        raise ValueError("nobody expected this")


def smaller(case: list[int]) -> Iterator[list[int]]:
    """With one number less, but the first."""
    yield from (case[:k] + case[k + 1 :] for k in range(1, len(case)))


def script(case: list[int]) -> str:
    """The numbers."""
    return f"print({case})"


TARGET = Target("self_test", "what fails on purpose", make, check, script, smaller, seconds=2, megabytes=1024)
