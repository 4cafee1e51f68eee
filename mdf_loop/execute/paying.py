"""When machine code pays: engine ``auto`` compiles what has taken, or will take, longer than compiling it."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from mdf_loop.engines import can_compile
from mdf_loop.options import Options

FIRST, EACH, NODE = 0.15, 0.022, 0.0003
"""Seconds that compiling takes, about: more for the first time in a process, for every body, and for each of its nodes."""

MARGIN = 1.3
"""How much longer than compiling work has to be that is not done yet."""

PLENTY, PATIENCE = 2.0, 1.5
"""How much longer than compiling the rest of a run has to be for which machine code is waited for, as two threads of Python are
in each other's way; and how much longer than it should take."""


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
    """

    nodes: int
    seconds: float = 0.0

    def pays(self, options: Options, ahead: float = 0.0) -> bool:
        """Whether it is to be machine code; ``ahead`` are seconds that the run under way will take otherwise."""
        if options.how.compiles or not options.how.compiles_what_pays:
            return options.how.compiles
        if self.seconds + ahead < EACH:
            return False
        return (self.seconds > self.cost or self.seconds + ahead > MARGIN * self.cost) and can_compile()

    def patience(self, left: float) -> float:
        """Seconds that machine code is waited for where the rest of the run would take so many otherwise."""
        return PATIENCE * self.cost if left > PLENTY * self.cost else 0.0

    @property
    def cost(self) -> float:
        """Seconds that compiling takes, about."""
        return EACH + NODE * self.nodes + (FIRST if "llvmlite" not in sys.modules else 0.0)
