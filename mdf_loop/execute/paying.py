"""When machine code pays: engine ``auto`` compiles what has taken, or will take, longer than compiling it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from mdf_loop.engines import can_compile
from mdf_loop.options import Options

FIRST, EACH, NODE = 0.055, 0.012, 0.0002
"""Seconds that compiling takes, about (benchmarks/compiling.py): more for the first time in a process, for every body, and for
each of its nodes."""

MARGIN = 1.15
"""How much longer than compiling work has to be that is not done yet."""

PATIENCE, LONGEST = 1.5, 4
"""How much longer than it should take machine code is waited for where what is left of a run is known to be worth it: two threads
of Python are in each other's way, so that doing both takes longer than either.  That is time of the processor; on the wall it may
be so many times that."""


now = time.thread_time
"""The clock of accounts: the processor's time of this thread, so that work does not cost more where others work as well."""


@dataclass
class Account:
    """What one body has cost so far.

    Attributes
    ----------
    nodes : int
        How many nodes there are to compile.
    seconds : float
        What its runs took.
    is_over : bool
        Whether they took longer than compiling: it pays from now on, and nobody has to look at the clock.
    """

    nodes: int
    seconds: float = 0.0
    is_over: bool = False

    def pays(self, options: Options, ahead: float = 0.0) -> bool:
        """Whether it is to be machine code; ``ahead`` are seconds that the run under way will take otherwise."""
        if options.how.compiles or not options.how.compiles_what_pays:
            return options.how.compiles
        if self.is_over:
            return True
        if self.seconds + ahead < EACH:
            return False
        self.is_over = self.seconds > self.cost and can_compile()
        return self.is_over or (self.seconds + ahead > MARGIN * self.cost and can_compile())

    def patience(self, left: float) -> float:
        """Seconds that machine code is waited for where the rest of the run would take so many otherwise."""
        return PATIENCE * self.cost if left > MARGIN * self.cost else 0.0

    @property
    def cost(self) -> float:
        """Seconds that compiling takes, about."""
        return EACH + NODE * self.nodes + (FIRST if "llvmlite" not in sys.modules else 0.0)


def lasting(seconds: float) -> Callable[[], bool]:
    """Says whether so many seconds of the processor are not over: on the wall compiling takes longer where others work."""
    spent, wall = time.process_time() + seconds, time.perf_counter() + LONGEST * seconds
    return lambda: time.process_time() < spent and time.perf_counter() < wall
